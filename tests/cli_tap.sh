# shellcheck shell=bash disable=SC2154 # tap.sh sets the variables
# cli_tap.sh - on top of tap.sh, what the tests of malloctape have in common; sourced by
# tests/cli_*_test.sh.
#
# The latest `exits` leaves what malloctape printed in the files out and err, for `says` and
# `prints`.

. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

if ! command -v ruby >/dev/null || ! command -v lz4 >/dev/null; then
    echo '1..0 # SKIP needs ruby and lz4'
    exit 0
fi

reference=$source_dir/tests/reference
write_samples=$build_dir/tests/samples/write_samples

# exits STATUS WORDS... - runs malloctape and compares its exit status.
exits() {
    local wanted=$1
    shift
    exit_status "$bin/malloctape" "$@" >out 2>err
    [ "$status" = "$wanted" ] && return
    echo "# exit status $status instead of $wanted: malloctape $*"
    return 1
}

# Whether the messages or the output have a line that matches a basic regular expression.
says() { grep -q -e "$1" err; }
prints() { grep -q -e "$1" out; }
# The same of a text that is broken into lines: where, depends on the lengths of names in it.
prints_text() { tr '\n' ' ' <out | tr -s ' ' | grep -q -e "$1"; }

# sample NAME - builds the sample stream NAME, once, into the file of that name.
sample() {
    [ -s "$1" ] || "$write_samples" "$1" >"$1"
}

# samples NAME... - several, by one process.
samples() { "$write_samples" "$@"; }

# reference_dump FILE - what the decoders in Ruby say about a plain stream.
reference_dump() {
    case $(head -c 8 "$1") in
    MTAPERAW) ruby "$reference/raw_dump.rb" <"$1" ;;
    MTAPEINS) ruby "$reference/instruction_dump.rb" <"$1" ;;
    *) return 2 ;;
    esac
}

# json FILE EXPRESSION - evaluates Ruby; the parsed file is `j`. If it is false, the part that is
# false is told, and the values in it.
json() { ruby "$source_dir/tests/json_holds.rb" "$1" "$2"; }

# record FILE PROGRAM... - records into FILE; what the program prints goes to the file `printed`.
record() {
    local file=$1
    shift
    "$bin/malloctape" record -o "$file" -- "$@" >printed 2>err
}

# record_killed FILE - records a program that is killed by a signal that nobody can catch. Beside
# FILE stays a spool, because nobody is there to finish the recording.
record_killed() {
    exit_status recorded "$1" ruby -e 'a = "x" * 1000; Process.kill(:KILL, Process.pid)'
    [ "$status" = 137 ]
}
