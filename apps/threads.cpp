#include "threads.h"

#include <ATen/Parallel.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "core/threads.h"

namespace topomask::apps {
namespace {

template <size_t kCount>
bool any_is_set(const std::array<const char*, kCount>& variables) {
  return std::any_of(variables.begin(), variables.end(), [](const char* name) { return std::getenv(name) != nullptr; });
}

bool runs_a_model(const std::string& command) {
  return command == "train" || command == "eval" || command == "predict" || command == "report";
}

}  // namespace

int64_t default_threads(const std::string& command) {
  constexpr int64_t kMostForModels = 8;
  const int64_t by_torch = at::get_num_threads();
  if (any_is_set(std::array{"OMP_NUM_THREADS", "MKL_NUM_THREADS"})) return by_torch;
  const int64_t threads = std::min(by_torch, usable_cpus());
  return runs_a_model(command) ? std::min(threads, kMostForModels) : threads;
}

void restart_with_sleeping_threads(char** argv) {
  constexpr const char* kPolicy = "OMP_WAIT_POLICY";
  if (any_is_set(std::array{kPolicy, "GOMP_SPINCOUNT", "KMP_BLOCKTIME"})) return;
  // A program that the dynamic loader was called with (`ld.so topomask …`) has no file of its own to start again.
  if (::getauxval(AT_BASE) == 0) return;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || ::setenv(kPolicy, "passive", 1) != 0) return;
  ::execv(program.c_str(), argv);
  ::unsetenv(kPolicy);  // it could not be started: the command runs in this process
}

}  // namespace topomask::apps
