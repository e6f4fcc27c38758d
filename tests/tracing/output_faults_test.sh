#!/bin/bash
# output_faults_test.sh - what can go wrong on the way of a recording to its place: the program ends
# as it does untraced, one line says what happened, and what was recorded until then orders and
# replays.
set -eu

# File systems of its own, which end with it.
if [ -z "${MALLOCTAPE_OWN_MOUNTS+set}" ]; then
    for namespace in -m -rm; do
        if unshare "$namespace" sh -c 'mount -t tmpfs none /mnt' 2>/dev/null; then
            MALLOCTAPE_OWN_MOUNTS=1 exec unshare "$namespace" "$0"
        fi
    done
fi
own_mounts=${MALLOCTAPE_OWN_MOUNTS-}

# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

family=$workloads/family
malloctape=$bin/malloctape
export TMPDIR=$scratch/tmp
mkdir tmp small

# Its recording takes a few megabytes.
calls=1500000
LD_PRELOAD=$plain_library "$family" work $calls >wanted || [ $? = 7 ]

# as_untraced OUTPUT - its output and its exit status are those of the program untraced.
as_untraced() {
    exit_status recorded "$1" "$family" work $calls
    [ "$status" = 7 ] && cmp wanted out
}

fresh() { rm -rf raw.lz4* tmp/* only.lz4 p part; }

nothing_left() { [ -z "$(ls tmp)" ] && [ -z "$(find . -name '*.spool' -o -name '.malloctape*')" ]; }

events() { "$malloctape" dump --only-calls "$1" 2>/dev/null | grep -c '^malloc ' || true; }

exits_with() {
    exit_status "${@:2}" >command.out 2>&1
    [ "$status" = "$1" ]
}

# replays RAW - what there is of it; "cut short" is what each tool says of it.
replays() {
    exits_with 3 "$bin/postprocess" --quiet "$1" p && exits_with 3 "$malloctape" verify "$1" p &&
        { "$bin/replay" p >command.out 2>&1 || [ $? = 3 ]; }
}

# The stream alone, and with the spool, which has what the stream lacks.
joins() {
    replays "$1" && cp "$1" only.lz4 && replays only.lz4 && [ "$(events only.lz4)" -gt 1000 ] &&
        [ "$(events "$1")" -gt "$(events only.lz4)" ]
}

whole() { exits_with 0 "$malloctape" verify "$1" && nothing_left; }

# spool_to RAW - moves the spool that the message names beside the stream.
spool_to() { mv "$(sed -n 's/.* what could not be written is in //p' err)" "$1.spool"; }

# --- no space ---

full_device() {
    fresh
    as_untraced /dev/full && one_line 'not recording: /dev/full: no space left on device' &&
        nothing_left
}

# with_file_system OPTION COMMAND... - with a file system of its own on small.
with_file_system() {
    local result=0
    mount -t tmpfs -o "$1" none small || return 1
    "${@:2}" || result=$?
    umount small
    return $result
}

full_file_system() {
    fresh
    as_untraced small/raw.lz4 &&
        one_line 'recording ended early: small/raw.lz4.*: no space left on device' &&
        joins small/raw.lz4
}

# The older recording is what it was.
no_space_to_begin() {
    fresh
    echo older >small/raw.lz4
    echo older >small/raw.lz4.spool
    as_untraced small/raw.lz4 &&
        one_line 'not recording: small/raw.lz4.spool: no space left on device' &&
        [ "$(cat small/raw.lz4 small/raw.lz4.spool)" = $'older\nolder' ] &&
        [ "$(find small -type f | wc -l)" = 2 ]
}

no_space_for_spool() {
    fresh
    TMPDIR=$scratch/small as_untraced '|cat >raw.lz4' &&
        one_line 'not recording: .*small/.*: no space left on device' &&
        [ -z "$(ls small)" ]
}

# Neither kills SIGXFSZ the program.
file_size_limit() {
    fresh
    (
        ulimit -f 2000
        as_untraced raw.lz4
    ) && one_line 'recording ended early: raw.lz4.*: file too large' && joins raw.lz4 || return 1
    exit_status "$malloctape" info raw.lz4 >command.out
    grep -q 'an error ended the recording before the program ended$' command.out
}

file_size_limit_to_begin() {
    fresh
    echo older >raw.lz4
    (
        ulimit -f 100
        as_untraced raw.lz4
    ) && one_line 'not recording: raw.lz4.spool: file too large' && [ "$(cat raw.lz4)" = older ] &&
        nothing_left
}

# --- readers ---

reader_goes() {
    fresh
    as_untraced '|exec head -c 300000 >raw.lz4' &&
        one_line 'recording ended early: .*: broken pipe' && replays raw.lz4 &&
        spool_to raw.lz4 && replays raw.lz4
}

reader_is_killed() {
    fresh
    # shellcheck disable=SC2016 # the command's own shell
    as_untraced '|head -c 200000 >raw.lz4; kill -9 $$' &&
        one_line 'recording ended early: .*: broken pipe; the command ended with status 137; ' &&
        replays raw.lz4
}

reader_stalls() {
    fresh
    TCMALLOC_TRACE_READER_SECONDS=1 as_untraced '|head -c 200000 >raw.lz4; exec sleep 3600' &&
        one_line 'recording ended early: .*: its reader did not read for too long' &&
        replays raw.lz4
}

# A reader that begins when the program has printed nothing more for a second: it waits, or it has
# ended. Of its 15 lines there is space for what it records until the fifth.
# shellcheck disable=SC2016 # for the command's shell
late_reader='|until now=$(wc -l <out) && [ "$now" -gt 0 ] && [ "$now" = "$before" ]; do'
late_reader="$late_reader before=\$now; sleep 1; done; cat >raw.lz4"

# number KEY RAW - of the summary of a recording.
number() {
    exit_status "$malloctape" info --json info.json "$2" >command.out 2>&1
    json_value info.json "$1"
}

# The spool cannot grow, so threads have to wait for the reader, unless the machine has let the
# program wait for a second.
reader_is_slow() {
    fresh
    as_untraced raw.lz4 && [ "$(number lost_events raw.lz4)" = 0 ] || return 1
    local wanted
    wanted=$(number events raw.lz4)
    for _ in 1 2 3 4 5; do
        fresh
        TMPDIR=$scratch/small as_untraced "$late_reader" && whole raw.lz4 &&
            [ -z "$(ls small)" ] && [ "$(number lost_events raw.lz4)" = 0 ] &&
            one_line ".*: $wanted events, " || return 1
        if grep -q 'threads waited [0-9]* ms for the writer' err; then return 0; fi
    done
    return 1
}

# As above.
events_are_lost() {
    fresh
    as_untraced raw.lz4 || return 1
    local wanted events lost
    wanted=$(number events raw.lz4)
    for _ in 1 2 3 4 5; do
        fresh
        TCMALLOC_TRACE_ON_OVERLOAD=lose TMPDIR=$scratch/small as_untraced \
            "$late_reader" &&
            [ -z "$(ls small)" ] || return 1
        events=$(number events raw.lz4)
        lost=$(number lost_events raw.lz4)
        echo "# $events events of $wanted, $lost lost"
        if [ "$lost" -gt 1000 ]; then break; fi
    done
    [ "$lost" -gt 1000 ] && [ $((events + lost)) = "$wanted" ] &&
        one_line ".*: $events events, .* lost $lost" &&
        replays raw.lz4
}

# Nothing is lost where there is space to put it, unless the machine does not let the writer make
# that space: then a thread has waited for it.
loses_nothing() {
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        fresh
        TCMALLOC_TRACE_ON_OVERLOAD=lose as_untraced raw.lz4 && nothing_left || return 1
        if [ "$(number lost_events raw.lz4)" = 0 ]; then whole raw.lz4 && return; fi
        echo "# $(cat err)"
        grep -q 'threads waited [1-9][0-9]* ms for the writer' err || return 1
    done
    return 1
}

# --- descriptors ---

no_descriptor_left() {
    fresh
    (
        ulimit -n 20
        exit_status recorded raw.lz4 "$family" fill 1000000
        [ "$status" = 7 ]
    ) && whole raw.lz4
}

# limited OUTPUT LIMIT COMMAND... - of so many descriptors, COMMAND is started with all but one;
# that one the linker needs.
limited() {
    fresh
    ruby -e '
        limit = ARGV[2].to_i
        files = (3..limit - 2).to_h { |number| [number, "/dev/null"] }
        environment = { "TCMALLOC_TRACE_OUTPUT" => ARGV[1], "LD_PRELOAD" => ARGV[0] }
        system(environment, *ARGV[3..], out: "out", err: "err", rlimit_nofile: [limit, limit],
            close_others: true,
               **files)
        exit $?.exitstatus == 7' "$tracing_library" "$@"
}

few_descriptors_to_begin() {
    local limit
    for limit in 4 9; do
        limited raw.lz4 $limit "$family" fill 1000000 && whole raw.lz4 || return 1
    done
}

# The spool of a device has a directory of its own.
too_few_descriptors_to_begin() {
    limited /dev/null 4 "$family" fill 1000000 &&
        one_line 'not recording: /dev/null: too many open files' &&
        nothing_left
}

all_descriptors_closed() {
    fresh
    exit_status recorded raw.lz4 "$family" close 1000000
    [ "$status" = 7 ] && whole raw.lz4 && [ "$(events raw.lz4)" -ge 500000 ] &&
        one_line 'raw.lz4: 10200'
}

# No message gets into the recording.
begins_without_descriptors() {
    fresh
    exit_status env TCMALLOC_TRACE_OUTPUT="$1" LD_PRELOAD="$tracing_library" "$family" close \
        100000 <&- >&- 2>&-
    [ "$status" = 7 ] && whole raw.lz4
}

# --- places ---

without_proc() {
    fresh
    # shellcheck disable=SC2016
    exit_status unshare -m sh -c 'umount -l /proc &&
        exec "$@"' sh env TCMALLOC_TRACE_OUTPUT=raw.lz4 LD_PRELOAD="$tracing_library" "$family" \
        work $calls >out 2>err
    [ "$status" = 7 ] && cmp wanted out && whole raw.lz4
}

read_only() {
    fresh
    as_untraced small/raw.lz4 && one_line 'not recording: small/raw.lz4.*: read-only file system'
}

# The spool is removed although the process has another root and another user.
another_root() {
    fresh
    mkdir -p root
    exit_status recorded raw.lz4 "$family" chroot root 1000000
    [ "$status" = 7 ] && whole raw.lz4 && [ "$(events raw.lz4)" -ge 500000 ]
}

is_larger_than() { [ -n "$(find "${2%/*}" -name "${2##*/}" -size "+$1c")" ]; }

# The writer has the directory open, wherever it goes.
directory_is_renamed() {
    fresh
    rm -rf before after
    mkdir before
    TCMALLOC_TRACE_OUTPUT=before/raw.lz4 LD_PRELOAD=$tracing_library "$family" tty 20 >out 2>err &
    local program=$!
    wait_until is_larger_than 4096 before/raw.lz4
    mv before after
    kill -INT $program
    exit_status wait $program
    [ "$status" = 3 ] && whole after/raw.lz4
}

# Nobody has it open before the first slot is full.
directory_is_renamed_early() {
    fresh
    rm -rf before after
    mkdir before
    exit_status recorded before/raw.lz4 "$family" rename before after
    [ "$status" = 7 ] &&
        one_line 'recording ended early: before/raw.lz4: no such file or directory' &&
        [ "$(events after/raw.lz4)" = 2000 ] && replays after/raw.lz4
}

# mounted TEXT COMMAND... - a test that needs file systems of its own.
mounted() {
    if [ -n "$own_mounts" ]; then check "$@"; else skip_test "$1" 'may not mount a file system'; fi
}

plan 23
check '/dev/full' full_device
mounted 'a file system gets full' with_file_system size=3M full_file_system
mounted 'no space to begin: the older recording stays' with_file_system size=500k no_space_to_begin
mounted 'no space for the spool' with_file_system size=500k no_space_for_spool
check 'a limit on the size of files' file_size_limit
check 'a limit on the size of files, too low to begin' file_size_limit_to_begin
check 'the reader goes' reader_goes
check 'the reader is killed' reader_is_killed
check 'the reader stalls' reader_stalls
mounted 'the reader is slow: threads wait' with_file_system size=1500k reader_is_slow
mounted 'the reader is slow: events are lost' with_file_system size=1500k events_are_lost
check 'losing does not begin before there is no space' loses_nothing
check 'the program has no descriptor left' no_descriptor_left
check 'hardly a descriptor is left when it begins' few_descriptors_to_begin
check 'a process may have fewer descriptors than a recording needs' too_few_descriptors_to_begin
check 'descriptors 0 to 1023 closed, then a million calls' all_descriptors_closed
check 'begun without descriptors 0 to 2' begins_without_descriptors raw.lz4
check 'the same, and a command' begins_without_descriptors '|cat >raw.lz4'
if [ -n "$sanitized" ]; then
    skip_test 'no /proc' 'sanitizers read their options there'
else
    mounted 'no /proc' without_proc
fi
mounted 'a read-only file system' with_file_system ro read_only
if [ "$(id -u)" = 0 ] && [ "$own_mounts" = 1 ]; then
    check 'another root and another user' another_root
else
    skip_test 'another root and another user' 'only root may change them'
fi
check 'the directory gets another name' directory_is_renamed
check 'the directory gets another name before the writer begins: the spool has all' \
    directory_is_renamed_early
