# cli_tap.sh - what the tests of malloctape have in common; sourced by tests/cli_*_test.sh.
#
# Before it, the test sets tests_planned. It then is in a scratch directory of its own, with
#
#   malloctape, postprocess   the programs
#   workloads                 directory of the programs to record
#   out, err                  files, what the latest `exits` printed

build=${MALLOCTAPE_BUILD:?set by make check}
source_dir=${MALLOCTAPE_SOURCE:?set by make check}
malloctape=$build/bin/malloctape
postprocess=$build/bin/postprocess
workloads=$build/tests/workloads
reference=$source_dir/tests/reference

if ! command -v ruby >/dev/null || ! command -v lz4 >/dev/null; then
    echo '1..0 # SKIP needs ruby and lz4'
    exit 0
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
: >out
: >err
tests_run=0
echo "1..$tests_planned"

# report STATUS TEXT - one TAP line; after a failure, the end of what the last command printed.
report() {
    tests_run=$((tests_run + 1))
    if [ "$1" = 0 ]; then
        echo "ok $tests_run - $2"
    else
        echo "not ok $tests_run - $2"
        tail -n 20 out err | sed 's/^/# /'
    fi
}

# check TEXT COMMAND... - one test: COMMAND succeeds.
check() {
    text=$1
    shift
    if "$@"; then report 0 "$text"; else report 1 "$text"; fi
}

skip() {
    tests_run=$((tests_run + 1))
    echo "ok $tests_run # SKIP $1"
}

# exits STATUS WORDS... - runs malloctape into the files out and err and compares its exit status.
exits() {
    wanted=$1
    shift
    status=0
    "$malloctape" "$@" >out 2>err || status=$?
    [ "$status" = "$wanted" ] && return
    echo "# exit status $status instead of $wanted: malloctape $*"
    return 1
}

# Whether the last command's messages or output have a line that matches a basic regular expression.
says() { grep -q -e "$1" err; }
prints() { grep -q -e "$1" out; }

# sample NAME - builds the sample stream NAME, once, into the file of that name.
sample() {
    [ -s "$1" ] || ruby "$reference/build.rb" --checksums "$build/tests/tools/checksums" "$1" >"$1"
}

# reference_dump FILE - what the decoders in Ruby say about a plain stream.
reference_dump() {
    case $(head -c 8 "$1") in
    MTAPERAW) ruby "$reference/raw_dump.rb" <"$1" ;;
    MTAPEINS) ruby "$reference/instruction_dump.rb" <"$1" ;;
    *) return 2 ;;
    esac
}

# json FILE EXPRESSION - evaluates Ruby; the parsed file is `j`.
json() {
    ruby -rjson -e 'j = JSON.parse(File.read(ARGV[0])); exit(eval(ARGV[1]) ? 0 : 1)' "$1" "$2"
}

# record FILE PROGRAM... - records into FILE; what the program prints goes to the file `printed`.
record() {
    recording=$1
    shift
    "$malloctape" record -o "$recording" -- "$@" >printed 2>err
}

# record_killed FILE - records a program that is killed by a signal that nobody can catch. Beside FILE stays a spool.
record_killed() {
    status=0
    "$malloctape" record -o "$1" -- ruby -e 'a = "x" * 1000; Process.kill(:KILL, Process.pid)' \
        >printed 2>err || status=$?
    [ "$status" = 137 ]
}

# finish - to be called at the end.
finish() {
    [ "$tests_run" = "$tests_planned" ]
}
