#include "masks/power_series/hop_basis.h"

#include "sparse/hops.h"

namespace topomask {

HopBasis build_hop_basis(const Graph& graph, int64_t terms) {
  const PatternPtr pattern = hop_pattern(*graph.pattern(), terms);
  return {pattern, hop_powers(*graph.pattern(), *pattern, graph.weights(), terms)};
}

}  // namespace topomask
