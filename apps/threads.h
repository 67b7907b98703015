#pragma once

#include <cstdint>
#include <string>

namespace topomask::apps {

/// The number of threads of a command where neither --threads nor OMP_NUM_THREADS (MKL_NUM_THREADS) is given: torch's
/// default, at most one for each CPU this process may use; commands that run a model (train, eval, predict, report)
/// take at most eight. The operators of a small model are short, and every thread is woken for each of them.
int64_t default_threads(const std::string& command);

/// Lets OpenMP threads that wait for work sleep, where the environment does not say how they wait. By default they spin
/// for milliseconds, and slow down everything else on a machine that is busy, other training runs above all. libgomp
/// reads the setting when it is loaded, so the process replaces itself by one that has it (0.15 s).
void restart_with_sleeping_threads(char** argv);

}  // namespace topomask::apps
