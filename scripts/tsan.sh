#!/usr/bin/env bash
# Builds tests with the thread sanitizer and runs them: kernels, walks, the memory that is kept, the data loader.
#   tsan.sh [FILTER]   a --gtest_filter; otherwise every quick test of the areas below, but for those of statistics,
#                      which sample for minutes under the sanitizer what others sample too
# A race is reported with both stacks and fails the run. at::parallel_for runs on std::thread in this build
# (tests/support/thread_parallel.h).
#   TSAN_AREAS  test programs, in place of those below
#   PRESET=tsan, BUILD_DIR, JOBS, CMAKE_ARGS, TORCH ... see build.sh
set -euo pipefail

cd "$(dirname "$0")/.."
export PRESET=tsan BUILD_DIR=${TSAN_BUILD_DIR:-build/tsan}
every="core io ops sparse graph graph_io walks masks masks_toeplitz masks_forest masks_diffusion masks_encodings masks_grf
  attention dist nn data tasks"
read -r -a areas <<<"${TSAN_AREAS:-${every//$'\n'/ }}"
scripts/build.sh "${areas[@]/#/test_}"

suppressions=$PWD/tests/support/tsan.supp
export TSAN_OPTIONS="suppressions=$suppressions:second_deadlock_stack=1:history_size=4:exitcode=66 ${TSAN_OPTIONS:-}"
export OMP_WAIT_POLICY=passive
# The sanitizer wants its part of the address space, which a kernel that places memory at random may have given away.
run=()
setarch "$(uname -m)" -R true 2>/dev/null && run=(setarch "$(uname -m)" -R)

status=0
for area in "${areas[@]}"; do
  echo "== $area"
  "${run[@]}" "$BUILD_DIR/tests/test_$area" --gtest_brief=1 --gtest_filter="${1:--*Slow.*:*Slow/*:WalkBias.*}" || status=1
done
exit "$status"
