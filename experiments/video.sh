#!/bin/bash
# Video: softmax against softmax with the mask of graph random features added to its logits (Table 4 of Reid et al.
# 2024), three seeds each, on images in motion and on simulated episodes; then the time of a training step of joint
# models against the number of frames, every step with the same number of tokens. What is finished is left alone.
#
#   experiments/video.sh OUT [moving] [episodes] [throughput]      all parts where none is named
#
#   IMAGES=FOLDER     an IDX data set for `moving`; without it, generated images move
#   EPISODES=FOLDER   shards of robot data; without it, `episodes` is left out
#   SEEDS="0 1 2"   STEPS=4000   DEVICE=cuda   PRECISION=bfloat16   TOPOMASK=build/release/bin/topomask
#   FRAMES="8 16 32 64 128 256"   TOKENS=32768   VARIANTS="softmax softmax_grf linear grf"   of `throughput`
#   JOBS and other variables as in run.sh
set -euo pipefail
here=$(dirname "$0")
out=$1
shift
parts=${*:-moving episodes throughput}
tool=${TOPOMASK:-build/release/bin/topomask}
config=$here/../examples/video.json
machine=("train.device=${DEVICE:-cuda}" "train.precision=${PRECISION:-bfloat16}")
# Without CLS, so that the mask of the last block has something to do.
sizes=(model.width=192 model.depth=6 model.heads=3 model.temporal_depth=4 model.cls_token=false model.dropout=0.1
  model.walkers=100 "train.steps=${STEPS:-4000}" train.batch_size=64 train.learning_rate=1e-3 train.warmup_steps=400
  train.evaluate_every=500 train.checkpoint_every=1000 train.select=best)

compare() {  # NAME KEY=VALUE...
  local name=$1
  shift
  "$here/run.sh" "$config" "$out/$name" "softmax softmax_grf" "${SEEDS:-0 1 2}" "${machine[@]}" "${sizes[@]}" "$@"
  "$tool" report "$out/$name"/*-[0-9] --out "$out/$name.html"
}

throughput() {
  local side=8 frames tokens batch variant run
  mkdir -p "$out/throughput"
  printf '%-12s %7s %7s %6s %10s %12s %12s\n' variant frames tokens batch 'step, ms' 'clips/s' 'memory, MB'
  for frames in ${FRAMES:-8 16 32 64 128 256}; do
    tokens=$((frames / 2 * side * side))
    batch=$((${TOKENS:-32768} / tokens))
    ((batch > 0)) || batch=1
    for variant in ${VARIANTS:-softmax softmax_grf linear grf}; do
      run=$out/throughput/$variant-$frames
      if [ ! -e "$run/summary.json" ]; then
        "$tool" train "$config" --out "$run" --quiet --model.attention joint --model.variant "$variant" \
          --model.cls_token false --model.width 192 --model.depth 6 --model.heads 3 --model.per_head_walks false \
          --data.frames "$frames" --data.image_size $((8 * side)) --data.validation 0 --data.workers 8 \
          --data.synthetic_train $((4 * batch)) --data.synthetic_test "$batch" --train.batch_size "$batch" \
          --train.steps 60 --train.log_every 10 --train.evaluate_every 1000 --train.evaluation_batch "$batch" \
          --train.checkpoint_every 0 --set "${machine[0]}" --set "${machine[1]}" --name "$variant" \
          > "$run.log" 2>&1 || {
          printf '%-12s %7d %7d %6d %s\n' "$variant" "$frames" "$tokens" "$batch" "$(tail -1 "$run.log" | cut -c1-80)"
          continue
        }
      fi
      python3 - "$run/summary.json" "$variant" "$frames" "$tokens" "$batch" << 'PY'
import json, sys
path, variant, frames, tokens, batch = sys.argv[1:]
s = json.load(open(path))
rate = 1000 * int(batch) / s["step_ms"]
print(f"{variant:<12} {frames:>7} {tokens:>7} {batch:>6} {s['step_ms']:>10.1f} {rate:>12.1f} {s['peak_memory_mb']:>12.0f}")
PY
    done
  done
}

for part in $parts; do
  case $part in
    moving)
      if [ -n "${IMAGES:-}" ]; then
        compare moving data.kind=moving "data.path=$IMAGES" data.image_size=64 data.frames=16 data.label=both \
          data.validation=5000
      else
        compare moving data.image_size=64 data.frames=16 data.label=both data.synthetic_train=20000 \
          data.synthetic_test=4000 data.validation=2000
      fi
      ;;
    episodes)
      if [ -z "${EPISODES:-}" ]; then
        echo "video.sh: episodes are left out: EPISODES names no folder" >&2
        continue
      fi
      compare episodes data.kind=episodes "data.path=$EPISODES" data.image_size=64 data.frames=16 data.workers=8 \
        train.select=last data.validation=0
      ;;
    throughput) throughput ;;
    *)
      echo "video.sh: parts are moving, episodes and throughput, got $part" >&2
      exit 2
      ;;
  esac
done
