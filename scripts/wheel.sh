#!/usr/bin/env bash
# Builds the wheel of the Python package into dist/, against the torch that torch.sh names, and prints its path.
# Its name says for which torch, and whether for CUDA: topomask-0.1.0+torch2.13.cpu-….whl.
#   scripts/wheel.sh [--test]
# --test: tests/python/test_wheel.py then installs that wheel into a fresh environment that has only torch, and runs it from there.
# Objects are kept in build/wheel, so that only sources that changed are compiled again.
#   CMAKE_ARGS, JOBS             see build.sh
#   TORCH, TORCH_PYTHON, PYTHON  see torch.sh
# Exit status 77, after a message, where scikit-build-core is not installed and pip finds none.
set -euo pipefail

if (($# > 1)) || [[ ${1:---test} != --test ]]; then
  echo "usage: scripts/wheel.sh [--test]" >&2
  exit 2
fi
torch=$("$(dirname "$0")/torch.sh")
cd "$(dirname "$0")/.."

python=${TORCH_PYTHON:-.venv/bin/python}
if ! "$python" -c 'import scikit_build_core' 2>/dev/null; then
  if ! "$python" -m pip install 'scikit-build-core>=0.10,<2' >&2; then
    printf '\n!! NO WHEEL WAS BUILT: pip finds no scikit-build-core.\n\n' >&2
    exit 77
  fi
fi
export TOPOMASK_TORCH=$torch
label=$("$python" python/build_support/torch_found.py --label)
made=build/wheel/$label/dist
export SKBUILD_BUILD_DIR=build/wheel/$label/cmake CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)} SKBUILD_CMAKE_DEFINE="TOPOMASK_TORCH=$torch"
rm -rf "$made"
"$python" -m pip wheel --no-build-isolation --no-deps --wheel-dir "$made" . >&2
wheel=dist/$(basename "$made"/*.whl)
mkdir -p dist
mv "$made"/*.whl "$wheel"
echo "$wheel"
if (($#)); then
  TOPOMASK_WHEEL=$wheel OMP_NUM_THREADS=${OMP_NUM_THREADS:-2} "$python" -W ignore tests/python/test_wheel.py
fi
