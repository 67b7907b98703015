#!/usr/bin/env bash
# Compiles every CUDA file by itself, without torch: kernels see raw pointers only. Skips where nvcc is absent.
set -euo pipefail
cd "$(dirname "$0")/.."

readarray -t files < <(find src bench tests -name '*.cu' | sort)
if ((${#files[@]} == 0)); then
  echo "no .cu files"
  exit 0
fi
if ! command -v nvcc >/dev/null; then
  echo "nvcc is not on the PATH: ${#files[@]} .cu files not compiled"
  exit 0
fi
for file in "${files[@]}"; do
  echo "nvcc $file"
  nvcc -std=c++20 -O1 -arch="${CUDA_ARCH:-sm_90}" -Iinclude -Isrc -c "$file" -o /dev/null
done
