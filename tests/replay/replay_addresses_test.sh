#!/bin/bash
# replay_addresses_test.sh - a replay under the same tcmalloc takes the places that the program
# took: recorded with addresses, ordered, replayed with --verify-addresses.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

plan 14

export TCMALLOC_TRACE_ADDRESSES=1

if [ -n "$sanitized" ]; then
    for text in $(seq 14); do skip_test "$text" 'a sanitizer has an allocator of its own'; done
    exit 0
fi

# verified STREAM [NAME=VALUE] - replays and leaves the report in json.
verified() {
    env "${@:2}" LD_PRELOAD="$plain_library" "$bin/replay" -q --verify-addresses --json=json "$1" \
        >out 2>err
}
# share LEAST - at least so much of what was compared took the same place; and something was
# compared.
share() {
    json_value json address_match >out
    awk -v match_="$(cat out)" -v least="$1" -v checked="$(json_value json addresses_checked)" \
        'BEGIN { exit !(match_ >= least && checked >= 10000) }'
}

same_heap() {
    [ "$(json_value json peak_heap_bytes)" = "$(json_value json original_peak_heap_bytes)" ]
}

ordered() { "$bin/postprocess" --quiet "$1.lz4" "$1.ins" >out 2>err; }

one_thread() {
    recorded one.lz4 "$workloads/churn" 1 5000 100000 && ordered one && verified one.ins &&
        share 0.9999
}
check 'one thread: every place' one_thread
check 'and the heap is as large as it was' same_heap
no_switch() { verified one.ins NO_THREAD_CACHE_SWITCH=1 && share 0.9999; }
check 'one thread needs no switching' no_switch

two_threads() {
    recorded two.lz4 "$workloads/churn" 2 5000 200000 cross && ordered two && verified two.ins &&
        share 0.95
}
check 'two threads that exchange objects: nearly every place' two_threads
check 'and the heap is as large as it was' same_heap
with_switching=$(json_value json addresses_matched)
less_without() {
    verified two.ins NO_THREAD_CACHE_SWITCH=1 &&
        [ "$(json_value json addresses_matched)" -lt "$with_switching" ]
}
check 'without switching fewer take the same place' less_without

short_threads() {
    recorded many.lz4 "$workloads/threads" 500 && ordered many && verified many.ins && share 0.5
}
check 'many short threads: more than half' short_threads
many=$(json_value json addresses_matched)
many_less_without() {
    verified many.ins NO_THREAD_CACHE_SWITCH=1 &&
        [ "$(json_value json addresses_matched)" -lt "$many" ]
}
check 'without switching fewer take the same place' many_less_without

if command -v sqlite3 >/dev/null; then
    cat >sql <<'END'
CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<20000)
    INSERT INTO t SELECT i, 'row ' || i FROM n;
SELECT b, count(*) FROM t GROUP BY b ORDER BY 2 DESC, 1 LIMIT 5;
END

    sqlite() {
        recorded sqlite.lz4 sqlite3 :memory: '.read sql' && ordered sqlite && verified sqlite.ins &&
            share 0.999
    }

    check 'the sqlite3 shell' sqlite
else
    skip_test 'the sqlite3 shell' 'not installed'
fi

# Whatever allocator it is, it begins as it did in the program. jemalloc draws lots.
others() {
    LD_PRELOAD=$build_dir/lib/libmalloctape.so${1:+:$1} TCMALLOC_TRACE_OUTPUT=other.lz4 \
        "$workloads/churn" 1 5000 100000 >out 2>err && ordered other &&
        LD_PRELOAD=$1 "$bin/replay" -q --verify-addresses --json=json other.ins >out 2>err &&
        share "$2"
}
# A glibc whose variables lie otherwise than in 2.36 may do otherwise, too: its heap is unknown.
others_failed=0
others '' 1 || others_failed=1
glibc=$(getconf GNU_LIBC_VERSION)
if [ "$glibc" != 'glibc 2.36' ] && [ -s json ] &&
    ! "$bin/malloctape" dump other.lz4 | grep -q 'heap [1-9]'; then
    skip_test "the C library's malloc" "the heap of $glibc is unknown"
    skip_test 'and its heap is as large as it was' "the heap of $glibc is unknown"
else
    check "the C library's malloc" test "$others_failed" = 0
    check 'and its heap is as large as it was' same_heap
fi
for other in mimalloc.so.2:1 jemalloc.so.2:0.9 tcmalloc_minimal.so.4:0.999; do
    if file=$(system_library "lib${other%:*}"); then
        check "${other%%.*}" others "$file" "${other#*:}"
    else
        skip_test "${other%%.*}" 'it is not installed'
    fi
done
