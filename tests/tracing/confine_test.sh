#!/bin/bash
# confine_test.sh - programs that take rights from themselves, or have few: status and output are
# their own, and what cannot be recorded is said in one line.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

confine=$workloads/confine
malloctape=$bin/malloctape

objects() { "$malloctape" dump --only-calls "$1" 2>/dev/null | grep -c "^malloc $2 -> " || true; }

# verified RAW STATUS - 0 a complete recording, 3 one that was cut short but lacks nothing.
verified() {
    exit_status "$malloctape" verify "$1" >verified 2>&1
    [ "$status" = "$2" ]
}

one_line() { [ "$(wc -l <err)" = 1 ] && grep -q "^malloctape: $1" err; }

# traced RAW COMMAND... - as recorded, and stopped if it hangs.
traced() {
    timeout 300 env TCMALLOC_TRACE_OUTPUT="$1" LD_PRELOAD="$tracing_library" "${@:2}" >out 2>err
}

# is_its_own WORDS... - done, with status 7, and without one of our waits turned into work.
is_its_own() {
    rm -f raw.lz4*
    exit_status traced raw.lz4 "$confine" "$@"
    [ "$status" = 7 ] && [ "$(cat out)" = 'done' ]
}

# whole OBJECTS
whole() { [ "$(objects raw.lz4 777)" = "$1" ] && [ ! -e raw.lz4.spool ] && verified raw.lz4 0; }

# --- filters ---

# The recording is complete whatever the filter forbids to the program's threads.
of_one_thread() { is_its_own filter thread "$@" && one_line 'raw.lz4: 6000' && whole 30000; }

# Threads that begin under the filter are recorded, children are not.
family_of_one_thread() {
    rm -f raw*
    exit_status traced raw.%p.lz4 "$confine" family
    [ "$status" = 7 ] && [ "$(cat out)" = 'done' ] && [ "$(find . -name 'raw.*' | wc -l)" = 1 ] ||
        return 1
    mv raw.*.lz4 raw.lz4 2>/dev/null
    whole 20000 && [ "$(objects raw.lz4 778)" = 10000 ] && [ "$(objects raw.lz4 779)" = 0 ]
}

# It ends before the filter would be one for the writer, too.
of_all_threads() {
    is_its_own filter all "$@" && whole 10000 &&
        one_line 'raw.lz4: 2000.*; ended before the program put all threads under'
}

# A writer that is killed is noticed; what was recorded until then is there.
writer_is_killed() {
    is_its_own filter hidden "$@" &&
        one_line 'recording ended early: raw.lz4: the system has killed the writer' &&
        [ -e raw.lz4.spool ] && verified raw.lz4 3 && [ "$(objects raw.lz4 777)" -ge 10000 ]
}

# A writer that may not sleep ends instead of taking a processor: when it first wants to sleep
# behind the filter, so with all that was recorded before, and perhaps more.
writer_cannot_sleep() {
    is_its_own filter hidden errno futex nanosleep &&
        one_line 'raw.lz4: .*the system did not let the writer thread sleep' &&
        [ ! -e raw.lz4.spool ] && verified raw.lz4 0 && [ "$(objects raw.lz4 777)" -ge 10000 ]
}

grows() {
    is_its_own grow &&
        one_line 'recording ended early: memory for the shadow table: operation not permitted' &&
        verified raw.lz4 3 && [ "$(objects raw.lz4 777)" = 30000 ]
}

# Its allocator would make a system call to say how large its heap is.
asks_no_allocator() {
    local tracing_library=$build_dir/lib/libmalloctape.so:$workloads/mimalloc_like.so
    is_its_own long && verified raw.lz4 0
}

# --- one thread ---

zygote() {
    rm -f raw* ./*.lz4
    exit_status recorded raw.%p.lz4 "$confine" zygote
    [ "$status" = 7 ] && [ ! -s out ] && [ "$(find . -name 'raw.*.lz4' | wc -l)" = 4 ] || return 1
    for raw in raw.*.lz4; do verified "$raw" 0 || return 1; done
    [ -z "$(find . -name '*spool*')" ]
}

# What was recorded before there is a writer is there after a kill.
# shellcheck disable=SC2016 # for the inner shell
killed_early() {
    rm -f raw.lz4*
    { exit_status recorded raw.lz4 sh -c 'kill -KILL $$'; } 2>/dev/null
    [ "$status" = 137 ] && [ -e raw.lz4.spool ] && verified raw.lz4 3 &&
        [ "$("$malloctape" dump --only-calls raw.lz4 2>err | wc -l)" -gt 50 ]
}

# Another directory and another name of it do not matter before there is one.
goes_elsewhere() {
    rm -rf raw.lz4* place
    mkdir place
    (cd place && recorded raw.lz4 sh -c 'cd / && exit 7') || [ $? = 7 ] && verified place/raw.lz4 0
}

# Files that are no longer there cannot be written: one line.
output_is_gone() {
    rm -f raw.lz4*
    recorded raw.lz4 bash -c "rm $scratch/raw.lz4; exit 7" || [ $? = 7 ] &&
        one_line 'recording ended early: raw.lz4: no such file'
}

other_root() {
    rm -f raw* ./*.lz4
    mkdir -p root
    exit_status recorded "$scratch/raw.%p.lz4" "$confine" root root
    [ "$status" = 7 ] && [ "$(find . -name 'raw.*.lz4' | wc -l)" = 2 ] || return 1
    local found=0
    for raw in raw.*.lz4; do
        verified "$raw" 0 || return 1
        [ "$(objects "$raw" 777)" != 30000 ] || found=1
    done
    [ $found = 1 ] && [ -z "$(find . -name '*spool*')" ]
}

# --- what surrounds it ---

small_stack() {
    rm -f raw.lz4*
    PATH=/no/such/directory:$PATH recorded raw.lz4 "$confine" stack true && whole 30000
}

error_without_text() {
    rm -f raw.lz4*
    TCMALLOC_TRACE_OUTPUT=raw.lz4 \
        "$confine" refuse 25 env LD_PRELOAD="$tracing_library" echo 'done' >out 2>err
    [ "$(cat out)" = 'done' ] && [ ! -e raw.lz4 ] &&
        one_line 'not recording: raw.lz4.spool: inappropriate ioctl for device'
}

# A service manager may forbid the program to change its scheduling before it begins.
begins_under_a_filter() {
    rm -f raw.lz4*
    TCMALLOC_TRACE_OUTPUT=raw.lz4 \
        "$confine" forbid env LD_PRELOAD="$tracing_library" "$confine" stack true && whole 30000
}

# Somebody who has locked the directory for his own ends is in nobody's way.
locked_directory() {
    mkdir locked
    flock locked timeout 300 env TCMALLOC_TRACE_OUTPUT="$PWD/locked/raw.lz4" \
        LD_PRELOAD="$tracing_library" true 2>err && verified locked/raw.lz4 0
}

emulated() {
    rm -f raw* ./*.lz4
    exit_status traced raw.%p.lz4 env TCMALLOC_TRACE_CONTROL=1 \
        valgrind -q --tool=none "$confine" filter thread errno futex
    [ "$status" = 7 ] && [ "$(cat out)" = 'done' ] && ! grep -q 'Unsupported' err &&
        [ "$(grep -c '^malloctape: not recording: Valgrind runs this program' err)" = 1 ]
}

plan 29
for action in errno trap thread process; do
    check "a filter for one thread: $action, futex" of_one_thread $action futex
    check "a filter for one thread: $action, most calls" of_one_thread $action most
done
check 'a filter for one thread: process, getpid, gettid, clock_gettime' \
    of_one_thread process getpid gettid clock_gettime
check 'a thread and a child that begin under a filter' family_of_one_thread
for action in errno trap thread process; do
    check "a filter for all threads: $action, most calls" of_all_threads $action most
done
check 'a hidden filter for all threads kills the writer' writer_is_killed thread openat pread64
check 'the same, and the writer cannot sleep' writer_is_killed thread nanosleep openat
check 'a writer that may not sleep' writer_cannot_sleep
check 'a heap that grows under a filter' grows
check 'an allocator that makes system calls to answer' asks_no_allocator
check 'a program that must be alone, and its children' zygote
check 'killed before there is a writer' killed_early
check 'in another directory before there is a writer' goes_elsewhere
check 'the output is gone before there is a writer' output_is_gone
if [ "$(id -u)" = 0 ]; then
    check 'a child with another root before its first call' other_root
else
    skip_test 'a child with another root before its first call' 'only root can change it'
fi
check 'exec on a stack of 4 KiB' small_stack
check 'a filter that was there before' begins_under_a_filter
check 'an error that has no text of ours' error_without_text
check 'a locked directory' locked_directory
if command -v valgrind >/dev/null; then
    check 'under Valgrind' emulated
else
    skip_test 'under Valgrind' 'no valgrind'
fi
