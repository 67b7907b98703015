#pragma once

#include <string>
#include <vector>

#include "report/html.h"
#include "report/runs.h"
#include "topomask/train/checkpoint.h"

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
Section attention_section(const std::vector<GroupModel>& models, int64_t examples);

/// The learned function of hops of a group's first run.
struct Modulation {
  std::string label;
  at::Tensor values;  ///< [L, H, K], or undefined
  double decay;       ///< it started at exp(−decay·k), or where it is added to logits at −decay·k
  bool added = false;
};
Section modulation_section(const std::vector<Modulation>& learned);

/// The first run of a group with its task: of graphs or points.
struct GroupTask {
  std::string label;
  LoadedTask loaded;
};
std::vector<GroupTask> load_tasks(const RunCollection& runs, std::vector<std::string>& problems);

/// Which classes are taken for which.
Section confusion_section(const std::vector<GroupTask>& tasks, const std::string& split);
/// Graphs of the split, drawn with what their nodes contribute and attend to.
Section graphs_section(const std::vector<GroupTask>& tasks, const std::string& split, int64_t examples);

/// Scores of each step of rollouts with their floors, by variant.
Section rollouts_section(const RunCollection& runs);
/// Episodes of the split as film strips: truth, prediction and difference of each variant.
Section strips_section(const std::vector<GroupTask>& tasks, const std::string& split, int64_t examples);

}  // namespace topomask::apps
