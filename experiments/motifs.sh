#!/bin/bash
# Motif detection of Choromanski et al. 2022: five motifs, models of 1 280 to 1 320 parameters, several seeds.
#
#   experiments/motifs.sh OUT [EPOCHS]      EPOCHS: 500, as in the paper; short: 60
#
#   MOTIFS="caveman cycle grid ladder circular_ladder"
#   MODELS="gkat gat gcn"    some of the models below, by name
#   SEEDS                    0 … 14, as in the paper; short: 0 1 2. Each draws its own weights and graphs.
#   LEARNING_RATE            1e-3, as in the paper; short: 1e-2
# Other variables as in graphs.sh. The table is printed at the end and lies in OUT/table.md.
set -euo pipefail
here=$(dirname "$0") out=$1
source "$here/graphs.sh"
if short; then epochs=60 rate=1e-2 seeds="0 1 2"; else epochs=500 rate=1e-3 seeds=$(seq -s ' ' 0 14); fi
epochs=${2:-$epochs} rate=${LEARNING_RATE:-$rate}
models=$(chosen gkat gat=gkat,model.mask=neighbours gcn=gcn,model.width=32 sgc=sgc,model.layers=2,model.width=160 \
  series=gkat,model.mask=series grf=gkat,model.mask=grf,model.walkers=20 diffusion=gkat,model.mask=diffusion \
  unmasked=gkat,model.mask=none)
export SEED_KEYS="train.seed data.seed"
motifs=${MOTIFS:-caveman cycle grid ladder circular_ladder}
for seed in ${SEEDS:-$seeds}; do
  for motif in $motifs; do
    queue "$here/../examples/motif.json" "$out/$motif" "$models" "$seed" "${common[@]}" "data.motif=$motif" \
      "train.epochs=$epochs" "train.learning_rate=$rate"
  done
done
wait
table "$out" --rows "$motifs" --columns "$(names $models)" --base gkat --title motif
