#!/bin/bash
# Dynamics of a robot's scenes with each local layer (Reid et al. 2024, section 4 and figure 5). What is finished is left
# alone and what was interrupted goes on: give the same command again until the table is whole.
#
#   EPISODES=FOLDER LARGE_EPISODES=FOLDER experiments/robot.sh OUT [small] [large]      both tiers where none is named
#
# small: 64 x 64 cameras, 8 192 particles, every variant with every seed (experiments/robot.json).
# large: 128 x 128 cameras, 32 768 particles, the model of examples/robot.json: time and memory of a step, and a short
#        training of one seed. LARGE_EPISODES are of `make robot-data SIDE=128`: every pixel is a particle.
# Writes OUT/table.md: SSIM and PSNR at each step of a rollout, over whole images and over the pixels of moved objects,
# the error of particles, and the floors; means and standard deviations over seeds; then what the runs were made from.
# OUT/small.html has film strips.
#
#   VARIANTS="unmasked message_passing grf exact neighbours"   SEEDS="0 1 2"
#   STEPS            of the optimiser in tier small; otherwise as robot.json says
#   LARGE_STEPS=60   LARGE_SEEDS=0
#   DEVICE=cuda      PRECISION=bfloat16
#   JOBS=1           runs at once, on one GPU; the large tier runs one at a time
#   OMP_NUM_THREADS=4   threads of each: five runs with 16 threads each on 16 cores took 20 times as long as one
#   MPS=1            a daemon of nvidia-cuda-mps-control for the runs, which otherwise take turns on the GPU
#   REPORT=0         no film strips: they are predicted again, which takes minutes on a CPU
#   SECONDS_LEFT=540, BEGUN, TOPOMASK as in run.sh: runs save where they are when it is over, and go on next time
set -euo pipefail
here=$(dirname "$0")
out=$1
shift
parts=${*:-small large}
tool=${TOPOMASK:-build/release/bin/topomask}
variants=${VARIANTS:-unmasked message_passing grf exact neighbours}
common=("train.device=${DEVICE:-cuda}" "train.precision=${PRECISION:-bfloat16}")
BEGUN=${BEGUN:-$(date +%s)}
export BEGUN SECONDS_LEFT=${SECONDS_LEFT:-540} OMP_NUM_THREADS=${OMP_NUM_THREADS:-4}

if [ "${MPS:-0}" = 1 ]; then
  CUDA_MPS_PIPE_DIRECTORY=$(mktemp -d)
  CUDA_MPS_LOG_DIRECTORY=$CUDA_MPS_PIPE_DIRECTORY
  export CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
  nvidia-cuda-mps-control -d
  trap 'echo quit | nvidia-cuda-mps-control; rm -rf "$CUDA_MPS_PIPE_DIRECTORY"' EXIT
fi

for part in $parts; do
  case $part in
    small)
      : "${EPISODES:?robot.sh: EPISODES must name a folder of episodes}"
      settings=("${common[@]}" "data.path=$EPISODES")
      [ -n "${STEPS:-}" ] && settings+=("train.steps=$STEPS")
      JOBS=${JOBS:-1} "$here/run.sh" "$here/robot.json" "$out/small" "$variants" "${SEEDS:-0 1 2}" "${settings[@]}"
      ;;
    large)
      : "${LARGE_EPISODES:?robot.sh: LARGE_EPISODES must name a folder of episodes of 128 x 128 pixels}"
      JOBS=1 "$here/run.sh" "$here/../examples/robot.json" "$out/large" "$variants" "${LARGE_SEEDS:-0}" "${common[@]}" \
        "data.path=$LARGE_EPISODES" data.validation_fraction=0 data.test_fraction=0.25 \
        "train.steps=${LARGE_STEPS:-60}" train.batch_size=2 train.accumulation=1 data.rollout=2 \
        data.evaluation_steps=6 data.evaluation_episodes=8 model.recompute=false train.log_every=10 \
        train.constant_steps=0 train.warmup_steps=5 train.learning_rate=1e-3 train.schedule=cosine \
        train.evaluate_every=1000000 train.checkpoint_every=0 train.evaluation_batch=2
      ;;
    *)
      echo "robot.sh: parts are small and large, got $part" >&2
      exit 2
      ;;
  esac
done
mkdir -p "$out"
python3 "$here/robot_table.py" "$out" | tee "$out/table.md"
if [ "${REPORT:-1}" = 1 ] && compgen -G "$out/small/*/summary.json" > /dev/null; then
  finished=()
  for summary in "$out"/small/*/summary.json; do finished+=("$(dirname "$summary")"); done
  "$tool" report "${finished[@]}" --out "$out/small.html" --title "Dynamics of point clouds" > /dev/null
fi
