# shellcheck shell=bash disable=SC2034 # the variables are for the scripts that source this
# tap.sh - sourced by tests that record programs: TAP, a scratch directory, and the built programs.
#
#     . "$(dirname "$0")/tap.sh"
#     plan 3
#     check 'text' COMMAND...        one test: COMMAND succeeds
#     skip_test 'text' 'reason'
#
# The script runs in $scratch, which is removed at its end. After a failure, the files out and err
# there are shown, and the last commands.

source_dir=${MALLOCTAPE_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
build_dir=${MALLOCTAPE_BUILD:-$source_dir/build}
bin=$build_dir/bin
workloads=$build_dir/tests/workloads
plain_library=$build_dir/lib/libtcmalloc_minimal.so
# Tests of recording are run for each front end: MALLOCTAPE_FRONT_END, tcmalloc or program; behind
# the latter with MALLOCTAPE_NEXT stands that allocator and not the C library's.
under() { # under FRONT_END - what follows is recorded with that one
    front_end=$1
    case $front_end in
    tcmalloc) tracing_library=$build_dir/lib/libtcmalloc_minimal_tracing.so ;;
    program) tracing_library=$build_dir/lib/libmalloctape.so${MALLOCTAPE_NEXT:+:$MALLOCTAPE_NEXT} ;;
    esac
}
under "${MALLOCTAPE_FRONT_END:-tcmalloc}"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit
unset LD_PRELOAD TCMALLOC_TRACE_OUTPUT
# A sanitizer brings its own malloc: no other can be preloaded into a program of ours, and what a
# stream leaves alive is no leak.
sanitized=
if grep -qs '__asan_init\|__tsan_init' "$bin/replay"; then sanitized=yes; fi
asan_default=verify_asan_link_order=0:detect_leaks=0:allocator_may_return_null=1
export ASAN_OPTIONS="${ASAN_OPTIONS:-$asan_default}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-allocator_may_return_null=1}"

tests_run=0

plan() { echo "1..$1"; }

# report STATUS TEXT - one TAP line.
report() {
    tests_run=$((tests_run + 1))
    if [ "$1" = 0 ]; then
        echo "ok $tests_run - $2"
    else
        echo "not ok $tests_run - $2"
        said
    fi
    if [ -n "${MALLOCTAPE_TIMES:-}" ]; then
        times >"$scratch/times"
        echo "# so far: $(paste -s -d ' ' "$scratch/times")"
    fi
}

# The commands of a test are traced: after a failure the last ones are shown, with their values.
exec {trace_fd}>trace
BASH_XTRACEFD=$trace_fd

check() {
    local text=$1 failed=1
    shift
    : >trace
    set -x
    if "$@"; then failed=0; fi
    { set +x; } 2>/dev/null
    report "$failed" "$text"
    [ "$failed" = 0 ] || tail -n 12 trace | tr -cd "[:print:]\n" | cut -c 1-250 | sed 's/^/# /'
}

# said - what the last program printed, as far as tests keep it, as notes.
said() {
    local file
    for file in err out; do
        [ ! -s "$file" ] || head -c 2000 "$file" | tr -cd "[:print:]\n" |
            awk -v file="$file" '{ print "# " file ": " $0 }'
    done
}

skip_test() {
    tests_run=$((tests_run + 1))
    echo "ok $tests_run # SKIP $1: $2"
}

# in_terminal COMMAND... - runs COMMAND with a terminal as its streams, and prints what it printed
# there.
in_terminal() {
    ruby -rpty -e '
        output, _, pid = PTY.spawn(*ARGV)
        begin
            loop { print output.readpartial(4096) }
        rescue EOFError, Errno::EIO
            Process.wait(pid)
        end
        exit($?.exitstatus || 128 + $?.termsig)' "$@"
}

# size NORMAL LONG - how much of something a test does: with MALLOCTAPE_LONG set (make check-long),
# LONG.
size() { if [ -n "${MALLOCTAPE_LONG:-}" ]; then echo "$2"; else echo "$1"; fi; }

# found NAME - the path of a program that is no script: what a script execs would not be recorded.
found() {
    local place
    for place in /usr/bin /usr/local/bin /bin; do
        if [ -x "$place/$1" ] && [ "$(head -c 4 "$place/$1" | tail -c 3)" = ELF ]; then
            echo "$place/$1"
            return 0
        fi
    done
    return 1
}

# system_library NAME - the path of a library of the system, which may be in a directory of its own
# beside the others (NAME with a slash). The compiler knows where they are.
system_library() {
    local place
    # shellcheck disable=SC2086 # a command
    place=$(${CC:-cc} -print-file-name="$1" 2>/dev/null) && [ -e "$place" ] && realpath -s "$place"
}

# git_repository COMMAND... - makes one in the directory `repository`: for N from 1 to 5 a commit of
# what COMMAND N prints, in files of a hundred lines.
git_repository() {
    (
        "$git" init -q repository && cd repository && "$git" config user.email nobody@example.org &&
            "$git" config user.name nobody || exit 1
        for i in 1 2 3 4 5; do
            "$@" "$i" | split -a 3 -l 100 - "part$i."
            "$git" add . && "$git" commit -q -m "part $i" || exit 1
        done
    )
}

# objects RAW SIZE - how many objects of that size were made with malloc.
objects() {
    "$bin/malloctape" dump --only-calls "$1" 2>/dev/null | grep -c "^malloc $2 -> " || true
}

# objects_each RAW SIZE... - the same for several sizes, one after the other on a line: a dump of
# millions of calls takes longer than what is recorded.
objects_each() {
    local raw=$1
    shift
    "$bin/malloctape" dump --only-calls "$raw" 2>/dev/null | awk -v sizes="$*" '
        $1 == "malloc" && $3 == "->" { count[$2]++ }
        END { n = split(sizes, size)
            for (i = 1; i <= n; i++) printf "%d%s", count[size[i]], i < n ? " " : "\n" }'
}

# verified RAW STATUS - 0 a complete recording, 3 one that was cut short but lacks nothing.
verified() {
    exit_status "$bin/malloctape" verify "$1" >verify.out 2>&1
    [ "$status" = "$2" ]
}

# one_line TEXT - the recorder's only line begins with this.
one_line() { [ "$(wc -l <err)" = 1 ] && grep -q "^malloctape: $1" err; }

# check_as_root TEXT COMMAND... - what only root can try, by giving up rights or with several users.
check_as_root() {
    if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
        check "$@"
    else
        skip_test "$1" 'only root can give up rights, and only with setpriv'
    fi
}

# wait_until COMMAND... - until COMMAND succeeds. It fails after minutes: then what should happen
# never does.
wait_until() {
    local tries
    for ((tries = 0; tries < 4000; tries++)); do
        if "$@"; then return 0; fi
        sleep 0.05
    done
    return 1
}

# recorded RAW COMMAND... - runs COMMAND with the tracing library; its streams go to out and err.
recorded() {
    local raw=$1
    shift
    TCMALLOC_TRACE_OUTPUT=$raw LD_PRELOAD=$tracing_library "$@" >out 2>err
}

# untraced COMMAND... - the same without.
untraced() { "$@" >out 2>err; }

# exit_status COMMAND... - sets $status; "set -e" does not end the script.
exit_status() {
    status=0
    "$@" || status=$?
}

# json_counts FILE - what all stages must agree on, as one line of text.
json_counts() {
    ruby -rjson -e '
        numbers = JSON.parse(File.read(ARGV[0]))
        by_kind = numbers.fetch("by_kind").reject { |_, count| count.zero? }.sort
        puts({ events: numbers.fetch("events"), live_at_end: numbers.fetch("live_at_end"),
                by_kind: by_kind }.to_json)
    ' "$1"
}

# json_value FILE KEY
json_value() { ruby -rjson -e 'puts JSON.parse(File.read(ARGV[0])).fetch(ARGV[1]).to_s' "$1" "$2"; }

redis_pongs() { redis-cli -s redis.socket ping >out 2>&1 && grep -q PONG out; }

# redis_answers PID - waits until the server at redis.socket does; if it never does, it is killed.
redis_answers() { wait_until redis_pongs || { kill "$1"; return 1; }; }
