#pragma once

#include <string>

#include "walks/names.h"

namespace topomask {

/// ViTOptions::features.
enum class Features { relu, elu1, favor };
inline constexpr EnumNames<Features, 3> kFeatureNames{{"relu", "elu1", "favor"}};

/// The former name of independent walkers in ViTOptions::sampler; configurations and checkpoints may still have it.
inline constexpr const char* kFormerIndependent = "iid";

/// ViTOptions::sampler as WalkOptions::coupling.
inline Coupling sampler_coupling(const std::string& name) {
  return name == kFormerIndependent ? Coupling::independent : kCouplingNames.parse("ViT", "sampler", name);
}

}  // namespace topomask
