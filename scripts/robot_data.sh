#!/usr/bin/env bash
# Builds the simulator and makes a set of robot episodes, with a process per core. Shards that are made already stay; what
# an interrupted run had begun is made again.
#   EPISODES  how many (1000)
#   SIDE      pixels along each side of an image (64)
#   SEED      of the run (0)
#   OUT       folder for the shards (build/robot)
#   KUKA      folder with iiwa14.xml of MuJoCo Menagerie's kuka_iiwa_14; otherwise an arm of capsules with its joints
#   PROCESSES at once (the number of cores)
#   MUJOCO    see mujoco.sh;  PRESET, BUILD_DIR, JOBS, TORCH ... see build.sh
set -euo pipefail
cd "$(dirname "$0")/.."

mujoco=$(scripts/mujoco.sh)
CMAKE_ARGS="${CMAKE_ARGS:-} -DTOPOMASK_SIMULATOR=ON -DTOPOMASK_MUJOCO=$mujoco" scripts/build.sh topomask_robot_data >&2

tool=${BUILD_DIR:-build/${PRESET:-release}}/bin/topomask-robot-data
processes=${PROCESSES:-$(nproc)}
arguments=(--out "${OUT:-build/robot}" --episodes "${EPISODES:-1000}" --side "${SIDE:-64}" --seed "${SEED:-0}"
  --arm "${KUKA:-builtin}")
running=()
for ((part = 0; part < processes; ++part)); do
  OMP_NUM_THREADS=1 "$tool" "${arguments[@]}" --part "$part" --parts "$processes" &
  running+=($!)
done
status=0
for process in "${running[@]}"; do wait "$process" || status=1; done
((status == 0)) || exit 1
# Nothing is left to make: this prints what the folder holds.
"$tool" "${arguments[@]}" 2>/dev/null
