#!/bin/bash
# killed_on_slurm.sh BIN COUNT SEED - killed_sweeps.rb, with COUNT sweeps on a Slurm of this machine.
set -euo pipefail

MALLOCTAPE_BUILD=$(cd "$1/.." && pwd)
count=$2
seed=$3
export PATH=$PATH:/usr/sbin
. "$(dirname "$0")/cluster.sh"
. "$source_dir/tests/sweep/slurm_here.sh"
starts || { cat err; exit 1; }
ruby "$source_dir/tests/sweep/killed_sweeps.rb" "$bin" "$count" "$seed" slurm
