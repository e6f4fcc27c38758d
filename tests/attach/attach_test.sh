#!/bin/bash
# attach_test.sh - malloctape record --pid: a process that runs is recorded from then on, call by
# call, goes on as before, and is not touched where that cannot be.
set -eu
# shellcheck source=tests/cli_tap.sh
. "$(dirname "$0")/../cli_tap.sh"

rounds=$(size 2 50)
under program
pids=()
trap 'exec 5>&- 6>&-; kill "${pids[@]}" 2>/dev/null || true; rm -rf "$scratch"' EXIT

# begin THREADS [kept] - obey, which runs, with its input at descriptor 5 and its process in $pid
begin() {
    rm -f input answers
    mkfifo input
    "$workloads/obey" "$@" <input >answers 2>obey.err &
    pid=$!
    pids+=("$pid")
    exec 5>input
    make_objects 0
}

# make NUMBER - and waits until it has.
make_objects() {
    echo "$1" >&5
    wait_until grep -qx "made $1" answers
}

# over - the program ends by itself, as it does alone.
over() {
    exec 5>&-
    wait "$pid" && [ "$(tail -n 1 answers)" = done ] && ! grep -qv '^malloctape' obey.err
}

# attach RAW [OPTION] - `record --pid` in the background, as process $recorder; returns when it
# records.
attach() {
    "$bin/malloctape" record --pid "$pid" -o "$1" ${2:+"$2"} >out 2>err 5>&- &
    recorder=$!
    pids+=("$recorder")
    wait_until grep -q 'recording process' err
}

detach() {
    kill -INT "$recorder"
    wait "$recorder" && says 'stopped: ' && says 'is as before'
}

threads_of() { find "/proc/$1/task" -mindepth 1 -maxdepth 1 | wc -l; }
is_alone() { [ "$(threads_of "$pid")" = 1 ]; }

counts() { # counts RAW NUMBER
    "$bin/malloctape" verify "$1" >out 2>err &&
        "$bin/malloctape" info --json=info.json "$1" >out 2>err &&
        json info.json "k = j['by_kind']; k['malloc'] == $2 && k['free'] == $2 &&
            j['events'] == 3 * $2 && j['end'] == 'complete'"
}

exact() {
    begin 0
    make_objects 100
    attach first.lz4
    make_objects 1000
    detach || return 1
    make_objects 200
    counts first.lz4 1000 && wait_until is_alone
}

again() {
    attach second.lz4
    make_objects 300
    detach && counts second.lz4 300 && wait_until is_alone && over
}

stacks() {
    begin 1
    attach stacks.lz4 --stacks=all
    make_objects 400
    detach && "$bin/malloctape" verify stacks.lz4 >out 2>err &&
        [ "$("$bin/malloctape" dump --only-calls stacks.lz4 | grep -c '^malloc 777 .* stack [1-9]')" = 400 ] &&
        over
}

busy() {
    local i
    begin "$(size 4 8)"
    for ((i = 0; i < rounds; i++)); do
        attach busy.lz4
        make_objects "$((1000 + i))"
        detach && "$bin/malloctape" verify busy.lz4 >out 2>err &&
            [ "$(objects busy.lz4 777)" = "$((1000 + i))" ] || return 1
    done
    over
}

# An allocation where an object lives says that its free was missed.
kept() {
    begin 1 kept
    attach kept.lz4
    make_objects 5000
    detach || return 1
    "$bin/malloctape" verify kept.lz4 >out 2>err && prints '; missed frees: [0-9]*' &&
        exits 0 order kept.lz4 -o kept.ordered && says 'frees that were missed: ' &&
        exits 0 info --json=info.json kept.ordered &&
        json info.json 'j["missed_frees"] > 4000 && j["by_kind"]["malloc"] >= 5000 &&
            j["live_at_end"] < 800' &&
        exits 0 report kept.lz4 && prints 'frees were not recorded' && over
}

ends() {
    begin 2
    attach ends.lz4
    make_objects 400
    over && wait "$recorder" && says 'has ended' && "$bin/malloctape" verify ends.lz4 >out 2>err &&
        [ "$(objects ends.lz4 777)" = 400 ] && [ ! -e ends.lz4.spool ]
}

killed() {
    begin 2
    attach killed.lz4
    make_objects 500
    kill -KILL "$pid"
    wait "$recorder" && says 'finished here' && "$bin/malloctape" verify killed.lz4 >out 2>err &&
        [ "$(objects killed.lz4 777)" = 500 ] && [ ! -e killed.lz4.spool ]
}

recorder_killed() {
    begin 0
    attach lonely.lz4
    kill -KILL "$recorder"
    make_objects 600
    exits 0 ctl "$pid" stop && counts lonely.lz4 600 && over
}

# Nothing is put into a process that listens already.
listens() {
    rm -f input answers
    mkfifo input
    TCMALLOC_TRACE_CONTROL=1 LD_PRELOAD=$tracing_library "$workloads/obey" <input >answers 2>obey.err &
    pid=$!
    pids+=("$pid")
    exec 5>input
    wait_until exits 0 ctl "$pid" status
    attach there.lz4
    make_objects 700
    kill -INT "$recorder"
    wait "$recorder" && ! says 'attached' && counts there.lz4 700 && over
}

# refuses TEXT - $pid
refuses() {
    exits 1 record --pid "$pid" -o refused.lz4 && says "cannot attach to process $pid: .*$1" &&
        [ ! -e refused.lz4 ]
}

not_possible() {
    pid=999999999
    refuses 'there is no such process'
    begin 0
    kill -STOP "$pid"
    wait_until grep -q '^State:.*T' "/proc/$pid/status"
    refuses 'its state is T' || return 1
    kill -CONT "$pid"
    over
}

preloaded() {
    rm -f input answers
    mkfifo input
    LD_PRELOAD=$tracing_library "$workloads/obey" <input >answers 2>obey.err &
    pid=$!
    pids+=("$pid")
    exec 5>input
    make_objects 1
    refuses 'started with libmalloctape.so, but without TCMALLOC_TRACE_CONTROL=1' && over
}

static_one() {
    echo 'int main(void) { for (;;) __builtin_ia32_pause(); }' >static.c
    "${CC:-cc}" -static -o static static.c 2>err || return 1
    ./static &
    pid=$!
    pids+=("$pid")
    wait_until test "/proc/$pid/exe" -ef static
    refuses 'linked statically' && kill "$pid"
}

# It waits in a system call that the kernel restarts in another way.
sleeps() {
    sleep 600 &
    pid=$!
    pids+=("$pid")
    attach sleeps.lz4
    detach && kill "$pid" && "$bin/malloctape" verify sleeps.lz4 >out 2>err
}

usage() {
    exits 2 record --pid 1 true && exits 2 record --pid x && exits 2 record --pid 1 --follow
}

if [ -n "$sanitized" ]; then
    echo '1..0 # SKIP a sanitizer follows no process that another one stops'
    exit 0
fi
plan 14
check 'what is called while it is attached is recorded, no call less or more' exact
check 'again' again
check 'with call stacks' stacks
check 'threads that allocate all the time' busy
check 'frees by a pointer that was taken before: their objects do not live for ever' kept
check 'the process ends: the recording is complete' ends
check 'the process is killed: nothing is lost' killed
check 'record is killed: the process goes on, and ctl ends the recording' recorder_killed
check 'a process that listens already is used as it is' listens
check 'what is not there or has been stopped is not touched' not_possible
check 'nor what was preloaded' preloaded
check 'nor what is linked statically' static_one
check 'a process that only sleeps' sleeps
check 'mistakes on the command line' usage
