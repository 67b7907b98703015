#!/bin/bash
# Chooses a learning rate, and a dropout if asked, for every model and data set of an experiment on graphs, by validation
# accuracy and with the same budget for each. The script runs once for each setting, with a seed or split that its table
# does not have, of TU sets on fold 0. Test accuracies are not looked at.
#
#   experiments/graph_tune.sh SCRIPT OUT [ARGUMENT...]     as SCRIPT takes them: "citation.sh OUT", "degrees.sh OUT amazon"
#
# Writes OUT/rates ("SET/MODEL RATE[,model.dropout=P] VALIDATION_ACCURACY") once every run is finished:
#   DATA=… experiments/graph_tune.sh citation.sh OUT && RATES=OUT/rates DATA=… experiments/citation.sh OUT2
#
#   LEARNING_RATES="2e-3 5e-3 1e-2"
#   DROPOUTS=""        "0.2 0.6": every rate with each of them; empty: that of the configuration
#   TUNE_SEED=100      the seed or split, in place of SEEDS or SPLITS; FOLDS=0
# Other variables as SCRIPT has them.
set -euo pipefail
here=$(dirname "$0") script=$1 out=$2
shift 2
settings=()
for rate in ${LEARNING_RATES:-2e-3 5e-3 1e-2}; do
  for dropout in ${DROPOUTS:-as_configured}; do
    settings+=("$rate$([ "$dropout" = as_configured ] || echo ",model.dropout=$dropout")")
  done
done
seed=${TUNE_SEED:-100}
BEGUN=${BEGUN:-$(date +%s)}
export BEGUN
mkdir -p "$out"
for setting in "${settings[@]}"; do
  echo "* $setting" > "$out/$setting.setting"
  RATES=$out/$setting.setting SEEDS=$seed SPLITS=$seed FOLDS=${FOLDS:-0} "$here/$script" "$out/$setting" "$@" \
    > "$out/$setting.log"
  [ -z "${DRY:-}" ] || cat "$out/$setting.log"
done
[ -z "${DRY:-}" ] || exit 0
python3 - "$out" "${settings[@]}" << 'PY'
import collections, json, pathlib, statistics, sys

out, settings = pathlib.Path(sys.argv[1]), sys.argv[2:]
found = collections.defaultdict(lambda: collections.defaultdict(list))  # SET/MODEL → setting → accuracies
for setting in settings:
    for log in (out / setting).glob("*/*-*.log"):  # of runs that were started
        summary = log.parent / log.name.removesuffix(".log") / "summary.json"
        if not summary.exists():
            sys.exit(f"graph_tune.sh: {summary.parent} is not finished; give the command again")
        name = f"{log.parent.name}/{log.name.rsplit('-', 1)[0]}"
        found[name][setting].append(json.loads(summary.read_text())["accuracy"]["validation"])
lines = []
for name, of_settings in sorted(found.items()):
    if len(of_settings) < len(settings):
        sys.exit(f"graph_tune.sh: {name} has {len(of_settings)} of {len(settings)} settings; give the command again")
    best = max(settings, key=lambda setting: statistics.mean(of_settings[setting]))  # the first where several are equal
    lines.append(f"{name} {best} {statistics.mean(of_settings[best]):.4f}")
if not lines:
    sys.exit("graph_tune.sh: no run was made")
print(*lines, sep="\n")
(out / "rates").write_text("\n".join(lines) + "\n")
PY
