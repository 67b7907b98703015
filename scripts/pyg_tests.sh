#!/usr/bin/env bash
# Runs PyG's own tests of TransformerConv with topomask's layer in its place. The tests are fetched, never kept.
#   scripts/pyg_tests.sh [PATH]   PATH: a clone of PyG, or a copy of its test/nn/conv/test_transformer_conv.py; fetched from GitHub
#                                 where left out, for the version that is installed. PyG's source distributions hold no tests.
#   PYTHON            a python with torch_geometric, pytest and topomask installed (python3); PYTHONPATH and TOPOMASK_LIBRARY as ever
# Exit status 77 where something is missing.
set -euo pipefail

python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
skip() {
  echo "pyg_tests.sh: skipped: $*" >&2
  exit 77
}

version=$("$python" -W ignore -c 'import pytest, torch_geometric; print(torch_geometric.__version__)' 2>/dev/null) ||
  skip "$python has no torch_geometric or no pytest"
if (($#)); then
  file=$1
  [[ -d $1 ]] && file=$1/test/nn/conv/test_transformer_conv.py
  [[ -f $file ]] || skip "there is no $file"
  cp "$file" "$folder/test_transformer_conv.py"
else
  url=https://raw.githubusercontent.com/pyg-team/pytorch_geometric/$version/test/nn/conv/test_transformer_conv.py
  "$python" - "$url" "$folder/test_transformer_conv.py" 2>/dev/null <<'FETCH' || skip "$url could not be fetched"
import sys, urllib.request
with urllib.request.urlopen(sys.argv[1], timeout=60) as answer, open(sys.argv[2], "wb") as file:
    file.write(answer.read())
FETCH
fi
# The one change: which layer is tested.
sed -i 's/^from torch_geometric.nn import TransformerConv$/from topomask.pyg import TransformerConv/' "$folder/test_transformer_conv.py"
grep -q '^from topomask.pyg import TransformerConv$' "$folder/test_transformer_conv.py" ||
  skip "the tests no longer import TransformerConv from torch_geometric.nn"
cd "$folder"
"$python" -W ignore -m pytest -q -p no:cacheprovider test_transformer_conv.py
