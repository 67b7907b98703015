#!/bin/bash
# Induced cycles of Choromanski et al. 2022 against the length of walks: GKAT and the exact series see hops as far as
# they walk; the layer over neighbours and GCN do not depend on it.
#
#   experiments/cycles.sh OUT [EPOCHS]      EPOCHS: 200; short: 30
#
#   NODES="2 3 4 5 6 7 8 9 10"    nodes of a walk; short: 2 4 6
#   MODELS="gkat gat"             some of the models below, by name
#   SEEDS                         0 … 9; short: 0 1. Each draws its own weights and graphs.
# Other variables as in graphs.sh. The table is printed at the end and lies in OUT/table.md.
set -euo pipefail
here=$(dirname "$0") out=$1
source "$here/graphs.sh"
if short; then epochs=30 seeds="0 1" nodes="2 4 6"; else epochs=200 seeds=$(seq -s ' ' 0 9) nodes="2 3 4 5 6 7 8 9 10"; fi
nodes=${NODES:-$nodes}
export SEED_KEYS="train.seed data.seed"
walking=$(chosen gkat series=gkat,model.mask=series grf=gkat,model.mask=grf,model.walkers=20,model.halting_probability=0.1)
local_models=$(chosen gat=gkat,model.mask=neighbours gcn=gcn,model.widths=[],model.width=14)
rows=(local)
for seed in ${SEEDS:-$seeds}; do
  queue "$here/cycle.json" "$out/local" "$local_models" "$seed" "${common[@]}" "train.epochs=${2:-$epochs}"
  for length in $nodes; do
    queue "$here/cycle.json" "$out/${length}_nodes" "$walking" "$seed" "${common[@]}" "train.epochs=${2:-$epochs}" \
      "model.hops=$((length - 1))"
  done
done
wait
for length in $nodes; do rows+=("${length}_nodes"); done
table "$out" --rows "${rows[*]}" --columns "$(names $walking $local_models)" --title walk --no-mean
