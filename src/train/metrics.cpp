#include "train/metrics.h"

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <functional>

#include "io/append_file.h"
#include "io/output_file.h"
#include "train/event_file.h"

namespace topomask {
namespace {

using Json = nlohmann::ordered_json;

std::string metrics_path(const std::filesystem::path& run_dir) {
  return (run_dir / "metrics.jsonl").string();
}

/// Calls `use` with every line and its JSON. A last line that is not JSON was being written when the run was killed.
void for_each_line(const std::string& path, const std::function<void(const std::string&, const Json&, int)>& use) {
  std::ifstream file(path, std::ios::binary);
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const Json json = Json::parse(line, nullptr, false);
    const bool last = file.peek() == std::ifstream::traits_type::eof();
    if (json.is_discarded() && last) return;
    TORCH_CHECK(json.is_object() && json.contains("step") && json["step"].is_number_integer(), "read_metrics: ", path,
                ", line ", number, ": expected a JSON object with a step");
    use(line, json, number);
  }
}

void keep_steps(const std::string& path, int64_t last_step) {
  io::OutputFile kept({"MetricsLog", path});
  for_each_line(path, [&](const std::string& line, const Json& json, int) {
    if (json["step"].get<int64_t>() <= last_step) kept.put(line + "\n");
  });
  kept.commit();
}

/// The path, where lines after `step` are gone.
std::string continued(const std::filesystem::path& run_dir, int64_t step) {
  const std::string path = metrics_path(run_dir);
  if (step >= 0 && std::filesystem::exists(path)) keep_steps(path, step);
  return path;
}

}  // namespace

struct MetricsLog::Files {
  Files(const std::filesystem::path& run_dir, int64_t step)
      : lines({"MetricsLog", continued(run_dir, step)},
              step >= 0 ? io::AppendFile::Start::keep : io::AppendFile::Start::empty),
        events(run_dir) {}

  void write(const Json& json) {
    lines.append(json.dump() + "\n");
    events.flush();
  }

  io::AppendFile lines;
  EventFile events;
};

MetricsLog::MetricsLog(const std::filesystem::path& run_dir, int64_t step)
    : files_(std::make_unique<Files>(run_dir, step)) {}

MetricsLog::~MetricsLog() = default;

void MetricsLog::write(const TrainMetrics& m) {
  const Json line{{"kind", "train"},      {"step", m.step},
                  {"epoch", m.epoch},     {"loss", m.loss},
                  {"lr", m.lr},           {"items_per_s", m.items_per_s},
                  {"step_ms", m.step_ms}, {"memory_mb", m.memory_mb}};
  for (const char* name : {"loss", "lr", "items_per_s", "step_ms", "memory_mb"}) {
    files_->events.scalar(std::string("train/") + name, m.step, line[name].get<double>());
  }
  files_->write(line);
}

void MetricsLog::write(const EvalMetrics& m) {
  files_->events.scalar(m.split + "/loss", m.step, m.loss);
  files_->events.scalar(m.split + "/accuracy", m.step, m.accuracy);
  files_->write({{"kind", "eval"}, {"step", m.step}, {"split", m.split}, {"loss", m.loss}, {"accuracy", m.accuracy}});
}

void MetricsLog::sync() {
  files_->lines.sync();
  files_->events.sync();
}

RunMetrics read_metrics(const std::filesystem::path& run_dir) {
  const std::string path = metrics_path(run_dir);
  TORCH_CHECK(std::filesystem::exists(path), "read_metrics: ", path, ": there is no such file");
  RunMetrics metrics;
  for_each_line(path, [&](const std::string&, const Json& json, int line) {
    // A number that was not finite was written as null.
    const auto number = [&](const char* name) {
      TORCH_CHECK(json.contains(name) && (json[name].is_number() || json[name].is_null()), "read_metrics: ", path,
                  ", line ", line, ": ", name, " must be a number");
      return json[name].is_null() ? std::numeric_limits<double>::quiet_NaN() : json[name].get<double>();
    };
    const auto step = json["step"].get<int64_t>();
    if (json.value("kind", "") == "train") {
      metrics.train.push_back({step, number("epoch"), number("loss"), number("lr"),
                               number(json.contains("items_per_s") ? "items_per_s" : "images_per_s"), number("step_ms"),
                               number("memory_mb")});
    } else if (json.value("kind", "") == "eval") {
      metrics.eval.push_back({step, json.value("split", ""), number("loss"), number("accuracy")});
    }
  });
  return metrics;
}

}  // namespace topomask
