#pragma once

#include <c10/macros/Export.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

// at::parallel_for on std::thread, for the thread sanitizer (preset tsan). The sanitizer knows what std::thread does
// and sees nothing of libgomp, whose start and end of a parallel region look to it like no synchronisation at all.
// Torch's header asks for at::internal::invoke_parallel once INTRA_OP_PARALLEL is defined; this file is in front of it
// in the precompiled headers, and the library is compiled without -fopenmp, so that torch brings none of its own.

#ifdef _OPENMP
#error "thread_parallel.h replaces OpenMP: compile without -fopenmp"
#endif
#define INTRA_OP_PARALLEL

namespace at {

TORCH_API int get_num_threads();
TORCH_API int get_thread_num();

namespace internal {

TORCH_API void set_thread_num(int);
inline void lazy_init_num_threads();  // defined in torch's header

/// As in a parallel region of OpenMP: torch's own operations on this thread run on it alone. Torch sets the number of
/// threads when a thread first asks for it, once in its library and once in ours, so that both are asked first.
inline void compute_alone() {
  get_num_threads();
  lazy_init_num_threads();
  omp_set_num_threads(1);
}

/// Whether this thread is one of a parallel region: loops inside of it run in it alone, as torch does.
inline thread_local bool inside_parallel = false;

/// The ranges that torch's own version makes, each in a thread of its own; the first exception is thrown again.
template <typename F>
inline void invoke_parallel(int64_t begin, int64_t end, int64_t grain_size, const F& f) {
  const auto run = [&f](int64_t first, int64_t last, int number) {
    const int outer = get_thread_num();
    const bool nested = inside_parallel;
    const auto restore = [&] {
      set_thread_num(outer);
      inside_parallel = nested;
    };
    set_thread_num(number);
    inside_parallel = true;
    try {
      f(first, last);
    } catch (...) {
      restore();
      throw;
    }
    restore();
  };
  if (inside_parallel) return run(begin, end, 0);
  int64_t count = get_num_threads();
  if (grain_size > 0) count = std::min(count, (end - begin + grain_size - 1) / grain_size);
  const int64_t chunk = (end - begin + count - 1) / count;
  std::atomic_flag failed = ATOMIC_FLAG_INIT;
  std::exception_ptr error;
  std::vector<std::thread> threads;
  for (int64_t number = 0; number < count && begin + number * chunk < end; ++number) {
    threads.emplace_back([&, number, first = begin + number * chunk] {
      compute_alone();
      try {
        run(first, std::min(end, first + chunk), static_cast<int>(number));
      } catch (...) {
        if (!failed.test_and_set()) error = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace internal
}  // namespace at
