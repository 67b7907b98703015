#include <ATen/ATen.h>

#include <array>

#include "core/move.h"
#include "core/plain_ops.h"
#include "masks/forest/forest_masks.h"
#include "masks/forest/structure/forest_structure.h"
#include "masks/forest/structure/heavy_paths.h"
#include "ops/tree_passes/op.h"

namespace topomask {
namespace {

using at::Tensor;

/// exp(a·dist + b) on a GPU: M·x = S + O, what comes from inside a node's subtree and from outside, by passes over
/// heavy paths. No sum is made as a difference, so that edges may grow the mask too.
class CudaExponential final : public Mask {
 public:
  CudaExponential(Forest forest, std::shared_ptr<const HeavyPaths> paths, Tensor a, Tensor weights, Tensor b)
      : forest_(std::move(forest)),
        paths_(std::move(paths)),
        a_(std::move(a)),
        weights_(std::move(weights)),
        b_(std::move(b)),
        learns_lengths_(weights_.requires_grad()),
        heads_(std::max(a_.numel(), b_.defined() ? b_.numel() : int64_t{1})) {
    const at::Device device = a_.device();
    tensors_ = {paths_->nodes.to(device), paths_->offsets.to(device),       paths_->parent.to(device),
                paths_->heavy.to(device), paths_->light_offsets.to(device), paths_->light_children.to(device)};
  }

  std::string name() const override { return "forest_exponential"; }
  int64_t size() const override { return forest_.num_nodes(); }
  int64_t heads() const override { return heads_; }
  std::optional<at::ScalarType> dtype() const override { return a_.scalar_type(); }
  std::vector<Tensor> parameters() const override {
    std::vector<Tensor> result{a_};
    if (learns_lengths_) result.push_back(weights_);
    if (b_.defined()) result.push_back(b_);
    return result;
  }
  MaskCounts counts() const override {
    const auto n = static_cast<double>(size());
    constexpr double kPassWork = 8;
    return {.operator_work = kPassWork * n, .dense_work = kPassWork * n * n};
  }

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    return std::make_shared<CudaExponential>(forest_, paths_, parameters[0], learns_lengths_ ? parameters[1] : weights_,
                                             b_.defined() ? parameters.back() : b_);
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(a_, target)) return shared_from_this();
    const Tensor b = b_.defined() ? b_.to(target) : b_;
    if (target.has_device() && target.device().is_cpu()) {
      return make_exponential_mask(forest_.with_weights(weights_.to(target)), a_.to(target), b);
    }
    return std::make_shared<CudaExponential>(forest_, paths_, a_.to(target), weights_.to(target), b);
  }

  Tensor apply(const Tensor& x) const override {
    const PlainOps plain;
    const auto [inside, outside] = passes(x * scale());
    return inside + outside;
  }
  Tensor apply_transposed(const Tensor& x) const override { return apply(x); }  // M is symmetric

  std::vector<Tensor> parameter_gradients(const Tensor& x, const Tensor& grad) const override {
    const PlainOps plain;
    const auto [inside_x, outside_x] = passes(x * scale());
    const auto [inside_g, outside_g] = passes(grad);
    // ∂/∂(log e_v) per head and node, in float64, since they are sums over all columns.
    const auto summed = [](const Tensor& t) { return t.sum(at::IntArrayRef{0, 3}, false, at::kDouble); };
    const Tensor edge = summed(inside_x * outside_g + inside_g * outside_x).masked_fill_(tensors_[2] < 0, 0.0);
    const auto shaped = [](const Tensor& per_head, const Tensor& parameter) {
      const Tensor sum = parameter.numel() == 1 ? per_head.sum() : per_head;
      return sum.reshape(parameter.sizes()).to(parameter.scalar_type());
    };
    const Tensor a = a_.detach().to(at::kDouble).reshape({-1, 1});
    std::vector<Tensor> result{shaped((edge * lengths().to(at::kDouble)).sum(1), a_)};
    if (learns_lengths_) result.push_back((edge * a).sum(0).to(weights_.scalar_type()));
    if (b_.defined()) result.push_back(shaped(summed(grad * (inside_x + outside_x)).sum(1), b_));
    return result;
  }

 private:
  /// 0 at roots, whatever value is stored there.
  Tensor lengths() const { return weights_.detach().masked_fill(tensors_[2] < 0, 0.0); }
  Tensor scale() const {
    return b_.defined() ? b_.detach().exp().reshape({1, -1, 1, 1}) : at::ones({1, 1, 1, 1}, a_.options());
  }

  std::tuple<Tensor, Tensor> passes(const Tensor& x) const {
    const Tensor edge = (a_.detach().reshape({-1, 1}) * lengths()).exp().expand({heads_, size()});
    return ops::tree_passes::inside_and_outside(x, edge, tensors_, paths_->levels);
  }

  Forest forest_;  // on the CPU, with the weights it had
  std::shared_ptr<const HeavyPaths> paths_;
  Tensor a_, weights_, b_;
  bool learns_lengths_;
  int64_t heads_;
  std::array<Tensor, 6> tensors_;  // of the paths
};

}  // namespace

MaskPtr make_cuda_exponential(const Forest& forest, const Tensor& a, const Tensor& weights, const Tensor& b) {
  auto paths = std::make_shared<const HeavyPaths>(*forest.structure().rooted());
  return std::make_shared<CudaExponential>(forest, std::move(paths), a, weights, b);
}

}  // namespace topomask
