#include "ops/deprecated/op.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include "ops/call.h"
#include "ops/pattern.h"
#include "topomask/walks.h"
#include "walks/names.h"

namespace topomask {
namespace {

using at::Tensor;

using Result = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

Result sample_walks_cpu(at::TensorList graph, const Tensor& weights, int64_t walkers, double halting_probability,
                        int64_t max_hops, std::optional<int64_t> fixed_hops, const std::optional<Tensor>& survival,
                        int64_t exact_hops, c10::string_view coupling, int64_t ensemble, c10::string_view proposal,
                        const std::optional<Tensor>& proposal_weights, bool group_products, int64_t seed,
                        int64_t first_walker) {
  const ops::PatternTensors pattern("sample_walks", "pattern", graph, ops::PatternTensors::kRows);
  const auto view = [](c10::string_view text) { return std::string_view(text.data(), text.size()); };
  const WalkOptions options{.walkers = walkers,
                            .halting_probability = halting_probability,
                            .max_hops = max_hops,
                            .fixed_hops = fixed_hops,
                            .survival = survival.value_or(Tensor()),
                            .exact_hops = exact_hops,
                            .coupling = kCouplingNames.parse("sample_walks", "coupling", view(coupling)),
                            .ensemble = ensemble,
                            .proposal = kProposalNames.parse("sample_walks", "proposal", view(proposal)),
                            .proposal_weights = proposal_weights.value_or(Tensor()),
                            .group_products = group_products,
                            .seed = static_cast<uint64_t>(seed),
                            .first_walker = first_walker};
  // Walks look at rows only: whether the graph is symmetric makes no difference to them.
  const WalkTable table =
      sample_walks(Graph::from_csr(pattern.offsets, pattern.columns, weights.detach(), /*directed=*/true), options);
  const auto product = [&](const Tensor& tensor, at::IntArrayRef shape, at::ScalarType dtype) {
    return tensor.defined() ? tensor : at::empty(shape, dtype);
  };
  return {table.offsets(),
          table.columns(),
          table.hops(),
          table.loads(),
          table.counts(),
          table.pattern()->offsets(),
          table.pattern()->columns(),
          table.feature_offsets(),
          product(table.product_offsets(), {0}, at::kLong),
          product(table.product_hops(), {0, 2}, at::kShort),
          product(table.product_values(), {0}, table.dtype())};
}

/// The form until 0.1, with the tensors of the pattern as arguments of their own; ops/deprecated has those of other
/// operators.
Result sample_walks_separate(const Tensor& offsets, const Tensor& columns, const Tensor& weights, int64_t walkers,
                             double halting_probability, int64_t max_hops, std::optional<int64_t> fixed_hops,
                             const std::optional<Tensor>& survival, int64_t exact_hops, c10::string_view coupling,
                             int64_t ensemble, c10::string_view proposal, const std::optional<Tensor>& proposal_weights,
                             bool group_products, int64_t seed, int64_t first_walker) {
  ops::deprecated::warn("sample_walks", "[offsets, columns]");
  using Signature = Result(at::TensorList, const Tensor&, int64_t, double, int64_t, std::optional<int64_t>,
                           const std::optional<Tensor>&, int64_t, c10::string_view, int64_t, c10::string_view,
                           const std::optional<Tensor>&, bool, int64_t, int64_t);
  return ops::call<"sample_walks", Signature>(std::vector<Tensor>{offsets, columns}, weights, walkers,
                                              halting_probability, max_hops, fixed_hops, survival, exact_hops, coupling,
                                              ensemble, proposal, proposal_weights, group_products, seed, first_walker);
}

/// The arguments after the pattern, and the results.
constexpr const char* kRest =
    "Tensor weights, *, int walkers=4, float halting_probability=0.5, int max_hops=100, int? fixed_hops=None, "
    "Tensor? survival=None, int exact_hops=0, str coupling='independent', int ensemble=0, str proposal='uniform', "
    "Tensor? proposal_weights=None, bool group_products=False, int seed=0, int first_walker=0) "
    "-> (Tensor offsets, Tensor columns, Tensor hops, Tensor loads, Tensor counts, Tensor pattern_offsets, "
    "Tensor pattern_columns, Tensor feature_offsets, Tensor product_offsets, Tensor product_hops, "
    "Tensor product_values)";

}  // namespace

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.set_python_module("topomask.fake");  // sizes depend on data: the fake kernel is there
  m.def((std::string("sample_walks(Tensor[] pattern, ") + kRest).c_str());
  m.def((std::string("sample_walks.separate(Tensor offsets, Tensor columns, ") + kRest).c_str());
}

TORCH_LIBRARY_IMPL(topomask, CompositeImplicitAutograd, m) {
  m.impl("sample_walks.separate", sample_walks_separate);
}

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("sample_walks", sample_walks_cpu);
}

TORCH_LIBRARY_IMPL(topomask, Autograd, m) {
  m.impl("sample_walks", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace topomask
