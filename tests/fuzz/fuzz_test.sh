#!/bin/bash
# fuzz_test.sh - each fuzzer for some hundred executions, always the same ones, at most FUZZ_SECONDS
# (20) seconds. What it is for is the long form, make fuzz-raw and others; this one shows that they
# work, and that what they begin with is read. With MALLOCTAPE_LONG also those of commands, for which
# nearly all of malloctape is compiled once more.
set -euo pipefail

. "$(dirname "$0")/../cli_tap.sh"

if [ -n "${MALLOCTAPE_LONG:-}" ]; then plan 21; else plan 16; fi

export MALLOCTAPE_BUILD=$build_dir MALLOCTAPE_SOURCE=$source_dir
export FUZZ_OPTIONS="-seed=1 -runs=$(size 400 500) -timeout=300"
if [ -z "${MALLOCTAPE_LONG:-}" ]; then
    export FUZZ_BRIEF=1
    brief=tests/fuzz/brief
    build() {
        make -s -C "$build_dir" fuzz_build=$brief fuzz_optimize=-O0 fuzz_sanitizers=address "$@" \
            >out 2>err
    }
    # All by one make, which reads the whole of Makefile each time.
    if "$source_dir/tests/fuzz/run.sh" raw 0 >out 2>err &&
        build $brief/fuzz_{spool,instructions,symbols,import}; then
        export FUZZ_BUILT=1
    fi
fi

fuzz() {
    local status=0
    "$source_dir/tests/fuzz/run.sh" "$1" "${FUZZ_SECONDS:-20}" >out 2>err || status=$?
    if [ "$status" = 77 ]; then
        skip_test "fuzz_$1" "$(cat err)"
    else
        report "$status" "fuzz_$1: $(sed -n 's/^stat::number_of_executed_units: *//p' \
            err) executions"
    fi
}

for name in raw spool instructions symbols; do fuzz "$name"; done

FUZZ_OPTIONS='-seed=1 -runs=200 -timeout=300'
if [ -n "${MALLOCTAPE_LONG:-}" ]; then
    for command in info dump report compare verify export; do fuzz "command-$command"; done
elif ! command -v clang >/dev/null; then
    skip_test 'those of commands can be compiled' 'needs clang'
else
    check 'those of commands can be compiled' \
        build $brief/objects/tests/fuzz/fuzz_{command,export}.o
fi
for format in dj_mtrace heaptrack logalloc memory_replay microbench mtrace ops rep wip_processed \
    wip_raw wl; do
    fuzz "import-$format"
done
