#!/usr/bin/env bash
# Runs every test of the Python package, also those that need more than torch: PyG, transformers, timm, NetworkX, SciPy, pictures,
# types, notebooks, torch.compile with inductor, and PyG's own tests of TransformerConv. Builds the library; installs the rest into
# build/python-env, which uses the torch that torch.sh names. A test whose package is not installed fails here (TOPOMASK_ALL);
# elsewhere it is skipped.
#   PRESET, BUILD_DIR, JOBS, CMAKE_ARGS  see build.sh
#   TORCH_PYTHON, PYTHON                 see torch.sh
#   PYG_TESTS                            a copy of PyG's tests, see pyg_tests.sh
# Exit status 77, after a message, where pip reaches no package index and the packages are not there already.
set -euo pipefail
cd "$(dirname "$0")/.."

loudly() { printf '\n!! %s\n\n' "$*" >&2; }

build_dir=${BUILD_DIR:-build/${PRESET:-release}}
scripts/build.sh topomask
torch=$(scripts/torch.sh)
base=${TORCH_PYTHON:-.venv/bin/python}
environment=$PWD/build/python-env
python=$environment/bin/python

[[ -x $python ]] || "$base" -m venv "$environment"
site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
dirname "$torch" >"$site/torch.pth"  # the environment sees that torch, and pip takes no other
version=$("$python" -W ignore -c 'import torch; print(torch.__version__.split("+")[0])')
echo "torch==$version" >"$environment/constraints.txt"
pip_() { "$python" -m pip "$1" -q --disable-pip-version-check "${@:2}"; }
index_answers() { pip_ download --no-deps --dest "$environment/download" --no-cache-dir nbformat; }

if ! pip_ install -c "$environment/constraints.txt" numpy scipy networkx matplotlib nbclient nbformat ipykernel mypy pytest \
  torch_geometric transformers accelerate timm; then
  index_answers && exit 1
  loudly 'THE PYTHON TESTS WITH PyG, transformers, timm, SciPy, TYPES AND NOTEBOOKS WERE NOT RUN: pip reaches no package index.'
  exit 77
fi
# timm brings torchvision, which some indexes have for CUDA alone.
if ! "$python" -W ignore -c 'import torchvision' 2>/dev/null; then
  cp tests/python/torchvision_operators.py "$site"
  echo 'import torchvision_operators' >"$site/torchvision_operators.pth"
  "$python" -W ignore -c 'import torchvision'
fi

export TOPOMASK_LIBRARY=$PWD/$build_dir/lib/libtopomask.so PYTHONPATH=$PWD/python TOPOMASK_ALL=1
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2} OMP_WAIT_POLICY=passive  # as for ctest, see tests/CMakeLists.txt
run() {
  echo "== ${*#tests/python/}"
  "$python" -W ignore "$@"
}
run tests/python/run_package.py package
TOPOMASK_INDUCTOR=1 run tests/python/run_package.py compile
run tests/python/test_typing.py
run tests/python/test_notebooks.py
status=0
PYTHON=$python scripts/pyg_tests.sh ${PYG_TESTS:+"$PYG_TESTS"} || status=$?
if ((status == 77)); then
  loudly "PyG'S OWN TESTS OF TransformerConv WERE NOT RUN: see above. PYG_TESTS names a copy of test_transformer_conv.py."
  status=0
fi
exit "$status"
