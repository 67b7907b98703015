#!/usr/bin/env bash
# Runs clang-tidy on the files named. Its build folder is configured but never built: GCC's precompiled headers would be in
# clang's way.
set -euo pipefail

torch=$("$(dirname "$0")/torch.sh")
cd "$(dirname "$0")/.."
if (($# == 0)); then
  echo "tidy.sh: FILE must name a source file" >&2
  exit 2
fi
cmake --preset release -B build/tidy -DTOPOMASK_TORCH="$torch" -DCMAKE_UNITY_BUILD=OFF >/dev/null
# Without OpenMP: clang does not find GCC's omp.h.
clang-tidy -p build/tidy --quiet --extra-arg=-fno-openmp "$@"
