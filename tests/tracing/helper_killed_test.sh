#!/bin/bash
# helper_killed_test.sh - the process that opens a recording's files in the place of the writer
# thread is killed, as `pkill` does, which finds it by the program's name: at each of its system
# calls. Nothing is lost and nothing is left, of the program's recording and of a forked child's.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

# run PROCESS CALL - the first process of that kind is the program's, the second its child's.
# Leaves two recordings; the child's is traces/NUMBER.lz4.
run() {
    rm -rf traces
    mkdir traces
    exit_status env "TCMALLOC_TRACE_OUTPUT=$scratch/traces/%p.lz4" TCMALLOC_TRACE_QUIET= \
        "$workloads/kill_at" "$1" "$2" env "LD_PRELOAD=$build_dir/lib/libmalloctape.so" \
        bash -c '(list=(1 2 3); echo $BASHPID >number); echo $$ >own' 2>err
}

is_whole() {
    [ "$status" = 0 ] && [ "$(find traces -type f | wc -l)" = 2 ] && ! grep -q 'not rec' err &&
        verified "traces/$(cat number).lz4" 0 && verified "traces/$(cat own).lz4" 0
}

# killed_everywhere PROCESS - up to the call that it does not come to.
killed_everywhere() {
    local call=1
    for (( ; ; call += step)); do
        run "$1" "$call"
        [ "$status" != 99 ] || break
        is_whole || {
            echo "# at call $call: status $status, $(ls -A traces)"
            return 1
        }
    done
    [ "$call" -gt 20 ]
}

# The recording before stays, or is replaced by a whole one.
replaces_older() {
    local call
    for ((call = 1; call < 60; call += step)); do
        rm -rf older*
        "$bin/malloctape" record -q -o older.lz4 true && : >older.lz4.spool || return 1
        exit_status env "TCMALLOC_TRACE_OUTPUT=older.lz4" TCMALLOC_TRACE_QUIET=1 \
            "$workloads/kill_at" 1 "$call" env "LD_PRELOAD=$build_dir/lib/libmalloctape.so" \
            bash -c 'exit 7' 2>err
        [ "$status" != 99 ] || return 0
        [ "$status" = 7 ] && verified older.lz4 0 &&
            [ "$(find . -name '*older*' | wc -l)" = 1 ] &&
            [ -z "$(find . -name '.malloctape*')" ] || {
            echo "# at call $call: status $status, $(ls -A)"
            return 1
        }
    done
}

step=$(size 4 1)
plan 3
can_trace() { run 1 100000 && [ "$status" = 99 ]; }
if can_trace; then
    check 'killed while a program begins' killed_everywhere 1
    check 'killed while a forked child begins' killed_everywhere 2
    check 'killed while an older recording is replaced' replaces_older
else
    for _ in 1 2 3; do skip_test 'killed at each system call' 'processes may not be traced'; done
fi
