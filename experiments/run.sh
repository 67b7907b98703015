#!/bin/bash
# Trains every variant with every seed under one configuration, several at a time.
#
#   experiments/run.sh CONFIG OUT "VARIANTS" "SEEDS" [KEY=VALUE...]      variants and variables as in jobs.sh
set -euo pipefail
source "$(dirname "$0")/jobs.sh"
queue "$@"
wait
