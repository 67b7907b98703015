#pragma once

#include "core/enum_names.h"

namespace topomask {

/// GraphDataOptions::kind.
enum class GraphKind { tu, citation, conllu, wordnet, graph, motif, cycle, mesh, radhar };
inline constexpr EnumNames<GraphKind, 9> kGraphKindNames{
    {"tu", "citation", "conllu", "wordnet", "graph", "motif", "cycle", "mesh", "radhar"}};

/// GraphDataOptions::features.
enum class NodeFeatures { given, degree, one_hot_degree, constant };
inline constexpr EnumNames<NodeFeatures, 4> kNodeFeatureNames{{"given", "degree", "one_hot_degree", "constant"}};

/// GraphDataOptions::scaling.
enum class FeatureScaling { none, rows, columns };
inline constexpr EnumNames<FeatureScaling, 3> kFeatureScalingNames{{"none", "rows", "columns"}};

/// GraphDataOptions::edges.
enum class CloudEdges { given, nearest };
inline constexpr EnumNames<CloudEdges, 2> kCloudEdgeNames{{"given", "nearest"}};

/// GraphDataOptions::rotate.
enum class Rotation { none, vertical, any };
inline constexpr EnumNames<Rotation, 3> kRotationNames{{"none", "vertical", "any"}};

/// GraphDataOptions::motif.
enum class Motif { caveman, cycle, grid, ladder, circular_ladder };
inline constexpr EnumNames<Motif, 5> kMotifNames{{"caveman", "cycle", "grid", "ladder", "circular_ladder"}};

}  // namespace topomask
