#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "output.h"
#include "report/statistics.h"
#include "topomask/train/checkpoint.h"
#include "train/metrics.h"

namespace topomask::apps {

/// One run's folder, read.
struct RunRecord {
  std::string folder;
  RunConfig config;
  RunMetrics metrics;
  bool finished = false;  ///< summary.json is there; otherwise the numbers are those of the last evaluation
  double accuracy = 0;    ///< on `split`
  double seconds = 0, step_ms = 0, items_per_s = 0, memory_mb = 0;
  int64_t parameters = 0, steps = 0;
  Json curves;      ///< scores by step of a rollout on `split`, from summary.json; null where the task has none
  Json provenance;  ///< commands, dates and machines, from provenance.json; empty where the run has none
};

/// Runs that differ only in their seed, in what a seed draws of the data (folds, splits, generated graphs), and in the
/// folder where data of the same name lie.
struct RunGroup {
  std::string label;
  std::vector<RunRecord> runs;  ///< by seed

  const RunConfig& config() const { return runs.front().config; }
  std::vector<double> accuracies() const;
  std::vector<SeedResult> results() const;
  std::string seeds() const;  ///< "0, 1, 2", or how many runs where folds differ too
  Spread accuracy() const { return spread(accuracies()); }
  double mean(double RunRecord::*number) const;  ///< over runs
};

/// What a report is about.
struct RunCollection {
  std::string split;               ///< what accuracy is of: test, or validation where no run has test
  std::vector<RunGroup> groups;    ///< the best first
  std::string items = "images";    ///< what is classified
  std::string score = "accuracy";  ///< what RunRecord::accuracy is
  int64_t count = 0;               ///< of them in that split; 0 if the data is not available
};

/// Reads run folders; a folder of run folders stands for those. A folder that is neither is an error.
RunCollection read_runs(const std::vector<std::string>& folders);

/// "94.3 ± 0.2 %", or without spread for one run.
std::string accuracy_text(const Spread& accuracy);

/// "within ± 0.50" or "beyond ± 0.50", in points; empty where there is no claim.
std::string claim_text(const Comparison& comparison);

/// What the seeds say of neighbours in the ranking, a sentence each, and by which test. With one seed there is no
/// claim, and the sentence says how to get more.
std::vector<std::string> noise_sentences(const RunCollection& runs);

}  // namespace topomask::apps
