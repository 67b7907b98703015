#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/internal_api.h"
#include "io/origin.h"
#include "topomask/data/graph_options.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// Refuses features [nodes, columns] that would take more than 16 GiB, before they are allocated.
void check_feature_size(const io::Origin& origin, int64_t nodes, int64_t columns);

/// float32 [N, 1 or degree_limit + 1] of the degrees alone: options.features but "given".
at::Tensor structural_features(const Graph& graph, const GraphDataOptions& options);

/// float32 [N, count]: the largest degrees of the neighbours of each node, descending, 0 where there are fewer.
at::Tensor largest_neighbour_degrees(const Graph& graph, int64_t count);

/// float32 [N, 1]: the degree minus its mean over the graph, divided by its standard deviation there; 0 where that is
/// 0.
at::Tensor standardised_degrees(const Graph& graph, const at::Tensor& offsets);

/// options.scaling, in place. Means and variances of columns are those of the nodes that are trained on.
void scale_features(LoadedGraphs& loaded, const GraphDataOptions& options);

/// float32 [words, columns]: the character 1-, 2- and 3-grams of each word between its marked ends, hashed with signs
/// into columns (Weinberger et al. 2009) by (seed, n-gram), each row of norm 1. Word w is forms[ends[w − 1], ends[w]).
at::Tensor ngram_features(const std::string& forms, const std::vector<int64_t>& ends, int64_t columns, uint64_t seed);

}  // namespace topomask
