#!/bin/bash
# program_order_test.sh - over the C library's malloc, which splits and merges the memory of
# objects, no objects that are alive overlap in the order.
set -euo pipefail

export MALLOCTAPE_FRONT_END=program
. "$(dirname "$0")/../cli_tap.sh"

plan 4

# in_order THREADS STEPS [NAME=VALUE] - verify knows where each object is, and finds no two on the
# same bytes.
in_order()
{
    local threads=$1 calls=$2
    shift 2
    rm -f cuts.raw*
    env "$@" LD_PRELOAD="$tracing_library" TCMALLOC_TRACE_OUTPUT=cuts.raw \
        "$workloads/cuts" "$threads" "$calls" >out 2>err &&
        exits 0 verify cuts.raw && prints '^cuts.raw: in order$' && ! grep overlap out
}

# Threads that begin and end, and move objects of each other.
relays()
{
    rm -f relay.raw*
    recorded relay.raw "$workloads/relay" 4 "$1" 2000 && exits 0 verify relay.raw &&
        prints '^relay.raw: in order$'
}

steps=$(size 150000 3000000)
check 'two threads' in_order 2 "$steps"
check 'eight threads' in_order 8 $((steps / 4))
check 'with addresses, off the fast path' in_order 4 $((steps / 2)) TCMALLOC_TRACE_ADDRESSES=1
check 'objects that other threads move' relays "$(size 30 600)"
