#!/bin/bash
# Motif detection of Choromanski et al. 2022: five motifs, models of 1 280 to 1 320 parameters, several seeds.
#
#   experiments/motifs.sh OUT [EPOCHS]      500 epochs, as in the paper
#
#   MOTIFS="caveman cycle grid ladder circular_ladder"
#   MODELS           entries as run.sh takes them
#   SEEDS="0 1 2"
#   LEARNING_RATE=1e-3
# Other variables as in run.sh. Can be given again until everything is finished; the tables are printed at the end.
set -euo pipefail
here=$(dirname "$0") out=$1 epochs=${2:-500}
BEGUN=${BEGUN:-$(date +%s)}
export BEGUN
models=${MODELS:-"gkat gat=gkat,model.mask=neighbours gcn=gcn,model.width=32 sgc=sgc,model.layers=2 \
  series=gkat,model.mask=series grf=gkat,model.mask=grf,model.walkers=20 unmasked=gkat,model.mask=none"}
rate=${LEARNING_RATE:-1e-3}
motifs=${MOTIFS:-caveman cycle grid ladder circular_ladder}
for motif in $motifs; do
  "$here/run.sh" "$here/../examples/motif.json" "$out/$motif" "$models" "${SEEDS:-0 1 2}" "data.motif=$motif" \
    "train.epochs=$epochs" "train.learning_rate=$rate" "train.final_learning_rate=$rate"
done
for motif in $motifs; do
  echo "== $motif"
  "${TOPOMASK:-build/release/bin/topomask}" report "$out/$motif" --out "$out/$motif.html" --title "Motifs: $motif" --no-pictures
done
