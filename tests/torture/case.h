#pragma once

#include <c10/core/Device.h>

#include <string>

#include "torture/draw.h"

namespace topomask::torture {

struct Outcome {
  std::string what;       ///< the case in one line
  std::string family;     ///< of the mask
  std::string operation;  ///< what was done with it, and the route
  std::string failure;    ///< empty where all is well
  std::string refused;    ///< by design, and why: nothing was compared
  bool beyond = false;    ///< gradients beyond the range of float16, which were not compared
  double worst = 0;       ///< the largest error over what is allowed
  std::string worst_name;
};

/// Draws a case, runs it on the device and compares it with the reference. Throws nothing: an exception is a failure,
/// unless it is a documented limit of the route that was asked for.
Outcome run_case(Draw& draw, at::Device device);

}  // namespace topomask::torture
