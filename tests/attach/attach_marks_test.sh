#!/bin/bash
# attach_marks_test.sh - attaching to a process, and detaching, leaves no mark on the thread that is
# stopped: marks.rb with a few kinds of programs, some rounds each; all of them and more with `make
# check-marks N=2000`. MALLOCTAPE_SEED: another choice. And what attaches is killed at some of its
# system calls; at each of them with `make check-killed`.
set -eu
# shellcheck source=tests/cli_tap.sh
. "$(dirname "$0")/../cli_tap.sh"

if [ -n "$sanitized" ]; then
    echo '1..0 # SKIP a sanitizer follows no process that another one stops'
    exit 0
fi

# leaves_no_mark ROUNDS KIND...
leaves_no_mark() {
    local rounds=$1
    shift
    ruby "$source_dir/tests/attach/marks.rb" "$bin" "$workloads" "$rounds" "${MALLOCTAPE_SEED:-$$}" "$@" >marks.out 2>&1 ||
        { cat marks.out; return 1; }
}

# stays_whole STEP KIND...
stays_whole() {
    ruby "$source_dir/tests/attach/killed_calls.rb" "$bin" "$workloads" "$@" >killed.out 2>&1 ||
        { cat killed.out; return 1; }
}

plan 9
check 'on small stacks in the middle of memory of others' leaves_no_mark 3 contexts
check 'on a small stack in the middle of a thread'"'"'s own' leaves_no_mark 2 inner
check 'on waits that end by themselves' leaves_no_mark 6 epoll_wait recv accept sigtimedwait semtimedop nanosleep poll
check 'on waits for others' leaves_no_mark 3 endless_*
check 'on waits by syscall()' leaves_no_mark 2 futex
check 'in restartable sequences' leaves_no_mark 2 counter
check 'on writes of which a part is done' leaves_no_mark 2 pipe
check 'killed before every 90th of its system calls' stays_whole "$(size 90 5)" contexts
check 'on forked children, and on threads that load libraries' leaves_no_mark 5 forks loads
