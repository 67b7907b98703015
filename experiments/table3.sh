#!/bin/bash
# Ablations on CIFAR-10: what the mask is made of (Table 3 of Reid et al.: GRF, none, walks without importance weights,
# free features; p = .5 as there), how many walks it takes (Figure 6), and FAVOR+ features with and without it. Three
# seeds each. Rows that ask why walks without importance weights do well: f fixed, as a learnable one can absorb what
# the weights do; ten times as many walks; and the exact series, a mask without noise.
#
#   experiments/table3.sh OUT        variables as in run.sh
set -euo pipefail
here=$(dirname "$0")
halting=model.halting_probability=0.5
variants="
  linear
  n1=grf,model.walkers=1,$halting n10=grf,model.walkers=10,$halting
  n100=grf,model.walkers=100,$halting n1000=grf,model.walkers=1000,$halting
  ad_hoc=ad_hoc,model.walkers=100,$halting ad_hoc_n1000=ad_hoc,model.walkers=1000,$halting
  exact free
  n100_fixed=grf,model.walkers=100,$halting,train.mask_learning_rate=0
  ad_hoc_fixed=ad_hoc,model.walkers=100,$halting,train.mask_learning_rate=0
  favor=linear,model.features=favor favor_grf=grf,model.features=favor"
"$here/run.sh" "$here/cifar10.json" "$1" "$variants" "${SEEDS:-0 1 2}" train.epochs=5
