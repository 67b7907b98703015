# What the experiments on graphs share; sourced by motifs.sh, cycles.sh, tu.sh, citation.sh, trees.sh and degrees.sh.
# graph_tune.sh chooses learning rates and dropout for any of them.
#
#   TIER=full        short: fewer epochs, seeds and data sets, so that a script is seen to work in minutes
#   DEVICE=cpu       or cuda
#   DATA=FOLDER      where data sets are, as each script says
# Each run computes on one thread, so that JOBS=n keeps n cores busy; other variables as in jobs.sh.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
source "$here/jobs.sh"
tier=${TIER:-full}
common=("train.device=${DEVICE:-cpu}")

short() { [ "$tier" = short ]; }

# The table at the end, of runs that were trained.
table() { [ -n "${DRY:-}" ] || "$here/table.py" "$@"; }

# Entries of a list of variants whose names are in MODELS, or all of them.
chosen() {
  local entry
  [ -n "${MODELS:-}" ] || { echo "$*"; return; }
  for entry in $*; do
    if [[ " $MODELS " == *" ${entry%%=*} "* ]]; then echo "$entry"; fi
  done
}
