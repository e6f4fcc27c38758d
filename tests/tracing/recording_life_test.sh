#!/bin/bash
# recording_life_test.sh - a recording goes on as long as its program does. Where it cannot, it says
# so, and the program goes on.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

# A complete recording needs no spool.
complete() { [ ! -e "$1.spool" ] && verified "$1" 0; }

fresh() { rm -f raw.lz4*; }

# --- the writer's thread ---

large_thread_storage() {
    fresh
    exit_status recorded raw.lz4 "$workloads/storage"
    [ "$status" = 7 ] && complete raw.lz4 && [ "$(objects raw.lz4 777)" = 20000 ]
}

# with_child HOW CALLS MORE - a child that shares the memory makes CALLS, then the process MORE:
# all are there.
with_child() {
    fresh
    exit_status timeout 300 env TCMALLOC_TRACE_OUTPUT=raw.lz4 LD_PRELOAD="$tracing_library" \
        "$workloads/shared" "$@" >out 2>err
    [ "$status" = 7 ] && [ "$(objects raw.lz4 777)" = $(($2 + $3 + 10)) ] && complete raw.lz4
}

# Of few calls, of some that fill slots, and of more than the spool has at first.
with_children() {
    with_child "$1" 4000 200000 && with_child "$1" 20000 20000 && with_child "$1" 400000 5000
}

# --- the spool ---

# somebody_cuts HOW - the spool, in the middle: one line says so, the program goes on, and the stream
# is valid as far as it goes.
somebody_cuts() {
    local i
    for ((i = 0; i < $(size 2 10); i++)); do
        fresh
        exit_status timeout 300 env TCMALLOC_TRACE_OUTPUT=raw.lz4 LD_PRELOAD="$tracing_library" \
            "$workloads/faults" cut raw.lz4.spool "$1" >out 2>err
        [ "$status" = 7 ] && one_line 'recording ended early: raw.lz4.spool: this file was truncated' &&
            verified raw.lz4 3 && grep -q 'in order, as far as it goes' verify.out || return 1
    done
}

# own_faults STATUS HOW - what the program does about the same signal is as it was.
own_faults() {
    fresh
    { exit_status recorded raw.lz4 "$workloads/faults" own "$2"; } 2>/dev/null
    [ "$status" = "$1" ]
}

handled_before() {
    rm -f late.lz4*
    LD_PRELOAD=$tracing_library exit_status "$workloads/faults" own before >out 2>err
    [ "$status" = 7 ] && verified late.lz4 0
}

# --- exec ---

# goes_on_after THREADS - execs that fail: complete, and nothing but the summary is said.
goes_on_after() {
    fresh
    echo 'no program' >text
    chmod +x text
    exit_status recorded raw.lz4 "$workloads/execs" ./text "$1"
    [ "$status" = 7 ] && one_line 'raw.lz4: [0-9]* events' && complete raw.lz4 &&
        [ "$(objects raw.lz4 777)" = $((6000 + $1 * 50000)) ]
}

# --- names ---

# In PID namespaces that share a directory each process has the number 1: as many files as say that
# they have been written.
one_number() {
    local i
    rm -rf shared said.*
    mkdir shared
    for i in $(seq "$1"); do
        unshare --pid --fork env "TCMALLOC_TRACE_OUTPUT=$scratch/shared/%p.lz4" \
            "LD_PRELOAD=$tracing_library" "$workloads/life" end exit 2>said.$i &
    done
    wait
    cat said.* >err
    [ "$(grep -c ': [0-9]* events, ' err)" = "$1" ] && [ "$(find shared -type f | wc -l)" = "$1" ] &&
        [ "$(cut -d ' ' -f 2 err | sort -u | wc -l)" = "$1" ] && complete "shared/1.$1.lz4"
}

plan 18
if unshare --pid --fork true 2>err; then
    check 'forty processes with one number at once' one_number 40
else
    skip_test 'forty processes with one number at once' 'may not make a PID namespace'
fi
check 'a program with a megabyte of thread-local variables' large_thread_storage
check 'a child by clone(CLONE_VM)' with_children clone
check 'the same, which ends by _exit()' with_children exit
check 'a child by vfork()' with_children vfork
check 'the same, which executes a program' with_children exec
check 'the spool is cut: four threads' somebody_cuts plain
check 'the same, all signals blocked' somebody_cuts blocked
check 'the same, and a handler that must not hear of it' somebody_cuts handled
check 'the same, before there is a writer' somebody_cuts alone
check 'a fault of the program: its handlers' own_faults 7 handled
check 'a handler from before the recording' handled_before
check 'no handler' own_faults 135 default
check 'ignored' own_faults 135 ignored
check 'blocked' own_faults 135 blocked
check 'the signal from elsewhere: ignored, handled, waited for' own_faults 7 sent
check 'execs that fail' goes_on_after 0
check 'the same, while three threads allocate' goes_on_after 3
