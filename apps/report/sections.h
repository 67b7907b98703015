#pragma once

#include <string>
#include <vector>

#include "report/html.h"
#include "report/runs.h"

namespace topomask::apps {

// The sections of a report, a file each.

Section accuracy_section(const RunCollection& runs);
Section curves_section(const RunCollection& runs);
Section cost_section(const RunCollection& runs);
/// Date, machine, commands and hyperparameters.
Section setup_section(const RunCollection& runs);

/// The first run of a group with its model.
struct GroupModel {
  std::string label;
  LoadedModel loaded;
};

/// Those that can be loaded; `problems` says why others cannot.
std::vector<GroupModel> load_models(const RunCollection& runs, std::vector<std::string>& problems);

/// `token`: a patch, in row-major order; −1: the middle one.
Section masks_section(const std::vector<GroupModel>& models, int64_t token);
Section modulation_section(const std::vector<GroupModel>& models);
Section attention_section(const std::vector<GroupModel>& models, int64_t examples);

}  // namespace topomask::apps
