#include <ATen/Context.h>
#include <c10/util/Exception.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>

#include "torture/shrink.h"

namespace topomask::torture {
namespace {

constexpr const char* kUsage =
    R"(topomask_torture: random masks, shapes, layouts and routes against a dense reference in double.

  --seconds S      how long (60)
  --seed SEED      of the run (1): case i of a run has a seed of its own, which a failure prints
  --cases N        at most so many cases
  --device D       cpu or cuda (cpu)
  --failures N     stop after so many (10)
  --case SEED [name=value ...]   one case, with choices fixed as a reproducer prints them
  --verbose        a line for each case

Exit code: 0 all is well, 1 a case failed, 2 usage.
)";

struct Options {
  double seconds = 60;
  uint64_t seed = 1;
  int64_t cases = std::numeric_limits<int64_t>::max(), failures = 10;
  at::Device device = at::kCPU;
  std::optional<uint64_t> one;
  Draw::Fixed fixed;
  bool verbose = false;
};

class Quiet final : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

// A crash names the case that it happened in; only what a signal handler may call.
char running[128];
void crashed(int signal) {
  const ssize_t written = write(STDERR_FILENO, running, strlen(running));
  (void)written;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void report(uint64_t seed, const Draw::Fixed& fixed, const Outcome& outcome, at::Device device) {
  std::cout << "FAILED case " << seed << ": " << outcome.what << "\n  " << outcome.failure << std::endl;
  const Shrunk small = shrink(seed, fixed, outcome, device, 20);
  std::cout << "  shrunk in " << small.tries << " tries to: " << small.outcome.what << "\n  " << small.outcome.failure
            << "\n  " << reproducer(seed, small.fixed, device) << std::endl;
}

Options parsed(int argc, char** argv) {
  Options options;
  for (int a = 1; a < argc; ++a) {
    const std::string name = argv[a];
    const auto value = [&] {
      TORCH_CHECK(a + 1 < argc, name, " wants a value");
      return std::string(argv[++a]);
    };
    if (name == "--seconds") {
      options.seconds = std::stod(value());
    } else if (name == "--seed") {
      options.seed = std::stoull(value());
    } else if (name == "--cases") {
      options.cases = std::stoll(value());
    } else if (name == "--failures") {
      options.failures = std::stoll(value());
    } else if (name == "--device") {
      options.device = at::Device(value());
    } else if (name == "--case") {
      options.one = std::stoull(value());
    } else if (name == "--verbose") {
      options.verbose = true;
    } else if (const size_t sign = name.find('='); sign != std::string::npos && name[0] != '-') {
      options.fixed[name.substr(0, sign)] = std::stoll(name.substr(sign + 1));
    } else {
      TORCH_CHECK(false, "unknown argument ", name);
    }
  }
  if (options.device.is_cuda()) {
    TORCH_CHECK(at::hasCUDA() && at::getNumGPUs() > 0, "--device cuda: no GPU here");
    options.device = at::Device(at::kCUDA, 0);
  }
  return options;
}

Outcome run_named(uint64_t seed, const Options& options) {
  std::snprintf(running, sizeof running, "crashed in case: topomask_torture --case %llu%s\n",
                static_cast<unsigned long long>(seed), options.device.is_cuda() ? " --device cuda" : "");
  Draw draw(seed, options.fixed);
  return run_case(draw, options.device);
}

int run_one(const Options& options) {
  const Outcome outcome = run_named(*options.one, options);
  if (!outcome.failure.empty()) {
    report(*options.one, options.fixed, outcome, options.device);
    return 1;
  }
  if (!outcome.refused.empty()) {
    std::cout << "refused by design: " << outcome.what << "\n  " << outcome.refused << std::endl;
    return 0;
  }
  std::cout << "passed: " << outcome.what << "\n  largest error over allowed " << outcome.worst << " ("
            << outcome.worst_name << ")" << std::endl;
  return 0;
}

int run_many(const Options& options) {
  struct Tally {
    int64_t cases = 0, failures = 0, refused = 0;
    double worst = 0;
  };
  std::map<std::string, Tally> by_family, by_operation;
  std::cout << "seed " << options.seed << ", device " << options.device << ", " << options.seconds << " s" << std::endl;
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  int64_t cases = 0, failures = 0, refused = 0, beyond = 0;
  for (; cases < options.cases && elapsed() < options.seconds && failures < options.failures; ++cases) {
    const uint64_t seed = case_seed(options.seed, static_cast<uint64_t>(cases));
    const double before = elapsed();
    const Outcome outcome = run_named(seed, options);
    const bool failed = !outcome.failure.empty();
    for (Tally* tally : {&by_family[outcome.family], &by_operation[outcome.operation]}) {
      ++tally->cases;
      tally->failures += failed ? 1 : 0;
      tally->refused += outcome.refused.empty() ? 0 : 1;
      tally->worst = std::max(tally->worst, outcome.worst);
    }
    if (options.verbose) {
      std::cout << seed << " " << elapsed() - before << " s, worst " << outcome.worst << " " << outcome.worst_name
                << ": " << outcome.what << (outcome.refused.empty() ? "" : ", refused by design: ") << outcome.refused
                << std::endl;
    }
    refused += outcome.refused.empty() ? 0 : 1;
    beyond += outcome.beyond ? 1 : 0;
    if (failed) {
      ++failures;
      report(seed, options.fixed, outcome, options.device);
    }
  }
  for (const auto& table : {by_family, by_operation}) {
    for (const auto& [name, tally] : table) {
      std::printf("%7lld cases, %lld failed, %lld refused by design, largest error over allowed %8.2g  %s\n",
                  static_cast<long long>(tally.cases), static_cast<long long>(tally.failures),
                  static_cast<long long>(tally.refused), tally.worst, name.c_str());
    }
  }
  if (beyond > 0) std::cout << beyond << " cases with gradients beyond float16, which were not compared\n";
  std::cout << cases << " cases, " << failures << " failed, " << refused << " refused by design, seed " << options.seed
            << ", " << elapsed() << " s" << std::endl;
  return failures > 0 ? 1 : 0;
}

}  // namespace
}  // namespace topomask::torture

int main(int argc, char** argv) {
  using namespace topomask::torture;
  if (argc == 2 && std::string(argv[1]) == "--help") {
    std::cout << kUsage;
    return 0;
  }
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS}) std::signal(signal, crashed);
  static Quiet quiet;
  c10::WarningUtils::set_warning_handler(&quiet);
  Options options;
  try {
    options = parsed(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "topomask_torture: " << error.what() << "\n" << kUsage;
    return 2;
  }
  return options.one ? run_one(options) : run_many(options);
}
