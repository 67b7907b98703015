#pragma once

#include <mujoco/mujoco.h>

#include <memory>

namespace topomask::robot {

/// Deletes what MuJoCo allocated.
struct Deleter {
  void operator()(mjModel* model) const { mj_deleteModel(model); }
  void operator()(mjData* data) const { mj_deleteData(data); }
  void operator()(mjSpec* spec) const { mj_deleteSpec(spec); }
};
using Model = std::unique_ptr<mjModel, Deleter>;
using Data = std::unique_ptr<mjData, Deleter>;
using Spec = std::unique_ptr<mjSpec, Deleter>;

}  // namespace topomask::robot
