#include "python_bridge/ordered_sparse_mask.h"

#include <ATen/ATen.h>

#include "core/move.h"
#include "sparse/sddmm.h"

namespace topomask::python {
namespace {

class OrderedSparseMask final : public Mask {
 public:
  OrderedSparseMask(PatternPtr pattern, at::Tensor order, at::Tensor values)
      : pattern_(std::move(pattern)), order_(std::move(order)), values_(std::move(values)) {}

  std::string name() const override { return "sparse"; }
  int64_t size() const override { return pattern_->rows(); }
  int64_t heads() const override { return values_.dim() == 2 ? values_.size(0) : 1; }
  std::optional<at::ScalarType> dtype() const override { return values_.scalar_type(); }
  std::vector<at::Tensor> parameters() const override { return {values_}; }

  MaskCounts counts() const override {
    const auto n = static_cast<double>(size()), entries = static_cast<double>(pattern_->entries());
    return {.operator_work = entries,
            .sparse_entries = entries,
            .factor_entries = entries + n,
            .values_work = entries,
            .dense_work = n * n};
  }

  std::optional<SparseMatrix> sparse() const override { return arranged(values_); }
  at::Tensor dense() const override { return arranged(values_).dense(); }

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    return std::make_shared<OrderedSparseMask>(pattern_, order_, parameters[0]);
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(values_, target)) return shared_from_this();
    return std::make_shared<OrderedSparseMask>(moved(pattern_, target), moved(order_, target), values_.to(target));
  }

  at::Tensor apply(const at::Tensor& x) const override { return topomask::matmul(arranged(values_.detach()), x); }
  at::Tensor apply_transposed(const at::Tensor& x) const override {
    return topomask::matmul_transposed(arranged(values_.detach()), x);
  }
  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    const at::Tensor of_entries = sddmm(grad, x, *pattern_, heads());
    return {at::zeros_like(of_entries).index_copy_(-1, order_, of_entries).view_as(values_)};
  }

 private:
  SparseMatrix arranged(const at::Tensor& values) const { return {pattern_, values.index_select(-1, order_)}; }

  PatternPtr pattern_;
  at::Tensor order_, values_;
};

}  // namespace

Ref<MaskPtr> ordered_sparse_mask(const Ref<PatternPtr>& pattern, const at::Tensor& order, const at::Tensor& values) {
  sparse_mask({pattern->value, values});  // checks them
  TORCH_CHECK(order.scalar_type() == at::kLong && order.dim() == 1 && order.size(0) == pattern->value->entries() &&
                  order.device() == values.device(),
              "sparse_mask: order must be int64 [entries = ", pattern->value->entries(), "] on ", values.device(),
              ", got ", order.scalar_type(), " ", order.sizes(), " on ", order.device());
  return hold<MaskPtr>(std::make_shared<const OrderedSparseMask>(pattern->value, order, values));
}

}  // namespace topomask::python
