#!/usr/bin/env bash
# Formats every C++ and CUDA file in place and wraps the Markdown pages; with --check it only reports what differs, and
# fails if anything does.
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
for folder in include src apps tests bench examples; do
  [[ -d $folder ]] && folders+=("$folder")
done
find "${folders[@]}" -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 -r "$clang_format" --style=file "${options[@]}"

wrap=(--wrap)
[[ ${1:-} == --check ]] && wrap=()
python3 scripts/check_docs.py "${wrap[@]}"
