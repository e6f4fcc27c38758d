#!/bin/bash
# control_test.sh - recordings that are begun, ended and interrupted from inside a program and from
# outside, and by their limits.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

# How often a busy server's recording is begun and ended, recordings of one program, and rounds of
# pauses.
restarts=${MALLOCTAPE_RESTARTS:-$(size 4 50)}
recordings=$(size 2 12)
rounds=$(size 1 8)

malloctape=$bin/malloctape
servers=()
trap 'kill "${servers[@]}" 2>/dev/null || true; rm -rf "$scratch"' EXIT

# good_piece RAW - complete, in order, and can be replayed.
good_piece() {
    [ ! -e "$1.spool" ] && "$malloctape" verify "$1" >out 2>err &&
        "$bin/postprocess" --quiet "$1" ordered 2>err &&
        LD_PRELOAD=$plain_library "$bin/replay" ordered >out 2>err
}

# loaded COMMAND... - with the library, but nothing to record.
loaded() { LD_PRELOAD=$tracing_library timeout 300 "$@" >out 2>err; }

ctl() { timeout 300 "$malloctape" ctl "$@" >out 2>err; }

# --- from inside ---

# api PROGRAM
api() {
    rm -f raw*.lz4
    loaded "$workloads/$1" states "$scratch/raw.lz4" && [ "$(grep -vc '^malloctape: ' err)" = 0 ] &&
        [ "$(objects raw.lz4 777)" = 1000 ] && good_piece raw.lz4 &&
        [ "$(objects raw.2.lz4 888)" = 500 ] && good_piece raw.2.lz4 && good_piece raw.3.lz4 &&
        "$workloads/$1" without >out 2>err && [ ! -s err ]
}

# The object that is allocated after the pause, by a call that began in it, is unknown.
# tcmalloc's front end decides before the call whether to record it, libmalloctape afterwards.
resumed_by_new_handler() {
    local unknown=1
    [ "$front_end" = tcmalloc ] || unknown=0
    rm -f raw.lz4*
    recorded raw.lz4 "$workloads/new_handler" && good_piece raw.lz4 &&
        [ "$("$malloctape" dump --only-calls raw.lz4 2>err | grep -c '^delete ?')" = $unknown ]
}

pieces() {
    mkdir -p pieces
    loaded "$workloads/pieces" control "$scratch/pieces" "$recordings" || return 1
    for raw in pieces/*.lz4; do
        [ "$("$malloctape" dump --only-calls "$raw" 2>err | grep -o '^malloc \(777\|888\|999\) ' |
            sort | uniq -c | tr -s ' ')" = ' 1000 malloc 777 ' ] && good_piece "$raw" || return 1
    done
    [ "$(find pieces -type f | wc -l)" = "$recordings" ]
}

# A pause may come between an entry into a structure and its call, and an entry after it belong to
# no call.
many_pauses() {
    local run
    for ((run = 0; run < rounds; run++)); do
        rm -f raw.lz4*
        recorded raw.lz4 "$workloads/pieces" pauses 200 &&
            "$malloctape" verify raw.lz4 >out 2>err || return 1
    done
}

forked_child() {
    rm -rf pieces
    mkdir pieces
    loaded "$workloads/pieces" child "$scratch/pieces" &&
        [ "$(objects pieces/parent 999)" = 1000 ] &&
        [ "$(objects pieces/parent 777)" = 0 ] && [ "$(objects pieces/child 777)" = 1000 ] &&
        [ "$(objects pieces/child 999)" = 0 ] && good_piece pieces/parent && good_piece pieces/child
}

# --- from outside ---

# serve VARIABLE... - a redis-server with a client that compares every reply with what it must be.
serve() {
    rm -rf redis stop going client.out
    mkdir redis
    env "$@" TCMALLOC_TRACE_CONTROL=1 LD_PRELOAD="$tracing_library" redis-server \
        --unixsocket "$scratch/redis/socket" --port 0 --save '' --dir "$scratch/redis" \
        >redis.out 2>redis.err &
    server=$!
    servers+=("$server")
    ruby -rsocket -e '
        begin
            UNIXSocket.new("redis/socket").close
        rescue SystemCallError
            sleep 0.01
            retry
        end
        threads = 3.times.map do |number|
            Thread.new do
                server = UNIXSocket.new("redis/socket")
                values = {}
                count = 0
                until File.exist?("stop")
                    requests = 50.times.map do |i|
                        key = "key#{number}.#{(count * 7 + i * 31) % 2000}"
                        (count + i) % 3 == 0 ? ["GET", key] :
                            ["SET", key, key * (1 + (count + i) % 20)]
                    end
                    server.write(requests.map { |r| r.join(" ") + "\r\n" }.join)
                    requests.each do |command, key, value|
                        reply = server.gets
                        if command == "SET"
                            values[key] = value
                            abort "SET: #{reply}" unless reply == "+OK\r\n"
                        elsif values[key].nil?
                            abort "GET: #{reply}" unless reply == "$-1\r\n"
                        else
                            abort "GET: another value" unless server.gets == values[key] + "\r\n"
                        end
                    end
                    count += 50
                    sleep 0.005 # what it does is recorded, put in order and replayed
                    File.write("going", "") if count == 1000
                end
                count
            end
        end
        File.write("client.out", threads.sum(&:value).to_s)' 2>client.err &
    client=$!
    wait_until test -e going
}

# has_events MORE - the recording has so many events more than when this was asked last.
has_events() {
    ctl "$server" status || return 1
    local events
    events=$(sed -n 's/.*: \([0-9]*\) events.*/\1/p' out)
    [ "${events:-0}" -ge $((events_before + $1)) ] || return 1
    events_before=$events
}

# The client has got all replies.
served() {
    touch stop
    wait "$client" && redis-cli -s redis/socket shutdown nosave >/dev/null 2>&1 && wait "$server" &&
        echo "# $(cat client.out) replies" && [ "$(cat client.out)" -gt 1000 ]
}

busy_server() {
    mkdir -p served
    serve
    ctl "$server" status && grep -q '^not recording' out || return 1
    for number in $(seq "$restarts"); do
        events_before=0
        ctl "$server" start "served/$number.lz4" && wait_until has_events 1000 &&
            ctl "$server" pause && ctl "$server" status && grep -q '^paused; recorded to ' out &&
            ctl "$server" resume && wait_until has_events 1000 &&
            grep -q '^recording to ' out && ctl "$server" stop || return 1
    done
    served && [ "$(find served -type f | wc -l)" = "$restarts" ] || return 1
    for number in $(seq "$restarts"); do
        good_piece "served/$number.lz4" &&
            [ "$(objects_of_any_kind "served/$number.lz4")" -gt 100 ] || return 1
    done
}

objects_of_any_kind() {
    "$malloctape" dump --only-calls "$1" 2>/dev/null | grep -c -e ' -> ' || true
}

# is_refused PROCESS WORDS WHY
is_refused() {
    # shellcheck disable=SC2086 # words
    ! ctl "$1" $2 && grep -q "^malloctape ctl: process $1: $3\$" err
}

# twice PATTERN - so many looks at least show such a line.
twice() { [ "$(grep -c "$1" out)" -ge 2 ]; }

# Two looks at a busy server that have everything. Of libmalloctape, which knows no paths, that is
# less.
has_looked() {
    twice '^calls    [0-9]* per second: [a-z]* [0-9.]* %, ' &&
        twice '^memory .*RSS [0-9.]* MiB, of that the recorder.s [0-9.]* MiB$' &&
        twice '^sizes    [0-9-]*: [0-9.]* %' || return 1
    [ "$front_end" = tcmalloc ] || return 0
    twice '^paths    thread cache [0-9.]* %, central list ' && twice '^waits    [0-9]* per second ' &&
        grep -q '^memory   heap [0-9.]* MiB, of that in use [1-9]' out
}

# In a second in which the server gets no processor there is less to see: it looks until there was
# enough.
is_watched() {
    "$malloctape" top "$server" >out 2>err &
    local top=$! failed=0
    servers+=("$top")
    wait_until has_looked || failed=1
    kill "$top"
    wait "$top" || true
    return "$failed"
}

# A process that records from its start can be interrupted too; what cannot be is said.
states_from_outside() {
    rm -f raw*.lz4*
    serve TCMALLOC_TRACE_OUTPUT=raw.lz4
    ctl "$server" sync && [ "$(stat -c %s raw.lz4)" -gt 100 ] || return 1
    is_watched && timeout 300 "$malloctape" top --count 1 "$server" >out 2>err &&
        [ "$(grep -c '^process ' out)" = 1 ] || return 1
    timeout 300 "$malloctape" top "$server" >top.out 2>top.err &
    local top=$!
    wait_until grep -q '^calls ' top.out
    is_refused "$server" 'start other.lz4' "it is recording already, to raw.lz4" &&
        is_refused "$server" resume 'it is recording already' && ctl "$server" pause &&
        is_refused "$server" pause 'it is paused already' &&
        is_refused "$server" 'start other.lz4' 'it is paused already, to raw.lz4' &&
        ctl "$server" reset && grep -q '/raw.2.lz4$' out && ctl "$server" stop &&
        grep -q '^stopped: [0-9]* events, ' out && good_piece raw.lz4 && good_piece raw.2.lz4 ||
        return 1
    # It has seen one recording end and the next one begin.
    wait "$top" && grep -q "^process  $server: the recording has ended\$" top.out &&
        [ ! -s top.err ] && ! grep -q '^calls    [0-9]\{12\}' top.out || return 1
    for words in stop pause resume sync; do
        is_refused "$server" $words 'it is not recording' || return 1
    done
    ! timeout 300 "$malloctape" top --count 1 "$server" >out 2>err &&
        grep -q "^malloctape top: process $server: it is not recording\$" err || return 1
    ! ctl "$server" start /no/such/directory/raw.lz4 && ctl "$server" status &&
        grep -qx 'not recording; the latest one could not be started' out &&
        ctl "$server" start again.lz4 && served && good_piece again.lz4 && [ ! -e other.lz4 ]
}

# looks_even PROCESS - two looks of three are at about as many allocations as frees.
looks_even() {
    timeout 300 "$malloctape" top --count 3 "$1" >out 2>err &&
        sed -n 's/^calls.* malloc \([0-9]*\)\..*/\1/p' out | sort -n >shares &&
        [ "$(sed -n 2p shares)" -ge 35 ] && [ "$(sed -n 2p shares)" -le 65 ]
}

# A program that wakes up, makes objects, frees as many and sleeps makes half of its calls each, unless the
# machine lets it hardly run in the seconds that are looked at.
shows_shares() {
    local pid
    TCMALLOC_TRACE_OUTPUT=bursts.lz4 TCMALLOC_TRACE_CONTROL=1 LD_PRELOAD=$tracing_library perl -e '
        while (1) { @kept = map { [$_] } 1 .. 1000; select undef, undef, undef, 0.02 }' 2>err &
    pid=$!
    servers+=("$pid")
    wait_until "$malloctape" ctl "$pid" status || return 1
    for _ in 1 2 3 4 5; do
        if looks_even "$pid"; then kill "$pid" && return; fi
    done
    return 1
}

# does_not_listen PROCESS WITHOUT_WHAT [OTHER_WAY]
does_not_listen() {
    ! ctl "$1" status && grep -q "does not listen: it was started without $2${3:+; \`$3\` attaches to it}\$" err
}

nobody_listens() {
    sleep 60 &
    servers+=("$!")
    ! ctl "$!" status &&
        grep -q "was not started by .*record --control.; .malloctape record --pid $!. attaches" err &&
        ! "$malloctape" top --count 1 "$!" 2>err &&
        grep -q "record --control\`; \`malloctape top --pid $!\` attaches to it\$" err &&
        exit_status "$malloctape" top --count 0 "$!" && [ "$status" = 2 ] || return 1
    kill "$!"
    wait "$!" || true
    ! ctl "$!" status && grep -q "there is no process $!\$" err || return 1
    LD_PRELOAD=$tracing_library sleep 60 &
    servers+=("$!")
    wait_until does_not_listen "$!" '`record --control` or `--idle` (TCMALLOC_TRACE_CONTROL=1)' &&
        kill "$!" || return 1
    TCMALLOC_TRACE_CONTROL=1 sleep 60 &
    servers+=("$!")
    wait_until does_not_listen "$!" 'the tracing library' && kill "$!"
}

refuses_nonsense() {
    for words in '' '1' 'x status' '1 nonsense' '1 stop more' '1 start a b'; do
        # shellcheck disable=SC2086 # words
        exit_status ctl $words
        [ "$status" = 2 ] || return 1
    done
    grep -q '^malloctape ctl: start takes one OUTPUT$' err && exit_status ctl 1 stop more &&
        grep -q "^malloctape ctl: stop takes no OUTPUT: 'more'\$" err
}

one_thread_if_asked() {
    LD_PRELOAD=$tracing_library "$workloads/life" tasks >out 2>err && [ "$(cat out)" = 1 ] &&
        TCMALLOC_TRACE_CONTROL=1 LD_PRELOAD=$tracing_library "$workloads/life" tasks >out 2>err &&
        [ "$(cat out)" = 2 ] &&
        TCMALLOC_TRACE_CONTROL=1 recorded raw.lz4 "$workloads/strain" leave || [ $? = 9 ]
}

# --- limits ---

# limited VARIABLE VALUE - the program goes on when the recording has ended, which is complete up to
# there.
limited() {
    rm -f raw.lz4*
    exit_status env "$1=$2" TCMALLOC_TRACE_OUTPUT=raw.lz4 LD_PRELOAD="$tracing_library" \
        "$workloads/life" fill >out 2>err
    [ "$status" = 7 ] && grep -q 'a limit was reached$' err && [ "$(wc -l <err)" = 1 ] &&
        good_piece raw.lz4 &&
        "$malloctape" dump raw.lz4 2>err | grep -q ' end status 1 '
}

# bytes_are_at_most VALUE BYTES LEAST - the file never has more, and makes use of that: by how
# much depends on how well it shrinks, and that on how fast it comes.
bytes_are_at_most() {
    limited TCMALLOC_TRACE_MAX_BYTES "$1" || return 1
    echo "$1: $(stat -c %s raw.lz4) bytes" >out
    [ "$(stat -c %s raw.lz4)" -le "$2" ] && [ "$(stat -c %s raw.lz4)" -ge "$3" ]
}

bytes_are_limited() {
    bytes_are_at_most 600 600 100 && # room for the metadata, and little more
        bytes_are_at_most 10000 10000 5000 && bytes_are_at_most 64k 65536 32768
}

# Several threads, and noise that lz4 leaves as it is.
bytes_of_threads_are_limited() {
    for bytes in 20000 $(size 200000 2000000); do
        rm -f raw.lz4*
        export TCMALLOC_TRACE_MAX_BYTES=$bytes
        recorded raw.lz4 "$workloads/churn" 4 20000 $((100000 + bytes)) cross || return 1
        unset TCMALLOC_TRACE_MAX_BYTES
        grep -q 'a limit was reached$' err && good_piece raw.lz4 &&
            [ "$(stat -c %s raw.lz4)" -le $bytes ] &&
            [ "$(stat -c %s raw.lz4)" -ge $((bytes / 2)) ] || return 1
    done
}

# not_understood VARIABLE=VALUE WHY - one line with both, no recording, and the program goes on.
not_understood() {
    rm -f raw.lz4*
    exit_status env "$1" TCMALLOC_TRACE_OUTPUT=raw.lz4 LD_PRELOAD="$tracing_library" \
        "$workloads/life" end exit >out 2>err
    [ "$status" = 7 ] && [ ! -e raw.lz4 ] && [ "$(cat err)" = "malloctape: not recording: $1 $2" ]
}

limits_are_understood() {
    local counts='is not a whole number, alone or followed by k, M or G'
    local seconds='is not a whole number, alone or followed by s, m or h'
    for value in 10Q 1e6 foo -5 1.5M '5 k' 99999999999999999999 9999999999G; do
        not_understood "TCMALLOC_TRACE_MAX_BYTES=$value" "$counts" || return 1
    done
    not_understood TCMALLOC_TRACE_MAX_EVENTS=100x "$counts" &&
        not_understood TCMALLOC_TRACE_MAX_SECONDS=1d "$seconds" &&
        not_understood TCMALLOC_TRACE_READER_SECONDS=soon "$seconds" &&
        not_understood TCMALLOC_TRACE_ON_OVERLOAD=drop 'is neither wait nor lose' &&
        not_understood TCMALLOC_TRACE_MAX_BYTES=100 'is less than a recording without events takes'
}

# ends_before VARIABLE=VALUE COMMAND... - the recording of a program that does not end.
ends_before() {
    rm -f raw.lz4* err
    env "$1" TCMALLOC_TRACE_OUTPUT=raw.lz4 LD_PRELOAD="$tracing_library" "${@:2}" >out 2>err &
    servers+=("$!")
    wait_until grep -qs 'a limit was reached$' err && good_piece raw.lz4 && kill "$!"
}

events_are_limited() {
    ends_before TCMALLOC_TRACE_MAX_EVENTS=100k "$workloads/life" count counts 1 &&
        "$malloctape" info --json info.json raw.lz4 >out 2>err &&
        [ "$(json_value info.json events)" -ge 100000 ]
}

seconds_are_limited() { ends_before TCMALLOC_TRACE_MAX_SECONDS=1s sleep 3600; }

plan 17
check 'the C API, from C' api pieces
check 'the C API, from C++' api pieces_cxx
check "$recordings recordings of a program with threads" pieces
check 'a pause that a new handler ends' resumed_by_new_handler
check 'many pauses in the middle of calls' many_pauses
check 'a forked child that records itself' forked_child
if command -v redis-server redis-cli >/dev/null; then
    check "$restarts recordings of a busy server" busy_server
    check 'what can be asked depends on the state' states_from_outside
else
    skip_test "recordings of a busy server" 'there is no redis-server'
    skip_test 'what can be asked depends on the state' 'there is no redis-server'
fi
check 'a process that does not listen' nobody_listens
check 'shares of a program that works in bursts' shows_shares
check 'exit 2 for what cannot be asked' refuses_nonsense
check 'a thread that listens only if it is wanted' one_thread_if_asked
check 'a limit of bytes' bytes_are_limited
check 'a limit of bytes and four threads' bytes_of_threads_are_limited
check 'limits that are not understood' limits_are_understood
check 'a limit of events' events_are_limited
check 'a limit of seconds' seconds_are_limited
