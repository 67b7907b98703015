#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// From here on torch's operations, this library's loops and matrix products that are called from this thread run on it
/// alone. Threads that prepare data call it first: on many cores the OpenMP threads of two such workers would compete
/// with those of the training step.
void compute_on_this_thread_only();

/// The number of CPUs this process may use: those it may be scheduled on, and no more than the CPU quota of its control
/// group, rounded up (`docker run --cpus 2`), which OpenMP does not look at. At least 1.
int64_t usable_cpus();

/// The CPU quota of a control group and of those above it, in CPUs, rounded up; 0: no quota. `root` is where the
/// hierarchy is mounted (/sys/fs/cgroup), `group` the content of /proc/self/cgroup. Reads version 2, and version 1
/// where its controller is mounted at `root`/cpu.
int64_t cpu_quota(const std::filesystem::path& root, const std::string& group);

}  // namespace topomask
