#!/usr/bin/env bash
# Configures a preset and builds the targets named, or everything. Quick where nothing changed.
#   PRESET      a preset of CMakePresets.json (release)
#   BUILD_DIR   where to build (build/$PRESET)
#   JOBS        compilers at once; otherwise a core each, with 2 GiB of memory each
#   CMAKE_ARGS  further arguments of the configuration
#   TORCH, TORCH_PYTHON, PYTHON  see torch.sh
set -euo pipefail

torch=$("$(dirname "$0")/torch.sh")
cd "$(dirname "$0")/.."

preset=${PRESET:-release}
build_dir=${BUILD_DIR:-build/$preset}
jobs=${JOBS:-}
if [[ -z $jobs ]]; then
  jobs=$(nproc)
  by_memory=$(awk '/^MemAvailable/ { print int($2 / 2097152) }' /proc/meminfo)
  ((by_memory < jobs)) && jobs=$by_memory
  ((jobs < 1)) && jobs=1
fi

read -r -a cmake_args <<<"${CMAKE_ARGS:-}"
cmake --preset "$preset" -B "$build_dir" -DTOPOMASK_TORCH="$torch" "${cmake_args[@]}"
targets=()
(($#)) && targets=(--target "$@")
cmake --build "$build_dir" -j "$jobs" "${targets[@]}"
