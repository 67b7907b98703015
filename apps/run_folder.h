#pragma once

#include <functional>
#include <string>

#include "topomask/train/checkpoint.h"

namespace topomask::apps {

/// The vision transformer of RUN, the folder of a run or a checkpoint file. A folder without a checkpoint is an error
/// that says so.
LoadedModel open_run(const std::string& run, const std::string& device = "cpu");

/// The configuration in the checkpoint of RUN.
RunConfig run_config(const std::string& run);

/// The task of RUN with its model, for data, settings and a batch size that `change` may alter, where
/// evaluation_device says.
LoadedTask open_task(const std::string& run, const std::string& device, const std::function<void(RunConfig&)>& change);

/// A name that is no device is a usage error, whether or not there is such a run.
void check_device_name(const std::string& name);

/// Where to evaluate a run: the device that was `asked` for, or, where that is empty, the one in its configuration. A
/// run of a GPU that is not there is evaluated on the CPU, which a line on stderr says.
at::Device evaluation_device(const std::string& asked, const RunConfig& config);

}  // namespace topomask::apps
