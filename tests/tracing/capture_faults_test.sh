#!/bin/sh
# capture_faults_test.sh - runs the program of this name, which prints TAP: with faults by chance
# always the same few times, in the long form (MALLOCTAPE_LONG) or with MALLOCTAPE_RUNS others each
# time.
if [ -z "${MALLOCTAPE_RUNS:-}" ]; then
    if [ -n "${MALLOCTAPE_LONG:-}" ]; then
        MALLOCTAPE_RUNS=20000
    else
        MALLOCTAPE_RUNS=100 MALLOCTAPE_SEED=${MALLOCTAPE_SEED:-1}
    fi
    export MALLOCTAPE_RUNS MALLOCTAPE_SEED
fi
exec "${MALLOCTAPE_BUILD:-build}/tests/tracing/capture_faults_test"
