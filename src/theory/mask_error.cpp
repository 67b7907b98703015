#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <limits>

#include "core/checks.h"
#include "core/move.h"
#include "graph/weights.h"
#include "theory/sampled_rows.h"
#include "topomask/theory.h"

namespace topomask {

at::Tensor sample_nodes(int64_t nodes, int64_t count, uint64_t seed) {
  const at::Tensor order = at::randperm(nodes, at::detail::createCPUGenerator(seed), at::kLong);
  return std::get<0>(order.narrow(0, 0, std::min(nodes, count)).sort());
}

at::Tensor mask_rows(const Mask& mask, const at::Tensor& rows) {
  const at::NoGradGuard no_grad;
  at::Tensor pick = at::zeros({mask.size(), rows.size(0)}, at::dtype(mask.dtype().value_or(at::kDouble)));
  pick.index_put_({rows, at::arange(rows.size(0))}, at::ones({1}, pick.options()));
  if (mask.heads() > 1) pick = pick.expand({mask.heads(), -1, -1});
  return mask.matmul_transposed(pick).mT();
}

MaskError mask_error(const std::vector<MaskPtr>& masks, const at::Tensor& rows) {
  TORCH_CHECK(masks.size() >= 2, "mask_error: masks must be at least two, got ", masks.size());
  TORCH_CHECK(rows.defined() && rows.dim() == 1 && rows.scalar_type() == at::kLong,
              "mask_error: rows must be Long [r], got ", describe(rows));
  check_on_cpu("mask_error", "rows", rows.device());
  for (const MaskPtr& mask : masks) {
    TORCH_CHECK(mask != nullptr && mask->size() == masks[0]->size() && mask->heads() == masks[0]->heads(),
                "mask_error: masks must be of one size and number of heads, got ",
                mask ? mask->name() + " of another" : "none");
  }
  TORCH_CHECK(rows.numel() == 0 || (rows.min().item<int64_t>() >= 0 && rows.max().item<int64_t>() < masks[0]->size()),
              "mask_error: rows must be nodes in [0, ", masks[0]->size(), "), got ", rows.min().item<int64_t>(), " to ",
              rows.max().item<int64_t>());
  at::Tensor mean, squares;  // of the masks so far; Σ of squared distances from it (Welford)
  double count = 0;
  for (const MaskPtr& mask : masks) {
    const at::Tensor sample = mask_rows(*mask, rows).to(at::kDouble);
    if (!mean.defined()) mean = at::zeros_like(sample), squares = at::zeros_like(sample);
    const at::Tensor step = sample - mean;
    mean.add_(step, 1 / ++count);
    squares.addcmul_(step, sample - mean);
  }
  const at::Tensor variance = squares / (count - 1);
  const double noise = variance.sum().item<double>(), norm = mean.square().sum().item<double>() - noise / count;
  // Noise may hide the mean altogether.
  const double relative = noise == 0 ? 0 : norm > 0 ? std::sqrt(noise / norm) : std::numeric_limits<double>::infinity();
  return {rows, mean, variance.sqrt(), relative};
}

MaskError mask_error(const Graph& graph, const WalkOptions& walks, const at::Tensor& f, const ErrorOptions& options) {
  check_on_cpu("mask_error", "graph", graph.device());
  TORCH_CHECK(options.batches >= 2, "mask_error: batches must be >= 2, got ", options.batches);
  TORCH_CHECK(options.nodes >= 0, "mask_error: nodes must be >= 0, got ", options.nodes);
  TORCH_CHECK(walks.walkers >= 1 && walks.walkers < (int64_t{1} << 32) / options.batches,
              "mask_error: batches tables of walkers must be numbered below 2^32, got ", options.batches, " of ",
              walks.walkers);
  const Graph constant = with_constant_weights(graph);
  std::vector<MaskPtr> masks;
  WalkOptions own = walks;
  if (options.diagonal == Diagonal::debiased) own.group_products = true;
  for (int64_t b = 0; b < options.batches; ++b) {
    masks.push_back(grf_mask(sample_walks(constant, own), f, {.diagonal = options.diagonal}));
    own.first_walker += walks.walkers + walks.walkers % 2;  // couples begin at even numbers
  }
  return mask_error(masks, sample_nodes(graph.num_nodes(), options.nodes, walks.seed));
}

}  // namespace topomask
