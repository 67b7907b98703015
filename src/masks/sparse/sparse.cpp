#include <ATen/ATen.h>

#include "core/checks.h"
#include "graph/weights.h"
#include "masks/sparse/with_diagonal.h"
#include "sparse/dense_rows.h"
#include "sparse/sddmm.h"
#include "topomask/masks.h"

namespace topomask {
namespace {

class SparseMask final : public Mask {
 public:
  SparseMask(std::string name, SparseMatrix matrix, bool learnable)
      : name_(std::move(name)), matrix_(std::move(matrix)), learnable_(learnable) {}

  std::string name() const override { return name_; }
  int64_t size() const override { return matrix_.pattern->rows(); }
  int64_t heads() const override { return matrix_.heads(); }
  std::optional<at::ScalarType> dtype() const override { return matrix_.values.scalar_type(); }
  std::optional<at::Device> device() const override { return matrix_.values.device(); }
  std::vector<at::Tensor> parameters() const override {
    return learnable_ ? std::vector<at::Tensor>{matrix_.values} : std::vector<at::Tensor>{};
  }

  MaskCounts counts() const override {
    const auto n = static_cast<double>(size()), entries = static_cast<double>(matrix_.pattern->entries());
    return {.operator_work = entries, .sparse_entries = entries, .factor_entries = entries + n, .dense_work = n * n};
  }

  std::optional<SparseMatrix> sparse() const override { return matrix_; }
  at::Tensor dense() const override { return matrix_.dense(); }
  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    if (!learnable_) return shared_from_this();
    return std::make_shared<SparseMask>(name_, SparseMatrix{matrix_.pattern, parameters[0]}, true);
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    return std::make_shared<SparseMask>(name_, matrix_.to(target), learnable_);
  }

  at::Tensor apply(const at::Tensor& x) const override { return topomask::matmul(plain(), x); }
  at::Tensor apply_transposed(const at::Tensor& x) const override { return topomask::matmul_transposed(plain(), x); }
  at::Tensor rows(int64_t first, int64_t count, const at::TensorOptions& like) const override {
    return dense_rows(plain(), first, count).to(like);
  }
  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    if (!learnable_) return {};
    return {sddmm(grad, x, *matrix_.pattern, heads()).view_as(matrix_.values)};
  }

 private:
  SparseMatrix plain() const { return {matrix_.pattern, matrix_.values.detach()}; }

  std::string name_;
  SparseMatrix matrix_;
  bool learnable_;
};

}  // namespace

MaskPtr sparse_mask(const SparseMatrix& matrix) {
  TORCH_CHECK(matrix.pattern != nullptr, "sparse_mask: pattern must be given, got none");
  const SparsePattern& pattern = *matrix.pattern;
  TORCH_CHECK(pattern.rows() == pattern.cols(), "sparse_mask: pattern must be square, got [", pattern.rows(), ", ",
              pattern.cols(), "]");
  const at::Tensor& values = matrix.values;
  TORCH_CHECK(values.defined() && (values.dim() == 1 || values.dim() == 2) && values.size(-1) == pattern.entries() &&
                  is_real(values.scalar_type()),
              "sparse_mask: values must be Float or Double, [entries = ", pattern.entries(), "] or [H, entries], got ",
              describe(values));
  TORCH_CHECK(matrix.heads() >= 1, "sparse_mask: values must have at least one head, got ", describe(values));
  TORCH_CHECK(values.device() == pattern.device(), "sparse_mask: values must be on ", pattern.device(),
              " as the pattern is, got ", describe(values));
  check_below_infinity("sparse_mask", "values", values);
  return std::make_shared<SparseMask>("sparse", matrix, true);
}

MaskPtr neighbours_mask(const Graph& graph) {
  check_constant_weights("neighbours_mask", "graph", graph,
                         "its entries are 1 whatever they are, and weighted_neighbours_mask has them as entries");
  const PatternPtr pattern = with_diagonal(graph.pattern()).pattern;
  const at::Tensor ones = at::ones({pattern->entries()}, graph.weights().options());
  return std::make_shared<SparseMask>("neighbours", SparseMatrix{pattern, ones}, false);
}

}  // namespace topomask
