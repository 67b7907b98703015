#!/bin/bash
# Builds for the GPU of this machine, checks the kernels and times them beside what torch offers, in one run:
#
#   bench/gpu.sh [OUT]        table on the terminal; OUT/gpu.json and OUT/gpu.txt (build/gpu)
#
# Needs nvcc and a CUDA-enabled torch. CMAKE_ARGS is passed on, CHECK=0 leaves out the tests.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/gpu}
mkdir -p "$out"
python=${TORCH_PYTHON:-python3}
command -v nvcc > /dev/null || { echo "bench/gpu.sh: nvcc must be on the PATH" >&2; exit 1; }

# shellcheck disable=SC2086
cmake --preset cuda -DTOPOMASK_BENCH=OFF -DTOPOMASK_EXAMPLES=OFF ${CMAKE_ARGS:-} > "$out/configure.log" ||
  { tail -20 "$out/configure.log" >&2; exit 1; }
targets=(topomask)
[ "${CHECK:-1}" = 0 ] || targets+=(test_cuda)
cmake --build build/cuda --target "${targets[@]}" > "$out/build.log" || { grep -E 'error|FAILED' "$out/build.log" >&2; exit 1; }

export TOPOMASK_LIBRARY=$PWD/build/cuda/lib/libtopomask.so
if [ "${CHECK:-1}" != 0 ]; then
  build/cuda/tests/test_cuda --gtest_brief=1
  "$python" -W ignore tests/python/test_cuda_ops.py
fi
"$python" -W ignore bench/gpu.py --json "$out/gpu.json" | tee "$out/gpu.txt"
