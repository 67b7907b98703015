#!/usr/bin/env bash
# Prints the torch folder to build against (the one that holds include/ and lib/). Messages go to stderr.
#   TORCH         that folder itself; nothing is installed
#   TORCH_PYTHON  a python whose torch is taken; nothing is installed
#   otherwise     the .venv of this checkout, created, completed or repaired where needed
#   PYTHON        the python that .venv is created with; otherwise the first fit one on the PATH
set -euo pipefail

readonly wanted=2.13.0

fail() {
  echo "torch.sh: $*" >&2
  exit 1
}

print_folder() {
  [[ -f $1/include/ATen/ATen.h && -f $1/lib/libtorch_cpu.so ]] ||
    fail "$2 must lead to a folder with include/ATen/ATen.h and lib/libtorch_cpu.so, got '$1'"
  realpath "$1"
  exit 0
}

if [[ -n ${TORCH:-} ]]; then
  print_folder "$TORCH" TORCH
fi
if [[ -n ${TORCH_PYTHON:-} ]]; then
  folder=$("$TORCH_PYTHON" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])' \
    2>/dev/null) || fail "TORCH_PYTHON must be a python that has torch, got '$TORCH_PYTHON'"
  print_folder "$folder" TORCH_PYTHON
fi

cd "$(dirname "$0")/.."

venv_folder() { compgen -G '.venv/lib/python3*/site-packages/torch/lib/libtorch_cpu.so' | head -n 1 | sed 's|/lib/libtorch_cpu.so$||'; }

# The stamp is written last, so an interrupted installation has none.
readonly stamp=.venv/.torch-installed
if [[ -f $stamp && $(<"$stamp") == "$wanted" ]]; then
  folder=$(venv_folder)
  [[ -n $folder ]] && print_folder "$folder" .venv
fi

# A python for which the wheel exists and that can make a virtual environment.
is_fit() {
  "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))' >/dev/null 2>&1
}
find_python() {
  local candidate
  for candidate in ${PYTHON:+"$PYTHON"} python3 /usr/bin/python3 python3.13 python3.12 python3.11; do
    if is_fit "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  fail "needs a python from 3.10 to 3.14 with the venv module (Debian: python3-venv); PYTHON names one"
}
has_torch() {
  .venv/bin/python -c "import sys, torch; sys.exit(torch.__version__.split('+')[0] != '$wanted')" >/dev/null 2>&1
}
install_torch() {
  has_torch || .venv/bin/python -m pip install "torch==$wanted" >&2 || return 1
  has_torch
}
create_venv() {
  local python
  python=$(find_python)
  echo "Creating .venv with $python" >&2
  rm -rf .venv
  "$python" -m venv .venv >&2
}

repaired=0
if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
  create_venv
  repaired=1
fi
if ! install_torch; then
  ((repaired)) && fail "torch $wanted could not be installed; TORCH names a torch folder to use instead"
  echo "The torch in .venv does not load; starting afresh" >&2
  create_venv
  install_torch || fail "torch $wanted could not be installed; TORCH names a torch folder to use instead"
fi
echo "$wanted" >"$stamp"
print_folder "$(venv_folder)" .venv
