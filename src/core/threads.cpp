#include "core/threads.h"

#include <ATen/Parallel.h>
#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>

#include "core/library_tasks.h"

namespace topomask {
namespace {

/// The first word of a file is the quota and the second, or that of another file, the period, both in microseconds;
/// "max" and -1 are no quota.
int64_t quota_in(const std::filesystem::path& quota_file, const std::filesystem::path& period_file) {
  std::ifstream file(quota_file);
  int64_t quota = 0, period = 0;
  if (!(file >> quota)) return 0;
  if (!(file >> period)) std::ifstream(period_file) >> period;
  return quota > 0 && period > 0 ? (quota + period - 1) / period : 0;
}

/// The path of a line such as 0::/user.slice or 4:cpu,cpuacct:/user.slice whose controllers are these.
std::string path_of(const std::string& group, const std::string& controller) {
  const auto listed = [](const std::string& names) { return ',' + names + ','; };
  std::istringstream lines(group);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = listed(line.substr(first + 1, second - first - 1));
    if (controllers == listed(controller) ||
        (!controller.empty() && controllers.find(listed(controller)) != std::string::npos)) {
      return line.substr(second + 1);
    }
  }
  return "/";
}

int64_t schedulable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return std::thread::hardware_concurrency();  // more CPUs than a set has bits
}

}  // namespace

void compute_on_this_thread_only() {
  // On a new thread torch sets the number of OpenMP threads when it first meets parallel work, once in its library and
  // once in ours, which would undo a number that was set before.
  at::get_num_threads();
  at::internal::lazy_init_num_threads();
  omp_set_num_threads(1);
  if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(1);
}

int64_t cpu_quota(const std::filesystem::path& root, const std::string& group) {
  int64_t least = 0;
  const auto consider = [&](int64_t quota) {
    if (quota > 0) least = least == 0 ? quota : std::min(least, quota);
  };
  const auto walk_up = [&](const std::filesystem::path& mount, const std::string& path, const char* quota,
                           const char* period) {
    for (auto folder = std::filesystem::path(path).relative_path();; folder = folder.parent_path()) {
      consider(quota_in(mount / folder / quota, mount / folder / period));
      if (folder.empty()) break;
    }
  };
  walk_up(root, path_of(group, ""), "cpu.max", "");
  walk_up(root / "cpu", path_of(group, "cpu"), "cpu.cfs_quota_us", "cpu.cfs_period_us");
  return least;
}

int64_t usable_cpus() {
  std::ostringstream group;
  group << std::ifstream("/proc/self/cgroup").rdbuf();
  const int64_t quota = cpu_quota("/sys/fs/cgroup", group.str()), cpus = std::max<int64_t>(1, schedulable_cpus());
  return quota > 0 ? std::min(quota, cpus) : cpus;
}

}  // namespace topomask
