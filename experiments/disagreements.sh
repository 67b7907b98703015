#!/bin/bash
# Where Table 1 in small disagrees with the paper, on CIFAR-10: softmax and GRF trained twice as long, and a Toeplitz
# mask that learns ten times as fast.
#
#   experiments/disagreements.sh OUT RATES      RATES as table1.sh leaves them in tune/rates; variables as in run.sh
set -euo pipefail
here=$(dirname "$0") out=$1
BEGUN=${BEGUN:-$(date +%s)}
export BEGUN RATES=$2
"$here/run.sh" "$here/cifar10.json" "$out" "toeplitz=toeplitz,train.mask_learning_rate=10" "${SEEDS:-0 1 2}"
"$here/run.sh" "$here/cifar10.json" "$out/longer" "softmax grf" "${SEEDS:-0 1 2}" train.epochs=24
