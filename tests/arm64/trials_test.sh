#!/bin/bash
# trials_test.sh - what a first look at another architecture wants to know: programs recorded by both
# front ends, ordered, verified and replayed with equal counts; forked children; and the recordings of
# another machine, with the counts that it found.
#
# `make check-arm64` runs it in the emulated machine, where everything takes ten times as long, and
# on this one.
#
# MALLOCTAPE_KEPT     a directory: programs are recorded, and the recordings stay there for the other
#                     machine
# MALLOCTAPE_CARRIED  a directory with the recordings of the other machine
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

malloctape=$bin/malloctape
kept=${MALLOCTAPE_KEPT:-}

same_counts() {
    local stage
    for stage in info order replay; do
        json_counts $stage.json >$stage.counts
        cmp info.counts $stage.counts >out 2>err || return 1
    done
    echo "# $(cut -c 1-160 info.counts)"
}

# is_replayed RAW - replay is under the allocator that was recorded.
is_replayed() {
    "$malloctape" info --json info.json "$1" >out 2>err &&
        "$bin/postprocess" --json order.json "$1" ordered >out 2>err &&
        "$malloctape" verify "$1" ordered >out 2>err || return 1
    if [ "$front_end" = tcmalloc ]; then
        LD_PRELOAD=$plain_library "$bin/replay" --json replay.json ordered >out 2>err
    else
        "$bin/replay" --json replay.json ordered >out 2>err
    fi && same_counts
}

# trial NAME COMMAND... - the recording stays for other machines.
trial() {
    local name=$front_end-$1.lz4
    shift
    rm -f raw.lz4 raw.lz4.spool
    recorded raw.lz4 "$@" && [ ! -e raw.lz4.spool ] && is_replayed raw.lz4 &&
        cp raw.lz4 "$kept/$name" && cp info.counts "$kept/$name.counts"
}

# program_trial NAME ARGUMENT... - of a program of the system.
program_trial() {
    local program
    if program=$(found "$1"); then
        check "$front_end: $1" trial "$1" "$(realpath "$program")" "${@:2}"
    else
        skip_test "$front_end: $1" "no $1"
    fi
}

python_program='
import json, re
words = {}
for i in range(1500):
    words.setdefault(str(i * 7919 % 1009), []).append({"n": i, "text": "x" * (i % 97)})
print(len(json.dumps(words)), len(re.findall("x+", json.dumps(words))))'
sqlite_program='create table t (a, b); create index i on t (b);
with recursive n (x) as (select 1 union all select x + 1 from n where x < 3000)
insert into t select x, printf("%d text %d", x * 7919 % 1009, x) from n;
select count(*), max(b) from t; delete from t where a % 3 = 0; select count(*) from t;'

# A forked child has a recording of its own, by its number.
forks() {
    rm -rf forks
    mkdir forks
    # shellcheck disable=SC2016 # for the inner shell
    (cd forks && TCMALLOC_TRACE_OUTPUT=%p.lz4 LD_PRELOAD=$tracing_library "$(found bash)" -c \
        '(for i in $(seq 20); do list="$list $i"; done; echo ${#list}) >&2; exec cat /dev/null' \
        >../out 2>../err)
    local raw count=0
    for raw in forks/*.lz4; do
        is_replayed "$raw" || return 1
        count=$((count + 1))
    done
    [ "$count" -ge 3 ]
}

# is_used_here RAW - a recording of the other machine; the allocator that was recorded is in its name.
is_used_here() {
    under "$(basename "$1" | sed 's/-.*//')"
    is_replayed "$1" && cmp info.counts "$1.counts" >out 2>err &&
        "$malloctape" report "$1" >out 2>err &&
        "$malloctape" compare --runs 1 --no-latency --allocators glibc,tcmalloc "$1" >out 2>err &&
        grep -o 'recorded on [a-z0-9_]* with pages of [0-9]* bytes' out >line && sed 's/^/# /' line
}

recordings=
[ -z "${MALLOCTAPE_CARRIED:-}" ] || recordings=$(find "$MALLOCTAPE_CARRIED" -name '*.lz4' | sort)
plan $((${kept:+10} + $(echo "$recordings" | grep -c . || true)))
for front_end in ${kept:+tcmalloc program}; do
    under "$front_end"
    check "$front_end: churn with one thread" trial churn-1 "$workloads/churn" 1 500 20000
    check "$front_end: churn with four threads" trial churn-4 "$workloads/churn" 4 500 10000 cross
    program_trial sqlite3 :memory: "$sqlite_program"
    program_trial python3 -c "$python_program"
    check "$front_end: fork, each process with its own recording" forks
done
for raw in $recordings; do
    check "$(basename "$raw" .lz4) of another machine: ordered, verified, replayed, report, compare" \
        is_used_here "$raw"
done
