#pragma once

#include <string>
#include <vector>

#include "handles.h"
#include "plan.h"
#include "topomask/data/episodes.h"

namespace topomask::robot {

/// The objects of a compiled scene.
class Objects {
 public:
  Objects(const mjModel* model, const Scene& scene);

  const std::vector<ObjectState>& placed() const { return placed_; }  ///< before anything moves
  std::vector<ObjectState> states(const mjData* data) const;
  /// Position and quaternion of each, [B, 7]. Those of the soft cube are the centre of its vertices and the rotation
  /// that fits them best (Kabsch).
  void write(const mjData* data, double* bodies) const;

 private:
  struct Part {
    int body = -1, flex = -1;
  };
  void pose(const mjData* data, const Part& part, mjtNum* position, mjtNum* quaternion) const;

  const mjModel* model_;
  std::vector<Part> parts_;
  std::vector<ObjectState> placed_;
};

/// Empty where the episode shows what its kind is about: something moves by 2 cm; of topple, tilts by 45°; of lift,
/// rises by 5 cm. Otherwise the reason for which it is dropped.
std::string judge(Kind kind, const Episode& episode);

}  // namespace topomask::robot
