#!/bin/bash
# Trees. Parts of speech of words (UD EWT): attention under a learnable function of the distance in the dependency tree,
# under one that stays positive, under a function of the distance in the sentence, and without a mask. WordNet's noun
# tree of 82 115 nodes: lexicographer files of hidden nodes under a learnable function of the tree's distance, under one
# that stays positive, over neighbours, and without a mask.
#
#   DATA=FOLDER experiments/trees.sh OUT [words] [wordnet]      both parts where none is named
#
#   DATA      en_ewt-ud-{train,dev,test}.conllu[.gz], or .xz as packed, and wordnet_noun_tree.npz
#   MODELS="tree positive"    some of the models below, by name
#   SEEDS     0 … 4; short: 0. Each hides the labels of other nodes of WordNet.
#   EPOCHS    6 of words, 60 steps of WordNet; short: 1 and 10
# Other variables as in graphs.sh. The table is printed at the end and lies in OUT/table.md.
set -euo pipefail
here=$(dirname "$0") out=$1
shift
source "$here/graphs.sh"
data=${DATA:?trees.sh: DATA must name the folder of the trees}
parts=${*:-words wordnet} seeds="0 1 2 3 4"
short && seeds=0
declare -A epochs=([words]=6 [wordnet]=60)
short && epochs=([words]=1 [wordnet]=10)
both="tree=transformer positive=transformer,model.positive_mask=true unmasked=transformer,model.mask=none"
words=$(chosen "$both" sequence=transformer,model.mask=sequence)
wordnet=$(chosen "$both" neighbours=transformer,model.mask=neighbours)

unpacked_sentences() {  # a folder with the three files as the library reads them
  local part file
  if ls "$data"/*-ud-train.conllu* 2> /dev/null | grep -vq '\.xz$'; then echo "$data"; return; fi
  mkdir -p "$out/data"
  for part in train dev test; do
    [ -e "$out/data/en_ewt-ud-$part.conllu" ] && continue
    file=$(ls "$data"/*-ud-"$part"*.conllu.xz | head -1)
    xz -dc "$file" > "$out/data/$part.part" && mv "$out/data/$part.part" "$out/data/en_ewt-ud-$part.conllu"
  done
  echo "$out/data"
}

for part in $parts; do
  case $part in
    words) path=$(unpacked_sentences) ;;
    wordnet) path=$data/wordnet_noun_tree.npz ;;
    *)
      echo "trees.sh: parts are words and wordnet, got $part" >&2
      exit 2
      ;;
  esac
  SEED_KEYS="train.seed data.split_seed" queue "$here/$part.json" "$out/$part" "${!part}" "${SEEDS:-$seeds}" \
    "${common[@]}" "data.path=$path" "train.epochs=${EPOCHS:-${epochs[$part]}}"
done
wait
table "$out" --rows "$parts" --columns "tree positive sequence neighbours unmasked" --base tree --title data --no-mean
