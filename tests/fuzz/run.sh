#!/bin/bash
# run.sh raw|spool|instructions|symbols|import-FORMAT|command-NAME SECONDS - runs a fuzzer, with one process, a time
# limit and a memory limit for each input, and FUZZ_OPTIONS of libFuzzer; with FUZZ_BRIEF set, one that
# is compiled soon and runs slowly; with FUZZ_BUILT set, one that is there already. What it finds is
# kept in tests/fuzz of the build directory. Exit status 77: there is no libFuzzer; others but 0: it
# found something.
set -euo pipefail

name=$1
seconds=$2
cd "$MALLOCTAPE_BUILD"
corpus=tests/fuzz/corpus

clang=${CLANG:-clang}
if [ -z "${FUZZ_BUILT:-}" ] && ! echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return d != 0 && n < 0; }' |
    "$clang" -x c -fsanitize=fuzzer,address -o /dev/null - 2>/dev/null; then
    echo "fuzz-$name: needs clang with libFuzzer (packages clang and libclang-rt-dev)" >&2
    exit 77
fi
program=fuzz_${name%%-*}
[ "$name" != command-export ] || program=fuzz_export
place=tests/fuzz how=
if [ -n "${FUZZ_BRIEF:-}" ]; then
    place=tests/fuzz/brief how='fuzz_optimize=-O0 fuzz_sanitizers=address'
fi
program=$place/$program
export FUZZ_FORMAT="${name#*-}" silent=
case $name in command-*) silent=-close_fd_mask=3 ;; esac # what commands print
# shellcheck disable=SC2086 # variables of make
[ -n "${FUZZ_BUILT:-}" ] || ${MAKE:-make} -s fuzz_build=$place $how "$program"
is_new() {
    local from
    for from in "$MALLOCTAPE_SOURCE/tests/fuzz/corpus.sh" "$MALLOCTAPE_SOURCE/tests/convert/corpus.rb" \
        "$MALLOCTAPE_SOURCE/tests/fuzz/symbols_corpus.sh" "$MALLOCTAPE_SOURCE/tests/symbols/known.cc" \
        tests/samples/write_samples; do
        [ "$corpus/made" -nt "$from" ] || return 1
    done
}
is_new || "$MALLOCTAPE_SOURCE/tests/fuzz/corpus.sh" "$corpus"
case $name in
command-compare) corpus=$corpus/reports ;;
command-info | command-dump) corpus="$corpus/both $corpus/raw $corpus/instructions" ;;
command-*) corpus="$corpus/$name $corpus/instructions" ;;
*) corpus=$corpus/$name ;;
esac
mkdir -p "${corpus%% *}"
[ "$seconds" != 0 ] || exit 0 # all is there
# Mappings are not malloc's: leaks of them would show as growth beyond the limit.
# shellcheck disable=SC2086 # options are words
ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:quarantine_size_mb=16 \
    exec "$program" -error_exitcode=1 -timeout_exitcode=1 -max_total_time="$seconds" \
    -timeout=10 -rss_limit_mb=1024 -max_len=65536 -print_final_stats=1 $silent \
    -artifact_prefix="tests/fuzz/found-$name-" ${FUZZ_OPTIONS:-} $corpus
