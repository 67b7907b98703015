#!/usr/bin/env bash
# The time of a training step with the default number of threads and with one thread: the default may not be slower.
#   scripts/training_threads.sh [VARIANT...]   kinds of attention (linear grf)
#   TOOL=build/release/bin/topomask   STEPS=200   CONFIG=examples/fashion.json   ARGS="--train.device cuda ..."
set -euo pipefail
cd "$(dirname "$0")/.."

tool=${TOOL:-build/release/bin/topomask}
read -r -a arguments <<<"${ARGS:-}"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

step_ms() {  # of the variant $1 in the environment $2...
  local variant=$1
  shift
  env "$@" "$tool" train "${CONFIG:-examples/fashion.json}" --out "$out/run" --restart --model.variant "$variant" \
    --train.steps "${STEPS:-200}" --train.log_every 10 --train.evaluate_every 0 --train.checkpoint_every 0 \
    "${arguments[@]}" --json 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["step_ms"])'
}

variants=("$@")
(($#)) || variants=(linear grf)
printf '%-12s %18s %18s\n' variant 'default, ms' 'one thread, ms'
for variant in "${variants[@]}"; do
  printf '%-12s %18.1f %18.1f\n' "$variant" "$(step_ms "$variant" -u OMP_NUM_THREADS)" \
    "$(step_ms "$variant" OMP_NUM_THREADS=1)"
done
