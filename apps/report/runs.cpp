#include "report/runs.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "provenance.h"
#include "report/html.h"
#include "topomask/config.h"
#include "topomask/tasks/task.h"

namespace topomask::apps {
namespace {

namespace fs = std::filesystem;

bool is_run(const fs::path& folder) {
  return fs::exists(folder / "config.json");
}

std::vector<fs::path> run_folders(const std::string& given) {
  TORCH_CHECK(fs::is_directory(given), "report: ", given, ": there is no such folder");
  if (is_run(given)) return {given};
  std::vector<fs::path> inside;
  for (const auto& entry : fs::directory_iterator(given)) {
    if (entry.is_directory() && is_run(entry.path())) inside.push_back(entry.path());
  }
  TORCH_CHECK(!inside.empty(), "report: ", given,
              ": neither the folder of a run, which has a config.json, nor one of such folders");
  std::sort(inside.begin(), inside.end());
  return inside;
}

Json read_summary(const fs::path& path) {
  std::ifstream file(path);
  if (!file) return {};
  Json summary = Json::parse(file, nullptr, false);
  TORCH_CHECK(summary.is_object(), "report: ", path.string(), ": not a JSON object");
  return summary;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

RunRecord read_run(const fs::path& folder) {
  RunRecord run{.folder = folder.string(), .config = read_config((folder / "config.json").string())};
  run.metrics = read_metrics(folder);
  run.provenance = read_provenance(folder.string());
  const Json summary = read_summary(folder / "summary.json");
  run.finished = !summary.empty();
  std::vector<double> times, rates;
  for (const TrainMetrics& line : run.metrics.train) {
    times.push_back(line.step_ms);
    rates.push_back(line.items_per_s);
    run.memory_mb = std::max(run.memory_mb, line.memory_mb);
    run.steps = std::max(run.steps, line.step);
  }
  run.step_ms = median(times);
  run.items_per_s = median(rates);
  if (run.finished) {
    run.seconds = summary.value("seconds", 0.0);
    run.parameters = summary.value("parameters", int64_t{0});
    run.steps = summary.value("steps", run.steps);
    run.memory_mb = std::max(run.memory_mb, summary.value("peak_memory_mb", 0.0));
  }
  return run;
}

bool has_split(const RunRecord& run, const std::string& split) {
  return std::any_of(run.metrics.eval.begin(), run.metrics.eval.end(),
                     [&](const EvalMetrics& line) { return line.split == split; });
}

/// The last part of a path, which is the same wherever the data lie, packed (NAME.zip) or not.
std::string data_name(const std::string& path) {
  fs::path named = fs::path(path).lexically_normal();
  if (!named.has_filename()) named = named.parent_path();  // of "tu/ENZYMES/"
  return (named.extension() == ".zip" ? named.stem() : named.filename()).string();
}

std::string data_name(const RunConfig& config) {
  if (config.task == "graphs") return data_name(config.graph_data.path);
  if (config.task == "points") return data_name(config.episode_data.path);
  if (config.task == "video") return data_name(config.video_data.path);
  return data_name(config.data.path);
}

/// What two runs must share to be repetitions of one another.
std::string group_key(RunConfig config) {
  config.train.seed = 0;
  config.name = "";
  GraphDataOptions& graphs = config.graph_data;
  for (std::string* path : {&config.data.path, &graphs.path, &config.episode_data.path, &config.video_data.path}) {
    *path = data_name(*path);
  }
  graphs.splits = "";
  graphs.fold = graphs.inner_split = 0;
  graphs.seed = graphs.split_seed = 0;
  config.episode_data.split_seed = 0;
  config.video_data.seed = 0;
  return to_json(config);
}

/// What a run was drawn by: runs of two groups with the same draw are compared with each other.
uint64_t draw_of(const RunConfig& config) {
  if (config.task == "video") return config.train.seed + 0x9E3779B97F4A7C15U * config.video_data.seed;
  if (config.task != "graphs") return config.train.seed + 0x9E3779B97F4A7C15U * config.episode_data.split_seed;
  const GraphDataOptions& data = config.graph_data;
  uint64_t mixed = config.train.seed;
  for (const uint64_t part :
       {static_cast<uint64_t>(data.fold), static_cast<uint64_t>(data.inner_split), data.split_seed, data.seed}) {
    mixed = mixed * 0x9E3779B97F4A7C15U + part;
  }
  return mixed;
}

/// By seed, then by fold and the other draws.
std::array<uint64_t, 5> order_of(const RunConfig& config) {
  const GraphDataOptions& data = config.graph_data;
  return {config.train.seed, static_cast<uint64_t>(data.fold), static_cast<uint64_t>(data.inner_split), data.split_seed,
          data.seed};
}

/// Whether two runs saw the same folds, splits and generated graphs.
bool same_draw(const RunConfig& a, const RunConfig& b) {
  const GraphDataOptions &x = a.graph_data, &y = b.graph_data;
  if (a.episode_data.split_seed != b.episode_data.split_seed || a.video_data.seed != b.video_data.seed) return false;
  return x.fold == y.fold && x.inner_split == y.inner_split && x.split_seed == y.split_seed && x.seed == y.seed;
}

void count_items(RunCollection& runs) {
  runs.items = runs.groups.front().config().task;
  try {
    const std::unique_ptr<Task> task = make_task(runs.groups.front().config());
    runs.items = task->items();
    runs.score = task->score();
    runs.count = task->size(runs.split);
  } catch (const c10::Error&) {  // the data is not here
  }
}

/// The variant, with the name of the data where groups of a variant differ in it, and that of the run where several
/// groups still share a label.
void name_groups(std::vector<RunGroup>& groups) {
  std::map<std::string, std::set<std::string>> data;
  for (RunGroup& group : groups) data[group.label = group.config().variant()].insert(data_name(group.config()));
  std::map<std::string, int> uses;
  for (RunGroup& group : groups) {
    const std::string name = data_name(group.config());
    if (data[group.label].size() > 1 && !name.empty()) group.label += " on " + name;
    ++uses[group.label];
  }
  for (RunGroup& group : groups) {
    if (uses[group.label] > 1) group.label += " (" + group.config().name + ")";
  }
}

}  // namespace

std::vector<double> RunGroup::accuracies() const {
  std::vector<double> values;
  for (const RunRecord& run : runs) values.push_back(run.accuracy);
  return values;
}

std::vector<SeedResult> RunGroup::results() const {
  std::vector<SeedResult> results;
  for (const RunRecord& run : runs) results.push_back({draw_of(run.config), run.accuracy});
  return results;
}

std::string RunGroup::seeds() const {
  const bool same_data =
      std::all_of(runs.begin(), runs.end(), [&](const RunRecord& run) { return same_draw(run.config, config()); });
  if (!same_data) return std::to_string(runs.size()) + " runs";
  std::string text;
  for (const RunRecord& run : runs) text += (text.empty() ? "" : ", ") + std::to_string(run.config.train.seed);
  return text;
}

double RunGroup::mean(double RunRecord::*number) const {
  double sum = 0;
  for (const RunRecord& run : runs) sum += run.*number;
  return sum / static_cast<double>(runs.size());
}

RunCollection read_runs(const std::vector<std::string>& folders) {
  std::vector<RunRecord> records;
  for (const std::string& given : folders) {
    for (const fs::path& folder : run_folders(given)) records.push_back(read_run(folder));
  }
  for (const RunRecord& run : records) {
    TORCH_CHECK(run.config.task == records[0].config.task, "report: ", run.folder, " is a run of the task ",
                run.config.task, ", and ", records[0].folder, " one of ", records[0].config.task,
                "; a report is about one task");
  }
  RunCollection result;
  const bool all_test =
      std::all_of(records.begin(), records.end(), [](const auto& run) { return has_split(run, "test"); });
  result.split = all_test ? "test" : "validation";
  std::map<std::string, RunGroup> groups;
  for (RunRecord& run : records) {
    TORCH_CHECK(has_split(run, result.split), "report: ", run.folder, ": the run has not been evaluated on ",
                result.split, " data yet, as others have");
    for (const EvalMetrics& line : run.metrics.eval) {
      if (line.split == result.split) run.accuracy = line.accuracy;  // the last one counts
    }
    const Json summary = read_summary(fs::path(run.folder) / "summary.json");
    if (summary.contains("curves")) run.curves = summary["curves"].value(result.split, Json());
    groups[group_key(run.config)].runs.push_back(std::move(run));
  }
  for (auto& [key, group] : groups) {
    std::sort(group.runs.begin(), group.runs.end(),
              [](const RunRecord& a, const RunRecord& b) { return order_of(a.config) < order_of(b.config); });
    result.groups.push_back(std::move(group));
  }
  name_groups(result.groups);
  std::stable_sort(result.groups.begin(), result.groups.end(),
                   [](const RunGroup& a, const RunGroup& b) { return a.accuracy().mean > b.accuracy().mean; });
  count_items(result);
  return result;
}

std::string accuracy_text(const Spread& accuracy) {
  if (accuracy.count < 2) return format("%.2f %%", 100 * accuracy.mean);
  return format("%.2f ± %.2f %%", 100 * accuracy.mean, 100 * accuracy.deviation);
}

std::string claim_text(const Comparison& comparison) {
  if (!comparison.judged()) return "";
  return format("%s ± %.2f", comparison.beyond_noise() ? "beyond" : "within", 100 * comparison.noise);
}

std::vector<std::string> noise_sentences(const RunCollection& runs) {
  std::vector<std::string> sentences;
  bool paired = false, welch = false, silent = false;
  for (size_t i = 0; i + 1 < runs.groups.size(); ++i) {
    const RunGroup &better = runs.groups[i], &worse = runs.groups[i + 1];
    const Comparison found = compare(better.results(), worse.results());
    paired |= found.test == Comparison::Test::paired;
    welch |= found.test == Comparison::Test::welch;
    silent |= !found.judged();
    sentences.push_back(
        format("%s over %s: %+.2f points, %s", better.label.c_str(), worse.label.c_str(), 100 * found.difference,
               found.judged()
                   ? format("%s noise (± %.2f)", found.beyond_noise() ? "beyond" : "within", 100 * found.noise).c_str()
                   : "no claim"));
  }
  if (paired) {
    sentences.push_back(
        "Noise is half the 95 % interval of the mean difference, seed by seed (paired t-test), each pair of variants "
        "by "
        "itself.");
  }
  if (welch) {
    sentences.push_back(
        "Where seeds differ between two variants, noise is half the 95 % interval of Welch's t-test over seeds.");
  }
  if (silent) {
    sentences.push_back(
        "One seed allows no claim: train several of each variant and report again, as `make demo SEEDS=\"0 1 2\"` or "
        "`topomask train ... --train.seed 1` do.");
  }
  return sentences;
}

}  // namespace topomask::apps
