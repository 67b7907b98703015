#pragma once

#include "core/enum_names.h"

namespace topomask {

/// GraphDataOptions::kind.
enum class GraphKind { tu, citation, conllu, wordnet, graph, motif, cycle };
inline constexpr EnumNames<GraphKind, 7> kGraphKindNames{
    {"tu", "citation", "conllu", "wordnet", "graph", "motif", "cycle"}};

/// GraphDataOptions::features.
enum class NodeFeatures { given, degree, one_hot_degree, constant };
inline constexpr EnumNames<NodeFeatures, 4> kNodeFeatureNames{{"given", "degree", "one_hot_degree", "constant"}};

/// GraphDataOptions::scaling.
enum class FeatureScaling { none, rows, columns };
inline constexpr EnumNames<FeatureScaling, 3> kFeatureScalingNames{{"none", "rows", "columns"}};

/// GraphDataOptions::motif.
enum class Motif { caveman, cycle, grid, ladder, circular_ladder };
inline constexpr EnumNames<Motif, 5> kMotifNames{{"caveman", "cycle", "grid", "ladder", "circular_ladder"}};

}  // namespace topomask
