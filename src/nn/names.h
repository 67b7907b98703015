#pragma once

#include <string>

#include "walks/names.h"

namespace topomask {

/// ViTOptions::features and GraphModelOptions::attention: the names of the feature maps themselves, FeatureMap::name().
enum class Features { relu, elu, favor };
inline constexpr EnumNames<Features, 3> kFeatureNames{{"relu", "elu", "favor"}};

/// The former name of elu, which configurations and checkpoints may still have.
inline constexpr const char* kFormerElu = "elu1";

/// A feature map by the name that it has now.
inline std::string present_name(const std::string& features) {
  return features == kFormerElu ? "elu" : features;
}

/// GraphModelOptions::norm, pool and readout.
enum class GraphNorm { none, batch, layer };
inline constexpr EnumNames<GraphNorm, 3> kGraphNormNames{{"none", "batch", "layer"}};
enum class GraphPool { mean, sum, max, attention };
inline constexpr EnumNames<GraphPool, 4> kGraphPoolNames{{"mean", "sum", "max", "attention"}};
enum class ReadoutKind { linear, layer };
inline constexpr EnumNames<ReadoutKind, 2> kReadoutNames{{"linear", "layer"}};

/// The former name of independent walkers in ViTOptions::sampler; configurations and checkpoints may still have it.
inline constexpr const char* kFormerIndependent = "iid";

/// ViTOptions::sampler as WalkOptions::coupling.
inline Coupling sampler_coupling(const std::string& name) {
  return name == kFormerIndependent ? Coupling::independent : kCouplingNames.parse("ViT", "sampler", name);
}

}  // namespace topomask
