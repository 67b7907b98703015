#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>

#include "core/plain_ops.h"

/// Sets how many threads the library behind torch's transforms and matrix products may use for calls from this thread,
/// where that library is MKL; 0: as many as elsewhere. Returns the previous value.
extern "C" __attribute__((weak)) int MKL_Set_Num_Threads_Local(int threads);

namespace topomask {

/// While it lives, transforms and matrix products on this thread run on it alone. The library plans for the threads it
/// may use, even where it gets one, and rounds by its plan.
class OneLibraryThread {
 public:
  OneLibraryThread() : before_(MKL_Set_Num_Threads_Local ? MKL_Set_Num_Threads_Local(1) : 0) {}
  OneLibraryThread(const OneLibraryThread&) = delete;
  OneLibraryThread& operator=(const OneLibraryThread&) = delete;
  ~OneLibraryThread() {
    if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(before_);
  }

 private:
  int before_;
};

/// at::parallel_for for tasks of tensor operations, with one result for any number of threads: each operation runs on
/// the thread of its task.
template <class F>
void for_library_tasks(int64_t tasks, int64_t grain, const F& f) {
  if (tasks == 0) return;
  // A task that torch runs outside of a parallel region would share out its operations: there are always two.
  at::parallel_for(0, std::max(tasks, grain + 1), grain, [&](int64_t begin, int64_t end) {
    const PlainOps plain;
    const OneLibraryThread alone;
    if (begin < std::min(end, tasks)) f(begin, std::min(end, tasks));
  });
}

}  // namespace topomask
