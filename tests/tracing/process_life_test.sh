#!/bin/bash
# process_life_test.sh - whatever becomes of a process, it is not harmed, and what it did is in the
# recording.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

life=$workloads/life
malloctape=$bin/malloctape

# A complete recording needs no spool.
complete() { [ ! -e "$1.spool" ] && verified "$1" 0; }

# --- ways to end ---

# ends HOW STATUS - like the same program untraced, and cleanly.
ends() {
    rm -f raw.lz4*
    exit_status recorded raw.lz4 "$life" end "$1"
    [ "$status" = "$2" ] && [ "$(objects raw.lz4 777)" = 20000 ] && complete raw.lz4
}

# The same where nothing of ours gets to run.
is_ended() {
    rm -f raw.lz4*
    { exit_status recorded raw.lz4 "$life" end "$1"; } 2>/dev/null
    [ "$status" = "$2" ] && [ -e raw.lz4.spool ] && [ "$(objects raw.lz4 777)" = 20000 ] &&
        verified raw.lz4 3
}

# The allocator says so as it does untraced, where the program, its stack and its libraries are
# concerned.
is_told_of_wrong_free() {
    local message='Attempt to free invalid pointer' plain
    rm -f raw.lz4*
    if [ "$front_end" = program ]; then
        { exit_status untraced "$life" wrong "$1"; } 2>/dev/null
        message=$(cat err)
    else
        { exit_status env LD_PRELOAD="$plain_library" "$life" wrong "$1"; } >out 2>err
    fi
    plain=$status
    { exit_status recorded raw.lz4 "$life" wrong "$1"; } 2>/dev/null
    [ "$status" = "$plain" ] && { [ -z "$message" ] || grep -q "$message" err; } &&
        [ "$(objects raw.lz4 777)" = 10000 ] &&
        verified raw.lz4 3
}

# hooks_see_all HOW - while nothing is recorded, and while all is.
hooks_see_all() {
    rm -f raw.lz4*
    LD_PRELOAD=$tracing_library "$workloads/hooks" "$1" >out 2>err &&
        recorded raw.lz4 "$workloads/hooks" "$1" && [ "$(objects raw.lz4 777)" = 2000 ] &&
        complete raw.lz4
}

# shellcheck disable=SC2016 # Ruby
late_calls_are_recorded() {
    rm -f raw.lz4*
    recorded raw.lz4 "$life" late && complete raw.lz4 || return 1
    for size in 654321 654322 654323; do
        [ "$(objects raw.lz4 $size)" = 1 ] || return 1
    done
    # Each of them was freed.
    "$malloctape" dump --only-calls --lane 0 raw.lz4 2>err | ruby -e '
        objects = {}
        STDIN.each_line do |line|
            objects[$2] = true if line =~ /^malloc (65432\d) -> \S+@(\d+)/
            objects.delete($1) if line =~ /^free \S*@(\d+)/
        end
        exit objects.empty?'
}

# loses_nothing_when_killed CALLS THREADS - killed after so many calls, in the middle of more; at
# most the call that each thread was in is missing.
# shellcheck disable=SC2016,SC2094 # Ruby; a subcommand called dump
loses_nothing_when_killed() {
    rm -f raw.lz4* counts
    ruby -e '
        calls, threads, library, life = ARGV
        process = spawn({ "TCMALLOC_TRACE_OUTPUT" => "raw.lz4", "LD_PRELOAD" => library },
            life, "count", "counts", threads)
        done = 0
        until done >= calls.to_i
            sleep 0.001
            counts = File.exist?("counts") ? File.binread("counts").unpack("Q<*") : []
            done = counts.each_slice(3).sum { |_, _, of_thread| of_thread.to_i }
        end
        Process.kill(:KILL, process)
        Process.wait(process)
    ' "$1" "$2" "$tracing_library" "$life" >out 2>err || return 1
    [ -e raw.lz4.spool ] || return 1
    "$malloctape" dump raw.lz4 >dump 2>err || [ $? = 3 ] || return 1
    awk '{ sub(/^spool /, "") }
        $4 == "thread_begin" { print "thread", $2, $5 }
        $4 == "malloc" || $4 == "free" { calls[$2]++ }
        END { for (lane in calls) print "calls", lane, calls[lane] }' dump >lanes
    ruby -e '
        threads = {}
        recorded = Hash.new(0)
        File.foreach("lanes") do |line|
            what, lane, number = line.split
            what == "thread" ? threads[number.to_i] = lane : recorded[lane] = number.to_i
        end
        counts = File.binread("counts").unpack("Q<*").each_slice(3).to_a
        calls = 0
        counts.each_with_index do |(thread, begun, done), index|
            # Maybe not even the record of its beginning is there.
            next if done.zero?
            # The main thread has a past; what it did before the first count is found as what is too
            # much.
            got = recorded[threads.fetch(thread)]
            good = index.zero? ? got >= done && got <= begun + 60 : (done..begun).cover?(got)
            calls += got
            abort "thread #{index}: #{done} calls done, #{begun} begun, #{got} recorded" unless good
        end
        puts "# #{counts.size} threads, #{calls} calls"
        exit calls > 10_000
    ' 2>>err && verified raw.lz4 3
}

# --- fork and exec ---

# forks HOW - children of a process with threads live and end; only what the parent did is recorded.
forks() {
    rm -f raw.lz4*
    recorded raw.lz4 "$life" fork "$1" calls && complete raw.lz4 &&
        [ "$(objects_each raw.lz4 888 999 777)" = "$(cat calls) 0 0" ]
}

execs() {
    rm -f raw.lz4*
    recorded raw.lz4 "$life" exec "$life" end exit || [ $? = 7 ] || return 1
    # The new program does what would be seen as 20 000 more.
    [ "$(objects raw.lz4 777)" = 10000 ] && ! "$malloctape" verify raw.lz4 2>&1 | grep -q damage
}

# --- threads ---

thread_destructors_are_recorded() {
    rm -f raw.lz4*
    recorded raw.lz4 "$workloads/threads" 1000 && complete raw.lz4 &&
        "$malloctape" info --json info.json raw.lz4 >out 2>err || return 1
    # 32 bytes each, freed by the destructor, and 50 objects, freed by the thread or a later one.
    [ "$(objects raw.lz4 32)" -ge 1000 ] && [ "$(json_value info.json threads)" = 1001 ] &&
        [ "$(json_value info.json live_at_end)" -lt 40 ]
}

# Lanes are used again, and with them the memory of what each thread had.
many_threads() {
    rm -f raw.lz4*
    recorded raw.lz4 "$workloads/threads" "$1" 8 2 && complete raw.lz4 &&
        "$malloctape" info --json info.json raw.lz4 >out 2>err || return 1
    "$malloctape" dump raw.lz4 2>err |
        awk '/ thread_begin /{ lanes[$2] = 1 } END { for (l in lanes) n++; print n }' >lanes
    echo "# $(json_value info.json threads) threads in $(cat lanes) lanes"
    [ "$(json_value info.json threads)" = $(($1 + 1)) ] && [ "$(cat lanes)" -lt 500 ]
}

# --- the program is not harmed ---

# cannot_record PATH - what cannot be written is said in one line, and the program goes on.
cannot_record() {
    exit_status recorded "$1" "$life" end exit
    [ "$status" = 7 ] && [ "$(wc -l <err)" = 1 ] && grep -q '^malloctape: ' err && [ ! -s out ]
}

full_disk() {
    exit_status recorded /dev/full "$life" end exit
    [ "$status" = 7 ] && [ "$(wc -l <err)" = 1 ] && grep -q '^malloctape: ' err
}

file_size_limit() {
    rm -f raw.lz4*
    exit_status bash -c \
        "ulimit -f 500; TCMALLOC_TRACE_OUTPUT=raw.lz4 LD_PRELOAD=$tracing_library exec $life fill" \
        >out 2>err
    [ "$status" = 7 ] && [ "$(grep -c '^malloctape: ' err)" = 1 ]
}

nothing_without_variable() {
    mkdir empty && (cd empty && LD_PRELOAD=$tracing_library "$life" tasks >../out 2>../err) &&
        [ "$(cat out)" = 1 ] && [ ! -s err ] && rmdir empty
}

nothing_with_empty_variable() {
    mkdir empty && (cd empty && TCMALLOC_TRACE_OUTPUT='' LD_PRELOAD=$tracing_library "$life" tasks \
        >../out 2>../err) &&
        [ "$(cat out)" = 1 ] && [ ! -s err ] && rmdir empty
}

one_thread_with_variable() {
    recorded raw.lz4 "$life" tasks && [ "$(cat out)" = 1 ] && complete raw.lz4
}

errno_is_kept() { recorded raw.lz4 "$life" errno "$(size 300000 1000000)" "$front_end" && complete raw.lz4; }

# What the program sees of itself and what its children see, compared with the allocator untraced.
sees_nothing() {
    LD_PRELOAD=$plain_library "$life" look >out 2>err </dev/null && mv out wanted
    TCMALLOC_TRACE_OUTPUT=$scratch/raw.lz4 LD_PRELOAD=$tracing_library "$life" look \
        >out 2>err </dev/null || return 1
    grep -q 'descriptor 1' out || return 1
    if ! diff wanted out >difference; then
        mv difference out
        return 1
    fi
}

# stderr has the one line at the end, and with TCMALLOC_TRACE_QUIET not even that.
says_nothing() {
    "$workloads/threads" 100 >wanted
    recorded raw.lz4 "$workloads/threads" 100 && cmp out wanted && [ "$(wc -l <err)" = 1 ] &&
        TCMALLOC_TRACE_QUIET=1 recorded raw.lz4 "$workloads/threads" 100 && cmp out wanted &&
        [ ! -s err ]
}

# waits_for_nobody END - standard error is a full pipe that is read only after the end, or one that
# nobody reads: the program ends as ever, of a recording and of one that does not begin.
# shellcheck disable=SC2016 # Ruby
waits_for_nobody() {
    rm -f raw.lz4*
    for variable in QUIETLY=1 MAX_BYTES=much; do
        env "TCMALLOC_TRACE_$variable" TCMALLOC_TRACE_OUTPUT=raw.lz4 ruby -rsocket -rtimeout -e '
            how, library, life = ARGV
            from, to = how.end_with?("socket") ? UNIXSocket.pair : IO.pipe
            loop { to.write_nonblock("x" * 4096) } rescue nil
            (loop { to.write_nonblock("x") } rescue nil)
            from.close if how.start_with?("broken")
            process = spawn({ "LD_PRELOAD" => library }, life, "end", "exit", out: File::NULL, err: to)
            begin
                Timeout.timeout(300) { Process.wait(process) }
            rescue Timeout::Error
                Process.kill(:KILL, process)
                Process.wait(process)
            end
            puts $?
            exit $?.exitstatus == 7' "$1" "$tracing_library" "$life" >out 2>err || return 1
    done
    [ "$(objects raw.lz4 777)" = 20000 ] && complete raw.lz4
}

private_file() { [ "$(stat -c %a raw.lz4)" = 600 ]; }

# memalign accepts an alignment of 0, and the record has it.
zero_alignment() {
    rm -f raw.lz4*
    recorded raw.lz4 "$workloads/edges" align0 && complete raw.lz4 &&
        "$malloctape" dump --only-calls raw.lz4 >out 2>err &&
        [ "$(grep -c '^memalign 100 0 -> ' out)" = 10 ]
}

# A child must not wait for what a thread of the parent held when it forked.
forks_beside_busy_threads() {
    rm -f raw.lz4*
    recorded raw.lz4 "$workloads/edges" forks "$(size 60 150)" >out 2>err && [ "$(cat out)" = 0 ] &&
        [ ! -e raw.lz4.spool ] &&
        "$bin/postprocess" --quiet raw.lz4 /dev/null 2>err
}

# The recording ends with one line, what there is of it is good, and the program is none the worse.
goes_on_after_an_error() {
    rm -f raw.lz4*
    (
        ulimit -f 1500
        recorded raw.lz4 "$workloads/churn" 1 1000 2000000
    ) >out 2>err || return 1
    grep -q '^malloctape: recording ended early: ' err && [ "$(wc -l <err)" = 1 ] || return 1
    verified raw.lz4 3 && grep -q 'in order, as far as it goes' verify.out
}

# --- what daemons, sandboxes and careless programs do ---

strain=$workloads/strain

# Untraced, after one line, if recording would leave no room.
little_address_space() {
    rm -f raw.lz4*
    for kilobytes in 20000 24000 28000 32000 40000; do
        exit_status bash -c \
            "ulimit -v $kilobytes
            TCMALLOC_TRACE_OUTPUT=raw.lz4 LD_PRELOAD=$tracing_library exec $life fill" >out 2>err
        [ "$status" = 7 ] && [ "$(wc -l <err)" = 1 ] &&
            grep -q '^malloctape: not recording: ' err || return 1
        [ -z "$(find . -name '*raw*')" ] || return 1
    done
}

old_kernel() {
    rm -f raw.lz4*
    exit_status "$strain" kernel env TCMALLOC_TRACE_OUTPUT=raw.lz4 LD_PRELOAD="$tracing_library" \
        "$life" end exit >out 2>err
    [ "$status" = 7 ] && [ "$(wc -l <err)" = 1 ] &&
        grep -q '^malloctape: not recording: .*kernel' err && [ ! -e raw.lz4 ]
}

# strains STATUS CALLS HOW... - complete, and like the same program untraced.
strains() {
    local wanted=$1 calls=$2
    shift 2
    rm -f raw.lz4*
    exit_status timeout 300 env TCMALLOC_TRACE_OUTPUT=raw.lz4 LD_PRELOAD="$tracing_library" \
        "$strain" "$@" >out 2>err
    [ "$status" = "$wanted" ] && [ "$(objects raw.lz4 777)" = "$calls" ] && complete raw.lz4
}

# _exit() in a handler, wherever the thread is just then.
ends_in_a_handler() {
    for i in $(seq "$(size 8 40)"); do
        rm -f raw.lz4*
        exit_status timeout 300 env TCMALLOC_TRACE_OUTPUT=raw.lz4 LD_PRELOAD="$tracing_library" \
            "$strain" interrupt $((10000 + i * 977)) >out 2>err
        [ "$status" = 7 ] && [ ! -e raw.lz4.spool ] || return 1
    done
    verified raw.lz4 0
}

# The first one keeps its output; the second one says so and goes on unrecorded.
two_with_one_name() {
    rm -f raw.lz4* counts
    TCMALLOC_TRACE_OUTPUT=raw.lz4 LD_PRELOAD=$tracing_library "$life" count counts 1 \
        >/dev/null 2>&1 &
    local first=$!
    wait_until test -e raw.lz4
    wait_until test -e counts
    local inode
    inode=$(stat -c %i raw.lz4)
    exit_status recorded raw.lz4 "$life" end exit
    { kill -KILL $first && wait $first; } 2>/dev/null
    [ "$status" = 7 ] && [ "$(wc -l <err)" = 1 ] &&
        grep -q 'raw.lz4: another process is recording to it' err &&
        [ "$(stat -c %i raw.lz4)" = "$inode" ] && [ "$(objects raw.lz4 777)" = 0 ] &&
        verified raw.lz4 3 || return 1
    # What the dead one has left is in nobody's way.
    recorded raw.lz4 "$life" end exit || [ $? = 7 ] && [ "$(objects raw.lz4 777)" = 20000 ] &&
        complete raw.lz4
}

plan 60
check 'return from main' ends return 7
check 'exit' ends exit 7
check '_exit' ends _exit 7
check '_Exit' ends _Exit 7
check 'quick_exit' ends quick_exit 7
check 'exit, from another directory' ends chdir 7
check 'exit in another thread' ends group 7
check 'the main thread ends first' ends thread 0
check 'abort' is_ended abort 134
check 'SIGSEGV' is_ended segv 139
for what in stack static mapped small; do
    check "a free of what is no object: $what" is_told_of_wrong_free $what
done
check 'SIGKILL soon' loses_nothing_when_killed 20000 3
check 'SIGKILL, one thread' loses_nothing_when_killed "$(size 40000 300000)" 1
check 'SIGKILL, three threads' loses_nothing_when_killed "$(size 60000 500000)" 3
check 'SIGKILL, sixteen threads' loses_nothing_when_killed "$(size 40000 300000)" 16
for how in add set; do
    if [ "$front_end" = tcmalloc ]; then
        check "malloc hooks that the program has: $how" hooks_see_all $how
    else
        skip_test "malloc hooks that the program has: $how" 'only tcmalloc has hooks'
    fi
done
check 'calls before main, in exit handlers and destructors' late_calls_are_recorded
for how in exit _exit _Exit quick_exit abort exec thread; do
    check "fork with threads, child: $how" forks $how
done
check 'exec: the new program is not recorded and leaves the file alone' execs
check 'thread-specific data destructors' thread_destructors_are_recorded
check 'many short threads' many_threads "$(size 4000 100000)"
check 'no such directory' cannot_record /no/such/directory/raw.lz4
check 'the output is a directory' cannot_record "$scratch"
if [ "$(id -u)" = 0 ]; then
    skip_test 'no permission' 'root may write everywhere'
else
    check 'no permission' cannot_record /proc/version
fi
check 'a full disk' full_disk
check 'a limit on the size of files' file_size_limit
check 'no variable: no thread, no file, no word' nothing_without_variable
check 'an empty variable: the same' nothing_with_empty_variable
check 'recording: a process that does little has no thread of ours' one_thread_with_variable
check 'errno is the program'"'"'s' errno_is_kept
check 'descriptors, signals, children and their environment' sees_nothing
check 'standard output and standard error' says_nothing
for how in full broken full_socket broken_socket; do
    check "standard error, $how: nothing waits for it, no signal" waits_for_nobody $how
done
check 'mode 0600' private_file
check 'an alignment of 0' zero_alignment
check 'children forked beside busy threads' forks_beside_busy_threads
check 'the program goes on after an error' goes_on_after_an_error
check 'little address space: the program runs as untraced' little_address_space
check 'a kernel that cannot hide memory from children: the same' old_kernel
check 'every thread ends by the system call alone' strains 9 30000 leave
check '_exit in a signal handler' ends_in_a_handler
check 'descriptors 0 to 1023 are closed and are other files then' strains 7 1030000 close
if [ "$(id -u)" = 0 ]; then
    check 'another user' strains 7 30000 user
    check 'another root directory' strains 7 30000 root "$scratch"
else
    skip_test 'another user' 'only root can become one'
    skip_test 'another root directory' 'only root can change it'
fi
check 'no more files, and little memory' strains 7 30000 limits
check 'all signals blocked and ignored' strains 7 30000 signals
check 'two processes with one output' two_with_one_name
