#pragma once

#include <string>

#include "topomask/train/checkpoint.h"

namespace topomask::apps {

/// The model of RUN, the folder of a run or a checkpoint file. A folder without a checkpoint is an error that says so.
LoadedModel open_run(const std::string& run, const std::string& device = "cpu");

}  // namespace topomask::apps
