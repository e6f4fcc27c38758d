#!/bin/bash
# truth_test.sh - the recording of a program with threads, and its ordered stream, say call by call
# and object by object what a witness in front of the allocator saw (truth.h, truth_check.c); and
# the comparison notices what is wrong.
#
# MALLOCTAPE_LONG set: ten times as much. A program that is not installed is skipped.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

witness=$build_dir/tests/truth/libtruth.so
truth_check=$build_dir/tests/truth/truth_check
times=$(size 1 10)
export TRUTH_RECORDS=$((times * 8000000))

# witnessed COMMAND... - runs COMMAND behind the witness; its streams go to out and err.
witnessed() {
    rm -f truth raw.lz4 raw.lz4.spool
    TRUTH_OUTPUT=truth TCMALLOC_TRACE_OUTPUT=raw.lz4 LD_PRELOAD="$witness $tracing_library" "$@" \
        >out 2>err
}

# count NAME - of what truth_check has printed.
count() { tr '\n' ' ' <compared | sed -n "s/.*\(^\| \)$1 \([0-9]*\) .*/\2/p"; }

# agree CALLS OTHERS - the recording and the truth agree, on at least so many calls, OTHERS of them
# frees of an object of another thread. The witness saw the process from its first call on, and
# every object's allocation; nothing is missing but what a thread was doing while the process ended.
agree() {
    "$bin/postprocess" --quiet raw.lz4 ordered 2>err || [ $? = 3 ] || return 1
    "$truth_check" truth raw.lz4 ordered >compared 2>err || { cat compared >out; return 1; }
    cat compared >out
    echo "# $(count calls) calls, $(count threads) threads," \
        "$(count of-other-threads) objects of another thread," \
        "$(count of-unknown-objects) unknown, $(count while-off) while off," \
        "$(count at-edges) at the end," \
        "$(count overlaps) at an address in use"
    rm -f truth
    [ "$(count calls)" -ge "$1" ] && [ "$(count ordered)" -ge "$(count calls)" ] &&
        [ "$(count of-other-threads)" -ge "$2" ] && [ "$(count before-witness)" = 0 ] &&
        [ "$(count strangers)" = 0 ] && [ "$(count lost)" = 0 ] &&
        [ "$(count at-edges)" -le "$(count threads)" ] &&
        [ "$(count unwitnessed)" -le "$(count threads)" ]
}

# all_recorded - no object is unknown, and the order is that of the allocator (see truth_check.c).
all_recorded() {
    [ "$(count of-unknown-objects) $(count while-off) $(count overlaps)" = "0 0 0" ]
}

# whole CALLS OTHERS COMMAND...
whole() {
    local calls=$1 others=$2
    shift 2
    witnessed "$@" && agree "$calls" "$others" && all_recorded
}

# Every function of the family that the tracing library has, but names that are not for programs, and
# one that is made of others (tracing/preload/composed.c).
covers_family() {
    local have='^\(malloc\|calloc\|realloc\|free\|cfree\|free_.*sized\|.*alloc'
    have+='\|.*memalign\|_Zn[wa].*\|_Zd[la].*\)$'
    for library in "$tracing_library" "$witness"; do
        nm -D --defined-only "$library" | awk '$2 ~ /[TW]/ { print $3 }' | grep "$have" |
            grep -v '^\(tc_\|__\|_aligned_malloc\)' | sort >"family.$(basename "$library")"
    done
    [ "$(wc -l <"family.$(basename "$witness")")" -ge 30 ] &&
        diff "family.$(basename "$tracing_library")" "family.$(basename "$witness")" >out
}

# Recording goes off and on 20 times; there are calls in both states, and objects of one released in
# the other.
pauses() {
    TRUTH_LOCK=1 witnessed "$workloads/relay" 4 8 $((times * 1500)) pauses &&
        agree $((times * 60000)) 5000 &&
        [ "$(count while-off)" -gt 1000 ] && [ "$(count of-unknown-objects)" -gt 100 ] &&
        [ "$(count at-edges)" = 0 ]
}

# With addresses each allocation is the very one.
addresses() {
    TCMALLOC_TRACE_ADDRESSES=1 whole 250000 25000 "$workloads/relay" 4 4 $((times * 1500))
}

one_at_a_time() { TRUTH_LOCK=1 whole 350000 25000 "$workloads/relay" 4 8 $((times * 1500)); }

redis() {
    rm -f truth raw.lz4
    TRUTH_OUTPUT=truth TCMALLOC_TRACE_OUTPUT=raw.lz4 LD_PRELOAD="$witness $tracing_library" \
        "$redis_server" --port 0 --unixsocket redis.socket --save '' --appendonly no \
        --daemonize no --dir . --io-threads 3 --io-threads-do-reads yes >redis.log 2>err &
    local server=$!
    redis_answers $server || return 1
    redis-benchmark -s redis.socket -q -t set,lpush,hset,zadd -n $((times * 6000)) -c 50 -P 16 \
        -r 10000 >out 2>&1
    redis-cli -s redis.socket shutdown nosave >>out 2>&1
    exit_status wait $server
    [ "$status" = 0 ] && agree 40000 400 && all_recorded
}

python_program() {
    cat >"$1" <<'CODE'
import json, queue, sys, threading
way = queue.Queue(100)
def make():
    for i in range(int(sys.argv[1])):
        way.put({"number": i, "text": str(i) * 40, "list": [str(n) for n in range(i % 50)]})
    way.put(None)
def use():
    total = 0
    while (thing := way.get()) is not None:
        total += len(json.dumps(thing))
    way.put(None)
threads = [threading.Thread(target=target) for target in (make, use, use)]
for thread in threads: thread.start()
for thread in threads: thread.join()
CODE
}

lines_of_part() { seq -f "line %g of $1" 1 "$1" $(($1 * 10000)); }

lists_objects() { "$git" -C repository rev-list --objects --all | cut -d ' ' -f 1 >objects; }

packs() {
    witnessed "$git" -C repository pack-objects --quiet --threads=3 \
        --stdout --no-reuse-delta --window=20 <objects || return 1
    mv out pack
    agree 15000 0 && all_recorded
}

indexes_pack() {
    witnessed "$git" -C repository index-pack --threads=3 --stdin <pack && agree 5000 0 &&
        all_recorded
}

greps() {
    witnessed "$git" -C repository grep --threads 3 -c '7.*7' && agree 2500 50 && all_recorded
}

sql() {
    cat <<SQL
create table t(a integer primary key, b text);
insert into t with recursive n(i) as (select 1 union all select i + 1
    from n where i < $((times * 30000)))
    select i, 'row ' || (i * 7919 % 100003) from n;
create index tb on t(b);
select substr(b, 1, 6) as p, count(*) from t group by p order by 2 desc, 1 limit 20;
SQL
}

spoiled_is_noticed() {
    exit_status "$truth_check" --spoil="$1" spoiled.truth spoiled.lz4 >out 2>err
    [ "$status" = 1 ] && [ "$(sed -n 's/.* mistakes //p' out)" -gt 0 ]
}

export HOME=$scratch GIT_CONFIG_NOSYSTEM=1 LC_ALL=C PYTHONMALLOC=malloc GIT_PAGER=cat

spoils='exchange unknown size kind freeing-missing allocation-missing end-missing twice'
# shellcheck disable=SC2086 # words
plan $((14 + $(echo $spoils | wc -w)))

check 'the witness knows every function of the allocator' covers_family
check 'known calls' whole 70 0 "$workloads/known_calls"
check 'objects handed to other threads' whole 350000 25000 "$workloads/relay" 4 8 $((times * 1500))
check 'the same, one call at a time' one_at_a_time
check 'the same, with addresses' addresses
check '1 600 short threads' whole 350000 25000 "$workloads/relay" 4 400 $((times * 30))
check 'the same few addresses to and fro' whole 100000 500 "$workloads/handoff" 4 \
    $((times * 15000)) log strict
check 'pauses' pauses

if redis_server=$(found redis-server) && command -v redis-benchmark >/dev/null; then
    check 'redis-server with io-threads' redis
else
    skip_test 'redis-server with io-threads' 'redis-server is not installed'
fi
if python=$(found python3 || found python3.11); then
    python_program program.py
    check 'python3 with threads' whole 100000 10000 "$python" program.py $((times * 1500))
else
    skip_test 'python3 with threads' 'no python3 in /usr/bin'
fi
if git=$(found git) && git_repository lines_of_part >out 2>&1 && lists_objects; then
    check 'git pack-objects with threads' packs
    check 'git index-pack with threads' indexes_pack
    check 'git grep with threads' greps
else
    for part in pack-objects index-pack grep; do
        skip_test "git $part with threads" 'no git in /usr/bin'
    done
fi
if sqlite3=$(found sqlite3); then
    sql >work.sql
    check 'sqlite3' whole 100000 0 "$sqlite3" :memory: '.read work.sql'
else
    skip_test 'sqlite3' 'sqlite3 is not installed'
fi

witnessed "$workloads/relay" 2 2 2000 && mv truth spoiled.truth && mv raw.lz4 spoiled.lz4
for spoil in $spoils; do
    check "a recording that is wrong would be noticed: $spoil" spoiled_is_noticed "$spoil"
done
