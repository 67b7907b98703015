#pragma once

#include <string>

#include "core/internal_api.h"
#include "io/origin.h"
#include "topomask/data/graph_options.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// options.train_per_class and validation_per_class of each class of `labels` int64 [n], the rest for testing; drawn by
/// split_seed. A class with fewer is an error.
GraphSplit split_by_class(const io::Origin& origin, const at::Tensor& labels, const std::vector<std::string>& classes,
                          const GraphDataOptions& options);

/// options.validation_fraction and test_fraction of each class of `labels` int64 [n] (−1 counts as a class), the rest
/// for training; drawn by split_seed. Where a fraction above 0 is less than half a member of every class, one member of
/// the largest class is held out, as long as that class keeps one to train on.
GraphSplit split_by_fraction(const at::Tensor& labels, const GraphDataOptions& options);

/// Fold options.fold of a JSON file as F. Errica et al. ("A fair comparison of graph neural networks for graph
/// classification", ICLR 2020) publish them: [{"test": [...], "model_selection": [{"train": [...], "validation":
/// [...]}, …]}, …]. The three lists must name each of `graphs` graphs once.
GraphSplit read_folds(const std::string& path, int64_t graphs, int64_t fold, int64_t inner_split);

/// A split by nodes, some of whose labels are inputs of the model.
struct GivenSplit {
  std::vector<int64_t> given;  ///< nodes whose label is an input; in no part of the split
  GraphSplit split;
};

/// options.given_labels of the nodes that have a label (>= 0), then options.validation_fraction and test_fraction, and
/// the rest to train on; ascending.
GivenSplit split_with_given(const at::Tensor& labels, const GraphDataOptions& options);

/// float32 [N, classes]: the unit vector of the label at the given nodes, 0 at all others.
at::Tensor given_label_features(const at::Tensor& labels, int64_t classes, const std::vector<int64_t>& given);

}  // namespace topomask
