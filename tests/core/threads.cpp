#include "core/threads.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>

#include <mutex>
#include <set>
#include <thread>

#include "data/files.h"

namespace topomask {
namespace {

using testing::TemporaryFolder;
using testing::write_file;

int64_t threads_of_a_loop() {
  std::set<std::thread::id> seen;
  std::mutex mutex;
  at::parallel_for(0, 64, 1, [&](int64_t, int64_t) {
    const std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  return std::ssize(seen);
}

TEST(Threads, AThreadThatComputesAloneStartsNoOthers) {
  const int before = at::get_num_threads();
  at::set_num_threads(4);
  int64_t loop = 0, torch = 0, openmp = 0;
  std::thread([&] {
    compute_on_this_thread_only();
    at::ones({1 << 18}).sum().item<double>();
    const at::Tensor matrix = at::ones({256, 256});
    at::matmul(matrix, matrix);
    loop = threads_of_a_loop();
    torch = at::get_num_threads();
    openmp = omp_get_max_threads();
  }).join();
  EXPECT_EQ(loop, 1);
  EXPECT_EQ(torch, 1);
  EXPECT_EQ(openmp, 1);
  EXPECT_EQ(at::get_num_threads(), 4) << "other threads keep theirs";
  at::set_num_threads(before);
}

TEST(Threads, UsableCpusFollowTheAffinityOfTheProcess) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  const int64_t all = usable_cpus();
  EXPECT_GE(all, 1);
  EXPECT_LE(all, CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &before)) continue;
    CPU_SET(cpu, &one);
    break;
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(usable_cpus(), 1);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(usable_cpus(), all);
}

TEST(Threads, TheQuotaOfAControlGroupIsRoundedUp) {
  const TemporaryFolder root;
  EXPECT_EQ(cpu_quota(root.path(), "0::/\n"), 0);
  write_file(root / "cpu.max", "max 100000\n");
  EXPECT_EQ(cpu_quota(root.path(), "0::/\n"), 0);
  write_file(root / "cpu.max", "150000 100000\n");
  EXPECT_EQ(cpu_quota(root.path(), "0::/\n"), 2);
  write_file(root / "cpu.max", "10000 100000\n");
  EXPECT_EQ(cpu_quota(root.path(), "0::/\n"), 1);
  write_file(root / "cpu.max", "nonsense\n");
  EXPECT_EQ(cpu_quota(root.path(), "0::/\n"), 0);
  EXPECT_EQ(cpu_quota(root.path(), ""), 0);
}

TEST(Threads, TheLeastQuotaOfAGroupAndThoseAboveItCounts) {
  const TemporaryFolder root;
  const std::string group = "0::/slice/job\n";
  write_file(root / "slice/job/cpu.max", "800000 100000\n");
  EXPECT_EQ(cpu_quota(root.path(), group), 8);
  write_file(root / "slice/cpu.max", "300000 100000\n");
  EXPECT_EQ(cpu_quota(root.path(), group), 3);
  write_file(root / "slice/job/cpu.max", "200000 100000\n");
  EXPECT_EQ(cpu_quota(root.path(), group), 2);
}

TEST(Threads, QuotasOfVersionOneAreRead) {
  const TemporaryFolder root;
  const std::string group = "5:memory:/other\n4:cpu,cpuacct:/job\n";
  write_file(root / "cpu/job/cpu.cfs_quota_us", "-1\n");
  write_file(root / "cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(root.path(), group), 0);
  write_file(root / "cpu/job/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(cpu_quota(root.path(), group), 3);
}

}  // namespace
}  // namespace topomask
