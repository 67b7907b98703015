#!/bin/bash
# Time and memory of a training step against the number of tokens, every step with the same number of tokens: smaller
# batches of larger images. Prints a table; OUT keeps the runs, and a second call adds what is missing.
#
#   experiments/throughput.sh OUT ["VARIANTS"] ["SIDES"]      SIDES: patches along an axis
#
#   ROUNDS=2      runs of each variant; all variants take turns, so that what drifts in a machine reaches all of them
#   STEPS=60      steps of each run; stretches of five are timed, the first two of a run are left out
#   LIMIT=        seconds after which no run of a second or later round begins
#   DEVICE=cuda   PRECISION=bfloat16   TOKENS=65536   TOPOMASK=build/release/bin/topomask
set -euo pipefail
out=$1
variants=${2:-softmax linear toeplitz grf_n4 grf_n20 exact}
sides=${3:-14 32 64 128}
tool=${TOPOMASK:-build/release/bin/topomask}
mkdir -p "$out"

train() {  # SIDE VARIANT ROUND
  local side=$1 variant=$2 run=$out/$2-$1-$3 batch=$((${TOKENS:-65536} / ($1 * $1))) walks=()
  [ "$variant" = grf_n4 ] && walks=(--model.walkers 4 --model.halting_probability 0.5)
  [ "$variant" = grf_n20 ] && walks=(--model.walkers 20 --model.halting_probability 0.1)
  [ ! -e "$run/summary.json" ] || return 0
  "$tool" train --out "$run" --quiet --data.kind synthetic --data.image_size $((2 * side)) --data.synthetic_train 512 \
    --data.synthetic_test "$batch" --model.patch_size 2 --model.width 192 --model.depth 6 --model.heads 3 \
    --model.hops 10 --model.per_head_walks false --model.cls_token false --model.dropout 0 "${walks[@]}" \
    --model.variant "${variant%%_n*}" --train.batch_size "$batch" --train.steps "${STEPS:-60}" --train.log_every 5 \
    --train.evaluation_batch "$batch" --train.device "${DEVICE:-cuda}" --train.precision "${PRECISION:-bfloat16}" \
    --train.checkpoint_every 0 --name "$variant" > "$run.log" 2>&1 ||
    printf '%s, %d tokens: %s\n' "$variant" $((side * side)) "$(tail -1 "$run.log" | cut -c1-100)" >&2
}

for ((round = 1; round <= ${ROUNDS:-2}; round++)); do
  for side in $sides; do
    for variant in $variants; do
      ((round == 1 || SECONDS < ${LIMIT:-1000000})) || continue
      train "$side" "$variant" "$round"
    done
  done
done
python3 "$(dirname "$0")/throughput_table.py" "$out" "$variants" "$sides" "${TOKENS:-65536}"
