#!/bin/bash
# control_rights_test.sh - who may control a process, under both front ends: nobody gets by a request
# what he could not do himself; who answers is the process that was asked, and of the same version.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

rounds=$(size 3 30)
nobody=65534
malloctape=$bin/malloctape
processes=()
trap 'kill "${processes[@]}" 2>/dev/null || true; rm -rf "$scratch"' EXIT
chmod 711 "$scratch"
# Where any user may have a spool.
mkdir -m 1777 tmp
export TMPDIR=$scratch/tmp

as_nobody=(setpriv --reuid $nobody --regid $nobody --clear-groups)

# ctl WORDS..., ctl_as USER GROUP WORDS... - without any other group.
ctl() { timeout 300 "$malloctape" ctl "$@" >out 2>err; }
ctl_as() {
    timeout 300 setpriv --reuid "$1" --regid "$2" --clear-groups "$malloctape" ctl "${@:3}" \
        >out 2>err
}

# says TEXT - the last request was refused with these words, and no others.
says() {
    [ "$(cat err)" = "malloctape ctl: process $process$1" ] || return 1
}
strangers=': only root may control it, or its own user and group as long as it has the rights that it started with'
commands=': it starts a command only for a user who has all rights that it has or had'

# run COMMAND... - with the library; sets $process. It writes "ready" when it is.
run() {
    rm -f ready
    TCMALLOC_TRACE_CONTROL=1 LD_PRELOAD=$tracing_library "$@" >ready 2>said &
    process=$!
    processes+=("$process")
}
is_ready() { grep -qs ready ready; }
# It is ready, and listens: its thread for that may begin later.
is_there() { wait_until is_ready && wait_until ctl "$process" status; }
end() { kill "$process" && { wait "$process" || true; }; }

# As `run`, and waits until it listens: the program `sleep`, not one that gives up rights and then
# becomes it, which has the same process id.
listen() {
    run "$@" && wait_until grep -q sleep "/proc/$process/comm" &&
        wait_until ctl "$process" status
}

# nothing_happened - no command has run, and what only root may write is what it was.
nothing_happened() { [ ! -e public/mark ] && [ "$(cat private/file)" = precious ]; }

prepare() {
    rm -rf public private
    mkdir -m 777 public
    mkdir -m 700 private
    echo precious >private/file
}

# attack USER GROUP TEXT - that one asks for a command, and for a file in place of root's.
attack() {
    ! ctl_as "$1" "$2" "$process" start "|id -u >$scratch/public/mark" && says "$3" &&
        ! ctl_as "$1" "$2" "$process" reset "|id -u >$scratch/public/mark" && says "$3" &&
        ! ctl_as "$1" "$2" "$process" start "$scratch/private/file" && says "$3" &&
        ! ctl_as "$1" "$2" "$process" start "$scratch/public/mark" && says "$3" &&
        ! ctl_as "$1" "$2" "$process" status && says "$3"
}

# dropped HOW - the user that it has become gets nothing; root does, but no command.
dropped() {
    prepare
    run "$workloads/rights" "$1" && is_there && attack $nobody $nobody "$strangers" &&
        ! ctl "$process" start "|id -u >$scratch/public/mark" && says "$commands" &&
        ctl "$process" start "$scratch/private/raw.lz4" && ctl "$process" stop &&
        ctl "$process" status && end && nothing_happened && [ -s private/raw.lz4 ]
}

dropped_often() {
    local round
    for ((round = 0; round < rounds; round++)); do
        case $((round % 3)) in
        0) dropped libc ;;
        1) dropped system ;;
        2) dropped saved ;;
        esac || return 1
    done
}

# Of the same user and group everything, of another group nothing; root no command there.
same_user() {
    prepare
    listen "${as_nobody[@]}" sleep 60 &&
        ctl_as $nobody $nobody "$process" start "|cat >$scratch/public/mark" &&
        ctl_as $nobody $nobody "$process" stop && [ -s public/mark ] && rm public/mark &&
        ctl_as $nobody $nobody "$process" start "$scratch/public/raw.lz4" &&
        ctl "$process" stop && rm public/raw.lz4 &&
        attack $nobody 4711 "$strangers" && attack 4711 $nobody "$strangers" &&
        ! ctl "$process" start "|id -u >$scratch/public/mark" && says "$commands" && end &&
        nothing_happened
}

# Root of its own process, with a command; nobody else.
root_itself() {
    prepare
    listen sleep 60 && attack $nobody $nobody "$strangers" && nothing_happened && ctl "$process" start "|cat >$scratch/private/raw.lz4" &&
        ctl "$process" stop && end && [ -s private/raw.lz4 ]
}

hidden() {
    prepare
    run "${as_nobody[@]}" "$workloads/rights" hides && is_there &&
        attack $nobody $nobody "$strangers" && ctl "$process" status && end && nothing_happened
}

# What the process may do by a capability, it does not do for its user.
capable() {
    prepare
    listen "${as_nobody[@]}" --inh-caps +dac_override --ambient-caps +dac_override sleep 60 && grep -q '^CapEff:.*[1-9a-f]' "/proc/$process/status" &&
        ! ctl_as $nobody $nobody "$process" start "$scratch/private/file" &&
        grep -q 'Permission denied\|permission denied' err &&
        ctl_as $nobody $nobody "$process" start "$scratch/public/raw.lz4" && end &&
        nothing_happened
}

# In a namespace of users its own root is answered; a number that stands there for all whom it does
# not know is not taken for that of the process.
in_namespace() {
    prepare
    "${as_nobody[@]}" unshare -Ur env TCMALLOC_TRACE_CONTROL=1 sh -c "
        LD_PRELOAD=$tracing_library sleep 60 &
        until $malloctape ctl \$! status 2>/dev/null; do sleep 0.05; done
        $malloctape ctl \$! start '|cat >$scratch/public/raw.lz4' && $malloctape ctl \$! stop
        status=\$?
        kill \$!
        exit \$status" >out 2>err && [ -s public/raw.lz4 ] || return 1
    unshare -U --map-user=$nobody --map-group=$nobody env TCMALLOC_TRACE_CONTROL=1 \
        LD_PRELOAD="$tracing_library" sleep 60 &
    process=$!
    processes+=("$process")
    wait_until refuses 4711 && attack 4711 4711 "$strangers" && end && nothing_happened
}
refuses() { ! ctl_as "$1" "$1" "$process" status && says "$strangers"; }

# takes_name - a process, $other, that has the name of another, $process, before that is recorded.
takes_name() {
    rm -f ready other said
    ruby -rsocket -e '
        read, write = IO.pipe
        if (other = fork)
            File.write("other", other)
            read.gets
            exec({ "TCMALLOC_TRACE_CONTROL" => "1", "LD_PRELOAD" => ARGV[0] },
                "sh", "-c", "echo ready; exec sleep 60")
        end
        $stdout.reopen("/dev/null")
        server = Socket.new(:UNIX, :STREAM)
        server.bind(Socket.pack_sockaddr_un("\0malloctape-#{Process.ppid}"))
        server.listen(16)
        write.puts
        sleep' "$tracing_library" >ready 2>said &
    process=$!
    processes+=("$process")
    wait_until is_ready
    other=$(cat other)
    processes+=("$other")
}

name_is_taken() {
    local other
    takes_name || return 1
    wait_until grep -q \
        "^malloctape: no control: another process has taken its socket's name, malloctape-$process\$" \
        said && for words in status 'start raw.lz4' stop; do
        # shellcheck disable=SC2086 # words
        ! ctl "$process" $words &&
            says " cannot be reached: process $other of user $(id -u) has taken its socket's name" ||
            return 1
    done && ! timeout 300 "$malloctape" top "$process" >out 2>err &&
        grep -q "cannot be reached: process $other " err && kill "$other" && end
}

# ask TEXT - sends that to the process as it is, and prints the answer.
ask() {
    ruby -rsocket -e '
        socket = Socket.new(:UNIX, :STREAM)
        socket.connect(Socket.pack_sockaddr_un("\0malloctape-#{ARGV[0]}"))
        socket.write(ARGV[1])
        print socket.read' "$process" "$1" >out 2>err
}

# answer TEXT - a process, $process, that answers that to whoever asks.
answer() {
    rm -f ready
    ruby -rsocket -e '
        server = Socket.new(:UNIX, :STREAM)
        server.bind(Socket.pack_sockaddr_un("\0malloctape-#{$$}"))
        server.listen(16)
        puts "ready"
        $stdout.flush
        loop do
            client, = server.accept
            client.gets
            client.write(ARGV[0])
            client.close
        end' "$1" >ready &
    process=$!
    processes+=("$process")
    wait_until is_ready
}

# refuses_answer TEXT WHAT - ctl and top say that it is of another version.
refuses_answer() {
    local version=" was started with another version of malloctape: its control protocol has $2, this one has 2"
    answer "$1" && ! ctl "$process" status && says "$version" &&
        ! timeout 300 "$malloctape" top "$process" >out 2>err &&
        grep -q "^malloctape top: process $process$version\$" err && end
}

versions() {
    local other='malloctape 2 error its control protocol has version 2, that of the asking program another'
    listen sleep 60 && ask $'status\n' && [ "$(cat out)" = "$other" ] &&
        ask $'malloctape 1 status\n' && [ "$(cat out)" = "$other" ] &&
        ask $'malloctape 12 status\n' && [ "$(cat out)" = "$other" ] &&
        ask $'malloctape 2 status\n' && [ "$(cat out)" = $'malloctape 2 ok\nnot recording' ] &&
        end && refuses_answer $'ok\nrecording' 'no version' &&
        refuses_answer $'malloctape 1 ok\nrecording' 'version 1' &&
        refuses_answer $'malloctape 13 error nothing' 'version 13'
}

# What a process says does not reach a terminal as it is.
printable() {
    answer $'malloctape 2 ok\n\033[2Jrecording' && ctl "$process" status &&
        [ "$(cat out)" = '\x1b[2Jrecording' ] && end
}

plan 17
for each in tcmalloc program; do
    under $each
    check_as_root "$front_end: $rounds processes that gave up root" dropped_often
    check_as_root "$front_end: the same user and group" same_user
    check_as_root "$front_end: root, of its own process" root_itself
    check_as_root "$front_end: a process that hides" hidden
    check_as_root "$front_end: a process with a capability" capable
    check_as_root "$front_end: a namespace of users" in_namespace
    check "$front_end: another process has its name" name_is_taken
    check "$front_end: versions" versions
done
check 'an answer with control characters' printable
