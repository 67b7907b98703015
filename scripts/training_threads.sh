#!/usr/bin/env bash
# The shortest training step with the default number of threads and with one thread: the default may not be slower.
#   scripts/training_threads.sh [VARIANT...]   kinds of attention (linear grf)
#   TOOL=build/release/bin/topomask   STEPS=60   ROUNDS=3   CONFIG=examples/fashion.json   ARGS="--train.device cuda ..."
#   ALLOWED=1.25   fail where the default takes more than this many times as long as one thread
# The two take turns for ROUNDS rounds, and the shortest step of all rounds counts, since other processes make steps longer
# and never shorter. With ALLOWED a round that is good enough ends the comparison. CONFIG= (empty) trains on generated images.
set -euo pipefail
cd "$(dirname "$0")/.."

tool=${TOOL:-build/release/bin/topomask}
rounds=${ROUNDS:-3}
config=()
[[ -n ${CONFIG-examples/fashion.json} ]] && config=("${CONFIG-examples/fashion.json}")
read -r -a arguments <<<"${ARGS:-}"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

shortest_step() {  # in ms, of the variant $1 with the options $2... of env
  local variant=$1
  shift
  env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT -u OMP_NUM_THREADS -u MKL_NUM_THREADS "$@" "$tool" train "${config[@]}" \
    --out "$out/run" --restart --quiet --json --model.variant "$variant" --train.steps "${STEPS:-60}" --train.log_every 1 \
    --train.evaluate_every 0 --train.checkpoint_every 0 "${arguments[@]}" >"$out/log" 2>&1 || { cat "$out/log" >&2; exit 1; }
  python3 -c 'import json, sys; print(min(json.loads(line).get("step_ms", 1e9) for line in sys.stdin))' <"$out/run/metrics.jsonl"
}

least() { awk -v a="$1" -v b="$2" 'BEGIN { print a < b ? a : b }'; }
within() { awk -v default="$1" -v one="$2" -v allowed="$3" 'BEGIN { exit !(default <= allowed * one) }'; }

variants=("$@")
(($#)) || variants=(linear grf)
status=0
printf '%-12s %12s %16s\n' variant 'default, ms' 'one thread, ms'
for variant in "${variants[@]}"; do
  default=1e9 one=1e9
  for ((round = 0; round < rounds; ++round)); do
    default=$(least "$default" "$(shortest_step "$variant")")
    one=$(least "$one" "$(shortest_step "$variant" OMP_NUM_THREADS=1)")
    [[ -n ${ALLOWED:-} ]] && within "$default" "$one" "$ALLOWED" && break
  done
  printf '%-12s %12.1f %16.1f\n' "$variant" "$default" "$one"
  if [[ -n ${ALLOWED:-} ]] && ! within "$default" "$one" "$ALLOWED"; then
    echo "training_threads: a step of $variant takes more than $ALLOWED times as long with the default number of threads" >&2
    status=1
  fi
done
exit "$status"
