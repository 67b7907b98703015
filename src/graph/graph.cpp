#include "topomask/graph.h"

#include <ATen/ATen.h>

#include "core/checks.h"
#include "core/move.h"
#include "graph/csr.h"
#include "graph/weights.h"

namespace topomask {

Graph::Graph(PatternPtr pattern, at::Tensor weights, bool directed)
    : pattern_(std::move(pattern)), weights_(std::move(weights)), directed_(directed) {
  TORCH_INTERNAL_ASSERT(pattern_ && pattern_->rows() == pattern_->cols());
  if (!weights_.defined()) weights_ = at::ones({pattern_->entries()}, at::kFloat);
  TORCH_INTERNAL_ASSERT(weights_.dim() == 1 && weights_.size(0) == pattern_->entries() && weights_.is_contiguous());
}

namespace {

/// Rows are read in ascending order, so the entries that mirror row j come up in the order in which row j stores them:
/// one cursor per row is enough, and no transpose is made.
template <class Weight>
void check_symmetric(const char* op, const SparsePattern& pattern, const Weight* weight) {
  const int64_t* offset = pattern.offsets().const_data_ptr<int64_t>();
  const int32_t* column = pattern.columns().const_data_ptr<int32_t>();
  std::vector<int64_t> cursor(offset, offset + pattern.rows());
  for (int64_t i = 0; i < pattern.rows(); ++i) {
    for (int64_t e = offset[i]; e < offset[i + 1]; ++e) {
      const int64_t j = column[e];
      const int64_t mirror = cursor[j]++;
      const bool stored = mirror < offset[j + 1] && column[mirror] == i;
      // The cursor of row j stopped at a column that lower rows never asked for: that entry is the one without a
      // mirror.
      if (!stored && mirror < offset[j + 1] && column[mirror] < i) {
        TORCH_CHECK(false, op, ": an undirected graph must be symmetric, got (", j, ", ", column[mirror], ") without (",
                    column[mirror], ", ", j, ")");
      }
      TORCH_CHECK(stored, op, ": an undirected graph must be symmetric, got (", i, ", ", j, ") without (", j, ", ", i,
                  ")");
      TORCH_CHECK(weight[e] == weight[mirror], op, ": weights of an undirected graph must be symmetric, got ",
                  weight[e], " at (", i, ", ", j, ") and ", weight[mirror], " at (", j, ", ", i, ")");
    }
  }
}

at::Tensor checked_adjacency(const char* op, const SparsePattern& pattern, const at::Tensor& given, bool directed) {
  const at::Tensor weights =
      given.defined() ? checked_weights(op, given, pattern.entries()) : at::ones({pattern.entries()}, at::kFloat);
  if (!directed) {
    AT_DISPATCH_FLOATING_TYPES(weights.scalar_type(), "check_symmetric",
                               [&] { check_symmetric(op, pattern, weights.const_data_ptr<scalar_t>()); });
  }
  return weights;
}

}  // namespace

Graph Graph::from_csr(const at::Tensor& offsets, const at::Tensor& columns, const at::Tensor& weights, bool directed) {
  TORCH_CHECK(offsets.defined() && offsets.scalar_type() == at::kLong && offsets.dim() == 1 && offsets.size(0) >= 1 &&
                  (offsets.is_cpu() || offsets.is_cuda()),
              "from_csr: offsets must be int64 [N + 1] on cpu or cuda, got ", describe(offsets));
  const at::Device device = offsets.device();
  TORCH_CHECK(
      columns.defined() && columns.scalar_type() == at::kInt && columns.dim() == 1 && columns.device() == device,
      "from_csr: columns must be int32 [E] on ", device, ", where offsets are, got ", describe(columns));
  const int64_t nodes = offsets.size(0) - 1;
  if (!device.is_cpu()) {
    TORCH_CHECK(!weights.defined() || weights.device() == device, "from_csr: weights must be on ", device,
                ", where offsets are, got ", describe(weights));
    const at::Tensor ones = at::ones({columns.size(0)}, columns.options().dtype(at::kFloat));
    const at::Tensor& given = weights.defined() ? weights : ones;
    from_csr(offsets.cpu(), columns.cpu(), given.detach().cpu(), directed);  // checks
    return Graph(std::make_shared<const SparsePattern>(nodes, nodes, offsets.contiguous(), columns.contiguous()),
                 given.contiguous(), directed);
  }
  auto pattern = std::make_shared<const SparsePattern>(nodes, nodes, offsets.contiguous(), columns.contiguous());
  at::Tensor checked = checked_adjacency("from_csr", *pattern, weights, directed);
  return Graph(std::move(pattern), std::move(checked), directed);
}

Graph Graph::from_pattern(PatternPtr pattern, at::Tensor weights, bool directed) {
  TORCH_CHECK(pattern, "from_pattern: pattern must not be null");
  if (const at::Device device = pattern->device(); !device.is_cpu()) {
    TORCH_CHECK(weights.defined() && weights.device() == device, "from_pattern: weights must be on ", device,
                ", where the pattern is, got ", describe(weights));
    from_pattern(pattern->to(at::kCPU), weights.detach().cpu(), directed);  // checks
    return Graph(std::move(pattern), weights.contiguous(), directed);
  }
  TORCH_CHECK(pattern->rows() == pattern->cols(), "from_pattern: pattern must be square, got ", pattern->rows(),
              " rows and ", pattern->cols(), " columns");
  at::Tensor checked = checked_adjacency("from_pattern", *pattern, weights, directed);
  return Graph(std::move(pattern), std::move(checked), directed);
}

namespace {

/// The row of each entry, int32.
at::Tensor row_of_entries(const SparsePattern& pattern) {
  return at::repeat_interleave(at::arange(pattern.rows(), pattern.columns().options()), pattern.offsets().diff(),
                               std::nullopt, pattern.entries());
}

/// scale/√(d_i d_j) by tensor operations in float64, which round as the loop on the CPU does.
at::Tensor normalised_with_tensors(const SparsePattern& pattern, double scale, at::ScalarType dtype) {
  const at::Tensor degree = pattern.offsets().diff().clamp_min_(1).to(at::kDouble);
  const at::Tensor product =
      degree.index_select(0, row_of_entries(pattern)).mul_(degree.index_select(0, pattern.columns()));
  return at::div(at::scalar_tensor(scale, product.options()), product.sqrt_()).to(dtype);
}

}  // namespace

int64_t Graph::num_edges() const {
  if (directed_) return num_entries();
  if (!device().is_cpu()) return ((row_of_entries(*pattern_) == columns()).sum().item<int64_t>() + num_entries()) / 2;
  const int64_t* offset = offsets().const_data_ptr<int64_t>();
  const int32_t* column = columns().const_data_ptr<int32_t>();
  int64_t loops = 0;
  for (int64_t i = 0; i < num_nodes(); ++i) loops += std::binary_search(column + offset[i], column + offset[i + 1], i);
  return (num_entries() + loops) / 2;
}

at::Tensor Graph::degrees() const {
  return offsets().diff();
}

int64_t Graph::max_degree() const {
  return num_nodes() == 0 ? 0 : degrees().max().item<int64_t>();
}

Graph Graph::normalised(double scale) const {
  check_constant_weights("normalised", "graph", *this,
                         "they are replaced by scale/sqrt(d_i d_j), which depends on the degrees alone");
  TORCH_CHECK(std::isfinite(scale), "normalised: scale must be finite, got ", scale);
  if (!device().is_cpu()) {
    TORCH_CHECK(weights_.scalar_type() == at::kDouble || std::isfinite(static_cast<float>(scale)),
                "normalised: scale must be in the range of ", weights_.scalar_type(), ", got ", scale);
    return Graph(pattern_, normalised_with_tensors(*pattern_, scale, weights_.scalar_type()), directed_);
  }
  at::Tensor weights = at::empty_like(weights_);
  const int64_t* offset = offsets().const_data_ptr<int64_t>();
  const int32_t* column = columns().const_data_ptr<int32_t>();
  const auto degree = [offset](int64_t i) {
    return static_cast<double>(std::max<int64_t>(offset[i + 1] - offset[i], 1));
  };
  AT_DISPATCH_FLOATING_TYPES(weights.scalar_type(), "normalised", [&] {
    TORCH_CHECK(std::isfinite(static_cast<scalar_t>(scale)), "normalised: scale must be in the range of ",
                weights.scalar_type(), ", got ", scale);
    scalar_t* weight = weights.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, num_nodes(), kRowGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t e = offset[i]; e < offset[i + 1]; ++e) {
          weight[e] = static_cast<scalar_t>(scale / std::sqrt(degree(i) * degree(column[e])));
        }
      }
    });
  });
  return Graph(pattern_, std::move(weights), directed_);
}

Graph Graph::with_weights(const at::Tensor& weights) const {
  TORCH_CHECK(weights.defined(), "with_weights: weights must be float32 or float64 [", num_entries(), "] on ", device(),
              ", got undefined");
  if (!device().is_cpu()) {  // reading values would wait for the device
    TORCH_CHECK(is_real(weights.scalar_type()) && weights.dim() == 1 && weights.size(0) == num_entries() &&
                    weights.device() == device(),
                "with_weights: weights must be float32 or float64 [", num_entries(), "] on ", device(), ", got ",
                describe(weights));
    return Graph(pattern_, weights.contiguous(), directed_);
  }
  return Graph(pattern_, checked_adjacency("with_weights", *pattern_, weights, directed_), directed_);
}

Graph Graph::to(const at::TensorOptions& target) const {
  TORCH_CHECK(!target.has_dtype() || is_real(target.dtype().toScalarType()), "to: dtype must be Float or Double, got ",
              target.dtype().toScalarType());
  at::Tensor weights = weights_.to(target);
  // Numbers that float64 holds may be beyond float32.
  if (weights.scalar_type() != weights_.scalar_type()) check_finite("to", "weights as float32", weights);
  return Graph(moved(pattern_, target), std::move(weights), directed_);
}

Graph Graph::reversed() const {
  if (!directed_) return *this;
  const SparsePattern::Transposed& transposed = pattern_->transposed();
  auto pattern =
      std::make_shared<const SparsePattern>(num_nodes(), num_nodes(), transposed.offsets, transposed.columns);
  return Graph(std::move(pattern), weights_.index_select(0, transposed.index), directed_);
}

}  // namespace topomask
