#!/usr/bin/env bash
# Runs the tests of the Python package that need more than torch: PyG, transformers, timm, NetworkX, SciPy, types, notebooks, and
# PyG's own tests of TransformerConv. Builds the library; installs the rest into build/python-env, beside the torch that torch.sh names.
#   PRESET, BUILD_DIR, JOBS, CMAKE_ARGS  see build.sh
#   TORCH_PYTHON, PYTHON                 see torch.sh
set -euo pipefail
cd "$(dirname "$0")/.."

build_dir=${BUILD_DIR:-build/${PRESET:-release}}
scripts/build.sh topomask
torch=$(scripts/torch.sh)
base=${TORCH_PYTHON:-.venv/bin/python}
python=$PWD/build/python-env/bin/python

if [[ ! -x $python ]]; then
  "$base" -m venv build/python-env
  site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
  dirname "$torch" >"$site/torch.pth"  # the environment sees that torch, and pip takes no other
fi
version=$("$python" -W ignore -c 'import torch; print(torch.__version__.split("+")[0])')
echo "torch==$version" >build/python-env/constraints.txt
install() { "$python" -m pip install -q -c build/python-env/constraints.txt "$@"; }
install numpy scipy networkx matplotlib nbclient nbformat ipykernel mypy pytest torch_geometric transformers
if ! install timm || ! "$python" -W ignore -c 'import torchvision' 2>/dev/null; then
  echo 'python_tests.sh: goes on without timm: no torchvision for this torch' >&2
  "$python" -m pip uninstall -q -y timm torchvision
fi

export TOPOMASK_LIBRARY=$PWD/$build_dir/lib/libtopomask.so PYTHONPATH=$PWD/python
"$python" -W ignore tests/python/run_package.py package
"$python" -W ignore tests/python/test_typing.py
"$python" -W ignore tests/python/test_notebooks.py
status=0
PYTHON=$python scripts/pyg_tests.sh ${PYG_TESTS:+"$PYG_TESTS"} || status=$?
((status == 0 || status == 77))
