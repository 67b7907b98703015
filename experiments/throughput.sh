#!/bin/bash
# Time and memory of a training step against the number of tokens, every step with the same number of tokens: smaller
# batches of larger images. Prints a table; OUT keeps the runs.
#
#   experiments/throughput.sh OUT ["VARIANTS"] ["SIDES"]      SIDES: patches along an axis
#
#   STEPS=100     steps of each run; the median of stretches of ten is reported
#   DEVICE=cuda   PRECISION=bfloat16   TOKENS=65536   TOPOMASK=build/release/bin/topomask
set -euo pipefail
out=$1
variants=${2:-softmax linear toeplitz grf_n4 grf_n20 exact}
sides=${3:-14 32 64 128}
tool=${TOPOMASK:-build/release/bin/topomask}
mkdir -p "$out"

printf '%-10s %8s %6s %10s %12s\n' variant tokens batch 'step, ms' 'memory, MB'
for side in $sides; do
  batch=$((${TOKENS:-65536} / (side * side)))
  for variant in $variants; do
    run=$out/$variant-$side
    walks=()
    [ "$variant" = grf_n4 ] && walks=(--model.walkers 4 --model.halting_probability 0.5)
    [ "$variant" = grf_n20 ] && walks=(--model.walkers 20 --model.halting_probability 0.1)
    if [ ! -e "$run/summary.json" ]; then
      "$tool" train --out "$run" --quiet --data.kind synthetic --data.image_size $((2 * side)) --data.synthetic_train 512 \
        --data.synthetic_test "$batch" --model.patch_size 2 --model.width 192 --model.depth 6 --model.heads 3 \
        --model.hops 10 --model.per_head_walks false --model.cls_token false --model.dropout 0 "${walks[@]}" \
        --model.variant "${variant%%_n*}" --train.batch_size "$batch" --train.steps "${STEPS:-100}" --train.log_every 10 \
        --train.evaluation_batch "$batch" --train.device "${DEVICE:-cuda}" --train.precision "${PRECISION:-bfloat16}" \
        --train.checkpoint_every 0 --name "$variant" > "$run.log" 2>&1 || {
        printf '%-10s %8d %6d %s\n' "$variant" $((side * side)) "$batch" "$(tail -1 "$run.log" | cut -c1-80)"
        continue
      }
    fi
    python3 - "$run/summary.json" "$variant" $((side * side)) "$batch" << 'PY'
import json, sys
s = json.load(open(sys.argv[1]))
print(f"{sys.argv[2]:<10} {sys.argv[3]:>8} {sys.argv[4]:>6} {s['step_ms']:>10.1f} {s['peak_memory_mb']:>12.0f}")
PY
  done
done
