#!/usr/bin/env bash
# Prints the folder of MuJoCo to build the simulator against (the one that holds include/mujoco and libmujoco.so.4.*).
# Messages go to stderr.
#   MUJOCO     that folder itself; nothing is fetched
#   otherwise  build/mujoco, with PyPI's wheel mujoco-core fetched there where it is missing
set -euo pipefail

readonly wanted=4.0.0

fail() {
  echo "mujoco.sh: $*" >&2
  exit 1
}

is_whole() { [[ -f $1/include/mujoco/mujoco.h ]] && compgen -G "$1/libmujoco.so.4.*" >/dev/null; }

if [[ -n ${MUJOCO:-} ]]; then
  is_whole "$MUJOCO" || fail "MUJOCO must be a folder with include/mujoco/mujoco.h and libmujoco.so.4.*, got '$MUJOCO'"
  realpath "$MUJOCO"
  exit 0
fi

cd "$(dirname "$0")/.."
readonly folder=build/mujoco/$wanted
if ! is_whole "$folder/mujoco"; then
  python=.venv/bin/python
  "$python" -m pip --version >/dev/null 2>&1 || fail "needs .venv, which scripts/torch.sh makes; MUJOCO names a folder to use instead"
  rm -rf "$folder"
  # Unpacked next to its place and renamed, so that an interrupted download leaves nothing that looks whole.
  mkdir -p "$(dirname "$folder")"
  part=$(mktemp -d build/.mujoco-XXXXXX)
  trap 'rm -rf "$part"' EXIT
  echo "Fetching mujoco-core $wanted" >&2
  "$python" -m pip download --quiet --no-deps --only-binary :all: --dest "$part" "mujoco-core==$wanted" >&2 ||
    fail "mujoco-core $wanted could not be fetched from PyPI; MUJOCO names a folder to use instead"
  "$python" -m zipfile -e "$part"/mujoco_core-*.whl "$part/wheel" >&2
  is_whole "$part/wheel/mujoco" || fail "the wheel of mujoco-core $wanted has no library and headers"
  mv "$part/wheel" "$folder"
fi
realpath "$folder/mujoco"
