# Runs of an experiment, several at a time; sourced by the scripts of this folder. What is finished is left alone and what was
# interrupted goes on, so that the same command can be given again. A run that finished with other settings (OUT/NAME-SEED.settings
# has them) is an error.
#
#   queue CONFIG OUT "VARIANTS" "SEEDS" [KEY=VALUE...]
#       Starts every variant with every seed as OUT/NAME-SEED, waiting for a free place only. `wait` waits for the rest.
#
# A variant is NAME, or NAME=VARIANT[,KEY=VALUE...] with settings of its own: "linear n10=grf,model.walkers=10". It is the
# model.variant of images and videos, the model.kind of graphs and the model.local of point clouds. An empty VARIANT keeps the
# configuration's: "plain=".
#
#   JOBS=2                   runs at once
#   SECONDS_LEFT=540         stop starting and wind up after so long (0: never), counted from BEGUN (now)
#   SEED_KEYS="train.seed"   the settings that a seed is given to
#   RATES=FILE               lines "NAME LEARNING_RATE[,KEY=VALUE...]", as tune.sh and graph_tune.sh write them. A NAME may
#                            be that of OUT's last folder and the variant's, "cora/gkat", which counts before "gkat", and "*"
#                            is any. Names that are not there keep their settings.
#   DRY=1                    train nothing: print each run's folder, what `train --dry-run` says of it, and its settings
#   TOPOMASK=build/release/bin/topomask
begun=${BEGUN:-$(date +%s)}
tool=${TOPOMASK:-build/release/bin/topomask}

# What RATES has for OUT/NAME.
tuned() {  # OUT NAME
  [ -n "${RATES:-}" ] || return 0
  awk -v name="$2" -v place="$(basename "$1")/$2" '
    $1 == place { best = $2 } $1 == name { own = $2 } $1 == "*" { any = $2 }
    END { print best ? best : own ? own : any }' "$RATES"
}

train_one() {  # CONFIG OUT ENTRY SEED KEY=VALUE...
  local config=$1 out=$2 entry=$3 seed=$4 name=${3%%=*} left=0 variant=$3 own=() settings=() kind=model.variant
  shift 4
  local folder=$out/$name-$seed limit=${SECONDS_LEFT:-0}
  grep -q '"task": *"graphs"' "$config" && kind=model.kind
  grep -q '"task": *"points"' "$config" && kind=model.local
  if [ "$name" != "$entry" ]; then
    IFS=, read -ra own <<< "${entry#*=}"
    variant=${own[0]:-}
  fi
  for setting in "$@" "${own[@]:1}"; do settings+=(--set "$setting"); done
  IFS=, read -ra own <<< "$(tuned "$out" "$name")"
  [ -n "${own[0]:-}" ] && own[0]=train.learning_rate=${own[0]}
  for setting in "${own[@]}"; do settings+=(--set "$setting"); done
  [ -n "$variant" ] && settings+=(--set "$kind=$variant")
  for key in ${SEED_KEYS:-train.seed}; do settings+=(--set "$key=$seed"); done
  if [ -n "${DRY:-}" ]; then
    printf '%s %s %s\n' "$folder" "$("$tool" train "$config" --dry-run --json "${settings[@]}" --set "name=$name" |
      tr -s ' \n' ' ')" "$(echo ${settings[*]/#--set/})"
    return
  fi
  # Where data lie does not matter.
  local line="$config $(cksum < "$config") ${settings[*]/#data.path=*/}"
  if [ -e "$folder/summary.json" ]; then
    [ ! -e "$folder.settings" ] || [ "$line" = "$(cat "$folder.settings")" ] ||
      echo "$folder has finished with other settings than those of now: remove it, or name another folder" >&2
    return 0
  fi
  if [ "$limit" -gt 0 ]; then
    left=$((limit - ($(date +%s) - begun)))
    [ $left -gt 10 ] || return 0
  fi
  echo "$line" > "$folder.settings"
  "$tool" train "$config" --out "$folder" --quiet --stop-after $left "${settings[@]}" --set "name=$name" \
    > "$folder.log" 2>&1 || echo "$folder failed: $(tail -1 "$folder.log")" >&2
}

queue() {
  local config=$1 out=$2 variants=$3 seeds=$4 seed variant
  shift 4
  [ -n "${DRY:-}" ] || mkdir -p "$out"
  for seed in $seeds; do
    for variant in $variants; do
      while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-2}" ]; do wait -n || true; done
      train_one "$config" "$out" "$variant" "$seed" "$@" &
    done
  done
}

# The names of a list of variants.
names() { for entry in $*; do echo "${entry%%=*}"; done | xargs; }
