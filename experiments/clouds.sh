#!/bin/bash
# Clouds of points and meshes: a transformer under the library's masks against the same without one, three seeds each.
# SHREC16 over the edges of its meshes (`mesh`) and over nearest neighbours of their vertices (`cloud`), and RadHAR.
# What is finished is left alone, what was interrupted goes on.
#
#   experiments/clouds.sh OUT [mesh] [cloud] [radhar]     all parts where none is named
#
#   SHREC=FOLDER   the unpacked set, with CLASS/train/*.obj; without it, `mesh` and `cloud` are left out
#   RADHAR=FILE    radhar.npz; without it, `radhar` is left out
#   SEEDS="0 1 2"   DEVICE=cpu   PRECISION=float32   TOPOMASK=build/release/bin/topomask
#   EPOCHS=60       of SHREC16; RADHAR_EPOCHS=12
#   REPORT=0        no OUT/SET.html, whose pictures are predicted again
#   VARIANTS        as jobs.sh has them; JOBS and other variables as in jobs.sh
# Prints a table, which OUT/table.md keeps, and what the runs were made from.
set -euo pipefail
here=$(dirname "$0")
out=$1
shift
parts=${*:-mesh cloud radhar}
source "$here/jobs.sh"
machine=("train.device=${DEVICE:-cpu}" "train.precision=${PRECISION:-float32}")
variants=${VARIANTS:-none=transformer,model.mask=none grf=transformer exact=transformer,model.mask=series
  neighbours=transformer,model.mask=neighbours softmax=transformer,model.mask=none,model.attention=softmax}

compare() {  # NAME CONFIG KEY=VALUE...
  local name=$1 config=$2
  shift 2
  queue "$here/../examples/$config" "$out/$name" "$variants" "${SEEDS:-0 1 2}" "${machine[@]}" \
    train.evaluation_batch=64 model.max_entries=$((1 << 28)) "$@"
  wait
  [ "${REPORT:-1}" = 0 ] || "$tool" report "$out/$name"/*-[0-9]*/ --out "$out/$name.html" > /dev/null ||
    echo "clouds.sh: no report of $name" >&2
  compared+=("$name")
}

compared=()
export BEGUN=${BEGUN:-$(date +%s)} JOBS=${JOBS:-2}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((($(nproc) + JOBS - 1) / JOBS))}
for part in $parts; do
  case $part in
    mesh | cloud)
      if [ -z "${SHREC:-}" ]; then
        echo "clouds.sh: $part is left out: SHREC names no folder" >&2
        continue
      fi
      edges=given
      [ "$part" = cloud ] && edges=nearest
      compare "$part" shrec.json "data.path=$SHREC" "data.edges=$edges" "train.epochs=${EPOCHS:-60}"
      ;;
    radhar)
      if [ -z "${RADHAR:-}" ]; then
        echo "clouds.sh: radhar is left out: RADHAR names no file" >&2
        continue
      fi
      # The hop powers of all its graphs have 85 million entries; `exact` keeps 7 numbers for each.
      compare radhar radhar.json "data.path=$RADHAR" "train.epochs=${RADHAR_EPOCHS:-12}" model.max_entries=$((1 << 30))
      ;;
    *)
      echo "clouds.sh: parts are mesh, cloud and radhar, got $part" >&2
      exit 2
      ;;
  esac
done
if [ ${#compared[@]} -gt 0 ]; then
  "$here/table.py" "$out" --rows "${compared[*]}" --columns "$(names $variants)" --title set --no-mean
  "$here/conditions.py" "${compared[@]/#/$out/}" | tee -a "$out/table.md"
fi
