#!/bin/bash
# Graph classification, Tables 1 and 2 of the slides on GKAT: nine TU sets, the ten folds of Errica et al. 2020, tested
# with the weights of the best validation accuracy. GKAT and masks of the library in the same model.
#
#   DATA=FOLDER experiments/tu.sh OUT
#
#   DATA         NAME.zip, NAME.tar.xz or a folder NAME for each set, and NAME_splits.json in splits/CHEMICAL, or in
#                splits/COLLABORATIVE_DEGREE, the folds of social networks with degrees as features
#   SETS         ENZYMES PROTEINS IMDB-BINARY IMDB-MULTI NCI1 DD REDDIT-BINARY COLLAB REDDIT-MULTI-5K; short: the first
#                and the third
#   FOLDS        0 … 9; short: 0 1
#   RETRAINS=1   trainings of each fold; the paper has 3
#   EPOCHS       100; short: 20
#   MODELS       gkat, series (the same layer under a learned function of hops), transformer (kernel attention under it);
#                gkat and series where not given
# Other variables as in graphs.sh. The table is printed at the end and lies in OUT/table.md.
set -euo pipefail
here=$(dirname "$0") out=$1
source "$here/graphs.sh"
MODELS=${MODELS:-gkat series}
data=${DATA:?tu.sh: DATA must name the folder of the data sets}
sets="ENZYMES PROTEINS IMDB-BINARY IMDB-MULTI NCI1 DD REDDIT-BINARY COLLAB REDDIT-MULTI-5K" folds=$(seq -s ' ' 0 9)
if short; then sets="ENZYMES IMDB-BINARY" folds="0 1"; fi
sets=${SETS:-$sets}
models_of() {  # NAME. Where hubs join all nodes in two hops, the series has all pairs: there attention is through kernels.
  case $1 in
    REDDIT-*) chosen gkat series=transformer,model.mask=series,model.width=64 ;;
    *) chosen gkat series=gkat,model.mask=series transformer=transformer,model.mask=series,model.width=64 ;;
  esac
}

# What a set needs: its features and its pool. Pools were compared on the validation part of fold 0, on PROTEINS and IMDB-B
# alone.
settings_of() {
  case $1 in
    ENZYMES) echo data.scaling=columns ;;
    PROTEINS) echo data.scaling=columns model.pool=sum ;;
    NCI1 | DD) echo model.pool=sum ;;
    IMDB-* | COLLAB) echo data.features=one_hot_degree ;;
    REDDIT-*) echo data.features=one_hot_degree data.degree_limit=32 model.walkers=20 model.max_entries=268435456 ;;
  esac
}

find_set() {  # NAME → where it is, unpacked where the library does not read the archive
  local name=$1 place
  for place in "$data/$name" "$data/$name.zip" "$out/data/$name"; do
    if [ -e "$place" ]; then echo "$place"; return; fi
  done
  [ -e "$data/$name.tar.xz" ] || { echo "tu.sh: $data has no $name" >&2; return 1; }
  mkdir -p "$out/data" && tar -xf "$data/$name.tar.xz" -C "$out/data" && echo "$out/data/$name"
}

find_folds() {  # NAME → its file of folds
  local place
  for place in "$data"/splits/{CHEMICAL,COLLABORATIVE_DEGREE}/"$1"{,_full}_splits.json; do
    if [ -e "$place" ]; then echo "$place"; return; fi
  done
  echo "tu.sh: $data/splits has no folds of $1" >&2
  return 1
}

mkdir -p "$out"
if short; then epochs=20; else epochs=100; fi
for name in $sets; do
  path=$(find_set "$name")
  splits=$(find_folds "$name")
  for fold in ${FOLDS:-$folds}; do
    for ((retrain = 0; retrain < ${RETRAINS:-1}; ++retrain)); do
      SEED_KEYS=" " queue "$here/tu.json" "$out/$name" "$(models_of "$name")" "$fold.$retrain" "${common[@]}" \
        "data.path=$path" "data.splits=$splits" "data.fold=$fold" "train.seed=$retrain" \
        "train.epochs=${EPOCHS:-$epochs}" $(settings_of "$name")
    done
  done
done
wait
table "$out" --rows "$sets" --columns "gkat series transformer" --base gkat --title set
