#!/bin/sh
# Upstream's own unit tests over our two libraries. Prints TAP, one line per run.
#
# The programs are linked with libtcmalloc_minimal.so.4; both our libraries carry that soname, so
# the one that is preloaded is the one and only allocator of the process.
set -u
build=${MALLOCTAPE_BUILD:-.}
programs=$build/gperftools-build/2.16/tests
seconds_max=900

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
count=0

# Upstream's test also checks that its threads seldom find each other's locks taken. On a loaded
# machine that says who had the processor, and nothing of the allocator.
found_locks_taken() { grep -q 'Check failed: locks_failed_ <= locks_ok_' "$scratch/output"; }

# run NAME LIBRARY REMARK [ENV-ARGUMENT...] - one TAP line; after a failure, how the output ends
run() {
    name=$1 library=$build/lib/$2 text="$1, $3"
    shift 3
    count=$((count + 1))
    for attempt in 1 2 3; do
        status=0
        env "$@" LD_PRELOAD="$library" timeout "$seconds_max" "$programs/$name" \
            >"$scratch/output" 2>&1 </dev/null || status=$?
        [ "$status" != 0 ] && found_locks_taken || break
        echo "# attempt $attempt: threads found locks taken; once more"
    done
    if [ "$status" = 0 ]; then
        echo "ok $count - $text"
    else
        echo "not ok $count - $text (status $status)"
        tail -n 15 "$scratch/output" | sed 's/^/# /'
    fi
}

# The matrix of upstream's tcmalloc_unittest.sh.
run_tunables() { # run_tunables LIBRARY REMARK [ENV-ARGUMENT...]
    library_name=$1 remark=$2
    shift 2
    for tunable in TCMALLOC_TRANSFER_NUM_OBJ=40 TCMALLOC_TRANSFER_NUM_OBJ=4096 \
        TCMALLOC_AGGRESSIVE_DECOMMIT=t TCMALLOC_HEAP_LIMIT_MB=512; do
        run tcmalloc_minimal_unittest "$library_name" "$remark, $tunable" "$@" "$tunable"
    done
}

run_traced() { # run_traced NAME - a run that must leave a trace behind
    trace=$scratch/trace
    run "$1" libtcmalloc_minimal_tracing.so 'tracing on' TCMALLOC_TRACE_OUTPUT="$trace"
    count=$((count + 1))
    if [ -s "$trace" ]; then
        echo "ok $count - $1 was traced"
    else
        echo "not ok $count - $1 was traced"
    fi
    rm -f "$trace"*
}

for program in "$programs"/*test; do
    run "${program##*/}" libtcmalloc_minimal.so 'plain library' -u TCMALLOC_TRACE_OUTPUT
done
[ -z "${MALLOCTAPE_LONG:-}" ] || run_tunables libtcmalloc_minimal.so 'plain library' -u TCMALLOC_TRACE_OUTPUT

for program in "$programs"/*test; do
    run "${program##*/}" libtcmalloc_minimal_tracing.so 'tracing off' -u TCMALLOC_TRACE_OUTPUT
    run_traced "${program##*/}"
done
run_tunables libtcmalloc_minimal_tracing.so 'tracing on' TCMALLOC_TRACE_OUTPUT="$scratch/trace"
echo "1..$count"
