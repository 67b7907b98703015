#pragma once

#include <cstdint>
#include <string>

namespace topomask::robot {

/// What the episodes of a run have in common.
struct Settings {
  std::string arm = "builtin";  ///< or a folder with iiwa14.xml of MuJoCo Menagerie's kuka_iiwa_14
  int64_t side = 64;            ///< pixels along each side of an image
  int64_t frames = 18;
  double interval = 0.5;  ///< seconds between frames
  bool shadows = false;
};

}  // namespace topomask::robot
