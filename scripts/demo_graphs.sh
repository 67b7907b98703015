#!/usr/bin/env bash
# Motif detection: trains models of about 1 300 parameters to tell graphs that hold a motif from graphs that do not, and
# compares them. A run that is finished is not trained again; one that was interrupted goes on.
#   TOOL    the topomask program (build/release/bin/topomask)
#   OUT     where runs and report go (build/demo-graphs)
#   MOTIF   caveman, cycle, grid, ladder or circular_ladder (caveman)
#   EPOCHS  passes over the training graphs (60); the paper makes 500, at a lower learning rate
#   SEEDS   seeds of each model (0); "0 1 2" takes three times as long and allows claims
set -euo pipefail
cd "$(dirname "$0")/.."

tool=${TOOL:-build/release/bin/topomask}
out=${OUT:-build/demo-graphs}
motif=${MOTIF:-caveman}
epochs=${EPOCHS:-60}
seeds=${SEEDS:-0}

# What each model is called, and what it changes of examples/motif.json. All get as many epochs; gcn learns last (80 %
# after 200 epochs of the default motif).
models=(
  "gkat"
  "gat=model.mask=neighbours"
  "series=model.mask=series"
  "gcn=model.kind=gcn,model.width=32"
)
runs=()
for seed in $seeds; do
  for model in "${models[@]}"; do
    name=${model%%=*} settings=()
    if [[ $model == *=* ]]; then
      IFS=, read -ra settings <<<"${model#*=}"
    fi
    run=$out/runs/$motif-$name-$seed
    echo "training $name, seed $seed" >&2
    "$tool" train examples/motif.json --out "$run" --name "$name" --train.seed "$seed" --data.seed "$seed" \
      --data.motif "$motif" --train.epochs "$epochs" --train.learning_rate 1e-2 "${settings[@]/#/--set=}" >/dev/null
    runs+=("$run")
  done
done
echo
"$tool" report "${runs[@]}" --out "$out/report.html" --title "Motif detection: $motif"
