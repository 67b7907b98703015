#include "topomask/feature_map.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <limits>

#include "core/checks.h"
#include "core/ordered_sums.h"

namespace topomask {

struct FeatureMap::Rule {
  std::string name;
  Function function;  ///< for maps other than FAVOR+
  Scaling scaling = Scaling::none;
  at::Tensor omega;  ///< FAVOR+ only
  FavorOptions favor;
  bool seeded = false;                     ///< omega came from a seed and can be redrawn
  std::optional<double> relu_offset = {};  ///< max(x, 0) + offset, but for the scaling
};

namespace {

at::Tensor rescale(const at::Tensor& x, Scaling scaling) {
  if (scaling == Scaling::none) return x;
  const auto dim = static_cast<double>(std::max<int64_t>(x.size(-1), 1));
  return x * std::pow(dim, scaling == Scaling::inverse_sqrt ? -0.5 : -0.25);
}

/// ωᵀx' − ‖x'‖²/2, in at least float32.
at::Tensor favor_exponent(const at::Tensor& x, const at::Tensor& omega) {
  TORCH_CHECK(x.dim() >= 1 && x.size(-1) == omega.size(1), "FeatureMap::favor: x must be [..., d_k = ", omega.size(1),
              "], got ", describe(x));
  const at::ScalarType type = accumulation_type(x.scalar_type());
  const at::Tensor scaled = rescale(x.to(type), Scaling::inverse_fourth_root);
  const at::Tensor directions = omega.to(x.device(), type).mT();
  const at::Tensor exponent = x.dim() == 1 ? at::matmul(scaled, directions) : ordered_matmul(scaled, directions);
  return exponent - scaled.square().sum(-1, true) / 2;
}

enum class Maximum { none, row, matrix };

at::Tensor favor_features(const at::Tensor& x, const at::Tensor& omega, Maximum subtract) {
  at::Tensor exponent = favor_exponent(x, omega);
  if (subtract != Maximum::none && exponent.numel() > 0) {
    const at::Tensor row = exponent.detach().amax(-1, true);
    exponent = exponent - (subtract == Maximum::row ? row : row.amax(-2, true));
  }
  return (exponent.exp() / std::sqrt(static_cast<double>(omega.size(0)))).to(x.scalar_type());
}

}  // namespace

FeatureMap::FeatureMap(std::shared_ptr<const Rule> rule) : rule_(std::move(rule)) {}

FeatureMap FeatureMap::custom(std::string name, Function function) {
  TORCH_CHECK(function != nullptr, "FeatureMap::custom: function must be callable, got an empty one");
  return FeatureMap(std::make_shared<const Rule>(Rule{.name = std::move(name), .function = std::move(function)}));
}

FeatureMap FeatureMap::identity() {
  return custom("identity", [](const at::Tensor& x) { return x; });
}

FeatureMap FeatureMap::relu(double offset) {
  check_finite("FeatureMap::relu", "offset", offset);
  TORCH_CHECK(offset >= 0, "FeatureMap::relu: offset must be >= 0, so that no feature is negative, got ", offset);
  const auto function = [offset](const at::Tensor& x) { return offset == 0 ? x.relu() : x.relu() + offset; };
  return FeatureMap(std::make_shared<const Rule>(Rule{.name = "relu", .function = function, .relu_offset = offset}));
}

FeatureMap FeatureMap::elu() {
  // Not at::elu, which rounds the last elements of each thread's share in another way than the rest.
  return custom("elu", [](const at::Tensor& x) { return x.relu() + x.clamp_max(0).exp(); });
}

FeatureMap FeatureMap::exp() {
  return custom("exp", [](const at::Tensor& x) { return x.exp(); });
}

FeatureMap FeatureMap::squared_relu() {
  return custom("squared_relu", [](const at::Tensor& x) { return x.relu().square(); });
}

FeatureMap FeatureMap::favor(int64_t head_dim, int64_t features, const FavorOptions& options) {
  return FeatureMap(
      std::make_shared<const Rule>(Rule{.name = "favor",
                                        .omega = favor_directions(features, head_dim, options.seed, options.orthogonal),
                                        .favor = options,
                                        .seeded = true}));
}

FeatureMap FeatureMap::favor(const at::Tensor& omega, bool stabilised) {
  TORCH_CHECK(omega.defined() && omega.dim() == 2 && is_real(omega.scalar_type()) && omega.size(0) > 0,
              "FeatureMap::favor: omega must be Float or Double [m, d_k], m >= 1, got ", describe(omega));
  TORCH_CHECK(omega.size(1) >= 1, "FeatureMap::favor: omega must have d_k >= 1 columns, got ", describe(omega));
  check_finite("FeatureMap::favor", "omega", omega);
  return FeatureMap(std::make_shared<const Rule>(
      Rule{.name = "favor", .omega = omega.detach().clone(), .favor = {.stabilised = stabilised}}));
}

FeatureMap FeatureMap::scaled(Scaling scaling) const {
  TORCH_CHECK(!rule_->omega.defined(), "FeatureMap::scaled: map must be one without its own scaling, got ", name());
  Rule rule = *rule_;
  rule.scaling = scaling;
  return FeatureMap(std::make_shared<const Rule>(std::move(rule)));
}

FeatureMap FeatureMap::redrawn(uint64_t seed) const {
  TORCH_CHECK(rule_->seeded, "FeatureMap::redrawn: map must be FAVOR+ with seeded directions, got ", name(),
              rule_->omega.defined() ? " with given ones" : "");
  FavorOptions options = rule_->favor;
  options.seed = seed;
  return favor(rule_->omega.size(1), rule_->omega.size(0), options);
}

const std::string& FeatureMap::name() const {
  return rule_->name;
}

std::optional<double> FeatureMap::relu_offset() const {
  return rule_->scaling == Scaling::none ? rule_->relu_offset : std::nullopt;
}

at::Tensor FeatureMap::operator()(const at::Tensor& x) const {
  if (rule_->omega.defined()) return favor_features(x, rule_->omega, Maximum::none);
  return rule_->function(rescale(x, rule_->scaling));
}

at::Tensor FeatureMap::queries(const at::Tensor& q) const {
  return rule_->favor.stabilised ? favor_features(q, rule_->omega, Maximum::row) : (*this)(q);
}

at::Tensor FeatureMap::keys(const at::Tensor& k) const {
  return rule_->favor.stabilised ? favor_features(k, rule_->omega, Maximum::matrix) : (*this)(k);
}

at::Tensor favor_directions(int64_t features, int64_t head_dim, uint64_t seed, bool orthogonal) {
  TORCH_CHECK(features >= 1, "favor_directions: features must be >= 1, got ", features);
  TORCH_CHECK(head_dim >= 1, "favor_directions: head_dim must be >= 1, got ", head_dim);
  checked_product("favor_directions", "features x head_dim", {features, head_dim}, std::numeric_limits<int32_t>::max());
  if (orthogonal) {  // a square matrix is decomposed
    checked_product("favor_directions", "head_dim x head_dim", {head_dim, head_dim},
                    std::numeric_limits<int32_t>::max());
  }
  const auto generator = at::detail::createCPUGenerator(seed);
  const auto gaussian = [&](int64_t rows) { return at::randn({rows, head_dim}, generator, at::dtype(at::kDouble)); };
  if (!orthogonal) return gaussian(features);
  std::vector<at::Tensor> blocks;
  for (int64_t done = 0; done < features; done += head_dim) {
    // The signs of R's diagonal make Q uniform over rotations; each row then gets the length of a Gaussian vector.
    const auto [q, r] = at::linalg_qr(gaussian(head_dim));
    const at::Tensor directions = (q * r.diagonal().sign()).mT() * gaussian(head_dim).norm(2, -1, true);
    blocks.push_back(directions.narrow(0, 0, std::min(head_dim, features - done)));
  }
  return at::cat(blocks);
}

}  // namespace topomask
