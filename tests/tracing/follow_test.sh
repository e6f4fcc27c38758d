#!/bin/bash
# follow_test.sh - process trees: each process has a recording of its own, or none, and nobody is
# the worse for it.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

malloctape=$bin/malloctape
life=$workloads/life

# A directory for the recordings of one test.
recordings() {
    rm -rf traces
    mkdir traces
}

# followed COMMAND... - recorded into that directory, with the processes that come of it.
followed() {
    timeout 300 env "TCMALLOC_TRACE_OUTPUT=$scratch/traces/%e.%p.lz4" TCMALLOC_TRACE_QUIET=1 \
        "LD_PRELOAD=$tracing_library" "$@" >out 2>err
}

# all_good - what is there is complete and in order, none is empty, and nothing else is left.
all_good() {
    local raw
    for raw in traces/*; do
        [ "${raw%.lz4}" != "$raw" ] && "$bin/postprocess" --quiet "$raw" ordered 2>err &&
            [ "$("$malloctape" dump --only-calls "$raw" 2>>err | head -n 1 | wc -l)" = 1 ] || {
            echo "$raw" >>err
            return 1
        }
    done
}

# counts NUMBER PATTERN - so many recordings have such a name.
counts() { [ "$(find traces -type f -name "$2" | wc -l)" = "$1" ]; }

pipeline() {
    recordings
    followed sh -c 'seq 100000 | sort | tail -n 1' && [ "$(cat out)" = 99999 ] && all_good &&
        counts 4 '*' &&
        counts 1 'sh.*' && counts 1 'seq.*' && counts 1 'sort.*' && counts 1 'tail.*'
}

# Nothing of what a child does between fork and exec is kept, a child that goes on has its own.
subshells() {
    recordings
    # shellcheck disable=SC2016 # for the inner shell
    followed bash -c '(for i in $(seq 300); do list="$list $i"; done; echo ${#list}) &&
        ls / >/dev/null; exec cat /dev/null' &&
        all_good && counts 1 'ls.*' && counts 1 'seq.*' && counts 1 'cat.*' && counts 2 'bash.*'
}

# The same process three times, with one name: none takes the place of another.
one_process() {
    recordings
    TCMALLOC_TRACE_OUTPUT=$scratch/traces/%p.lz4 TCMALLOC_TRACE_QUIET=1 \
        LD_PRELOAD=$tracing_library sh -c 'echo $$; exec env cat /dev/null' >out 2>err || return 1
    local process
    process=$(cat out)
    all_good && counts 3 '*' && [ -e "traces/$process.lz4" ] && [ -e "traces/$process.2.lz4" ] &&
        [ -e "traces/$process.3.lz4" ]
}

# Without %p only the first program is recorded, also when it execs.
first_program_only() {
    recordings
    TCMALLOC_TRACE_OUTPUT=$scratch/traces/raw.lz4 TCMALLOC_TRACE_QUIET=1 \
        LD_PRELOAD=$tracing_library sh -c 'seq 10 | cat; exec seq 20' >out 2>err && all_good &&
        counts 1 '*'
}

# The recording goes on when an exec fails.
failed_exec() {
    recordings
    followed perl -e \
        'my @a = map { "x" x $_ } 1..1000;
            exec "/no/such/program" or exec "/etc/passwd"; print scalar @a' &&
        [ "$(cat out)" = 1000 ] && all_good && counts 1 '*'
}

build() {
    rm -rf project
    mkdir project
    for i in 1 2 3 4; do echo "int f$i(void) { return $i; }" >"project/f$i.c"; done
    echo 'int main(void) { return 0; }' >project/main.c
    printf 'CFLAGS = -O1\nprogram: main.o f1.o f2.o f3.o f4.o\n\t$(CC) -o $@ $^\n' >project/Makefile
    # gcc may be ccache, which runs no compiler for what it knows.
    (cd project && CCACHE_DISABLE=1 "$malloctape" record --follow -- make -j2 CC=gcc >../out 2>../err) ||
        return 1
    [ "$(wc -l <err)" = 2 ] && project/program || return 1
    recordings
    mv project/*.raw.lz4 traces/
    [ -z "$(find project -name '*spool*')" ] && all_good && counts 5 'cc1.*' && counts 5 'as.*' &&
        counts 1 'make.*'
}

refuses_one_name() {
    ! "$malloctape" record --follow -o one.lz4 true >out 2>err && grep -q 'add %p to it' err
}

garbage_collection() {
    rm -rf repository
    git init -q repository && cd repository || return 1
    for i in 1 2 3; do
        echo "$i" >file && git add file &&
            git -c user.name=n -c user.email=e@example.org commit -q -m "$i" || return 1
    done
    cd ..
    recordings
    followed git -C repository gc -q && git -C repository fsck >out 2>err && all_good &&
        ! counts 0 'git.*'
}

is_saved() {
    redis-cli -s redis/socket info persistence | grep -q 'rdb_bgsave_in_progress:0'
}

saving_server() {
    recordings
    rm -rf redis
    mkdir redis
    TCMALLOC_TRACE_OUTPUT=$scratch/traces/%e.%p.lz4 TCMALLOC_TRACE_QUIET=1 \
        LD_PRELOAD=$tracing_library redis-server --unixsocket "$scratch/redis/socket" --port 0 \
        --save '' --dir "$scratch/redis" >redis.out 2>err &
    local server=$!
    wait_until redis-cli -s redis/socket ping >/dev/null 2>&1
    redis-benchmark -s redis/socket -q -t set,lpush -n 60000 -r 5000 -P 16 >out 2>>err &
    local load=$!
    for i in 1 2 3; do
        redis-cli -s redis/socket bgsave >/dev/null
        sleep 0.4
    done
    wait $load
    wait_until is_saved || return 1
    redis-cli -s redis/socket info persistence | grep -q 'rdb_last_bgsave_status:ok' || return 1
    redis-cli -s redis/socket shutdown nosave >/dev/null 2>&1 || true
    wait "$server" && all_good && ! counts 1 '*'
}

# storm OUTPUT CHILDREN - prints and checks what the parent did.
storm() {
    TCMALLOC_TRACE_OUTPUT=$1 TCMALLOC_TRACE_QUIET=1 LD_PRELOAD=$tracing_library "$life" storm "$2" \
        >printed 2>err
}

fork_storm() {
    recordings
    storm "$scratch/traces/raw.lz4" 63 && all_good && counts 1 '*' &&
        [ "$(objects traces/raw.lz4 888)" = "$(cut -d ' ' -f 1 printed)" ] &&
        [ "$(objects traces/raw.lz4 999)" = 0 ]
}

# Those that abort leave a recording that was cut short, with its spool; those that exec make 20 000
# calls before.
followed_fork_storm() {
    recordings
    storm "$scratch/traces/raw.%p.lz4" 14 || return 1
    local raw complete=0 cut=0
    for raw in traces/*.lz4; do
        if [ -e "$raw.spool" ]; then
            exit_status "$bin/postprocess" --quiet "$raw" ordered 2>err
            [ "$status" = 3 ] && cut=$((cut + 1)) || return 1
        else
            "$bin/postprocess" --quiet "$raw" ordered 2>err && complete=$((complete + 1)) ||
                return 1
        fi
    done
    echo "# $complete complete, $cut cut short"
    # The parent, the children that ended, and those that exec'd, before and after.
    [ "$complete" = $((1 + $(cut -d ' ' -f 2 printed) + 32)) ] && [ "$cut" = 16 ]
}

# Of this test: the same runs with the other front end.
nobody_is_left() {
    local pid
    for pid in $(pgrep -f "^$life storm"); do
        [ "$(readlink "/proc/$pid/cwd")" != "$(pwd -P)" ] || return 1
    done
}

# has PROGRAM... - all of them are installed.
has() {
    local program
    for program; do command -v "$program" >/dev/null || return 1; done
}

# check_with "PROGRAMS" TEXT COMMAND
check_with() {
    # shellcheck disable=SC2086 # a list
    if has $1; then check "${@:2}"; else skip_test "$2" "not all of $1 are installed"; fi
}

plan 12
check 'a shell and its pipeline: one each' pipeline
check_with bash 'subshells, and children that exec' subshells
check 'three programs of one process: one each' one_process
check 'without %p: the first program alone' first_program_only
check_with perl 'an exec that fails' failed_exec
check_with 'make gcc' 'malloctape record --follow -- make -j2' build
check 'record --follow refuses one name for all' refuses_one_name
check_with git 'git gc' garbage_collection
check_with 'redis-server redis-cli redis-benchmark' 'a server that saves under load' saving_server
check 'fork storm: only the parent' fork_storm
check 'fork storm, followed: one each' followed_fork_storm
check 'no process is left' wait_until nobody_is_left
