#!/bin/bash
# Uneven degrees: do the importance weights of walks matter (Table 3 of Reid et al. 2024), with f learned and fixed? Amazon
# computers, whose degrees run from 0 to 2 992, and the road network of twelve cities, whose degrees run from 1 to 8.
#
#   DATA="FOLDER FOLDER" experiments/degrees.sh OUT [amazon] [roads]      both parts where none is named
#
#   DATA      folders with amazon_cs.npz and roads-12-cities.txt.gz
#   SEEDS     0 … 9 of amazon, 0 1 2 of roads, each with a split of its own, and places of its own; short: 0
#   EPOCHS    300 and 50; short: 50 and 3
# Other variables as in graphs.sh. The table is printed at the end and lies in OUT/table.md.
set -euo pipefail
here=$(dirname "$0") out=$1
shift
source "$here/graphs.sh"
: "${DATA:?degrees.sh: DATA must name the folders of the networks}"
parts=${*:-amazon roads}
models=$(chosen grf=transformer ad_hoc=transformer,model.mask=ad_hoc grf_fixed=transformer,model.learn_mask=false \
  ad_hoc_fixed=transformer,model.mask=ad_hoc,model.learn_mask=false unmasked=transformer,model.mask=none)

find_file() {
  local folder
  for folder in $DATA; do
    if [ -e "$folder/$1" ]; then echo "$folder/$1"; return; fi
  done
  echo "degrees.sh: $1 is in none of $DATA" >&2
  return 1
}

for part in $parts; do
  case $part in
    amazon)
      if short; then seeds=0 epochs=50; else seeds=$(seq -s ' ' 0 9) epochs=300; fi
      SEED_KEYS="train.seed data.split_seed" queue "$here/citation.json" "$out/amazon" "$models" "${SEEDS:-$seeds}" \
        "${common[@]}" "data.path=$(find_file amazon_cs.npz)" "train.epochs=${EPOCHS:-$epochs}" model.readout=linear \
        model.width=64 model.layer_heads=[] model.heads=4 model.dropout=0.5 model.attention_dropout=0 model.mask=grf \
        model.walkers=20 model.hops=4 model.halting_probability=0.5
      ;;
    roads)
      if short; then seeds=0 epochs=3; else seeds="0 1 2" epochs=50; fi
      SEED_KEYS="train.seed data.seed data.split_seed" queue "$here/../examples/roads.json" "$out/roads" "$models" \
        "${SEEDS:-$seeds}" "${common[@]}" "data.path=$(find_file roads-12-cities.txt.gz)" "train.steps=${EPOCHS:-$epochs}" train.checkpoint_every=0
      ;;
    *)
      echo "degrees.sh: parts are amazon and roads, got $part" >&2
      exit 2
      ;;
  esac
done
wait
table "$out" --rows "$parts" --columns "$(names $models)" --base grf --title graph
