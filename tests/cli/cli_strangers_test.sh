#!/bin/bash
# cli_strangers_test.sh - another user's process and another user's directory: whoever records them
# loses no file, waits for no answer that never comes, and gets the recording.
set -eu
# shellcheck source=tests/cli_tap.sh
. "$(dirname "$0")/../cli_tap.sh"

under program
pids=()
trap 'exec 5>&-; kill "${pids[@]}" 2>/dev/null || true; rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
cp "$workloads/obey" obey # where everybody may run it

# begin COMMAND... - in the background as $pid, a process that obeys what is written to descriptor 5.
begin() {
    rm -f input answers
    mkfifo input
    "$@" <input >answers 2>obey.err &
    pid=$!
    pids+=("$pid")
    exec 5>input
    make_objects 0
}

make_objects() {
    echo "$1" >&5
    wait_until grep -qx "made $1" answers
}

over() {
    exec 5>&-
    wait "$pid" && [ "$(tail -n 1 answers)" = done ]
}

# attach RAW [PROCESS] - `record --pid` in the background, as $recorder, once it records.
attach() {
    rm -f err
    "$bin/malloctape" record --pid "${2:-$pid}" -o "$1" >out 2>err 5>&- &
    recorder=$!
    pids+=("$recorder")
    wait_until grep -qs 'recording process' err
}

# detaches RAW OBJECTS - the recording has so many.
detaches() {
    kill -INT "$recorder"
    wait "$recorder" && says 'stopped: ' && says 'detached from process' && "$bin/malloctape" verify "$1" >out 2>err &&
        [ "$(objects "$1" 777)" = "$2" ] && [ ! -e "$1.spool" ]
}

nothing_hidden() { [ -z "$(find . -name '.malloctape-*')" ]; }

# A directory that the process's user may not enter has the recording all the same.
unwritable() {
    mkdir -m 700 private
    begin setpriv --reuid=65534 --regid=65534 --clear-groups ./obey 1
    attach private/here.lz4
    make_objects 300
    detaches private/here.lz4 300 && over && nothing_hidden
}

# unloadable - a library that the process may not read, or not run, reaches it as a copy.
unloadable() {
    mkdir -m 700 library
    cp "$build_dir/lib/libmalloctape.so" library
    begin setpriv --reuid=65534 --regid=65534 --clear-groups ./obey
    MALLOCTAPE_LIBDIR=$scratch/library attach unread.lz4
    make_objects 310
    detaches unread.lz4 310 && over
}

without_exec() {
    cat >inside <<'X'
set -eu
mkdir -p noexec
mount -t tmpfs -o noexec none noexec
cp "$1" noexec
mkfifo go
./obey <go >said &
exec 4>go
answered() { # answered TEXT FILE
    until grep -qs "$1" "$2"; do sleep 0.02; done
}
echo 0 >&4
answered "made 0" said
MALLOCTAPE_LIBDIR=$PWD/noexec "$2" record --pid $! -o noexec.lz4 2>told &
recorder=$!
answered "recording process" told
echo 320 >&4
answered "made 320" said
kill -INT "$recorder"
wait "$recorder"
cat told >&2
exec 4>&-
wait
grep -qx done said
X
    timeout 300 unshare --mount bash inside "$build_dir/lib/libmalloctape.so" "$bin/malloctape" >out 2>err &&
        says 'stopped: ' && "$bin/malloctape" verify noexec.lz4 >out 2>err &&
        [ "$(objects noexec.lz4 777)" = 320 ]
}

# What the process sees at the recording's path is its own.
private_mount() {
    local outside
    mkdir -p shared
    begin unshare --mount --fork sh -c 'mount -t tmpfs none shared && exec ./obey 1'
    outside=$pid
    pid=$(pgrep -P "$outside")
    attach shared/now.lz4
    make_objects 330
    detaches shared/now.lz4 330 || return 1
    attach shared/killed.lz4
    make_objects 340
    kill -KILL "$pid"
    wait "$recorder" && says 'finished by record' && "$bin/malloctape" verify shared/killed.lz4 >out 2>err &&
        [ "$(objects shared/killed.lz4 777)" = 340 ] && [ ! -e shared/killed.lz4.spool ] && nothing_hidden
}

# precious - a file of root's that looks as a recording that was cut does.
precious() {
    head -c 300000 /dev/urandom | lz4 -q >precious
    cp precious before
}

is_unharmed() { cmp -s precious before; }

# Something else is put in the recording's place, then the process dies.
replaced() { # replaced ln OPTION
    precious
    rm -rf theirs
    mkdir theirs
    chown 65534 theirs
    begin setpriv --reuid=65534 --regid=65534 --clear-groups ./obey 1
    attach theirs/x.lz4
    make_objects 100
    rm theirs/x.lz4
    "$@" "$scratch/precious" theirs/x.lz4
    kill -KILL "$pid"
    exit_status wait "$recorder"
    [ "$status" = 1 ] && says 'theirs/x.lz4: somebody has removed the recording or put another file there' &&
        is_unharmed
}

# So it is for a program that was started by `record`, and has given up root since.
replaced_by_program() {
    precious
    rm -rf theirs
    mkdir -m 777 theirs
    # shellcheck disable=SC2016 # Ruby's variables
    TMPDIR=$scratch exits 137 record --allocator=program -o theirs/x.lz4 -- ruby -e '
        Process::Sys.setresuid(65534, 65534, 65534)
        100.times { "x" * 10_000 }
        $stdout.flush
        File.rename("theirs/x.lz4", "theirs/y.lz4")
        '"$1"'("'"$scratch"'/precious", "theirs/x.lz4")
        File.rename("theirs/x.lz4.spool", "theirs/y.lz4.spool")
        File.write("theirs/x.lz4.spool", "")
        Process.kill(:KILL, $$)' && is_unharmed && says 'theirs/x.lz4: cut short'
}

# A link that is there already is not followed.
led_away() {
    precious
    ln -s precious led.lz4
    begin ./obey
    exits 1 record --pid "$pid" -o led.lz4 && says 'led.lz4 is a symbolic link: name the file that it leads to' &&
        is_unharmed && cp precious plain.lz4 && exits 1 record --pid "$pid" -o plain.lz4 &&
        says 'plain.lz4 exists and is not a recording' && over && nothing_hidden
}

# An older recording is replaced once the new one has begun, and not if it cannot begin.
older() {
    begin ./obey
    attach older.lz4
    make_objects 10
    detaches older.lz4 10 || return 1
    cp older.lz4 kept
    exits 1 record --pid 999999999 -o older.lz4 && cmp -s older.lz4 kept && nothing_hidden || return 1
    attach older.lz4
    exits 1 record --pid "$pid" -o older.lz4 && says 'another process is recording to it' || return 1
    make_objects 20
    detaches older.lz4 20 && over
}

# Names are filled in by who records.
named() {
    begin ./obey
    exits 0 record --pid "$pid" -o '%e-%p.lz4' --seconds 1 && [ -s "obey-$pid.lz4" ] &&
        exits 0 record --pid "$pid" -o '%e-%p.lz4' --seconds 1 && [ -s "obey-$pid.2.lz4" ] &&
        mkfifo reader && { cat reader >read.lz4 & pids+=($!); } &&
        exits 0 record --pid "$pid" -o reader --seconds 1 && wait "${pids[-1]}" && over &&
        "$bin/malloctape" verify read.lz4 >out 2>err
}

# The name of the program is its user's choice, and neither a line of a request nor a file's name.
line_break() {
    local name=$'x\nstop\n\e[2Jy'
    cp obey "$name"
    mkdir empty
    begin "./$name"
    (cd empty && exec "$bin/malloctape" record --pid "$pid" --seconds 1 >../out 2>../err) &&
        [ "$(ls empty)" = "$pid.raw.lz4" ] && over || return 1
    exits 0 record -o $'a\nb.lz4' -- "./$name" </dev/null && "$bin/malloctape" verify $'a\nb.lz4' >out 2>/dev/null &&
        [ "$(grep -c '^' err)" = 2 ] && ! grep -q $'\e' err
}

# By a handler, or when it looks for it.
takes_sigterm() {
    awk '/^Sig(Blk|Cgt)/ && substr($2, 13, 1) ~ /[4-7c-f]/ { takes = 1 } END { exit !takes }' "/proc/$1/status"
}


# A process that has its socket and never answers.
silent() {
    # shellcheck disable=SC2016 # Ruby's variables
    ruby -rsocket -e '
        listening = Socket.new(:UNIX, :STREAM)
        listening.bind(Addrinfo.unix("\0malloctape-#{$$}"))
        listening.listen(5)
        puts "listening"
        $stdout.flush
        kept = []
        loop { kept << listening.accept }' >listening &
    pid=$!
    pids+=("$pid")
    wait_until grep -q listening listening
    "$bin/malloctape" ctl "$pid" status >ctl.out 2>ctl.err &
    local asking=$!
    pids+=("$asking")
    exits 1 record --pid "$pid" -o silent.lz4 && says 'listens, but does not answer' &&
        [ ! -e silent.lz4 ] && exit_status wait "$asking" && [ "$status" = 1 ] &&
        grep -q 'has not answered for 10 seconds' ctl.err || return 1
    "$bin/malloctape" record --pid "$pid" -o silent.lz4 2>err &
    recorder=$!
    wait_until takes_sigterm "$recorder"
    sleep 0.3
    kill -TERM "$recorder"
    exit_status wait "$recorder"
    kill "$pid"
    [ "$status" = 1 ] && says "interrupted before process $pid answered" && [ ! -e silent.lz4 ] && nothing_hidden
}

ended() { exits 0 ctl "$pid" status && prints '^not recording'; }

has_ended_on_sigint() {
    kill -INT "$recorder"
    for _ in 1 2 3 4 5 6 7; do
        sleep 0.1
        ! grep -q '^State:.*[^Z] (' "/proc/$recorder/status" 2>/dev/null || continue
        return 0
    done
    return 1
}

# One that is stopped while it is recorded: the second Ctrl-C ends the wait for its answer.
stopped() {
    begin ./obey
    attach stopped.lz4
    kill -STOP "$pid"
    sleep 0.7
    kill -INT "$recorder"
    sleep 0.7
    kill -0 "$recorder" || return 1
    wait_until has_ended_on_sigint || return 1 # two signals that come at once are one
    exit_status wait "$recorder"
    [ "$status" = 1 ] && says "process $pid does not answer: its recording goes on" || return 1
    kill -CONT "$pid"
    wait_until ended && "$bin/malloctape" verify stopped.lz4 >out 2>err && over
}

# timeout(1) sends its signal to `record`, and then again to the group that it is in.
asked_twice() {
    begin ./obey
    attach twice.lz4
    kill -STOP "$pid"
    sleep 0.2
    kill -INT "$recorder"
    sleep 0.05
    kill -INT "$recorder"
    sleep 0.05
    kill -CONT "$pid"
    wait "$recorder" && says 'stopped: ' && says 'detached from process' && nothing_hidden &&
        [ ! -e twice.lz4.spool ] && "$bin/malloctape" verify twice.lz4 >out 2>err &&
        "$bin/malloctape" info --json=info.json twice.lz4 >out 2>err &&
        json info.json "j['end'] == 'complete'" && over
}

# A FIFO in the spool's place.
fifo_spool() {
    # shellcheck disable=SC2016 # Ruby's variables
    timeout 300 "$bin/malloctape" record --allocator=program -o fifo.lz4 -- ruby -e '
        100.times { "x" * 10_000 }
        File.unlink("fifo.lz4.spool")
        File.mkfifo("fifo.lz4.spool")
        Process.kill(:KILL, $$)' >out 2>err
    [ $? = 137 ]
}

# Another user has taken a name by which recordings that begin in a directory could take turns.
locked() {
    mkdir -m 777 crowded
    # shellcheck disable=SC2016 # Ruby's variables
    setpriv --reuid=65534 --regid=65534 --clear-groups ruby -rsocket -e '
        directory = File.stat("crowded")
        taken = Socket.new(:UNIX, :STREAM)
        taken.bind(Addrinfo.unix("\0malloctape-in-#{directory.dev}-#{directory.ino}"))
        whole = File.open("crowded")
        whole.flock(File::LOCK_EX)
        puts "held"
        $stdout.flush
        sleep 600' >held 2>&1 &
    pids+=($!)
    wait_until grep -q held held
    strace -f -o calls -e trace=nanosleep,clock_nanosleep "$bin/malloctape" record -o crowded/x.lz4 -- "$workloads/known_calls" >out 2>err &&
        "$bin/malloctape" verify crowded/x.lz4 >out && [ "$(grep -c nanosleep calls)" -lt 100 ] &&
        [ "$(ls -A crowded)" = x.lz4 ]
}

# SIGTERM as soon as it has made the first of its files: a recording or nothing, and no other file.
interrupted() {
    begin ./obey
    strace -o calls -e trace=openat -e inject=openat:delay_exit=50000 \
        "$bin/malloctape" record --pid "$pid" -o early.lz4 >out 2>err 5>&- &
    local tracer=$!
    pids+=("$tracer")
    until [ -n "$(find . -name '.malloctape-*')" ]; do kill -0 "$tracer" || return 1; done
    kill -TERM "$(cat "/proc/$tracer/task/$tracer/children")"
    exit_status wait "$tracer"
    [ "$status" -le 1 ] && nothing_hidden && [ ! -e early.lz4.spool ] && over
}

# With -q, too: a recording that ends early, one that is cut short, and none at all.
quiet() {
    cat >limited.rb <<'X'
Process.setrlimit(Process::RLIMIT_FSIZE, 4096, 4096)
trap(:XFSZ, "IGNORE")
20_000.times { |i| "x" * (i % 3000) }
X
    exits 0 record -q --allocator=program -o limited.lz4 -- ruby limited.rb &&
        [ "$(cat err)" = "malloctape: recording ended early: $scratch/limited.lz4: file too large" ] &&
        exits 0 record -q -o good.lz4 -- "$workloads/known_calls" && [ ! -s err ] || return 1
    exit_status bash -c 'ulimit -f 8 && exec "$1" record -q -o none.lz4 -- sh -c "exit 7"' - "$bin/malloctape" >out 2>err
    [ "$status" = 7 ] && says 'not recording: .*none.lz4' &&
        says 'malloctape record: nothing was recorded' && [ ! -e none.lz4 ]
}

# So it is for a process that runs.
cut_short() {
    mkdir tiny
    mount -t tmpfs -o size=1400k none tiny
    begin ./obey 2
    exit_status "$bin/malloctape" record -q --pid "$pid" -o tiny/x.lz4 >out 2>err
    umount -l tiny
    [ "$status" = 1 ] && says 'tiny/x.lz4: cut short; x.lz4.spool has the rest' && over
}

if [ -n "$sanitized" ]; then
    echo '1..0 # SKIP a sanitizer follows no process that another one stops'
    exit 0
fi
plan 19
check_as_root 'a directory that the process may not enter' unwritable
check_as_root 'a library that it may not read' unloadable
check_as_root 'a library that it may not run' without_exec
check_as_root 'a directory that it has another one in place of' private_mount
check_as_root 'a link in place of the recording' replaced ln -s
check_as_root 'another name of a file in place of the recording' replaced ln
check_as_root 'a link, by a program that has given up root' replaced_by_program File.symlink
check 'a link that is there before, or a file that is no recording' led_away
check 'an older recording' older
check 'names with % and a FIFO' named
check 'line breaks in names' line_break
check 'a process that does not answer' silent
check 'a process that is stopped' stopped
check 'a signal that comes twice' asked_twice
check 'a FIFO in place of the spool' fifo_spool
if command -v strace >/dev/null; then
    check_as_root "another user's lock" locked
    check 'a signal that comes at once' interrupted
else
    skip_test "another user's lock" 'needs strace'
    skip_test 'a signal that comes at once' 'needs strace'
fi
check 'what goes wrong is told, also with -q' quiet
check_as_root 'and of a process that runs' cut_short
