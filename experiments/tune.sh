#!/bin/bash
# Chooses a learning rate for every variant on images held out of the training set, with the same budget for each.
# Writes OUT/rates ("NAME RATE VALIDATION_ACCURACY"), which run.sh takes as RATES, once every run is finished.
#
#   experiments/tune.sh CONFIG OUT "VARIANTS" "RATES" [KEY=VALUE...]      VARIANTS as in run.sh
set -euo pipefail
config=$1 out=$2 variants=$3 rates=$4
shift 4
here=$(dirname "$0")
for rate in $rates; do
  RATES='' "$here/run.sh" "$config" "$out/$rate" "$variants" "${SEED:-100}" "$@" "train.learning_rate=$rate"
done
python3 - "$out" "$rates" "$variants" << 'PY'
import json, pathlib, sys

out, rates, variants = pathlib.Path(sys.argv[1]), sys.argv[2].split(), sys.argv[3].split()
lines = []
for name in (v.split("=")[0] for v in variants):
    found = []
    for rate in rates:
        summaries = list((out / rate).glob(f"{name}-*/summary.json"))
        if not summaries:
            sys.exit(f"tune.sh: {name} at {rate} is not finished; give the command again")
        found += [(json.loads(summary.read_text())["accuracy"]["validation"], rate) for summary in summaries]
    accuracy, rate = max(found)
    lines.append(f"{name} {rate} {accuracy:.4f}")
print(*lines, sep="\n")
(out / "rates").write_text("\n".join(lines) + "\n")
PY
