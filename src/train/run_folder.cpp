#include "train/run_folder.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <set>

#include "config/names.h"
#include "io/output_file.h"
#include "topomask/config.h"
#include "topomask/version.h"
#include "train/metrics.h"

namespace topomask {
namespace {

namespace fs = std::filesystem;

constexpr const char *kFormerCheckpoint = "checkpoint.pt", *kSummary = "summary.json";

/// The files of a run that are written under a temporary name first; the last is that of the command line tool.
const std::set<std::string> kWritten{kCheckpointName, kSummary, "config.json", "metrics.jsonl", "provenance.json"};

/// Keys that do not change what is computed, only where, and how often it is logged or evaluated.
const std::set<std::string> kFree{"name",
                                  "data.path",
                                  "data.splits",
                                  "data.workers",
                                  "data.prefetch",
                                  "data.cache_mb",
                                  "train.device",
                                  "train.pretrained",
                                  "train.log_every",
                                  "train.checkpoint_every",
                                  "train.evaluation_batch"};

void write_text(const fs::path& path, const std::string& text) {
  io::OutputFile file({"train", path.string()});
  file.put(text + "\n");
  file.commit();
}

}  // namespace

void RunFolder::open(bool fresh) const {
  std::error_code error;
  fs::create_directories(path_, error);
  TORCH_CHECK(!error, "train: ", path_.string(), ": cannot make the folder: ", error.message());
  const auto remove = [](const fs::path& path) {
    std::error_code reason;
    fs::remove(path, reason);
    TORCH_CHECK(!reason, "train: ", path.string(), ": cannot remove: ", reason.message());
  };
  std::vector<fs::path> unfinished;
  for (const auto& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename().string();
    if (kWritten.contains(std::string(io::unfinished_name(name)))) unfinished.push_back(entry.path());
  }
  for (const fs::path& path : unfinished) remove(path);
  if (!fresh) return;
  for (const char* name : {kCheckpointName, kFormerCheckpoint, kSummary}) remove(path_ / name);
}

std::optional<Checkpoint> RunFolder::resume(const RunConfig& config) const {
  if (!fs::exists(checkpoint())) {
    TORCH_CHECK(!fs::exists(path_ / kFormerCheckpoint), "train: ", (path_ / kFormerCheckpoint).string(),
                ": a checkpoint of an earlier version, a pickle, which is no longer read; train in another folder, or "
                "start over in this one with --restart");
    return std::nullopt;
  }
  Checkpoint found = load_checkpoint(checkpoint());
  RunConfig then = parse_config(found.config, checkpoint().string() + ": "), now = config;
  const auto before = option_fields(then), after = option_fields(now);
  for (size_t i = 0; i < before.size(); ++i) {
    const std::string& key = before[i].key;
    // Only where the best of the evaluations counts does it matter how many there are.
    const bool keeps_last = kSelectNames.find(now.train.select) == KeptWeights::last;
    if (kFree.contains(key) || (key == "train.evaluate_every" && keeps_last)) continue;
    TORCH_CHECK(option_text(before[i]) == option_text(after[i]), "train: ", checkpoint().string(),
                ": it is of a run with ", before[i].key, " = ", option_text(before[i]), ", and this one has ",
                option_text(after[i]), "; train it in another folder, or start over in this one with --restart");
  }
  return found;
}

void RunFolder::write_config(const RunConfig& config) const {
  write_text(path_ / "config.json", to_json(config));
}

void RunFolder::write_summary(const RunConfig& config, const TrainResult& result,
                              const std::map<std::string, int64_t>& sizes) const {
  nlohmann::ordered_json summary{{"name", config.name},
                                 {"task", config.task},
                                 {"variant", config.variant()},
                                 {"seed", config.train.seed},
                                 {"items", sizes},
                                 {"accuracy", nlohmann::ordered_json::object()},
                                 {"loss", nlohmann::ordered_json::object()},
                                 {"parameters", result.parameters},
                                 {"steps", result.steps},
                                 {"seconds", result.seconds},
                                 {"step_ms", result.median_step_ms},
                                 {"peak_memory_mb", result.peak_memory_mb},
                                 {"version", TOPOMASK_VERSION}};
  for (const auto& [split, evaluation] : result.evaluations) {
    summary["accuracy"][split] = evaluation.accuracy;
    summary["loss"][split] = evaluation.loss;
    for (const ScoreCurve& curve : evaluation.curves) summary["curves"][split][curve.name] = curve.values;
  }
  write_text(path_ / kSummary, summary.dump(2));
}

void RunFolder::recall_costs(TrainResult& result) const {
  std::ifstream file(path_ / kSummary);
  const auto summary = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  const auto number = [&](const char* name) {
    return summary.is_object() && summary.contains(name) && summary[name].is_number() ? summary[name].get<double>() : 0;
  };
  result.median_step_ms = number("step_ms");
  result.peak_memory_mb = number("peak_memory_mb");
  if (result.median_step_ms > 0 && result.peak_memory_mb > 0) return;
  std::vector<double> times;
  for (const TrainMetrics& line : read_metrics(path_).train) {
    if (line.step_ms > 0) times.push_back(line.step_ms);
    if (line.memory_mb > result.peak_memory_mb) result.peak_memory_mb = line.memory_mb;
  }
  std::sort(times.begin(), times.end());
  if (!(result.median_step_ms > 0) && !times.empty()) result.median_step_ms = times[times.size() / 2];
}

}  // namespace topomask
