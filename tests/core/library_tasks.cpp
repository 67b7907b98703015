#include "core/library_tasks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace topomask {
namespace {

TEST(LibraryTasks, AreAllDoneOnce) {
  for (const int64_t tasks : {0, 1, 2, 63}) {
    for (const int64_t grain : {1, 5, 100}) {
      std::vector<int> done(tasks, 0);
      for_library_tasks(tasks, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++done[i];
      });
      EXPECT_EQ(done, std::vector<int>(tasks, 1)) << tasks << " tasks, grain " << grain;
    }
  }
}

/// Lengths and sizes that the library shares out among its threads, with other results.
TEST(LibraryTasks, GiveOneResultForAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  const at::Tensor line = at::rand({1, 20480}), lines = at::rand({7, 64}), left = at::rand({1147, 8}, at::kDouble);
  std::vector<at::Tensor> expected;
  for (const int count : {1, 2, 7}) {
    at::set_num_threads(count);
    for (const int64_t tasks : {1, 2, 9}) {
      std::vector<std::vector<at::Tensor>> results(tasks);
      for_library_tasks(tasks, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          results[i] = {at::view_as_real(at::fft_rfft(line)), at::view_as_real(at::fft_rfft(lines)),
                        at::matmul(left, left.t()), at::view_as_real(at::fft_rfft(line)).sum(1)};
        }
      });
      if (expected.empty()) expected = results[0];
      for (const auto& result : results) {
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_TRUE(result[i].equal(expected[i])) << i << ", " << count << " threads, " << tasks << " tasks";
        }
      }
    }
  }
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace topomask
