#!/bin/bash
# outputs_test.sh - wherever a recording goes, it arrives; and the program notices nothing of the
# way.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

life=$workloads/life
family=$workloads/family
malloctape=$bin/malloctape
export TMPDIR=$scratch/tmp
mkdir tmp

# Whether all that `life end exit` did is there and nothing is left behind.
whole() { verified "$1" 0 && [ "$(objects "$1" 777)" = 20000 ] && nothing_left; }

nothing_left() { [ -z "$(ls tmp)" ] && [ -z "$(find . -name '*.spool' -o -name '.malloctape*')" ]; }

# life_recorded OUTPUT - `life end exit` ends as it always does.
life_recorded() {
    exit_status recorded "$1" "$life" end exit
    [ "$status" = 7 ]
}

fresh() { rm -rf raw.lz4* fifo out tmp/* .malloctape* ./*.copy; }

# --- names ---

letters() {
    fresh
    life_recorded 'raw.lz4-%e-%h-%t-%%-%p' || return 1
    local name
    name=$(echo raw.lz4-*)
    [[ $name =~ ^raw\.lz4-life-$(uname -n)-[0-9]{10}-%-[0-9]+$ ]] && whole "$name"
}

# What a program writes over its words is not its name.
letters_after_title() {
    fresh
    LD_PRELOAD=$tracing_library TCMALLOC_TRACE_OUTPUT=raw.lz4-%e-%p ruby -e '
        Process.setproctitle("worker of /another/name")
        Process.wait(fork { "x" * 1000 })' >out 2>err || return 1
    [ "$(find . -name 'raw.lz4-*' | sed 's/-[0-9]*$//' | uniq -c |
        tr -s ' ')" = ' 2 ./raw.lz4-ruby' ]
}

# not_recorded OUTPUT WHY
not_recorded() {
    life_recorded "$1" && one_line "not recording: .*$2" && nothing_left
}

# --- files ---

older_is_replaced() {
    fresh
    life_recorded raw.lz4 && echo older >raw.lz4.spool && ln raw.lz4 other.copy && rm raw.lz4 &&
        cp other.copy raw.lz4 && life_recorded raw.lz4 && whole raw.lz4 &&
        [ "$(stat -c %a raw.lz4)" = 600 ]
}

# What cannot start must not have removed anything.
older_survives_failure() {
    fresh
    echo older >raw.lz4
    mkdir raw.lz4.spool
    life_recorded raw.lz4 && one_line 'not recording: raw.lz4.spool: is a directory' &&
        [ "$(cat raw.lz4)" = older ] &&
        [ "$(find . -name '.malloctape*')" = '' ] || return 1
    rmdir raw.lz4.spool
    rm raw.lz4
    mkdir raw.lz4
    echo older >raw.lz4.spool
    life_recorded raw.lz4 && one_line 'not recording: raw.lz4: is a directory' &&
        [ "$(cat raw.lz4.spool)" = older ]
}

# Processes that are killed 0.5 to 8 ms after their start; on a slow machine, later, until some had
# begun. What opens the files (os_call_apart()) may outlive its process for a moment.
early_ends_leave_nothing_hidden() {
    fresh
    mkdir -p early.copy
    ruby -e '
        environment = { "TCMALLOC_TRACE_OUTPUT" => "early.copy/%p.lz4", "LD_PRELOAD" => ARGV[0] }
        12.times do |slower|
            100.times do |number|
                process = spawn(environment, "sleep", ARGV[1], err: "err")
                sleep((0.0005 + number % 40 * 0.0002) * 2**slower)
                Process.kill(:KILL, process)
                Process.wait(process)
            end
            break if Dir["early.copy/*.lz4"].size > 10
        end' "$tracing_library" "3600.$$" || return 1
    while pgrep -f "^sleep 3600.$$" >/dev/null; do sleep 0.01; done
    find early.copy -name '.malloctape*' >out
    [ ! -s out ] && [ "$(find early.copy -name '*.lz4' | wc -l)" -gt 10 ]
}

symbolic_link() {
    fresh
    echo older, and longer than nothing >target.copy
    ln -s target.copy raw.lz4
    life_recorded raw.lz4 && [ -L raw.lz4 ] && verified target.copy 0 && whole raw.lz4
}

hard_link() {
    fresh
    head -c 100000 /dev/zero >target.copy
    ln target.copy raw.lz4
    life_recorded raw.lz4 && cmp raw.lz4 target.copy && whole raw.lz4
}

device() { fresh && life_recorded /dev/null && nothing_left && one_line '/dev/null: 400'; }

# --- FIFO ---

fifo() {
    fresh
    mkfifo fifo
    cat fifo >raw.lz4 &
    life_recorded fifo && wait $! && whole raw.lz4 && [ ! -e fifo.spool ]
}

# The program does not wait: what it says is there before anybody reads.
fifo_read_late() {
    fresh
    mkfifo fifo
    TCMALLOC_TRACE_OUTPUT=fifo LD_PRELOAD=$tracing_library "$family" tty 20 >out 2>err &
    local program=$!
    wait_until test -s out && [ "$(cat out)" = ready ] && sleep 0.3 || return 1
    cat fifo >raw.lz4 &
    sleep 0.2
    kill -INT $program
    exit_status wait $program
    wait
    [ "$status" = 3 ] && verified raw.lz4 0 && nothing_left
}

# joined - what the reader got, and the spool from the directory of temporary files, are the whole.
joined() {
    local spool
    spool=$(sed -n 's/.* what could not be written is in //p' err)
    [ -f "$spool" ] && [ "$(stat -c %a "$spool")" = 600 ] &&
        [ "$(dirname "$spool")" = "$TMPDIR" ] || return 1
    touch raw.lz4
    mv "$spool" raw.lz4.spool
    exit_status "$bin/postprocess" --quiet raw.lz4 /dev/null 2>post.err
    [ "$status" = 3 ] && verified raw.lz4 3
}

fifo_never_read() {
    fresh
    mkfifo fifo
    # The program has ended long before: what it did is in the spool.
    TCMALLOC_TRACE_READER_SECONDS=1 life_recorded fifo &&
        one_line 'recording ended early: fifo: its reader did not read' &&
        joined && [ "$(objects raw.lz4 777)" = 20000 ]
}

# --- descriptors ---

descriptor_of_file() {
    fresh
    life_recorded fd:9 9>raw.lz4 && whole raw.lz4
}

descriptor_of_pipe() {
    fresh
    TCMALLOC_TRACE_OUTPUT=fd:1 LD_PRELOAD=$tracing_library "$life" end exit 2>err | cat >raw.lz4
    whole raw.lz4
}

# The descriptor may not wait: its flags are the program's.
descriptor_without_waiting() {
    fresh
    ruby -rio/nonblock -e '
        reader, writer = IO.pipe
        writer.nonblock = true
        environment = { "TCMALLOC_TRACE_OUTPUT" => "fd:9", "LD_PRELOAD" => ARGV[0] }
        process = spawn(environment, *ARGV[1..], 9 => writer, err: "err")
        writer.close
        sleep 0.3
        File.binwrite("raw.lz4", reader.read)
        Process.wait(process)' "$tracing_library" "$workloads/churn" 1 1000 1000000 || return 1
    verified raw.lz4 0 && nothing_left
}

descriptor_of_socket() {
    fresh
    ruby -rsocket -e '
        reader, writer = UNIXSocket.pair
        environment = { "TCMALLOC_TRACE_OUTPUT" => "fd:9", "LD_PRELOAD" => ARGV[0] }
        process = spawn(environment, *ARGV[1..], 9 => writer, err: "err")
        writer.close
        File.binwrite("raw.lz4", reader.read)
        Process.wait(process)' "$tracing_library" "$life" end exit || return 1
    whole raw.lz4
}

# --- commands ---

command_gets_it() {
    fresh
    life_recorded '|cat >raw.lz4' && whole raw.lz4 && one_line '|cat >raw.lz4: 400'
}

command_with_letters() { fresh && life_recorded '|cat >raw.lz4-%e-$$' && whole raw.lz4-life-*; }

command_status_is_told() {
    fresh
    life_recorded '|cat >raw.lz4; exit 3' && one_line '.*: the command ended with status 3' &&
        whole raw.lz4 || return 1
    TCMALLOC_TRACE_QUIET=1 life_recorded '|cat >raw.lz4; exit 3' && [ ! -s err ] && whole raw.lz4
}

# On a busy machine it may have ended before the recording begins.
command_that_reads_nothing() {
    for _ in $(seq 20); do
        fresh
        exit_status recorded '|exec sleep 0.1' "$life" fill
        [ "$status" = 7 ] || return 1
        if ! one_line 'not recording: .*: broken pipe'; then
            one_line 'recording ended early: .*: broken pipe' && joined
            return
        fi
        nothing_left || return 1
    done
    return 1
}

command_is_awaited() {
    fresh && life_recorded '|cat >early.copy; sleep 0.3; mv early.copy raw.lz4' && whole raw.lz4
}

# The program is not seen to have a child, whatever it does about those that it has.
unseen() {
    fresh
    exit_status recorded "$2" "$family" children "$1"
    [ "$status" = 7 ] && nothing_left
}

unseen_early() {
    fresh
    exit_status recorded '|head -c 100 >/dev/null' "$family" children "$1"
    [ "$status" = 7 ] && one_line 'recording ended early: .*: broken pipe'
}

status_although_ignored() {
    fresh
    exit_status recorded '|cat >raw.lz4; exit 3' "$family" children ignore
    [ "$status" = 7 ] && one_line '.*: the command ended with status 3' && verified raw.lz4 0
}

# No signal is blocked or ignored, there is no library of ours and no variable; the others are
# there.
command_is_free() {
    fresh
    (
        trap '' PIPE INT TERM USR1
        export LD_PRELOAD="libm.so.6:$tracing_library"
        export TCMALLOC_TRACE_OUTPUT='|env >env.copy
            cat /proc/self/status >status.copy; ls -l /proc/self/fd >fd.copy; cat >raw.lz4'
        export TCMALLOC_TRACE_READER_SECONDS=20 OTHER_VARIABLE=here
        "$life" end exit >out 2>err
    ) || [ $? = 7 ] || return 1
    whole raw.lz4 && grep -q '^LD_PRELOAD=libm.so.6$' env.copy &&
        grep -q '^OTHER_VARIABLE=here$' env.copy &&
        ! grep -q '^TCMALLOC_TRACE' env.copy || return 1
    [ "$(grep -c -E '^Sig(Blk|Ign|Cgt):\s0+$' status.copy)" = 3 ] &&
        [ "$(grep -c ' -> ' fd.copy)" = 4 ] &&
        grep -q ' 0 -> pipe:' fd.copy # the fourth is that of ls
}

environment_is_constant() {
    fresh
    LD_PRELOAD=$tracing_library "$workloads/pieces" environment '|cat >raw.lz4' >out 2>err &&
        verified raw.lz4 0 && [ "$(objects raw.lz4 777)" = 1000 ] && nothing_left
}

# Standard output is the program's alone.
command_prints_elsewhere() {
    fresh
    life_recorded '|echo command says; cat >raw.lz4' && [ ! -s out ] &&
        grep -q '^command says$' err && whole raw.lz4
}

# What is typed at the terminal ends the program; the stream still gets its end.
command_survives_interrupt() {
    fresh
    setsid env TCMALLOC_TRACE_OUTPUT='|cat >raw.lz4' LD_PRELOAD="$tracing_library" "$family" tty \
        20 >out 2>err &
    local program=$!
    wait_until test -s out
    kill -INT -- -$program
    exit_status wait $program
    [ "$status" = 3 ] && verified raw.lz4 0 && nothing_left
}

# Who waits for the command holds no memory of the program, only that of the library: two megabytes
# with the page map of tcmalloc, which it shares with the program.
keeper_is_small() {
    fresh
    ruby -e '
        environment = { "TCMALLOC_TRACE_OUTPUT" => "|cat >raw.lz4", "LD_PRELOAD" => ARGV[0] }
        reader, writer = IO.pipe
        process = spawn(environment, ARGV[1], "tty", "20", out: writer, err: "err")
        reader.gets
        children = memory = files = nil
        600.times do # until it has become what it stays
            sleep 0.1
            begin
                children = Dir["/proc/#{process}/task/*/children"]
                    .flat_map { |file| File.read(file).split }
                status = children.map { |child| File.read("/proc/#{child}/status") }
                memory = status.map { |text| text[/VmRSS:\s+(\d+)/, 1].to_i }
                files = children.map { |child| Dir.children("/proc/#{child}/fd").size }
            rescue SystemCallError # it has just gone
                next
            end
            break if files == [0] && memory[0] < 2560
        end
        Process.kill(:INT, process)
        Process.wait(process)
        puts "# resident: #{memory} KiB, descriptors: #{files}"
        exit children.size == 1 && memory[0] < 2560 && files == [0]' "$tracing_library" "$family"
}

record_knows_outputs() {
    fresh
    mkdir -p 'per%cent'
    (cd 'per%cent' && "$malloctape" record -o raw.lz4 true && [ -s raw.lz4 ]) >out 2>err || return 1
    "$malloctape" record -o '|cat >raw.lz4' true >out 2>err && verified raw.lz4 0
}

plan 37
check 'letters after %' letters
check 'the name of the program, though it has another title' letters_after_title
check '% before anything else is refused' not_recorded 'raw%z' '%p %h %t %e %%'
check 'an older recording and its spool are replaced' older_is_replaced
check 'a start that fails leaves an older recording' older_survives_failure
if (cd "$scratch" && ruby -e 'File.open(".", File::RDWR | File::TMPFILE) {}' 2>/dev/null); then
    check 'processes that are killed early leave no hidden files' early_ends_leave_nothing_hidden
else
    skip_test 'no hidden files' 'the file system has no files without names'
fi
check 'a symbolic link is written through' symbolic_link
check 'a file with two names keeps both' hard_link
check 'a device' device
check 'a FIFO' fifo
check 'a FIFO whose reader comes later' fifo_read_late
check 'a FIFO that nobody reads: the spool has everything' fifo_never_read
check 'a descriptor of a file' descriptor_of_file
check 'a descriptor of a pipe' descriptor_of_pipe
check 'a descriptor of a pipe that refuses to wait' descriptor_without_waiting
check 'a descriptor of a socket' descriptor_of_socket
check 'a descriptor that is not open' not_recorded fd:9 'fd:9: not a descriptor' 9>&-
check 'a descriptor that is no number' not_recorded fd:x 'fd:x: not a descriptor'
check 'a descriptor to read from' not_recorded fd:0 'fd:0: not a descriptor' </dev/null
check 'a command' command_gets_it
check 'a command with letters after %' command_with_letters
check 'the exit status of a command' command_status_is_told
check 'a command that does not read' command_that_reads_nothing
check 'the end waits for the command' command_is_awaited
for how in plain ignore reaper; do
    check "the command is no child of the program: $how" unseen $how '|cat >/dev/null'
    check "a command that ends early is no child: $how" unseen_early $how
done
check 'the exit status of a command, though SIGCHLD is ignored' status_although_ignored
check 'signals and environment of a command' command_is_free
check 'a command of a program whose environment is constant' environment_is_constant
check 'what a command prints' command_prints_elsewhere
check 'an interrupt from the terminal' command_survives_interrupt
if [ -n "$sanitized" ]; then
    skip_test 'between program and command' 'a sanitizer is large'
else
    check 'between program and command' keeper_is_small
fi
check 'malloctape record' record_knows_outputs
