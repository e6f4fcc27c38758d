#!/bin/bash
# replay_quiet_test.sh - a replay leaves the allocator under test alone: no call but the stream's,
# no thread, no leak, no access out of bounds; and the process that reads ahead comes and goes
# unseen.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

plan 17

stub=$build_dir/tests/tools/cache_stub.so
make_instructions=$build_dir/tests/tools/make_instructions
unset NO_THREAD_CACHE_SWITCH
"$make_instructions" lanes 60000 5 >lanes
"$make_instructions" places 20000 >places
"$make_instructions" churn 40000 1000 >churn
"$make_instructions" kinds >kinds

if [ -n "$sanitized" ]; then
    for text in $(seq 17); do skip_test "$text" 'a sanitizer has an allocator of its own'; done
    exit 0
fi

# --- calls ---

logged() { tr ' ' '\n' <log | sed -n "s/^$1=//p"; }

# only_the_stream STREAM OPTION... - the stub counts as many calls as the stream has.
only_the_stream() {
    CACHE_STUB_LOG=log LD_PRELOAD=$stub "$bin/replay" -q --json=json "${@:2}" "$1" >out 2>err ||
        return 1
    [ "$(logged calls)" = "$(json_value json events)" ]
}

check 'calls of the stream only' only_the_stream lanes
check 'also with objects touched and every call timed' only_the_stream lanes --touch=all --sample=1
check 'also with a warm-up, files and the pace of the original' \
    only_the_stream lanes --warmup=100 --csv=csv --speed=1000
check 'also when addresses are verified' only_the_stream places --verify-addresses
one_processor() { taskset -c "$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')" "$@"; }

alone() {
    one_processor "$bin/replay" -q --json=json lanes >out 2>err &&
        [ "$(json_value json reading_seconds)" = 0.0 ]
}

check 'with one processor nobody reads ahead' alone
both_agree() {
    json_counts json >alone.counts
    "$bin/replay" -q --json=json lanes >out 2>err && json_counts json |
        cmp - alone.counts >>out 2>&1
}
check 'and the calls are the same' both_agree

# Where objects get mappings of their own that should come from the heap.
small_settings() (
    ulimit -v 4000000
    MALLOC_TOP_PAD_=0 MALLOC_MMAP_THRESHOLD_=$1 "$bin/replay" -q --json=json kinds >out 2>err &&
        rss=$(json_value json base_rss_bytes) && echo "$rss" >>out && [ "$rss" -lt 100000000 ]
)
check 'a fresh heap of glibc is found whatever its settings' small_settings 512

# --- the process that reads ahead ---

# started [COMMAND...] - a replay, run by the command, whose input does not end, when it has read
# what there is; sets $replay and $reader.
started() {
    { cat churn.head; exec sleep 3600; } >fifo &
    feeder=$!
    "$@" "$bin/replay" -q --json=json fifo >out 2>err &
    replay=$!
    wait_until has_reader
}
has_reader() { # that has read all of it
    reader=$(cat "/proc/$replay/task/$replay/children" 2>err) && [ -n "$reader" ] &&
        awk '/^rchar/ { exit $2 < 50000 }' "/proc/${reader% }/io" 2>err
}
stop_feeder() { kill "$feeder" 2>/dev/null; wait "$feeder" 2>/dev/null || true; }

if [ "$(nproc)" -gt 1 ]; then
    head -c 50000 churn >churn.head
    mkfifo fifo
    check 'a replay reads ahead in a child' started
    one_thread() { [ "$(ls "/proc/$replay/task" | wc -l)" = 1 ]; }
    check 'and has one thread' one_thread
    kill -KILL "${reader% }"
    exit_status wait "$replay"
    check 'a child that is killed takes the replay with it' [ "$status" = 137 ]
    check 'which is said' grep -q 'the process that reads ahead has ended' err
    stop_feeder
    started env --ignore-signal=CHLD
    kill -KILL "${reader% }"
    exit_status wait "$replay"
    check 'also where SIGCHLD is ignored' [ "$status" = 137 ]
    stop_feeder
    started
    kill -KILL "$replay"
    wait "$replay" 2>/dev/null || true

    gone() { [ ! -e "/proc/${reader% }" ]; }
    check 'a replay that is killed takes its child along' wait_until gone
    stop_feeder
else
    for text in $(seq 6); do skip_test "$text" 'one processor only'; done
fi

# --- memory ---

under_valgrind() {
    valgrind --leak-check=full --show-leak-kinds=all --child-silent-after-fork=yes \
        --error-exitcode=9 "$@" >out 2>err
}
no_errors() { grep -q 'ERROR SUMMARY: 0 errors' err; }

nothing_lost() {
    under_valgrind "$@" && no_errors &&
        grep -q 'definitely lost: 0 bytes\|no leaks are possible' err
}

# Objects that were alive at the end are the stream's: valgrind must find these and no others.
only_live_lost() {
    valgrind --leak-check=full --child-silent-after-fork=yes "$bin/replay" -q --json=json churn \
        >out 2>err &&
        grep -q "definitely lost: [0-9,]* bytes in 1,000 blocks" err &&
        [ "$(json_value json live_at_end)" = 1000 ] && ! grep -q 'Invalid' err
}
no_invalid_kinds() { under_valgrind "$bin/replay" kinds || ! grep -q 'Invalid\|uninitialised' err; }
if command -v valgrind >/dev/null; then
    check 'valgrind: nothing is wrong or left' nothing_lost "$bin/replay" --csv=csv --json=json \
        places
    check 'nor while addresses are verified' nothing_lost "$bin/replay" \
        --verify-addresses --touch=all places
    check 'nor when all kinds of calls are made' no_invalid_kinds
    check 'what a stream leaves alive is all that is lost' only_live_lost
else
    for text in $(seq 4); do skip_test "$text" 'no valgrind'; done
fi
