#!/bin/bash
# shellcheck disable=SC2154 # tap.sh sets these
# kills_test.sh - kill_test.rb with 20 kills, for both front ends: for `make check-arm64`.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

survives_kills() {
    MALLOCTAPE_KILLS=20 MALLOCTAPE_FRONT_END=$front_end \
        ruby "$source_dir/tests/tracing/kill_test.rb" >out 2>err && grep -q '^ok 1' out &&
        grep '^# 20 times' out
}

plan 2
for front_end in tcmalloc program; do
    check "$front_end: SIGKILL, 20 times: no call that had returned is missing" survives_kills
done
