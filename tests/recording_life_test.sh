#!/bin/bash
# recording_life_test.sh - a recording goes on as long as its program does. Where it cannot, it says
# so, and the program goes on.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/tap.sh"

# A complete recording needs no spool.
complete() { [ ! -e "$1.spool" ] && verified "$1" 0; }

fresh() { rm -f raw.lz4*; }

# --- the writer's thread ---

large_thread_storage() {
    fresh
    exit_status recorded raw.lz4 "$workloads/storage"
    [ "$status" = 7 ] && complete raw.lz4 && [ "$(objects raw.lz4 777)" = 20000 ]
}

plan 1
check 'a program with a megabyte of thread-local variables' large_thread_storage
