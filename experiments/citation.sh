#!/bin/bash
# Node classification on five networks, ten random splits of 20 + 30 nodes of each class (Shchur et al. 2018): GCN, GAT and
# GKAT with their published settings, the layer of GKAT under a mask of graph random features, and a transformer of
# kernel attention under that mask.
#
#   DATA=FOLDER experiments/citation.sh OUT
#
#   DATA       cora.npz, citeseer.npz, dblp.npz, amazon_cs.npz, coauthor_phy.npz
#   SETS       all of these; short: cora
#   SPLITS     0 … 9; short: 0 1
#   EPOCHS     500 at most, fewer where validation does not improve for 100; short: 100
#   MODELS="gkat gcn"   some of the models below, by name
# Other variables as in graphs.sh. The table is printed at the end and lies in OUT/table.md.
set -euo pipefail
here=$(dirname "$0") out=$1
source "$here/graphs.sh"
data=${DATA:?citation.sh: DATA must name the folder of the networks}
sets="cora citeseer dblp amazon_cs coauthor_phy" splits=$(seq -s ' ' 0 9) epochs=500
if short; then sets=cora splits="0 1" epochs=100; fi
sets=${SETS:-$sets}
blocks=model.layer_heads=[],model.heads=4,model.readout=linear,model.width=64,model.dropout=0.5
models=$(chosen gcn=gcn,model.width=16,model.dropout=0.5,model.attention_dropout=0,train.learning_rate=1e-2 \
  gat=gat gkat=gkat grf=gkat,model.mask=grf,model.walkers=10,model.hops=2 \
  "transformer=transformer,$blocks,model.attention_dropout=0,model.mask=grf,model.walkers=10,model.hops=2")
# The cosine kernel of walks over 3 hops has more than max_entries entries where degrees are high, and 58 million on DBLP,
# 1.9 GB for the eight heads of one layer: there GKAT takes its other published kernel, frequencies over those of the start.
settings_of() { case $1 in dblp | amazon_cs | coauthor_phy) echo model.mask=frequency ;; esac; }
for name in $sets; do
  for split in ${SPLITS:-$splits}; do
    SEED_KEYS="train.seed data.split_seed" queue "$here/citation.json" "$out/$name" "$models" "$split" "${common[@]}" \
      "data.path=$data/$name.npz" "train.epochs=${EPOCHS:-$epochs}" $(settings_of "$name")
  done
done
wait
table "$out" --rows "$sets" --columns "$(names $models)" --base gkat --title network
