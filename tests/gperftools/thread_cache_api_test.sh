#!/bin/sh
# Runs thread_cache_api_test over both libraries. Prints TAP.
set -u
build=${MALLOCTAPE_BUILD:-.}
seconds_max=600

run() { # run LIBRARY - TAP lines without numbers
    status=0
    LD_PRELOAD=$build/lib/$1 timeout "$seconds_max" "$build/tests/gperftools/thread_cache_api_test" \
        </dev/null ||
        status=$?
    # 1 says that a test failed, and the program has said which.
    [ "$status" -le 1 ] || echo "not ok - ended with status $status"
}

for library in libtcmalloc_minimal.so libtcmalloc_minimal_tracing.so; do
    run "$library" | sed "s/^\(ok\|not ok\) - /&$library: /"
done | awk '{ print } /^ok|^not ok/ { count++ } END { print "1.." count + 0 }'
