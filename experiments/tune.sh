#!/bin/bash
# Chooses a learning rate for every variant on images held out of the training set, with the same budget for each.
# Writes OUT/rates ("NAME RATE VALIDATION_ACCURACY"), which run.sh takes as RATES.
#
#   experiments/tune.sh CONFIG OUT "VARIANTS" "RATES" [KEY=VALUE...]      VARIANTS as in run.sh
set -euo pipefail
config=$1 out=$2 variants=$3 rates=$4
shift 4
here=$(dirname "$0")
for rate in $rates; do
  RATES='' "$here/run.sh" "$config" "$out/$rate" "$variants" "${SEED:-100}" "$@" "train.learning_rate=$rate"
done
python3 - "$out" "$rates" "$variants" << 'PY' | tee "$out/rates"
import json, pathlib, sys

out, rates, variants = pathlib.Path(sys.argv[1]), sys.argv[2].split(), sys.argv[3].split()
for name in (v.split("=")[0] for v in variants):
    found = []
    for rate in rates:
        for summary in (out / rate).glob(f"{name}-*/summary.json"):
            found.append((json.loads(summary.read_text())["accuracy"]["validation"], rate))
    if found:
        accuracy, rate = max(found)
        print(name, rate, f"{accuracy:.4f}")
PY
