#!/usr/bin/env bash
# Builds the wheel of the Python package into dist/, against the torch that torch.sh names.
# Its name says for which torch, and whether for CUDA: topomask-0.1.0+torch2.13.cpu-….whl.
#   CMAKE_ARGS, JOBS             see build.sh
#   TORCH, TORCH_PYTHON, PYTHON  see torch.sh
set -euo pipefail

torch=$("$(dirname "$0")/torch.sh")
cd "$(dirname "$0")/.."

python=${TORCH_PYTHON:-.venv/bin/python}
if ! "$python" -c 'import scikit_build_core' 2>/dev/null; then
  "$python" -m pip install 'scikit-build-core>=0.10,<2' >&2
fi
export TOPOMASK_TORCH=$torch
label=$("$python" python/build_support/torch_found.py --label)
export SKBUILD_BUILD_DIR=build/wheel/$label CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)} SKBUILD_CMAKE_DEFINE="TOPOMASK_TORCH=$torch"
"$python" -m pip wheel --no-build-isolation --no-deps --wheel-dir dist .
ls "dist/topomask-"*"+$label-"*.whl
