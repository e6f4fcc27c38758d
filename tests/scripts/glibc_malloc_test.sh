#!/bin/bash
# glibc_malloc_test.sh - scripts/glibc-malloc.sh says where a glibc has no probes, watches those
# that there are, and prints what they say. Prints TAP.
set -eu

# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

script=$source_dir/scripts/glibc-malloc.sh
fires=$workloads/glibc_probes

# watches [-n] - the probes of that program.
watches() { GLIBC_MALLOC_FILE=$fires "$script" "$@" "$process"; }

says_there_are_none() {
    if "$script" -n $$ >out 2>err; then
        grep -q '^usdt:.*:libc:memory_' out
    else
        grep -q ' has no probes of malloc: it was built without them$' err
    fi
}
has_those_there_are() {
    watches -n >out 2>err && grep -c '^usdt:' out >count && [ "$(cat count)" = 7 ] &&
        grep -q '^BEGIN' out && ! grep -q 'memory_sbrk_less' out
}
# As of a process: the same C library, from the program's file.
starts_a_program() {
    "$script" -n -c 'sleep 0' >out 2>err || grep -q ' has no probes of malloc: ' err || return 1
    GLIBC_MALLOC_FILE=$fires "$script" -n -c 'sleep 0' >out 2>err && grep -q '^usdt:' out &&
        ! "$script" -n -c 'no-such-program x' 2>err && grep -q 'no program no-such-program$' err
}
# Of SIGUSR1 it prints the tables that it prints at its end, too.
all_is_seen() {
    kill -USR1 "$watcher" && grep -qx "$process: new arena" out &&
        grep -qx "$process: new heap, 139264 bytes" out &&
        grep -qx "$process: no room in its arena for 100 bytes, tries another" out &&
        grep -qx "$process: mallopt(-3, 65536)" out &&
        grep -qx "$process: thresholds: mmap 1052672 bytes, trim 2105344 bytes" out &&
        grep -qx '@mmap_threshold: 1052672' out && grep -q '^@sbrk_bytes: [1-9]' out &&
        grep -qx '@heap_bytes\[28672\]: 139264' out && grep -q "^@waits\[$process\]: [1-9]" out
}
prints_them() {
    GLIBC_MALLOC_FILE=$fires "$script" "$process" >out 2>err &
    watcher=$!
    wait_until grep -qs ' thresholds: ' out || return 1
    wait_until all_is_seen || return 1
    kill "$process" # which is the end of the watcher, too
    wait "$watcher"
}
can_watch() { timeout 60 bpftrace -e 'BEGIN { exit(); }' >out 2>err && watches -n >program &&
    timeout 60 bpftrace -l "usdt:$fires:*" 2>err | grep -q memory_arena_new; }

plan 4
check 'a glibc without probes is called so' says_there_are_none
"$fires" &
process=$!
sleep 0.2
if ! kill -0 $process 2>/dev/null; then
    skip_test 'it watches the probes that there are' 'no sys/sdt.h'
    skip_test 'it prints what they say' 'no sys/sdt.h'
    skip_test 'it starts a program' 'no sys/sdt.h'
    exit
fi
check 'it watches the probes that there are' has_those_there_are
if can_watch; then
    check 'it prints what they say' prints_them
else
    skip_test 'it prints what they say' 'bpftrace is missing, or may not watch'
fi
check 'it starts a program' starts_a_program
kill $process 2>/dev/null || :
