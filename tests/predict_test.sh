#!/bin/bash
# predict_test.sh - bench/predict on next to no work of two programs: its tables, its JSON, and that
# errors are errors.
#
# Prints TAP.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/tap.sh"

predict() {
    ruby "$source_dir/bench/predict" --build "$build_dir" --steps small --runs 1 --replays 2 "$@" \
        >out 2>err
}

json_has() {
    ruby -rjson -e "json = JSON.parse(File.read('predict.json')); exit(($1) ? 0 : 1)" >out 2>err
}

compares_two() {
    predict --only sessions --only perl --allocators 'tcmalloc,glibc,glibc:MALLOC_ARENA_MAX=1' \
        --json predict.json
}

# A line of each measure, and each program.
has_tables() {
    grep -q '^sessions: [0-9]* events, 5 threads$' out &&
        [ "$(grep -cE '^default +([0-9]+ %|-) +[0-9]+/[0-9]+ ' out)" = 3 ] &&
        [ "$(grep -c '^default.* of 2 ' out)" = 3 ]
}

# A program that took a few milliseconds has no curve, so no memory is expected of it. Of the
# recorded allocator nothing is foretold.
tells_expected() {
    grep -q '^  RSS at the peak: of [a-z0-9]* of 4' out &&
        grep -q '^  processor time: the range holds [0-4] of [0-4] real changes' out &&
        [ "$(grep -c '^  glibc:MALLOC_ARENA_MAX=1 .* MiB, by replays ' out)" = 2 ] &&
        grep -q '^  settings: [0-2] of 2 right' out
}

real='json.flat_map { |one| one["real"].values }'

# The same tables, without the lines of single programs.
reads_json() {
    grep -A 100 '^peak RSS, MiB' out >tables
    ruby "$source_dir/bench/predict" --from predict.json >again && cmp tables again
}

failure_is_an_error() {
    rm -rf other
    mkdir -p other/bench/workloads
    ln -s "$build_dir/lib" "$build_dir/bin" other/
    printf '#!/bin/sh\necho sorry; exit 3\n' >other/bench/workloads/sessions
    chmod +x other/bench/workloads/sessions
    ! predict --build other --only sessions && grep -q '^sessions: FAILED: .*exit 3' out
}

missing_is_named() {
    rm other/bench/workloads/sessions
    predict --build other --only sessions && grep -q '^sessions: not measured: ' out
}

unknown_is_an_error() { ! predict --only emacs && grep -q 'no program is called emacs' err; }

# usage tells what the program had, and ends as it did.
usage_tells() {
    local at=0
    "$build_dir/bench/workloads/usage" usage.json sh -c 'exit 7' || at=$?
    [ $at = 7 ] && ruby -rjson -e 'of = JSON.parse(File.read("usage.json"))
        exit(of["peak_rss_bytes"] >= of["end_rss_bytes"] && of["end_rss_bytes"] > 100_000)'
}

plan 10
if [ -n "$sanitized" ]; then
    for number in 1 2 3 4 5 6 7 8 9 10; do
        skip_test "test $number" 'a sanitizer brings its own malloc'
    done
    exit 0
fi
check 'two programs under three entries' compares_two
check 'every table is there' has_tables
check 'the tables of what JSON has' reads_json
check 'what is expected of processes, and of settings' tells_expected
check 'JSON: real figures of every entry' json_has "$real.size == 6 &&
    $real.flat_map { |r| r['runs'] }.all? { |r| r['peak'] >= r['end'] && r['end'] > 1_000_000 &&
        r['user'] >= 0 && r['faults'] > 100 }"
check 'JSON: a setting makes an entry of its own' json_has \
    'json.all? { |one| one["predicted"]["default"].keys == one["real"].keys }'
check 'a program that fails is an error, and named' failure_is_an_error
check 'a program that is not built is named' missing_is_named
check 'an unknown name is an error' unknown_is_an_error
check 'usage tells memory at the end, and the exit status' usage_tells
