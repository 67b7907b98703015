#!/usr/bin/env bash
# Builds the fuzzers and runs them, two at a time, from the corpora in tests/fuzz/corpus.
#   fuzz.sh [SECONDS [TARGET...]]   30 seconds each, every target
# What a run finds to be new stays in build/fuzz/corpus, from where the next one goes on. A finding (a crash, a report of
# a sanitizer, more than 512 MiB of memory, more than 5 s for an input) is kept in build/fuzz/findings and fails the run.
#   FUZZ_JOBS  fuzzers at once (2)
#   FUZZ_SEED  the seed of the mutations (0: another one in each run)
#   PRESET=fuzz, BUILD_DIR, JOBS, CMAKE_ARGS, TORCH ... see build.sh
set -euo pipefail

cd "$(dirname "$0")/.."
limit=${1:-30}
shift $(($# > 0))
if ! [[ $limit =~ ^[0-9]+$ ]]; then
  echo "fuzz.sh: SECONDS must be a whole number, got '$limit'" >&2
  exit 2
fi
export PRESET=fuzz BUILD_DIR=${FUZZ_BUILD_DIR:-build/fuzz}
if ! command -v clang++-14 >/dev/null && [[ ${CMAKE_ARGS:-} != *CMAKE_CXX_COMPILER* ]]; then
  echo "fuzz.sh: clang++-14 is missing. The Debian packages clang-14 and libclang-rt-14-dev bring it:" >&2
  echo "  scripts/packages.sh fuzz" >&2
  exit 1
fi

targets=("$@")
if ((${#targets[@]} == 0)); then
  for source in tests/fuzz/*.cpp; do targets+=("$(basename "$source" .cpp)"); done
fi
for target in "${targets[@]}"; do
  if [[ ! -f tests/fuzz/$target.cpp ]]; then
    echo "fuzz.sh: TARGET must be one of $(basename -as .cpp tests/fuzz/*.cpp | xargs), got '$target'" >&2
    exit 2
  fi
done
scripts/build.sh fuzzers

fuzz_one() {
  local target=$1 limit=$2 folder=$BUILD_DIR arguments=() status=0 longest=8192
  mkdir -p "$folder/corpus/$target" "$folder/findings" "$folder/logs"
  [[ -f tests/fuzz/dictionaries/$target.dict ]] && arguments+=("-dict=tests/fuzz/dictionaries/$target.dict")
  case $target in config | settings | graph_arguments | numbers) longest=512 ;; esac
  "$folder/fuzz/$target" -max_total_time="$limit" -seed="${FUZZ_SEED:-0}" -rss_limit_mb=512 -timeout=5 \
    -max_len=$longest -print_final_stats=1 -artifact_prefix="$folder/findings/$target-" "${arguments[@]}" \
    "$folder/corpus/$target" "tests/fuzz/corpus/$target" >"$folder/logs/$target" 2>&1 || status=$?
  local stat='s/^stat::\(number_of_executed_units\|peak_rss_mb\): *//p'
  mapfile -t numbers < <(sed -n "$stat" "$folder/logs/$target")
  if ((status == 0)); then
    printf '%-14s %10d executions, at most %d MiB\n' "$target" "${numbers[0]}" "${numbers[1]}"
  else
    printf '%-14s FAILED after %d executions:\n' "$target" "${numbers[0]:-0}"
    grep -E 'ERROR:|runtime error|terminate called|what\(\):|SUMMARY|^fuzz: |Test unit written' "$folder/logs/$target" | sed 's/^/  /' || true
    echo "  again: $folder/fuzz/$target FILE; all it said: $folder/logs/$target"
    return 1
  fi
}
export -f fuzz_one

printf '%s\n' "${targets[@]}" | xargs -P "${FUZZ_JOBS:-2}" -I{} bash -c "fuzz_one {} $limit"
