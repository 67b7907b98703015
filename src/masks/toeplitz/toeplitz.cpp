#include "topomask/toeplitz.h"

#include <ATen/ATen.h>

#include <limits>

#include "core/checks.h"
#include "core/move.h"
#include "core/ordered_sums.h"
#include "core/plain_ops.h"
#include "masks/toeplitz/grid_fft.h"
#include "masks/toeplitz/offsets.h"
#include "masks/toeplitz/tiles.h"
#include "masks/toeplitz/windows.h"

namespace topomask {
namespace {

/// A multiply-add of a large matrix product takes so much of the time of one of a sparse product.
constexpr double kMatrixProduct = 0.25;

class ToeplitzMask final : public Mask {
 public:
  ToeplitzMask(std::shared_ptr<const OffsetRule> rule, at::Tensor parameter)
      : rule_(std::move(rule)), parameter_(std::move(parameter)) {}

  std::string name() const override { return rule_->by_distance() ? "toeplitz_distance" : "toeplitz"; }
  int64_t size() const override { return rule_->nodes(); }
  int64_t heads() const override {
    return parameter_.dim() > std::ssize(rule_->parameter_shape()) ? parameter_.size(0) : 1;
  }
  std::optional<at::ScalarType> dtype() const override { return parameter_.scalar_type(); }
  std::vector<at::Tensor> parameters() const override { return {parameter_}; }

  MaskCounts counts() const override {
    MaskCounts counts{.operator_work = std::min(matrix_work(), fft_work(dims())), .dense_work = pairs()};
    if (rule_->has_codes()) counts.tiles = TileKind::offsets;
    return counts;
  }

  at::Tensor dense() const override {
    const at::Tensor matrix = toeplitz_dense(rule_->offsets(parameter_), dims());
    return heads() == 1 ? matrix[0] : matrix;
  }

  std::optional<MaskTiles> tiles() const override {
    if (!rule_->has_codes()) return std::nullopt;
    const NoAutocast no_autocast;
    return MaskTiles{.kind = TileKind::offsets,
                     .values = rule_->offsets(parameter_).flatten(1),
                     .index = rule_->codes(parameter_.device()),
                     .shift = rule_->code_shift()};
  }

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    return std::make_shared<ToeplitzMask>(rule_, parameters[0]);
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(parameter_, target)) return shared_from_this();
    return std::make_shared<ToeplitzMask>(rule_, parameter_.to(target));
  }

  at::Tensor apply(const at::Tensor& x) const override { return product(offsets(false), x); }
  at::Tensor apply_transposed(const at::Tensor& x) const override { return product(offsets(true), x); }

  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    const PlainOps plain;
    if (!takes_matrix()) return gradient(fft_offset_gradient(grad, x, dims()));
    return gradient(toeplitz_dense_gradient(outer_sums(grad, x), dims()));
  }

  std::optional<double> masked_product_work(int64_t features, int64_t value_dim) const override {
    const auto m = static_cast<double>(features), d = static_cast<double>(value_dim);
    const double tiles = pairs() * (m + d) * (rule_->options().causality == Causality::none ? 1.0 : 0.5);
    if (parameter_.is_cuda()) return std::nullopt;  // transforms of all columns at once are faster there
    if (tiles * kMatrixProduct > counts().operator_work * m * d) return std::nullopt;
    return 0.65 * tiles;  // tiles are large: a multiply-add takes less than in the small products this is counted in
  }

  at::Tensor masked_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                            bool transposed) const override {
    if (size() == 0) return at::zeros_like(c);  // global tokens may stand around no node, which has no tiles
    const PlainOps plain;
    return tiled_product(offsets(transposed), dims(), reach(transposed), a, b, c);
  }

  MaskedProductGradients masked_product_backward(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                                                 const at::Tensor& grad, bool want_parameters) const override {
    if (size() == 0) {
      MaskedProductGradients none{at::zeros_like(a), at::zeros_like(b), at::zeros_like(c)};
      if (want_parameters) none.parameters = {at::zeros_like(parameter_)};
      return none;
    }
    const PlainOps plain;
    auto gradients = tiled_backward(offsets(false), dims(), reach(false), a, b, c, grad, want_parameters);
    MaskedProductGradients result{gradients.a, gradients.b, gradients.c};
    if (want_parameters) result.parameters = gradient(gradients.offsets);
    return result;
  }

 private:
  const std::vector<int64_t>& dims() const { return rule_->dims(); }
  double pairs() const { return static_cast<double>(size()) * static_cast<double>(size()); }
  double matrix_work() const { return pairs() * kMatrixProduct; }
  bool takes_matrix() const { return size() > 0 && matrix_work() <= fft_work(dims()); }

  /// g, or the offsets of Mᵀ, which are g reversed.
  at::Tensor offsets(bool transposed) const {
    const at::Tensor g = rule_->offsets(parameter_.detach());
    return transposed ? g.flatten(1).flip(1).view_as(g) : g;
  }

  Reach reach(bool transposed) const {
    if (rule_->options().causality == Causality::none) return Reach::all;
    return transposed ? Reach::above : Reach::below;
  }

  at::Tensor product(const at::Tensor& g, const at::Tensor& x) const {
    const PlainOps plain;
    return takes_matrix() ? ordered_matmul(toeplitz_dense(g, dims()), x) : fft_product(g, x, dims());
  }

  std::vector<at::Tensor> gradient(const at::Tensor& grad_offsets) const {
    return {rule_->gradient(parameter_.detach(), grad_offsets)};
  }

  std::shared_ptr<const OffsetRule> rule_;
  at::Tensor parameter_;
};

void check_dims(const char* op, const std::vector<int64_t>& dims) {
  TORCH_CHECK(!dims.empty(), op, ": dims must name at least one axis, got none");
  int64_t nodes = 1;
  for (int64_t n : dims) {
    TORCH_CHECK(n >= 0, op, ": dims must be >= 0, got ", at::IntArrayRef(dims));
    TORCH_CHECK(n == 0 || nodes <= std::numeric_limits<int32_t>::max() / n, op,
                ": dims must have at most 2^31-1 nodes, got ", at::IntArrayRef(dims));
    nodes *= n;
  }
}

MaskPtr make(const char* op, const char* argument, const std::vector<int64_t>& dims, const at::Tensor& parameter,
             bool by_distance, const ToeplitzOptions& options) {
  check_dims(op, dims);
  const std::vector<int64_t> expected = OffsetRule::parameter_shape_of(dims, by_distance);
  const at::IntArrayRef shape = expected;
  const bool per_head = parameter.defined() && parameter.dim() == std::ssize(shape) + 1 && parameter.size(0) >= 1;
  TORCH_CHECK(parameter.defined() && is_real(parameter.scalar_type()) &&
                  (per_head ? parameter.sizes().slice(1) : parameter.sizes()) == shape,
              op, ": ", argument, " must be Float or Double of shape ", shape, ", or [H, …] of it, for a grid of ",
              at::IntArrayRef(dims), ", got ", describe(parameter));
  check_finite(op, argument, parameter);
  // The tables of the rule are as large as the offsets: made when the parameter is known to be right.
  checked_product(op, "the number of offsets", OffsetRule::parameter_shape_of(dims, false), kMostNumbers);
  return std::make_shared<ToeplitzMask>(std::make_shared<const OffsetRule>(dims, by_distance, options), parameter);
}

}  // namespace

MaskPtr toeplitz_mask(const std::vector<int64_t>& dims, const at::Tensor& offsets, const ToeplitzOptions& options) {
  return make("toeplitz_mask", "offsets", dims, offsets, false, options);
}

MaskPtr toeplitz_distance_mask(const std::vector<int64_t>& dims, const at::Tensor& f, const ToeplitzOptions& options) {
  return make("toeplitz_distance_mask", "f", dims, f, true, options);
}

}  // namespace topomask
