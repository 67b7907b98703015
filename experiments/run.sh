#!/bin/bash
# Trains every variant with every seed under one configuration, several at a time; what is finished is left alone and
# what was interrupted goes on, so that the same command can be given again.
#
#   experiments/run.sh CONFIG OUT "VARIANTS" "SEEDS" [KEY=VALUE...]
#
# A variant is NAME, or NAME=VARIANT[,KEY=VALUE...] with settings of its own: "linear n10=grf,model.walkers=10". It is the
# model.variant of images, and the model.kind of graphs.
#
#   JOBS=2               runs at once
#   SECONDS_LEFT=540     stop starting and wind up after so long (0: never), counted from BEGUN (now)
#   RATES=FILE           lines "NAME LEARNING_RATE", as tune.sh writes them; names that are not there keep CONFIG's
#   TOPOMASK=build/release/bin/topomask
set -euo pipefail
config=$1 out=$2 variants=$3 seeds=$4
shift 4
tool=${TOPOMASK:-build/release/bin/topomask}
limit=${SECONDS_LEFT:-0}
kind=model.variant
grep -q '"task": *"graphs"' "$config" && kind=model.kind
mkdir -p "$out"

one() {
  local entry=$1 seed=$2 name=${1%%=*} left=0 variant=$1 own=() settings=("${common[@]}") rate=''
  if [ "$name" != "$entry" ]; then
    IFS=, read -ra own <<< "${entry#*=}"
    variant=${own[0]}
  fi
  local folder=$out/$name-$seed
  [ -e "$folder/summary.json" ] && return 0
  if [ "$limit" -gt 0 ]; then
    left=$((limit - ($(date +%s) - begun)))
    [ $left -gt 10 ] || return 0
  fi
  for setting in "${own[@]:1}"; do settings+=(--set "$setting"); done
  [ -n "${RATES:-}" ] && rate=$(awk -v name="$name" '$1 == name { print $2 }' "$RATES")
  [ -n "$rate" ] && settings+=(--set "train.learning_rate=$rate")
  "$tool" train "$config" --out "$folder" --quiet --stop-after $left "${settings[@]}" \
    --set "$kind=$variant" --set "train.seed=$seed" --set "name=$name" > "$folder.log" 2>&1 ||
    echo "$name-$seed failed: $(tail -1 "$folder.log")" >&2
}

common=()
for setting in "$@"; do common+=(--set "$setting"); done
begun=${BEGUN:-$(date +%s)}
for seed in $seeds; do
  for variant in $variants; do
    while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-2}" ]; do wait -n; done
    one "$variant" "$seed" &
  done
done
wait
