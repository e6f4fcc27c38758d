#!/bin/bash
# predict_test.sh - bench/predict and bench/steady on next to no work: tables, JSON, and that errors
# are errors.
#
# Prints TAP.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

predict() {
    ruby "$source_dir/bench/predict" --build "$build_dir" --steps small --runs 1 --replays 4 "$@" \
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
        grep -q '^  settings: [0-2] of 2 right within 15 % or 2 MiB, [0-2] within noise$' out
}

real='json.flat_map { |one| one["real"].values }'

# The same tables, without the lines of single programs.
reads_json() {
    grep -A 100 '^peak RSS, MiB' out >tables
    ruby "$source_dir/bench/predict" --from predict.json >again && cmp tables again
}

# made NAME PEAK... - what runs, or replays, with these peaks (MiB) are in JSON.
made() {
    local name=$1 runs=
    shift
    for peak; do
        runs="$runs${runs:+,}{\"peak\":$((peak * 1048576)),\"end\":1048576,\"user\":1,"
        runs="$runs\"system\":0,\"faults\":1}"
    done
    printf '"%s":{"runs":[%s]}' "$name" "$runs"
}

# a and b differ by less than their own runs do, c from both by more. The first setting does other
# than replays say, but a part of that may be noise; the second one's runs are all the same.
judges_noise() {
    {
        printf '[{"name":"x","events":1,"threads":1,"original":{},"real":{'
        made tcmalloc 20 24 28 22 26 && printf , && made b 21 29 25 27 23 && printf , &&
            made c 40 41 42 43 44 && printf , && made tcmalloc:X=1 25 33 29 31 27 && printf , &&
            made c:X=1 50 51 50 51 50 && printf '},"predicted":{"default":{' &&
            made tcmalloc 25 && printf , && made b 20 && printf , && made c 40 && printf , &&
            made tcmalloc:X=1 24 && printf , && made c:X=1 41
        printf '}}}]'
    } >noise.json
    ruby "$source_dir/bench/predict" --from noise.json >out 2>err
    [ "$(sed -n 's/^default .* \([0-9]*\/[0-9]*\) .*/\1/p' out | head -n 1)" = 2/2 ] &&
        grep -q '^  tcmalloc:X=1 .* by replays   -1.0, within noise$' out &&
        grep -q '^  c:X=1 .* by replays   +1.0, wrong$' out &&
        grep -q '^  settings: 0 of 2 right within 15 % or 2 MiB, 1 within noise$' out
}

# What a program is linked with may be another allocator.
glibc_comes_first() {
    rm -rf other
    mkdir -p other/bench/workloads
    ln -s "$build_dir/lib" "$build_dir/bin" "$build_dir/bench/workloads/usage" other/
    mv other/usage other/bench/workloads/
    printf '#!/bin/sh\necho "$LD_PRELOAD" >>%s/preloaded\n' "$PWD" >other/bench/workloads/sessions
    chmod +x other/bench/workloads/sessions
    predict --build other --only sessions --allocators tcmalloc,glibc &&
        grep -qx libc.so.6 preloaded
}

steady() {
    ruby "$source_dir/bench/steady" --build "$build_dir" --steps small --runs 2 "$@" >out 2>err
}

# The events of so small a program are too few to rank anything by.
says_what_is_steady() {
    steady --only perl && grep -qE '^perl: [0-9]+ events, compared 2 times$' out &&
        grep -qE '^  memory: .*, 2 of 2 times$' out && grep -q '^  time: ' out &&
        grep -qE '^  p99.9, glibc .*(not known|: [0-9.]+ times)' out &&
        grep -qE '^  compare takes [0-9.]+ s' out &&
        ! steady --only emacs && grep -q 'no program is called emacs' err
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

plan 13
if [ -n "$sanitized" ]; then
    for number in 1 2 3 4 5 6 7 8 9 10 11 12 13; do
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
check 'what differs no more than its own runs do is not judged' judges_noise
check 'glibc stands before what a program is linked with' glibc_comes_first
check 'bench/steady tells verdicts, percentiles and time' says_what_is_steady
check 'a program that fails is an error, and named' failure_is_an_error
check 'a program that is not built is named' missing_is_named
check 'an unknown name is an error' unknown_is_an_error
check 'usage tells memory at the end, and the exit status' usage_tells
