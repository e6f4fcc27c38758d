#!/bin/bash
# bench_test.sh - bench/run on a hundredth of its smallest workload: the table, the JSON, and that
# errors are errors.
#
# Prints TAP.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

bench() {
    ruby "$source_dir/bench/run" --build "$build_dir" --runs 1 --steps small "$@" >out 2>err
}

# The file that the last run wrote has what EXPRESSION, in which `json` is that file, asks for.
json_has() {
    ruby -rjson -e "json = JSON.parse(File.read('bench.json')); exit(($1) ? 0 : 1)" >out 2>err
}

measures_one() { bench --only churn-1-1000 --json bench.json --output-dir kept; }

table_is_complete() {
    for measure in 'wall, off / plain' 'CPU, off / plain' 'wall, on / plain' 'CPU, on / plain' \
        'raw bytes per event'; do
        grep -qE "$measure( +[0-9.-]+){5} +1 +-\$" out || return 1
    done
    grep -q 'Not measured here' out
}

machine_keys='%w[cpu cores kernel allocator libraries programs load_average_before
    load_average_after]'
measures='%w[wall_off cpu_off wall_on cpu_on bytes]'
result_keys='%w[workload measure min low median high max runs bar met]'

# A build directory whose churn is CODE.
build_with_churn() {
    rm -rf other
    mkdir -p other/tests/workloads
    ln -s "$build_dir/lib" "$build_dir/bin" other/
    printf '#!/bin/sh\n%s\n' "$1" >other/tests/workloads/churn
    chmod +x other/tests/workloads/churn
}

failure_is_an_error() {
    build_with_churn 'echo sorry; exit 3'
    ! bench --build other --only churn-1-1000 --json bench.json &&
        grep -q '^churn-1-1000: FAILED: .*exit 3' out &&
        grep -q sorry err && json_has 'json["failed"].key?("churn-1-1000") &&
        json["results"].empty?'
}

missing_is_named() {
    build_with_churn ''
    rm other/tests/workloads/churn
    bench --build other --only churn-1-1000 && grep -q '^churn-1-1000: not measured: ' out
}

# The table of --stacks: a line for each way, with seven numbers and bytes where there is a file.
measures_stacks() {
    bench --stacks --only churn-1-depth --json bench.json || return 1
    local number='[0-9]+\.[0-9]+' how
    grep -qE "^churn-1-depth +untraced( +$number){7} +-\$" out || return 1
    for how in recorded sampled 'all stacks'; do
        grep -qE "^ +$how( +$number){8}\$" out || return 1
    done
    [ ! -e /usr/bin/heaptrack ] || grep -qE "^ +heaptrack( +$number){8}\$" out || return 1
    json_has 'json["results"].map { |one| one["measure"] } == %w[wall_sampled wall_all] &&
        json["measurements"][0]["peak_rss_bytes"]["all"][0] > 1_000_000'
}

measures_over_glibc() {
    bench --over glibc --only churn-1-1000 --json bench.json && grep -q '^allocator *glibc' out &&
        json_has 'json["measurements"][0]["events"][0] >= 200_000'
}

missing_allocator_is_an_error() {
    ! bench --over ./nosuch.so --only churn-1-1000 && grep -q 'nosuch.so is not there' err
}

unknown_is_an_error() { ! bench --only churn-7 && grep -q 'no workload is called churn-7' err; }

leaves_nothing() {
    mkdir tmp
    TMPDIR=$PWD/tmp bench --only churn-1-1000 && [ -z "$(ls -A tmp)" ]
}

plan 13
check 'one workload is measured' measures_one
check 'the table has every measure, and what is not measured is said' table_is_complete
check 'JSON: the machine' json_has "($machine_keys - json['machine'].keys).empty?"
check 'JSON: every measure, every key' json_has \
    "json['results'].map { |r| r['measure'] } == $measures &&
    json['results'].all? { |r| r.keys.sort == $result_keys.sort && r['median'] > 0 }"
check 'JSON: every run, and the events' json_has "m = json['measurements'][0]
    %w[wall_seconds cpu_seconds].all? { |k| m[k].keys == %w[plain off on] &&
        m[k].values.all? { |v| v.size == 1 } } &&
    m['events'][0] >= 200_000"
check '--output-dir keeps the recording' test -s kept/churn-1-1000.lz4
check 'otherwise nothing is left' leaves_nothing
check 'a program that fails is an error, and named' failure_is_an_error
check 'a program that is not there is named' missing_is_named
check 'an unknown name is an error' unknown_is_an_error
check '--over glibc measures libmalloctape.so' measures_over_glibc
check '--over a library that is not there is an error' missing_allocator_is_an_error
check '--stacks measures what call stacks cost' measures_stacks
