#include "harness.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/version.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <regex>

#include "peak_memory.h"
#include "topomask/memory.h"
#include "topomask/version.h"

namespace topomask::bench {
namespace {

using Run = benchmark::BenchmarkReporter::Run;

/// Google Benchmark 1.8 renamed the mark of a failed run.
template <typename R>
bool is_error(const R& run) {
  if constexpr (requires { run.error_occurred; }) {
    return run.error_occurred;
  } else {
    return static_cast<bool>(run.skipped);
  }
}

/// The median repetition under the bare name. Google Benchmark marks in the name how a case was run ("/real_time",
/// "/repeats:5", …) and appends aggregates ("_median", …); both would make the name depend on settings.
std::vector<Run> condensed(const std::vector<Run>& runs) {
  if (runs.empty() || runs.front().run_type == Run::RT_Aggregate) return {};
  std::vector<Run> sorted = runs;
  std::sort(sorted.begin(), sorted.end(), [](const Run& a, const Run& b) {
    return std::pair(!is_error(a), a.GetAdjustedRealTime()) < std::pair(!is_error(b), b.GetAdjustedRealTime());
  });
  // An error in any repetition is the result; errors sort first.
  Run median = is_error(sorted.front()) ? sorted.front() : sorted[(sorted.size() - 1) / 2];
  median.run_name = {median.run_name.function_name, "", "", "", "", "", "", ""};
  if (!is_error(median)) {
    const double slowest = sorted.back().GetAdjustedRealTime(), fastest = sorted.front().GetAdjustedRealTime();
    median.counters["spread"] = (slowest - fastest) / median.GetAdjustedRealTime();
  }
  return {median};
}

template <typename Base>
class CondensedReporter : public Base {
 public:
  using Base::Base;

  void ReportRuns(const std::vector<Run>& runs) override {
    const std::vector<Run> shown = condensed(runs);
    if (shown.empty()) return;
    failed_ |= is_error(shown.front());
    Base::ReportRuns(shown);
  }

  bool failed() const { return failed_; }

 private:
  bool failed_ = false;
};

/// The case being run. Google Benchmark enters a case once per repetition and trial; it is prepared once, and its
/// memory goes when the next case starts.
struct Stage {
  std::string name;
  std::optional<Prepared> prepared;

  Prepared& enter(const std::string& next, const Case& item) {
    if (name == next && prepared) return *prepared;
    prepared.reset();
    name = next;
    Prepared made = item.prepare();
    if (!item.slow) made.call();  // warm-up: what is built on first use is not part of a call; slow cases do without
    release_kept_memory();        // so that what a call takes is seen
    made.counters["peak_bytes"] = static_cast<double>(peak_bytes([&] { benchmark::DoNotOptimize(made.call()); }));
    return prepared.emplace(std::move(made));
  }
};

void run_case(benchmark::State& state, Stage& stage, const std::string& name, const Case& item) {
  try {
    Prepared& prepared = stage.enter(name, item);
    for (auto _ : state) benchmark::DoNotOptimize(prepared.call());
    for (const auto& [key, value] : prepared.counters) state.counters[key] = value;
  } catch (const c10::Error& error) {
    state.SkipWithError(error.what_without_backtrace());
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

/// Takes `flag=value` out of the arguments. Filtering and listing are done here, on the bare names: Google Benchmark
/// would match a pattern such as "forward$" against names that go on.
std::optional<std::string> take_flag(std::vector<char*>& arguments, const std::string& flag) {
  std::optional<std::string> value;
  std::erase_if(arguments, [&](const char* argument) {
    const std::string text = argument;
    if (text != flag && !text.starts_with(flag + "=")) return false;
    value = text == flag ? "" : text.substr(flag.size() + 1);
    return true;
  });
  return value;
}

}  // namespace

int run(int argc, char** argv, const Settings& settings, std::vector<Case> cases) {
  std::vector<char*> arguments(argv, argv + argc);
  const auto filter = take_flag(arguments, "--benchmark_filter");
  const auto list = take_flag(arguments, "--benchmark_list_tests");
  const bool negated = filter && filter->starts_with("-");
  std::regex pattern;
  try {
    if (filter) pattern = negated ? filter->substr(1) : *filter;
  } catch (const std::regex_error& error) {
    std::cerr << "--benchmark_filter: " << error.what() << "\n";
    return 2;
  }

  Stage stage;
  for (const Case& item : cases) {
    const std::string name =
        settings.suite + "/" + item.mask + "/N:" + std::to_string(item.nodes) + "/" + item.variant + "/" + item.pass;
    if (filter && std::regex_search(name, pattern) == negated) continue;
    if (list && *list != "false") {
      std::cout << name << "\n";
      continue;
    }
    benchmark::RegisterBenchmark(name.c_str(),
                                 [&stage, &item, name](benchmark::State& state) { run_case(state, stage, name, item); })
        ->UseRealTime()
        ->MeasureProcessCPUTime()
        ->MinTime(settings.seconds_per_repetition)
        ->Repetitions(item.slow ? settings.slow_repetitions : settings.repetitions)
        ->Unit(benchmark::kMillisecond);
  }
  if (list && *list != "false") return 0;

  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;
  benchmark::AddCustomContext("cpu", cpu_model());
  benchmark::AddCustomContext("threads", std::to_string(at::get_num_threads()));
  benchmark::AddCustomContext("torch", TORCH_VERSION);
  benchmark::AddCustomContext("topomask", TOPOMASK_VERSION);
  const bool file =
      std::any_of(argv, argv + argc, [](const char* a) { return std::string(a).starts_with("--benchmark_out="); });
  CondensedReporter<benchmark::ConsoleReporter> console(benchmark::ConsoleReporter::OO_Tabular);
  CondensedReporter<benchmark::JSONReporter> json;
  benchmark::RunSpecifiedBenchmarks(&console, file ? &json : nullptr);
  stage.prepared.reset();
  benchmark::Shutdown();
  return console.failed() ? 1 : 0;
}

void check_close(const std::string& what, const at::Tensor& actual, const at::Tensor& expected, double tolerance) {
  TORCH_CHECK(actual.sizes() == expected.sizes(), what, ": shape ", actual.sizes(), ", expected ", expected.sizes());
  if (expected.numel() == 0) return;
  const double error = (actual - expected).abs().max().item<double>() / expected.abs().max().item<double>();
  TORCH_CHECK(error <= tolerance, what, ": relative error ", error, ", at most ", tolerance, " allowed");
}

}  // namespace topomask::bench
