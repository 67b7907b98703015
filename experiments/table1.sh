#!/bin/bash
# Table 1 of Reid et al. in small: five kinds of attention, three seeds, learning rates chosen on validation images.
#
#   experiments/table1.sh DATASET OUT      cifar10 (build/data/cifar10) or imagenette (build/data/imagenette64)
#
# Variables as in run.sh. Can be given again until everything is finished.
set -euo pipefail
here=$(dirname "$0") dataset=$1 out=$2
BEGUN=${BEGUN:-$(date +%s)}
export BEGUN
variants="grf linear softmax exact toeplitz"
tuning=(data.validation=5000 train.epochs=3 train.warmup_steps=88)
[ "$dataset" = imagenette ] && tuning=(data.validation=1000 train.epochs=8 train.warmup_steps=33)
[ -e "$out/tune/rates" ] || "$here/tune.sh" "$here/$dataset.json" "$out/tune" "$variants" "5e-4 1e-3 2e-3" "${tuning[@]}"
RATES=$out/tune/rates "$here/run.sh" "$here/$dataset.json" "$out/runs" "$variants" "${SEEDS:-0 1 2}"
