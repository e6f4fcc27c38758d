#!/bin/bash
# addresses_test.sh - recording moves nothing: a deterministic program gets every object at the same
# address from libtcmalloc_minimal.so, from the tracing library that does not record, and from the
# one that does.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

plan 6

if ! setarch -R true 2>err; then
    for text in 'not recording' 'recording' 'several seeds' 'again' 'the recording' \
        'it could fail'; do
        skip_test "$text" 'address randomization cannot be turned off here'
    done
    exit 0
fi

# addresses STEPS [NAME=VALUE...] - the environment is for the program alone; setarch would use it,
# too.
addresses() {
    local steps=$1
    shift
    setarch -R env "$@" "$workloads/addresses" "$steps"
}

plain() { addresses "$1" LD_PRELOAD="$plain_library" >"plain.$1"; }
not_recording() {
    addresses "$1" LD_PRELOAD="$tracing_library" >"off.$1" && cmp "plain.$1" "off.$1" >out 2>err
}
recording() {
    addresses "$1" LD_PRELOAD="$tracing_library" TCMALLOC_TRACE_OUTPUT=raw.lz4 >"on.$1" 2>err &&
        cmp "plain.$1" "on.$1" >out 2>&1
}
# Every line of the program is one allocation or realloc in the recording.
recording_is_whole() {
    local allocations
    allocations=$("$bin/malloctape" dump --only-calls --lane 0 raw.lz4 2>err |
        grep -c -e '^malloc' -e '^calloc' \
        -e '^realloc_[nmi]' -e '^memalign') || return 1
    echo "$allocations allocations recorded" >out
    [ "$allocations" -ge 200000 ]
}
differs_elsewhere() { addresses 2000 >system && ! cmp -s plain.2000 system; }

plain 20000 && plain 2000 && plain 300000
check 'the tracing library, not recording: 20000 steps' not_recording 20000
check 'the tracing library, recording: 20000 steps' recording 20000
check 'the tracing library, not recording: 300000 steps' not_recording 300000
check 'the tracing library, recording: 300000 steps' recording 300000
check 'these were recorded' recording_is_whole
plain 2000
check 'another allocator gives other addresses' differs_elsewhere
