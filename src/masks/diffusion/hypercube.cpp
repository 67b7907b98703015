#include <ATen/ATen.h>
#include <ATen/Dispatch.h>

#include "core/checks.h"
#include "core/column_strips.h"
#include "core/move.h"
#include "core/ordered_sums.h"
#include "core/plain_ops.h"
#include "core/recycled.h"
#include "masks/diffusion/generator.h"
#include "masks/diffusion/hypercube_kernel.h"
#include "topomask/diffusion.h"

namespace topomask {
namespace {

constexpr const char* kHypercubeOp = "hypercube_diffusion_mask";

class HypercubeDiffusionMask final : public Mask {
 public:
  HypercubeDiffusionMask(int64_t dimensions, at::Tensor lambda) : dimensions_(dimensions), lambda_(std::move(lambda)) {}

  std::string name() const override { return "hypercube_diffusion"; }
  int64_t size() const override { return int64_t{1} << dimensions_; }
  int64_t heads() const override { return lambda_.numel(); }
  std::optional<at::ScalarType> dtype() const override { return lambda_.scalar_type(); }
  std::vector<at::Tensor> parameters() const override { return {lambda_}; }

  MaskCounts counts() const override {
    const auto n = static_cast<double>(size());
    const double work = 2 * n * static_cast<double>(dimensions_) + n;
    return {.operator_work = work, .dense_work = 0.4 * n * work, .tiles = TileKind::hamming};
  }

  /// A flip along every axis in which two nodes differ, none along the others: keep^(D - k) swap^k at distance k.
  std::optional<MaskTiles> tiles() const override {
    if (lambda_.is_cpu()) lambda_values(kHypercubeOp, lambda_);
    const NoAutocast no_autocast;
    const at::Tensor swap = (-(-2 * lambda_.reshape({-1, 1})).expm1() / 2), keep = 1 - swap;
    const at::Tensor flips = at::arange(dimensions_ + 1, lambda_.options().requires_grad(false));
    return MaskTiles{.kind = TileKind::hamming,
                     .values = at::pow(keep, static_cast<double>(dimensions_) - flips) * at::pow(swap, flips)};
  }

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    return std::make_shared<HypercubeDiffusionMask>(dimensions_, parameters[0]);
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(lambda_, target)) return shared_from_this();
    return hypercube_diffusion_mask(dimensions_, lambda_.to(target));
  }

  at::Tensor apply(const at::Tensor& x) const override {
    if (x.numel() == 0) return at::zeros_like(x);
    if (!x.is_cpu()) return by_flips(x);
    const at::Tensor y = recycled_empty(x.sizes(), x.options());
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "hypercube", [&] { run<scalar_t>(x, y); });
    return y;
  }
  at::Tensor apply_transposed(const at::Tensor& x) const override { return apply(x); }

  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    // ∂M/∂λ = −L·M, and ⟨g, L·y⟩ is the sum of (g_i − g_j)(y_i − y_j) over the edges.
    const at::Tensor y = apply(x);
    at::Tensor slope = at::zeros({heads()}, x.options());
    if (x.numel() == 0) return {slope.view_as(lambda_)};
    for (int64_t dimension = 0; dimension < dimensions_; ++dimension) {
      const auto differences = [&](const at::Tensor& t) {
        const int64_t below = (int64_t{1} << dimension) * t.size(3);
        return t.view({t.size(0), t.size(1), -1, 2, below}).diff(1, 3).flatten(2, 3);
      };
      slope.sub_(head_dots(differences(grad), differences(y)));
    }
    return {slope.view_as(lambda_)};
  }

 private:
  /// One axis after the other, where there is no kernel of our own: a node and its neighbour along it mix.
  at::Tensor by_flips(const at::Tensor& x) const {
    const at::Tensor swap = (-(-2 * lambda_.detach()).expm1() / 2).view({1, -1, 1, 1, 1}), keep = 1 - swap;
    at::Tensor y = x;
    for (int64_t dimension = 0; dimension < dimensions_; ++dimension) {
      const at::Tensor pairs = y.reshape({x.size(0), x.size(1), -1, 2, (int64_t{1} << dimension) * x.size(3)});
      y = (keep * pairs + swap * pairs.flip(3)).view(x.sizes());
    }
    return y;
  }

  template <class T>
  void run(const at::Tensor& x, const at::Tensor& y) const {
    const std::vector<double> lambda = lambda_values(kHypercubeOp, lambda_);
    for_column_strips<T>(x, y, 0, [&](const ColumnStrip<T>& strip) {
      const double time = lambda[strip.slice % heads()], decay = std::exp(-2 * time);
      ButterflyArgs<T> args{strip.y, strip.width, 0, static_cast<T>((1 + decay) / 2),
                            static_cast<T>(-std::expm1(-2 * time) / 2)};
      std::copy_n(strip.x, size() * strip.width, strip.y);
      const int64_t grain = std::max<int64_t>(1, 32768 / strip.width);
      for (; args.dimension < dimensions_; ++args.dimension) {
        at::parallel_for(0, size() / 2, grain, [&](int64_t begin, int64_t end) { butterfly_rows(args, begin, end); });
      }
    });
  }

  int64_t dimensions_;
  at::Tensor lambda_;
};

}  // namespace

MaskPtr hypercube_diffusion_mask(int64_t dimensions, const at::Tensor& lambda) {
  TORCH_CHECK(dimensions >= 0 && dimensions <= 30, kHypercubeOp, ": dimensions must be in [0, 30], got ", dimensions);
  check_lambda(kHypercubeOp, lambda);
  return std::make_shared<HypercubeDiffusionMask>(dimensions, lambda);
}

}  // namespace topomask
