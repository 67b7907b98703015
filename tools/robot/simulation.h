#pragma once

#include <cstdint>
#include <string>

#include "draws.h"
#include "handles.h"
#include "renderer.h"
#include "scene.h"
#include "settings.h"
#include "topomask/data/episodes.h"

namespace topomask::robot {

/// An episode, or why there is none: "diverged" (MuJoCo reset a state that was not finite), "unreachable" (inverse
/// kinematics), "fast" (a body moved more than kLongestStep between frames) or "still" (nothing of what the kind of
/// episode is about happened).
struct Outcome {
  Episode episode;
  std::string dropped;
};

inline constexpr double kLongestStep = 0.25;  ///< metres; what a model of the dynamics may predict in a step

/// Whether MuJoCo has met a state that is not finite, or far too fast, and has reset it.
bool diverged(const mjData* data);

/// Simulates and renders an episode, a function of kind, seed and settings. Needs a Display.
Outcome simulate(Kind kind, uint64_t seed, const Settings& settings);

}  // namespace topomask::robot
