#!/bin/bash
# cli_info_test.sh - `malloctape info` counts what is there, compares it with what the stream says
# of itself, and says how the stream ends; as text and as JSON.
set -euo pipefail

. "$(dirname "$0")/../cli_tap.sh"

plan "$(size 34 35)" # with one that takes long

raw_example() {
    sample raw_example
    exits 0 info --json j raw_example && prints '^events  *4$' &&
        prints '^  malloc  *3  *75.0 %$' &&
        prints '^end  *complete$' &&
        json j 'j.values_at("format", "version", "events", "threads", "lanes", "live_at_end",
                "lost_events", "ticks",
                            "sequence_numbers",
                            "truncated", "spool") ==
                ["raw", "4.0", 4, 1, 1, 2, 0, 0, 2, false, "none"] &&
                j["by_kind"] == { "malloc" => 3, "free" => 1 } &&
                    j["program"] == "/usr/bin/sample" &&
                j["recording"] == "000102030405060708090a0b0c0d0e0f" &&
                j["duration_ns"] == 50_000_000 &&
                j["bytes_per_event"] == File.size("raw_example") / 4.0'
}

machine() {
    printf 'program=a\narchitecture=aarch64\npage.bytes=16384\n' >header
    "$build_dir/tests/tools/make_instructions" metadata header >there
    printf 'program=a\narchitecture=aarch64\npage.bytes=5000\n' >header
    "$build_dir/tests/tools/make_instructions" metadata header >odd
    exits 0 info --json j there && prints '^machine  *aarch64, pages of 16384 bytes$' &&
        json j 'j["architecture"] == "aarch64" && j["page_bytes"] == 16384' &&
        exits 0 info --json j odd && prints '^machine  *aarch64$' && json j 'j["page_bytes"] == 0' &&
        record here.lz4 true && exits 0 info here.lz4 &&
        prints "^machine  *$(uname -m), pages of $(getconf PAGESIZE) bytes\$"
}

# The peak lies after the last look, of which the recorder's memory is known.
memory_and_time() {
    for name in raw_usage instructions_usage; do
        sample "$name"
        exits 0 info --json j "$name" &&
            prints '^processor time  *0.012 s user, 0.003 s system$' &&
            prints "^peak RSS  *9.0 MiB, 2.0 MiB of it the recorder's\$" &&
            json j 'j.values_at("peak_rss_bytes", "recorder_bytes", "user_ns", "system_ns") ==
                        [9_437_184, 2_097_152, 12_000_000, 3_000_000]' || return 1
    done
    sample raw_recorder_unknown
    exits 0 info --json j raw_recorder_unknown && prints '^peak RSS  *9.0 MiB$' &&
        json j 'j.values_at("recorder_bytes", "user_ns") == [nil, 7_000_000]' || return 1
    sample verify_raw
    exits 0 info --json j verify_raw && prints '^peak RSS  *0.0 MiB$' &&
        json j 'j.values_at("peak_rss_bytes", "recorder_bytes", "user_ns") == [8192, nil, nil]'
}

# The recorder keeps its mappings out of core dumps ("dd"), so smaps can tell how much they have: in
# a process and in a child, which has not all of its parent's.
recorder_as_in_smaps() {
    local pid bytes library
    record forks.%p.lz4 perl -MPOSIX -e '
        sub own {
            my ($rss, $sum, $library, $is_library);
            open(my $smaps, "<", "/proc/self/smaps");
            while (<$smaps>) {
                $is_library = /tracing.so|malloctape.so/ if /^[0-9a-f]+-/;
                $rss = $1 if /^Rss: *(\d+)/;
                $library += $rss if $is_library and /^VmFlags/;
                $sum += $rss if /^VmFlags.* dd/;
            }
            return $sum * 1024 . " " . $library * 1024;
        }
        my @kept = map { "x" x 1000 } 1 .. 20_000;
        my $child = fork;
        my @more = map { "y" x 100 } 1 .. 100_000;
        waitpid($child, 0) if $child;
        my ($bytes, $before) = (own(), "");
        while ($bytes ne $before) { # the writer may still come to pages for the first time
            select undef, undef, undef, 0.2;
            ($bytes, $before) = (own(), $bytes);
        }
        syswrite(STDOUT, "$$ $bytes\n");
        POSIX::_exit(0);'
    [ "$(wc -l <printed)" = 2 ] && while read -r pid bytes library; do
        exits 0 info --json j "forks.$pid.lz4" &&
            json j "(j['recorder_bytes'] - $bytes).between?($library / 4, $library + 200_000)" ||
            { echo "# process $pid: $bytes bytes, its library $library"; grep recorder_bytes j; return 1; }
    done <printed
}

instructions_example() {
    sample instructions_example
    exits 0 info --json j instructions_example &&
        json j 'j.values_at("format", "events", "live_at_end", "lanes", "instructions",
            "truncated") ==
                    ["instructions", 3, 1, 1, 4, false] &&
                j["by_kind"] == { "malloc" => 1, "calloc" => 1, "free" => 1 }'
}

# 45 kinds on own, foreign and unknown objects, losses: against the dump.
everything_is_counted() {
    for name in raw_everything instructions_everything; do
        sample "$name"
        exits 0 info --json j "$name" && exits 0 dump --only-calls "$name" &&
            json j 'lines = File.readlines("out").map { |line| line[/\w+/] }
                    j["events"] == lines.size && j["by_kind"] == lines.tally &&
                    j["failed"] == File.readlines("out").grep(/ failed$/).size' ||
                        { echo "# $name"; return 1; }
    done
}

# Looks at large objects; and, in order, of how many it is known, and what was resident of them.
touched_pages() {
    sample raw_touched && exits 0 info --json j raw_touched &&
        prints '^touched pages  *4 looks at large objects$' &&
        json j 'j["touched"] == 4 && j["mappings"] == 0 && !j.key?("touched_bytes")' &&
        "$bin/postprocess" -q raw_touched touched && exits 0 info --json j touched &&
        prints '^touched pages  *4 large objects, .* of them were resident$' &&
        json j 'j["touched"] == 4 && j["touched_bytes"] == 8 * 4096'
}

# What is missing at the end of a stream is not known, and no error.
call_stacks() {
    sample raw_stacks && exits 0 info --json j raw_stacks &&
        prints '^with call stacks  *7 calls$' && prints '^unknown stacks  *3$' &&
        json j 'j.values_at("stacks", "with_stacks", "stacks_unknown", "stack_nodes",
                            "stack_codes", "stack_modules") == [true, 7, 3, 4, 3, 1]' &&
        { "$bin/postprocess" -q raw_stacks ordered || [ $? = 3 ]; } &&
        exits 0 info --json k ordered &&
        json j 'k = JSON.parse(File.read("k")); keys = %w[stacks with_stacks stacks_unknown
                stack_nodes stack_codes stack_modules]; j.values_at(*keys) == k.values_at(*keys)' &&
        "$bin/malloctape" dump raw_stacks | grep -oE ' define .*' | sort >defined &&
        "$bin/malloctape" dump ordered | grep -oE ' define .*' | sort | cmp defined &&
        "$bin/malloctape" dump --only-calls raw_stacks | sed 's/ [^ ]*@[0-9]*//g; s/ ->//; s/ stack 32767 failed/ failed/' >calls &&
        "$bin/malloctape" dump --only-calls ordered | sed 's/ r[0-9]*//g; s/ ->//' | cmp calls &&
        exits 0 info raw_example && ! prints 'stacks'
}

freed_twice() {
    sample instructions_freed_twice
    exits 0 info --json j instructions_freed_twice && prints '^freed twice  *2$' &&
        json j 'j.values_at("events", "freed_twice", "live_at_end") == [4, 2, 1]'
}

missed_free() {
    sample instructions_missed_free
    exits 0 info --json j instructions_missed_free && prints '^missed frees  *1$' &&
        json j 'j.values_at("events", "missed_frees", "live_at_end") == [3, 1, 1]'
}

# Where events are missing, only their order says which objects a free meant.
live_objects() {
    sample verify_lacking_raw
    exits 0 info --json j verify_lacking_raw &&
        json j 'j.values_at("live_at_end", "lost_events") == [nil, 5]' &&
        prints '^live at end  *not known' &&
        sample verify_raw && exits 0 info --json j verify_raw &&
            json j 'j.values_at("live_at_end", "failed", "ticks") == [2, 1, 3]'
}

json_instead_of_text() { exits 0 info --json - raw_example && json out 'j["events"] == 4'; }

json_cannot_be_written() {
    exits 1 info --json missing/j raw_example &&
        says 'missing/j: cannot open for writing: No such file'
}

from_a_pipe() {
    lz4 -qc raw_example | "$bin/malloctape" info --json j - >out 2>err &&
        json j 'j["events"] == 4 && j["lz4"] &&
        !j.key?("file_bytes")'
}

# A pipe tells as much as a file: damage of any kind, and in the LZ4 frames.
damaged_in_a_pipe() {
    local size at file command
    sample raw_everything && lz4 -qf raw_everything whole.lz4 && size=$(stat -c %s whole.lz4) &&
        { cat whole.lz4; echo more; } >trailing.lz4 &&
        { cat raw_everything; echo more; } >trailing || return 1
    for at in 9 "$((size / 3))" "$((size / 2))" "$((size - 6))"; do
        { head -c "$at" whole.lz4 && printf '\125\252\125' && tail -c "+$((at + 4))" whole.lz4; } \
            >"damaged.$at"
        head -c "$at" whole.lz4 >"short.$at"
    done
    for file in whole.lz4 trailing trailing.lz4 damaged.* short.*; do
        for command in info dump report; do
            exit_status "$bin/malloctape" "$command" "$file" >out 2>err
            status=$(cat "$file" | { "$bin/malloctape" "$command" - >out 2>err; echo "$? $status"; })
            [ "${status% *}" = "${status#* }" ] || { echo "# $command $file: $status"; return 1; }
            [ "${status% *}" != 1 ] || [ -s err ] || { echo "# $command $file: no word"; return 1; }
        done
    done
    cat trailing.lz4 | "$bin/malloctape" info - >out 2>err
    says '^malloctape: standard input: offset 0x[0-9a-f]*: something else follows an LZ4 frame'
}

cut() {
    for name in raw_cut instructions_cut; do
        sample "$name"
        exits 3 info --json j "$name" && prints '^end  *cut short' && json j 'j["truncated"] &&
            j["events"] > 100' || return 1
    done
}

# What ends before its header is complete is no stream of version 0.0.
not_begun() {
    : >empty && sample instructions_everything && head -c 30 instructions_everything >begun &&
        lz4 -qf instructions_everything i.lz4 && head -c 40 i.lz4 >begun.lz4 &&
        for name in empty begun begun.lz4; do
            exits 1 dump "$name" && exits 1 report "$name" && exits 1 compare "$name" || return 1
            exits 1 info "$name" && says "^malloctape info: $name: .*the .* ends" && [ ! -s out ] ||
                return 1
        done
}
# full COMMAND... - what cannot be written to a full device is told, and an error.
full() {
    exit_status "$bin/malloctape" "$@" >/dev/full 2>err
    [ "$status" = 1 ] &&
        says '^malloctape: cannot write to the standard output: No space left on device$'
}

output_full() {
    sample raw_example && full info raw_example && full dump raw_example && full --version &&
        full --help
}

pid_is_a_number() {
    sample raw_example && exits 0 info --json j raw_example && json j 'j["pid"].is_a?(Integer)'
}

version() {
    exits 0 --version && mv out long && exits 0 -V && cmp -s out long &&
        prints '^malloctape (malloctape) [0-9]'
}

bad_totals() {
    sample raw_bad_totals && exits 1 info raw_bad_totals && says '2 events in the end chunk, 1 read'
}

damaged() {
    sample raw_bad_checksum && exits 1 info raw_bad_checksum &&
        says 'raw_bad_checksum: offset 0x[0-9a-f]*: .*checksum' && [ ! -s out ]
}

later_version() {
    sample raw_minor && exits 0 info raw_minor && prints 'raw stream 4.7' &&
        sample raw_bad_feature &&
        exits 1 info raw_bad_feature && says 'feature bit.*bit 4'
}

usage() { exits 2 info && exits 2 info --json j a b && exits 2 info --nonsense a; }

several() {
    sample raw_example
    sample raw_cut
    exits 0 info raw_example raw_example && [ "$(wc -l <out)" = 2 ] &&
        prints '^  *4 events  /usr/bin/sample  *raw_example: complete$' &&
        exits 3 info raw_cut raw_example && prints 'events .* raw_cut: cut short' &&
        prints 'raw_example: complete$' && exits 1 info none raw_cut raw_example &&
        says '^malloctape info: none: ' && prints 'raw_example: complete$'
}

# Four processes that touch the same 40 MiB, and have 8 MiB each besides, all of them for a second.
shared_memory_counts_once() {
    record shared.%p.lz4 python3 -c 'if True:
        import ctypes, mmap, os, time
        shared = mmap.mmap(-1, 20 << 20)
        shared.write(b"x" * (20 << 20))
        has_touched, touched = os.pipe()
        may_end, end = os.pipe()
        children = []
        for i in range(3):
            child = os.fork()
            if child == 0:
                os.close(end)
                sum(shared[at] for at in range(0, 20 << 20, 4096))
                own = b"y" * (4 << 20)
                os.write(touched, b".")
                os.read(may_end, 1)
                os._exit(0)
            children.append(child)
        for child in children:
            os.read(has_touched, 1)
        time.sleep(1)
        os.close(end)
        for child in children:
            os.waitpid(child, 0)' || return 1
    exits 0 info shared.*.lz4 && [ "$(wc -l <out)" = "$(($(ls shared.*.lz4 | wc -l) + 2))" ] &&
        prints '^At most, .* MiB of their own, .* that can be shared (RSS added up: ' &&
        prints '^With what they share divided among them: .* MiB (PSS of \([0-9]*\) of the \1, ' &&
        tail -n 2 out | ruby -e 'n, all, _, own, shared, rss, pss = STDIN.read.scan(/\d[\d.]*/).map(&:to_f)
            exit n >= 4 && (all - own - shared).abs < 0.2 && shared.between?(20, 60) &&
                own >= 3 * 4 && rss - own >= 4 * 20 && pss.between?(20 + 3 * 4, rss - 2 * 20)'
}

# A process that has ended has no memory, also if it had a single tick.
one_after_another() {
    record after.%p.lz4 sh -c 'for i in 1 2 3 4 5 6; do /bin/true; done' && exits 0 info after.*.lz4 &&
        [ "$(grep -c ' events ' out)" = 7 ] && prints '^At most, [12] process'
}

# What was recorded is what is ordered.
same_in_both_formats() {
    record threads.raw.lz4 "$workloads/threads" 200 &&
        "$bin/postprocess" -q --json ordering threads.raw.lz4 ordered &&
        exits 0 info --json raw threads.raw.lz4 && exits 0 info --json instructions ordered &&
        for file in ordering instructions; do
            json "$file" 'r = JSON.parse(File.read("raw"))
                          keys = %w[events by_kind threads live_at_end lost_events truncated]
                          keys += %w[peak_rss_bytes recorder_bytes user_ns] if j.key?("user_ns")
                          keys.all? { |key| j[key] == r[key] } && j["events"] > 20_000 &&
                              j["threads"] == 201' || return 1
        done
}

origin() {
    exits 0 info --json j threads.raw.lz4 &&
        json j 'j["program"].end_with?("/threads") && j["allocator"].start_with?("gperftools") &&
        j["lz4"] &&
                j["ticks"].positive? && j["duration_ns"].positive? &&
                    j["recorder_bytes"].between?(1, j["peak_rss_bytes"]) &&
                    (j["user_ns"] + j["system_ns"]).positive? &&
                    (Time.now.to_f - j["start"]).between?(-60, 3600)'
}

# JSON is UTF-8.
odd_path() {
    local program=$'caf\xe9'
    cp "$workloads/threads" "$program" && record odd.raw.lz4 "./$program" 2 &&
        exits 0 info --json j odd.raw.lz4 && prints '^program  *./caf\\xe9$' &&
        json j 'j["program"] == "./caf\\xe9" && j["end"] == "complete"'
}

killed() {
    record_killed killed.raw.lz4 || return 1
    exits 3 info --json j killed.raw.lz4 && prints '^spool  *used' &&
        json j 'j["spool"] == "used" && j["spool_events"].between?(1, j["events"]) &&
        j["truncated"]' &&
        mv killed.raw.lz4.spool kept && exits 3 info --json j killed.raw.lz4 &&
        json j 'j["spool"] == "none"' &&
        head -c 4096 /dev/zero >killed.raw.lz4.spool && exits 3 info --json j killed.raw.lz4 &&
            json j 'j["spool"] == "unusable"'
}

# Eight threads wait for a lock that is not given back before all of them do; one after another,
# they do not wait.
lock_waits() {
    record held.raw.lz4 "$workloads/waits" held 8 && exits 0 info --json j held.raw.lz4 &&
        prints '^lock waits  *[0-9]*, [0-9.]* s in all$' &&
        json j 'j["lock_waits"] >= 8' && "$bin/malloctape" dump held.raw.lz4 >dumped &&
        [ "$(grep -c ' waited_' dumped)" = "$(json_value j lock_waits)" ] &&
        sed -n 's/.* \(L[0-9]*\) .* waited_before page_heap .*/\1/p' dumped | sort -u >lanes &&
        [ "$(wc -l <lanes)" = 8 ] &&
        record turns.raw.lz4 "$workloads/waits" turns 8 10 &&
        exits 0 info --json j turns.raw.lz4 && json j 'j["lock_waits"] == 0'
}

# Who looks on sees each wait once, whatever other threads do meanwhile.
top_counts_waits() {
    mkfifo bytes
    env TCMALLOC_TRACE_CONTROL=1 TCMALLOC_TRACE_OUTPUT=busy.raw.lz4 LD_PRELOAD="$tracing_library" \
        "$workloads/waits" held 8 busy <bytes 2>err &
    local process=$! top
    exec 9>bytes
    wait_until "$bin/malloctape" ctl "$process" status >out 2>err
    "$bin/malloctape" top "$process" >top.out 2>top.err &
    top=$!
    wait_until grep -q '^calls  *[1-9]' top.out && echo >&9 &&
        wait_until grep -q '^waits  *[1-9]' top.out && echo >&9
    exec 9>&-
    wait "$process" && wait "$top" && exits 0 info --json j busy.raw.lz4 &&
        json j 'j["lock_waits"] >= 8' &&
        awk -v all="$(json_value j lock_waits)" '/^waits/ { told += $2; looks++ }
            END { print "# " all " waits, top told of " told; exit told > all + looks / 2 }' top.out
}

# A debugger counts how often threads enter the function in which they wait, also for locks of other
# things than structures. They give memory back with the lock of the page heap, which takes a while.
lock_waits_are_those_of_gdb() {
    local threads waits seen
    for threads in 1 8 64; do
        timeout 300 gdb -nx -batch -ex "set exec-wrapper env LD_PRELOAD=$tracing_library \
            TCMALLOC_AGGRESSIVE_DECOMMIT=1 TCMALLOC_TRACE_OUTPUT=hammered.raw.lz4" \
            -ex 'break main' -ex "run hammer $threads 300" -ex "break *'SpinLock::SlowLock()'" \
            -ex 'ignore 2 1000000000' -ex continue -ex 'info breakpoints' \
            "$workloads/waits" >gdb.out 2>err
        seen=$(sed -n '/SlowLock/{n;s/.*already hit \([0-9]*\) time.*/\1/p;}' gdb.out)
        exits 0 info --json j hammered.raw.lz4 || return 1
        waits=$(ruby -rjson -e 'puts JSON.parse(File.read("j"))["lock_waits"]')
        echo "# $threads threads: $waits waits, gdb saw ${seen:=0}"
        [ "$waits" -le "$seen" ] && [ $((5 * waits)) -ge $((4 * seen)) ] || return 1
    done
    [ "$waits" -gt 0 ]
}

# summed KIND - how many bytes the dump has of it.
summed() {
    awk -v kind=" ($1)_(before|after) bytes " '$0 ~ kind { n += $NF } END { print n }' dumped
}

# The program asks for an object of 256 MiB and frees it; tcmalloc also gives new memory back before
# it takes a part of it.
system_memory() {
    TCMALLOC_AGGRESSIVE_DECOMMIT=1 record given.raw.lz4 "$workloads/waits" held 1 &&
        exits 0 info --json j given.raw.lz4 &&
        prints '^system memory  *[0-9.]* MiB from it, [0-9.]* MiB given back$' &&
        "$bin/malloctape" dump given.raw.lz4 >dumped &&
        json j "j['taken_bytes'] >= 1 << 28 && j['released_bytes'] >= 1 << 28 &&
            j['taken_bytes'] == $(summed 'sbrk|mmap') && j['released_bytes'] == $(summed release)"
}

check 'a raw stream' raw_example
check 'the machine that it was recorded on' machine
check 'an instruction stream' instructions_example
check 'events by kind are those of the dump' everything_is_counted
check 'memory and processor time, where the recorder says them' memory_and_time
if [ -n "$sanitized" ]; then
    skip_test "the recorder's memory is what the system says" "a sanitizer's is in it"
else
    check "the recorder's memory is what the system says" recorder_as_in_smaps
fi
check 'live objects' live_objects
check 'objects that were freed twice' freed_twice
check 'frees that were missed' missed_free
check 'what of large objects was resident, before and behind ordering' touched_pages
check 'call stacks, before and behind ordering' call_stacks
check '--json - writes JSON instead of text' json_instead_of_text
check 'JSON that cannot be written' json_cannot_be_written
check 'from a pipe' from_a_pipe
check 'damage that comes through a pipe' damaged_in_a_pipe
check 'exit 3 for a stream that was cut' cut
check 'of a stream that has not begun there is no table' not_begun
check 'a full standard output is told' output_full
check 'waits for the locks of the allocator' lock_waits
check 'waits as top counts them' top_counts_waits
if [ -n "${MALLOCTAPE_LONG:-}" ] && command -v gdb >/dev/null; then
    check 'waits as gdb counts them' lock_waits_are_those_of_gdb
elif [ -n "${MALLOCTAPE_LONG:-}" ]; then
    skip_test 'waits as gdb counts them' 'only in the long form, with gdb'
fi
check 'memory from the system, and given back' system_memory
check 'JSON: a path that is not UTF-8 is printable' odd_path
check 'JSON: pid is a number' pid_is_a_number
check '-V is --version' version
check 'totals that are not those of the records' bad_totals
check 'damage is told with its offset' damaged
check 'later versions: minor ones are read, features refused' later_version
check 'exit 2 for wrong options' usage
check 'several files: a line each' several
if [ -n "$sanitized" ] || ! command -v python3 >/dev/null; then
    skip_test 'of their memory, what can be shared counts once' 'needs python3, without a sanitizer'
else
check 'of their memory, what can be shared counts once' shared_memory_counts_once
fi
check 'what has ended has no memory any more' one_after_another
check 'recording, order and postprocess tell the same numbers' same_in_both_formats
check 'where a recording comes from' origin
check 'a killed process: the spool is used, missing or unusable' killed
