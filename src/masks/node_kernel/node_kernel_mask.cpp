#include <ATen/ATen.h>

#include "core/move.h"
#include "masks/grf/product_mask.h"
#include "masks/grf/walk_function.h"
#include "masks/node_kernel/frequencies.h"
#include "topomask/node_kernel.h"

namespace topomask {
namespace {

constexpr const char* kNodeKernelOp = "node_kernel_mask";

/// (Σ_i F_h[i]^p)^{1/p} for nonnegative F: [N] or [H, N].
at::Tensor row_norms_of(const SparseMatrix& matrix, double p) {
  const int64_t nodes = matrix.pattern->cols();
  at::Tensor ones = at::ones({nodes, 1}, matrix.values.options().requires_grad(false));
  if (matrix.values.dim() == 2) ones = ones.expand({matrix.heads(), nodes, 1});
  return topomask::matmul({matrix.pattern, matrix.values.pow(p)}, ones).squeeze(-1).pow(1 / p);
}

/// The largest value of each row, 1 for a row of zeros: [N] or [H, N]. `rows` as entry_rows gives them.
at::Tensor row_maxima(const SparseMatrix& matrix, const at::Tensor& rows) {
  const at::Tensor values = matrix.values.detach();
  std::vector<int64_t> shape = values.sizes().vec();
  shape.back() = matrix.pattern->rows();
  const at::Tensor largest =
      at::zeros(shape, values.options()).scatter_reduce(-1, rows.expand(values.sizes()), values, "amax");
  return largest.masked_fill(largest == 0, 1);
}

/// The same where powers of F leave the range of float32. `rows` as entry_rows gives them.
at::Tensor row_norms(const SparseMatrix& matrix, double p, const at::Tensor& rows) {
  constexpr double kSmallPower = 8;
  if (p <= kSmallPower) return row_norms_of(matrix, p);
  const at::Tensor largest = row_maxima(matrix, rows);
  return row_norms_of({matrix.pattern, matrix.values / largest.index_select(-1, rows)}, p) * largest;
}

class NodeKernelMask final : public ProductMask {
 public:
  NodeKernelMask(WalkTable walks, const at::Tensor& discount, const NodeKernelOptions& options)
      : ProductMask("node kernel", walks.pattern(), nullptr, {discount}, discount.numel()),
        walks_(std::move(walks)),
        options_(options) {
    if (options_.alpha == 1) rows_ = entry_rows(*walks_.pattern());
  }

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    return std::make_shared<NodeKernelMask>(walks_, parameters[0], options_);
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(walks_.loads(), target)) return shared_from_this();
    return std::make_shared<NodeKernelMask>(walks_.to(target), parameters()[0].to(target), options_);
  }

 protected:
  Parts parts(const std::vector<at::Tensor>& parameters) const override {
    const at::Tensor frequencies = mean_frequencies(kNodeKernelOp, walks_, parameters[0]);
    if (options_.alpha == 0) return {frequencies * walks_.walkers()};
    return {divide_rows(frequencies, row_norms({walks_.pattern(), frequencies}, options_.p, rows_), rows_)};
  }

  double parts_work() const override {
    constexpr double kPasses = 4;  // of the normalisation
    return feature_work(walks_) + kPasses * static_cast<double>(walks_.pattern()->entries() * options_.alpha);
  }

 private:
  WalkTable walks_;
  NodeKernelOptions options_;
  at::Tensor rows_;
};

}  // namespace

MaskPtr node_kernel_mask(const WalkTable& walks, const at::Tensor& discount, const NodeKernelOptions& options) {
  TORCH_CHECK(options.alpha == 0 || options.alpha == 1, kNodeKernelOp, ": alpha must be 0 or 1, got ", options.alpha);
  TORCH_CHECK(std::isfinite(options.p) && options.p >= 1, kNodeKernelOp, ": p must be finite and >= 1, got ",
              options.p);
  return std::make_shared<NodeKernelMask>(walks, checked_discount(kNodeKernelOp, walks, discount), options);
}

}  // namespace topomask
