#pragma once

#include "topomask/graph.h"

namespace topomask::examples {

/// Friendships among the 34 members of a karate club, 78 of them (W. W. Zachary, Journal of Anthropological Research
/// 33, 1977).
Graph karate_club();

}  // namespace topomask::examples
