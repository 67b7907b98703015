#!/usr/bin/env bash
# Formats every C++, CUDA and Python file in place and wraps the Markdown pages; with --check it only reports what differs,
# and fails if anything does. Python is also checked for names that are undefined, unused or defined twice, by a ruff of one
# version that is installed into build/lint; where pip finds none, Python is left out and a message says so.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly wanted=14
clang_format=$(command -v "clang-format-$wanted" || command -v clang-format)
if ! "$clang_format" --version | grep -q "version $wanted\."; then
  echo "format.sh: the tree is formatted with clang-format $wanted; another version may differ:" >&2
  "$clang_format" --version >&2
fi

options=(-i)
[[ ${1:-} == --check ]] && options=(--dry-run --Werror)

folders=()
for folder in include src apps tools tests bench examples; do
  [[ -d $folder ]] && folders+=("$folder")
done
find "${folders[@]}" -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 -r "$clang_format" --style=file "${options[@]}"

readonly ruff_version=0.17.5
ruff=build/lint/bin/ruff
if [[ $("$ruff" --version 2>/dev/null) != "ruff $ruff_version" ]]; then
  python3 -m venv build/lint && build/lint/bin/pip install -q --disable-pip-version-check "ruff==$ruff_version" ||
    printf '\n!! PYTHON IS NOT CHECKED: ruff %s could not be installed.\n\n' "$ruff_version" >&2
fi
if [[ -x $ruff ]]; then
  if [[ ${1:-} == --check ]]; then
    "$ruff" format --quiet --diff .
    "$ruff" check --quiet .
  else
    "$ruff" format --quiet .
    "$ruff" check --quiet --fix .
  fi
fi

wrap=(--wrap)
[[ ${1:-} == --check ]] && wrap=()
python3 scripts/check_docs.py "${wrap[@]}"
