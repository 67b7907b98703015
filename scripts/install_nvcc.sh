#!/usr/bin/env bash
# Puts nvcc and CUDA's headers from PyPI's packages into a folder, for machines that have no CUDA toolkit:
#   scripts/install_nvcc.sh FOLDER
set -euo pipefail
folder=$1
mkdir -p "$folder"
python3 -m pip download -q --no-deps --only-binary=:all: -d "$folder/wheels" \
  nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-crt nvidia-nvvm nvidia-cuda-cccl
for wheel in "$folder"/wheels/*.whl; do python3 -m zipfile -e "$wheel" "$folder/unpacked"; done
root=$(dirname "$(dirname "$(find "$folder/unpacked" -path '*/bin/nvcc' | head -n 1)")")
[[ -d $root ]]
find "$root" -path '*/bin/*' -type f -exec chmod +x {} +
for part in "$root"/*; do ln -sfn "$(realpath "$part")" "$folder/$(basename "$part")"; done
"$folder/bin/nvcc" --version >/dev/null
