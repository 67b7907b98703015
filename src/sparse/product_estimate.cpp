#include "sparse/product_estimate.h"

#include <ATen/ATen.h>

#include "ops/column_union.h"

namespace topomask {
namespace {

constexpr int64_t kSamples = 256;

/// Offsets and columns of a factor as a step from left to right takes them: every second one transposed.
std::pair<at::Tensor, at::Tensor> step(const SparsePattern& factor, bool transposed) {
  if (!transposed) return {factor.offsets(), factor.columns()};
  return {factor.transposed().offsets, factor.transposed().columns};
}

/// Row by row, where the patterns are on the CPU.
ProductEstimate estimate_on_cpu(const std::vector<PatternPtr>& factors) {
  const int64_t rows = factors.front()->rows(), samples = std::min(rows, kSamples);
  std::vector<ops::CsrRows> chain;
  std::vector<ops::ColumnUnion> unions;
  for (size_t f = 0; f < factors.size(); ++f) {
    const auto [offsets, columns] = step(*factors[f], f % 2 == 1);
    chain.emplace_back(offsets, columns);
    unions.emplace_back(f % 2 == 1 ? factors[f]->rows() : factors[f]->cols());
  }
  double entries = 0, work = 0;
  std::vector<int32_t> reached, next;
  for (int64_t s = 0; s < samples; ++s) {
    reached.assign(1, static_cast<int32_t>((2 * s + 1) * rows / (2 * samples)));
    for (size_t f = 0; f < chain.size(); ++f) {
      for (int32_t i : reached) unions[f].add(chain[f][i]);
      if (f > 0) work += static_cast<double>(unions[f].total());
      next.clear();
      unions[f].take(next);
      std::swap(reached, next);
    }
    entries += static_cast<double>(reached.size());
  }
  const double scale = static_cast<double>(rows) / static_cast<double>(samples);
  return {entries * scale, work * scale};
}

}  // namespace

ProductEstimate estimate_with_tensors(const std::vector<PatternPtr>& factors) {
  const int64_t rows = factors.front()->rows(), samples = std::min(rows, kSamples);
  if (rows == 0) return {};
  double work = 0;
  const auto options = factors.front()->offsets().options();
  at::Tensor sample = at::arange(samples, options);
  at::Tensor node = ((sample * 2 + 1) * rows).floor_divide(2 * samples);
  for (size_t f = 0; f < factors.size(); ++f) {
    const auto [offsets, columns] = step(*factors[f], f % 2 == 1);
    const int64_t width = f % 2 == 1 ? factors[f]->rows() : factors[f]->cols();
    const at::Tensor first = offsets.index_select(0, node), count = offsets.index_select(0, node + 1) - first;
    const at::Tensor ends = count.cumsum(0);
    const int64_t total = node.size(0) == 0 ? 0 : ends[-1].item<int64_t>();
    if (f > 0) work += static_cast<double>(total);
    const at::Tensor from = at::repeat_interleave(at::arange(node.size(0), options), count, std::nullopt, total);
    const at::Tensor entry = (first - ends + count).index_select(0, from) + at::arange(total, options);
    const at::Tensor key = sample.index_select(0, from) * width + columns.index_select(0, entry);
    const at::Tensor distinct = std::get<0>(at::_unique(key));
    sample = distinct.floor_divide(width);
    node = distinct - sample * width;
  }
  const double scale = static_cast<double>(rows) / static_cast<double>(samples);
  return {static_cast<double>(node.size(0)) * scale, work * scale};
}

ProductEstimate estimate_product(const std::vector<PatternPtr>& factors) {
  if (factors.front()->rows() == 0) return {};
  return factors.front()->device().is_cpu() ? estimate_on_cpu(factors) : estimate_with_tensors(factors);
}

}  // namespace topomask
