#!/usr/bin/env bash
# Trains five kinds of attention on Fashion-MNIST, alike but for that, and compares them. A run that is finished is not
# trained again; one that was interrupted goes on.
#   TOOL    the topomask program (build/release/bin/topomask)
#   OUT     where runs and report go (build/demo)
#   DATA    folder of Fashion-MNIST (that of the Debian package dataset-fashion-mnist)
#   SEEDS   seeds of each kind (0); one seed allows no claim about which is better, "0 1 2" takes three times as long
#           and does
set -euo pipefail
cd "$(dirname "$0")/.."

tool=${TOOL:-build/release/bin/topomask}
out=${OUT:-build/demo}
data=${DATA:-/usr/share/datasets/fashion-mnist}
seeds=${SEEDS:-0}

if [[ ! -f $data/train-images-idx3-ubyte.gz && ! -f $data/train-images-idx3-ubyte ]]; then
  echo "The demo needs Fashion-MNIST, and $data does not hold it. On Debian:" >&2
  echo "  apt-get install dataset-fashion-mnist" >&2
  echo "Elsewhere put the four IDX files into a folder and run: make demo DATA=that/folder" >&2
  exit 1
fi

runs=()
for seed in $seeds; do
  for variant in softmax linear grf exact toeplitz; do
    run=$out/runs/$variant-$seed
    echo "training $variant, seed $seed" >&2
    "$tool" train examples/fashion.json --out "$run" --name "$variant" --model.variant "$variant" --train.seed "$seed" \
      --data.path "$data" >/dev/null
    runs+=("$run")
  done
done
echo
"$tool" report "${runs[@]}" --out "$out/report.html" --title "Fashion-MNIST: five kinds of attention"
