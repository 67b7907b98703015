#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace topomask::bench {

using Tensors = std::vector<at::Tensor>;

/// A case ready to be timed: `call` is what the clock sees, from inputs to freshly allocated outputs.
struct Prepared {
  std::function<Tensors()> call;
  std::map<std::string, double> counters;  ///< reported with the time, `peak_bytes` is added
};

/// One line of a suite, named `<suite>/<mask>/N:<nodes>/<variant>/<pass>`.
struct Case {
  std::string mask;
  int64_t nodes = 0;
  std::string variant;
  std::string pass;
  bool slow = false;  ///< a call takes a good part of a second: fewer repetitions
  /// Builds inputs and checks the answer, outside the clock, when the case's turn comes; an exception becomes the
  /// case's error.
  std::function<Prepared()> prepare;
};

struct Settings {
  std::string suite;
  double seconds_per_repetition = 0.1;
  int repetitions = 5;
  int slow_repetitions = 2;
};

/// Runs the cases and returns the exit status: 0, 1 where a case failed, 2 for bad arguments.
///
/// Takes Google Benchmark's flags. A case appears once, on the console and in `--benchmark_out`, under its bare name:
/// real time of the median repetition, and the counters `peak_bytes` (of one call, above what lived before it) and
/// `spread`
/// ((slowest − fastest)/median over the repetitions).
int run(int argc, char** argv, const Settings& settings, std::vector<Case> cases);

/// Throws where max|actual − expected| > tolerance·max|expected|, naming `what`.
void check_close(const std::string& what, const at::Tensor& actual, const at::Tensor& expected, double tolerance);

}  // namespace topomask::bench
