#!/usr/bin/env bash
# Compiles the CUDA side on a machine without a GPU, as far as it goes: every .cu file by itself with nvcc (kernels see raw
# pointers only, no torch), and every cuda.cpp, which registers them, against the CPU build of torch. Nothing is linked or run.
#   JOBS   compilers at once (the number of cores)
# Where nvcc is absent it is taken from PyPI's packages into build/nvcc; where that fails it says so and ends with status 77.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=${JOBS:-$(nproc)}
readarray -t kernels < <(find src bench tests -name '*.cu' | sort)
readarray -t glue < <(find src -name 'cuda.cpp' | sort)

if ! command -v nvcc >/dev/null && [[ ! -x build/nvcc/bin/nvcc ]]; then
  scripts/install_nvcc.sh build/nvcc || {
    printf '\n!! nvcc is absent and could not be installed: %d CUDA files are NOT compiled\n\n' \
      $((${#kernels[@]} + ${#glue[@]}))
    exit 77
  }
fi
nvcc=$(command -v nvcc || echo "$PWD/build/nvcc/bin/nvcc")
include=$(dirname "$("$nvcc" -M -x cu - <<<'#include <cuda_runtime.h>' | grep -o '/[^ ]*/cuda_runtime\.h' | head -n 1)")
torch=$(scripts/torch.sh)/include

# The CPU wheel lacks one header that is made when torch itself is built for CUDA.
stub=$(mktemp -d)
trap 'rm -rf "$stub"' EXIT
mkdir -p "$stub/c10/cuda/impl"
printf '#pragma once\n#define C10_CUDA_BUILD_SHARED_LIBS\n' >"$stub/c10/cuda/impl/cuda_cmake_macros.h"

# As CMakeLists.txt has it: code for every chip of compute capability 9.0, and for fused attention also code with Hopper's
# own instructions (sm_90a), where __CUDA_ARCH_FEAT_SM90_ALL is defined.
compile_kernel() {
  local arch=${CUDA_ARCH:-sm_90} targets
  targets=(--generate-code "arch=${arch/sm_/compute_},code=$arch")
  if [[ $1 == src/ops/fused_attention/* && $arch == sm_90 ]]; then
    targets+=(--generate-code "arch=compute_90a,code=sm_90a")
  fi
  echo "nvcc $1"
  exec "$nvcc" -std=c++20 -O1 "${targets[@]}" -Iinclude -Isrc -c -o /dev/null "$1"
}
export nvcc
export -f compile_kernel
# shellcheck disable=SC2016  # for the inner shell
printf '%s\0' "${kernels[@]}" | xargs -0 -P "$jobs" -I{} bash -c 'compile_kernel "$1"' compile {}

# What every glue file includes is parsed once, which takes far longer than the rest of each.
printf '#include <%s>\n' ATen/ATen.h c10/cuda/CUDAException.h c10/cuda/CUDAGuard.h c10/cuda/CUDAStream.h torch/library.h \
  >"$stub/glue.h"
flags=(-std=c++20 -Wall -Wextra -Wno-psabi -Wno-missing-field-initializers -Werror -Iinclude -Isrc
  -isystem "$stub" -isystem "$torch" -isystem "$torch/torch/csrc/api/include" -isystem "$include")
c++ "${flags[@]}" -x c++-header "$stub/glue.h" -o "$stub/glue.h.gch"
printf '%s\0' "${glue[@]}" | xargs -0 -P "$jobs" -I{} sh -c 'echo "c++ {}"; exec "$@" {}' compile \
  c++ -fsyntax-only "${flags[@]}" -Winvalid-pch -include "$stub/glue.h"
