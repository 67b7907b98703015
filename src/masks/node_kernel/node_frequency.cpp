#include <ATen/ATen.h>

#include "core/move.h"
#include "core/pull_back.h"
#include "core/tensor_cache.h"
#include "masks/grf/appended_diagonal.h"
#include "masks/grf/walk_function.h"
#include "masks/node_kernel/frequencies.h"
#include "sparse/sddmm.h"
#include "topomask/node_kernel.h"

namespace topomask {
namespace {

constexpr const char* kNodeFrequencyOp = "node_frequency_mask";

/// F with each row divided by its diagonal entry.
class NodeFrequencyMask final : public Mask {
 public:
  NodeFrequencyMask(WalkTable walks, at::Tensor discount)
      : walks_(std::move(walks)),
        discount_(std::move(discount)),
        rows_(entry_rows(pattern())),
        diagonal_(diagonal_places(pattern())) {}

  std::string name() const override { return "node frequency"; }
  int64_t size() const override { return walks_.num_nodes(); }
  int64_t heads() const override { return discount_.numel(); }
  std::optional<at::ScalarType> dtype() const override { return discount_.scalar_type(); }
  std::vector<at::Tensor> parameters() const override { return {discount_}; }

  MaskCounts counts() const override {
    const auto n = static_cast<double>(size()), entries = static_cast<double>(pattern().entries());
    return {.operator_work = entries,
            .sparse_entries = entries,
            .factor_entries = entries + n,
            .values_work = TensorCache::serves({discount_}) ? 0 : feature_work(walks_) + 2 * entries,
            .dense_work = n * n};
  }

  std::optional<SparseMatrix> sparse() const override {
    return SparseMatrix{walks_.pattern(), values_.get({discount_}, [this](const auto& p) { return values(p); })[0]};
  }
  at::Tensor dense() const override { return sparse()->dense(); }

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    return std::make_shared<NodeFrequencyMask>(walks_, parameters[0]);
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(walks_.loads(), target)) return shared_from_this();
    return std::make_shared<NodeFrequencyMask>(walks_.to(target), discount_.to(target));
  }

  at::Tensor apply(const at::Tensor& x) const override { return topomask::matmul(*sparse(), x); }
  at::Tensor apply_transposed(const at::Tensor& x) const override { return topomask::matmul_transposed(*sparse(), x); }
  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    return pull_back({discount_}, {sddmm(grad, x, pattern(), heads())}, [this](const auto& p) { return values(p); });
  }

 private:
  const SparsePattern& pattern() const { return *walks_.pattern(); }

  std::vector<at::Tensor> values(const std::vector<at::Tensor>& parameters) const {
    const at::Tensor frequencies = mean_frequencies(kNodeFrequencyOp, walks_, parameters[0]);
    std::vector<int64_t> shape = frequencies.sizes().vec();
    shape.back() = size();
    return {divide_rows(frequencies, frequencies.gather(-1, diagonal_.expand(shape)), rows_)};
  }

  WalkTable walks_;
  at::Tensor discount_, rows_, diagonal_;
  TensorCache values_;
};

}  // namespace

MaskPtr node_frequency_mask(const WalkTable& walks, const at::Tensor& discount) {
  return std::make_shared<NodeFrequencyMask>(walks, checked_discount(kNodeFrequencyOp, walks, discount));
}

}  // namespace topomask
