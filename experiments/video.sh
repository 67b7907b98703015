#!/bin/bash
# Video: softmax against softmax with the mask of graph random features added to its logits (Table 4 of Reid et al.
# 2024), in factorised models, and kernel attention without and with a mask over the grid of space and time, in joint
# ones; three seeds each, on images in motion, on simulated episodes and on radar recordings. Then the time of a
# training step of joint models against the number of frames, every step with the same number of tokens. What is
# finished is left alone and what was interrupted goes on. Ends with one table of all runs in OUT, OUT/table.md, and what
# they were made from.
#
#   experiments/video.sh OUT [moving] [tasks] [objects] [radhar] [throughput]      all parts where none is named
#
#   IMAGES=FOLDER     an IDX data set for `moving` (motion and class); without it, generated images move
#   EPISODES=FOLDER   shards of robot data for `tasks` (which task) and `objects` (which object moves); without it,
#                     both are left out
#   RADHAR=FILE       radhar.npz, for `radhar`; without it, that is left out
#   SEEDS="0 1 2"   STEPS=700   BATCH=64   DEVICE=cuda   PRECISION=bfloat16   TOPOMASK=build/release/bin/topomask
#   VARIANTS          as jobs.sh has them
#   FRAMES="16 64 256 1024"   TOKENS=32768   of `throughput`, which writes OUT/throughput.md
#   TIMED="softmax linear grf few=grf,model.walkers=2"   its variants; grf_n4 has 4 walkers that halt with p = 1/2, and
#                     the others those of examples/video.json
#   REPORT=0          no OUT/SET.html, whose pictures are predicted again
#   JOBS and other variables as in jobs.sh
set -euo pipefail
here=$(dirname "$0")
out=$1
shift
parts=${*:-moving tasks objects radhar throughput}
source "$here/jobs.sh"
config=$here/../examples/video.json
machine=("train.device=${DEVICE:-cuda}" "train.precision=${PRECISION:-bfloat16}")
# The paper's f starts at exp(-k/100): sums over twenty hops are large compared with other logits, attention starts out local,
# and the first hundreds of steps go slower than without the mask. softmax_grf_e starts at exp(-k).
variants=${VARIANTS:-softmax softmax_grf softmax_grf_e=softmax_grf,model.decay=1 joint_linear=linear,model.attention=joint
  joint_grf=grf,model.attention=joint}
steps=${STEPS:-700}
# Without CLS, so that the mask of the last block has something to do.
sizes=(model.width=128 model.depth=4 model.heads=4 model.temporal_depth=2 model.cls_token=false model.dropout=0.1
  model.walkers=100 model.hops=20 model.sampler=repelling "train.steps=$steps" "train.batch_size=${BATCH:-64}"
  train.learning_rate=1e-3 train.warmup_steps=$((steps / 10)) train.weight_decay=0.05 train.evaluate_every="$steps"
  train.checkpoint_every=$((steps / 3 + 1)) train.evaluation_batch=128 data.validation=0 data.workers=2)

compare() {  # NAME KEY=VALUE...
  local name=$1
  shift
  queue "$config" "$out/$name" "$variants" "${SEEDS:-0 1 2}" "${machine[@]}" "${sizes[@]}" "$@"
  wait
  [ "${REPORT:-1}" = 0 ] || "$tool" report "$out/$name"/*-[0-9]*/ --out "$out/$name.html" > /dev/null ||
    echo "video.sh: no report of $name" >&2
  compared+=("$name")
}

left_out() {  # PART VARIABLE
  echo "video.sh: $1 is left out: $2 is not set" >&2
}

throughput() {
  local side=8 frames tokens batch entry name run setting own settings
  mkdir -p "$out/throughput"
  echo '| variant | frames | tokens | batch | step, ms | clips/s | tokens/s | memory, MB |'
  echo '|---|--:|--:|--:|--:|--:|--:|--:|'
  for frames in ${FRAMES:-16 64 256 1024}; do
    tokens=$((frames / 2 * side * side))
    batch=$((${TOKENS:-32768} / tokens))
    ((batch > 0)) || batch=1
    for entry in ${TIMED:-softmax softmax_grf linear grf_n4=grf,model.walkers=4,model.halting_probability=0.5 grf}; do
      name=${entry%%=*}
      own=("$name")
      [ "$name" = "$entry" ] || IFS=, read -ra own <<< "${entry#*=}"
      settings=()
      for setting in "${machine[@]}" "${own[@]:1}"; do settings+=(--set "$setting"); done
      run=$out/throughput/$name-$frames
      if [ ! -e "$run/summary.json" ]; then
        "$tool" train "$config" --out "$run" --quiet --model.attention joint --model.variant "${own[0]}" \
          --model.cls_token false --model.width 192 --model.depth 6 --model.heads 3 --model.per_head_walks false \
          --data.frames "$frames" --data.image_size $((8 * side)) --data.validation 0 --data.workers 8 \
          --data.synthetic_train $((4 * batch)) --data.synthetic_test "$batch" --train.batch_size "$batch" \
          --train.steps 30 --train.log_every 5 --train.evaluate_every 1000 --train.evaluation_batch "$batch" \
          --train.checkpoint_every 0 "${settings[@]}" --name "$name" \
          > "$run.log" 2>&1 || {
          echo "| $name | $frames | $tokens | $batch | $(tail -1 "$run.log" | cut -c1-80) | | | |"
          continue
        }
      fi
      python3 - "$run/summary.json" "$name" "$frames" "$tokens" "$batch" << 'PY'
import json, sys
path, variant, frames, tokens, batch = sys.argv[1:]
s = json.load(open(path))
rate = 1000 * int(batch) / s["step_ms"]
print(f"| {variant} | {frames} | {tokens} | {batch} | {s['step_ms']:.1f} | {rate:.1f} | {rate * int(tokens):.3g} | "
      f"{s['peak_memory_mb']:.0f} |")
PY
    done
  done
  echo
  "$here/conditions.py" "$out/throughput"
}

compared=()
export BEGUN=${BEGUN:-$(date +%s)} JOBS=${JOBS:-2}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((($(nproc) + JOBS - 1) / JOBS))}
for part in $parts; do
  case $part in
    moving)
      if [ -n "${IMAGES:-}" ]; then
        compare moving data.kind=moving "data.path=$IMAGES" data.image_size=64 data.frames=16 data.label=both
      else
        compare moving data.image_size=64 data.frames=16 data.label=both data.synthetic_train=20000 \
          data.synthetic_test=4000
      fi
      ;;
    tasks | objects)
      if [ -z "${EPISODES:-}" ]; then
        left_out "$part" EPISODES
        continue
      fi
      compare "$part" data.kind=episodes "data.path=$EPISODES" data.image_size=64 data.frames=16 \
        "data.label=${part%s}" data.in_memory=true
      ;;
    radhar)
      if [ -z "${RADHAR:-}" ]; then
        left_out "$part" RADHAR
        continue
      fi
      compare radhar data.kind=radhar "data.path=$RADHAR" data.image_size=16 data.frames=12 model.patch_size=2
      ;;
    throughput)
      mkdir -p "$out"
      throughput | tee "$out/throughput.md"
      ;;
    *)
      echo "video.sh: parts are moving, tasks, objects, radhar and throughput, got $part" >&2
      exit 2
      ;;
  esac
done
if [ ${#compared[@]} -gt 0 ]; then
  "$here/table.py" "$out" --rows "${compared[*]}" --columns "$(names $variants)" --title set --no-mean
  "$here/conditions.py" "${compared[@]/#/$out/}" | tee -a "$out/table.md"
fi
