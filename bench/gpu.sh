#!/bin/bash
# Builds for the GPU of this machine, checks the kernels, compares their times with what torch offers, and ends with what each is
# held to, in one run:
#
#   bench/gpu.sh [OUT]              tables on the terminal; JSON and text in OUT (build/gpu)
#   ROWS=learning bench/gpu.sh      what is held to a target alone: under five minutes after the build
#
#   BUILD=0    the library of TOPOMASK_LIBRARY, or of build/cuda, as it is; without tests
#   CHECK=0    without tests
#   PARTS="gpu fused icosphere whole_graph"    the programs to run; ROWS are those of gpu.py
#
# Needs nvcc and a CUDA-enabled torch. CMAKE_ARGS is passed on.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/gpu}
mkdir -p "$out"
python=${TORCH_PYTHON:-python3}

if [ "${BUILD:-1}" != 0 ]; then
  command -v nvcc > /dev/null || { echo "bench/gpu.sh: nvcc must be on the PATH" >&2; exit 1; }
  # shellcheck disable=SC2086
  cmake --preset cuda -DTOPOMASK_BENCH=OFF -DTOPOMASK_EXAMPLES=OFF ${CMAKE_ARGS:-} > "$out/configure.log" ||
    { tail -20 "$out/configure.log" >&2; exit 1; }
  targets=(topomask)
  [ "${CHECK:-1}" = 0 ] || targets+=(test_cuda)
  cmake --build build/cuda --target "${targets[@]}" > "$out/build.log" || { grep -E 'error|FAILED' "$out/build.log" >&2; exit 1; }
  export TOPOMASK_LIBRARY=$PWD/build/cuda/lib/libtopomask.so
fi
export TOPOMASK_LIBRARY=${TOPOMASK_LIBRARY:-$PWD/build/cuda/lib/libtopomask.so} PYTHONPATH=$PWD/python${PYTHONPATH:+:$PYTHONPATH}
if [ "${BUILD:-1}" != 0 ] && [ "${CHECK:-1}" != 0 ]; then
  build/cuda/tests/test_cuda --gtest_brief=1
  "$python" -W ignore tests/python/test_cuda_ops.py
fi

# A part that fails leaves its bars unmeasured, and the others run.
failed=0
part() {  # NAME ARGUMENTS: bench/NAME.py, and what it prints
  case " ${PARTS:-gpu fused icosphere whole_graph} " in *" $1 "*) ;; *) return 0 ;; esac
  local from=$SECONDS
  echo "== $*"
  "$python" -W ignore "bench/$1.py" "${@:2}" --json "$out/$1.json" | tee "$out/$1.txt" || { failed=1; echo "bench/$1.py failed" >&2; }
  echo "== $1 took $((SECONDS - from)) s"
}
rm -f "$out"/{gpu,fused,icosphere,whole_graph}.json
part gpu --rows "${ROWS:-building,batch,attention,learning}"
part whole_graph --side 1410 --device cuda --autocast bfloat16 --profile 25
part icosphere --levels 6 --hops 16 --methods "topomask,SDPA block-banded mask,FlexAttention block mask"
part fused
"$python" bench/bars.py "$out"
exit $failed
