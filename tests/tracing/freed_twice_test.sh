#!/bin/bash
# freed_twice_test.sh - programs that free an object twice: their recordings can be ordered,
# verified and replayed.
set -euo pipefail

. "$(dirname "$0")/../cli_tap.sh"

plan 13

postprocess() { exit_status "$bin/postprocess" "$@" >out 2>err; }

# pipeline HOW [MORE] - records, orders, verifies and replays.
pipeline() {
    rm -f raw raw.spool
    recorded raw "$workloads/freed_twice" "$@" || return 1
    postprocess -j json raw ordered
    [ "$status" = 0 ] || return 1
    "$bin/malloctape" verify raw ordered >out 2>verify_err &&
        "$bin/replay" --engine=null ordered >out 2>err
}

number() { sed -n "s/^  \"$1\": \([0-9]*\),\{0,1\}\$/\1/p" json; }

# The second free is told of, with its number.
is_told() {
    postprocess raw ordered && grep -q '^freed twice  *1$' err || return 1
    instruction=$(sed -n 's/.*freed already: 1; the first is instruction #\([0-9]*\)$/\1/p' err)
    "$bin/malloctape" dump ordered >out && grep -q "#$instruction L0 freed_twice$" out &&
        grep -A1 "#$instruction " out | grep -q 'free ?$'
}
twice() { pipeline "$@" && [ "$(number freed_twice)" = 1 ]; }
at_least_once() { pipeline "$@" && [ "$(number freed_twice)" -ge 1 ]; }

# Of both objects that get the same address each is freed; what the list of the cache had behind is
# not known.
both_are_freed() { twice all 2 && [ "$(number unknown_objects)" = 0 ]; }

# tcmalloc ends a program that gives back pages twice, recorded or not: what came before is there.
large() {
    rm -f raw raw.spool
    { exit_status env LD_PRELOAD="$plain_library" "$workloads/freed_twice" large; } >out 2>err
    local plain=$status
    { exit_status recorded raw "$workloads/freed_twice" large; } 2>/dev/null
    [ "$status" = "$plain" ] && [ "$status" -gt 128 ] && grep -q 'Object was not in-use' err || return 1
    postprocess -j json raw ordered
    [ "$status" = 3 ] || return 1
    exit_status "$bin/malloctape" verify raw ordered >out 2>verify_err
    [ "$status" = 3 ]
}

# More frees than allocations: without their order the recording does not say how many are alive.
info_does_not_count() {
    twice '' && "$bin/malloctape" info raw >out && grep -q '^live at end  *not known, as' out &&
        "$bin/malloctape" info --json - raw >out && grep -q '"live_at_end": null' out
}

check 'an object is freed twice' twice ''
check 'info of it says that live objects are not known' info_does_not_count
check 'the summary names the instruction' is_told
check 'by another thread' twice thread
check 'as one of a size' twice sized
check 'a realloc of a freed object' twice realloc
check 'two more get its address' twice '' 2
check 'both are freed' both_are_freed
check 'a hundred get its address' twice '' 100
check 'all are freed' at_least_once all 100
check 'another thread, and a hundred more' at_least_once thread 100
check 'a large object' large
check 'a realloc of a large object' pipeline large-realloc
