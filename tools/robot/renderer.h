#pragma once

#include <cstdint>
#include <vector>

#include "handles.h"
#include "motion.h"

namespace topomask::robot {

/// A software OpenGL context without a window (EGL, surfaceless Mesa), current in this thread. One for a process.
class Display {
 public:
  Display();
  ~Display();
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;

 private:
  void* display_ = nullptr;
  void* context_ = nullptr;
};

/// The cameras of a compiled scene. Images are square; rows go downwards.
class Cameras {
 public:
  Cameras(const mjModel* model, const ArmMap& arm, int64_t side, bool shadows);
  ~Cameras();
  Cameras(const Cameras&) = delete;
  Cameras& operator=(const Cameras&) = delete;

  int count() const { return model_->ncam; }
  /// What a camera sees: `rgb` [side, side, 3]; `depth` [side, side], metres along the optical axis, 0 where there is
  /// nothing; `ids` [side, side] as in Episode.
  void look(mjData* data, int camera, uint8_t* rgb, float* depth, uint8_t* ids);

  void intrinsics(int camera, double* matrix) const;                ///< [3, 3]
  void pose(const mjData* data, int camera, double* matrix) const;  ///< [4, 4], x right, y down, z forward

 private:
  void render(bool segments);
  uint8_t id_of(const mjvGeom& geom) const;

  const mjModel* model_;
  const ArmMap& arm_;
  int64_t side_;
  bool shadows_;
  int table_;
  mjvScene scene_;
  mjrContext context_;
  mjvOption option_;
  std::vector<uint8_t> pixels_;
  std::vector<float> distances_;
};

/// Which object a body or flex named object0, object1, … is; −1 for others.
int object_number(const char* name);

}  // namespace topomask::robot
