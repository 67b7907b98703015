#!/bin/bash
# Trains every variant with every seed under one configuration, several at a time; what is finished is left alone and
# what was interrupted goes on, so that the same command can be given again.
#
#   experiments/run.sh CONFIG OUT "VARIANTS" "SEEDS" [KEY=VALUE...]
#
#   JOBS=3       runs at once
#   SECONDS_LEFT=540   stop starting and wind up after so long (0: never)
#   TOPOMASK=build/release/bin/topomask
set -euo pipefail
config=$1 out=$2 variants=$3 seeds=$4
shift 4
tool=${TOPOMASK:-build/release/bin/topomask}
limit=${SECONDS_LEFT:-0}
mkdir -p "$out"

one() {
  local variant=$1 seed=$2 folder=$out/$1-$2 left=0
  [ -e "$folder/summary.json" ] && return 0
  if [ "$limit" -gt 0 ]; then
    left=$((limit - ($(date +%s) - begun)))
    [ $left -gt 10 ] || return 0
  fi
  "$tool" train "$config" --out "$folder" --quiet --stop-after $left "${settings[@]}" \
    --set "model.variant=$variant" --set "train.seed=$seed" --set "name=$variant" > "$folder.log" 2>&1 ||
    echo "$variant-$seed failed: $(tail -1 "$folder.log")" >&2
}

settings=()
for setting in "$@"; do settings+=(--set "$setting"); done
begun=$(date +%s)
for seed in $seeds; do
  for variant in $variants; do
    while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-3}" ]; do wait -n; done
    one "$variant" "$seed" &
  done
done
wait
