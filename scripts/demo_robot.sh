#!/usr/bin/env bash
# Dynamics of point clouds: simulates a few episodes of a robot, trains a tiny model to predict their video and writes a
# report with film strips. A run that is finished is not trained again; one that was interrupted goes on.
#   TOOL      the topomask program (build/release/bin/topomask)
#   OUT       where episodes, runs and report go (build/demo-robot)
#   EPISODES  how many to simulate (20)
#   SIDE      pixels along each side of an image (48)
#   STEPS     of the optimiser (300: about two minutes on two cores)
#   LOCAL     local layers to train one after the other (grf); "none message_passing grf" compares them
#   SEEDS     seeds of each (0)
set -euo pipefail
cd "$(dirname "$0")/.."

tool=${TOOL:-build/release/bin/topomask}
out=${OUT:-build/demo-robot}
if ! compgen -G "$out/episodes/*.episodes" >/dev/null; then
  OUT=$out/episodes EPISODES=${EPISODES:-20} SIDE=${SIDE:-48} scripts/robot_data.sh
fi
runs=()
for seed in ${SEEDS:-0}; do
  for local in ${LOCAL:-grf}; do
    run=$out/runs/$local-$seed
    echo "training $local, seed $seed" >&2
    "$tool" train examples/robot_demo.json --out "$run" --name "$local" --train.seed "$seed" \
      --data.path "$out/episodes" --model.local "$local" --train.steps "${STEPS:-300}" >/dev/null
    runs+=("$run")
  done
done
echo
"$tool" report "${runs[@]}" --out "$out/report.html" --title "Dynamics of point clouds"
