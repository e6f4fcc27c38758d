#!/bin/bash
# cli_verify_test.sh - `malloctape verify` accepts right orders of a recording and refuses wrong
# ones, naming the rule; and what postprocess makes of recordings is right.
set -euo pipefail

. "$(dirname "$0")/../cli_tap.sh"

plan 50

# in_order ORDERED - `verify_raw` in this order is fine.
in_order() {
    sample verify_raw
    sample "$1"
    exits 0 verify verify_raw "$1" && prints '^verify_raw: in order$' &&
        prints '^rule 1  calls: 9, lanes: 2;' &&
        prints '^rule 2  allocations: 5, frees: 3;.* unrecorded objects: 1$' &&
        prints '^rule 3  entries into shared structures: 6,' &&
        prints '^rule 4  ticks: 3; each record at most a window away from its own$'
}

# violates RULE ORDERED PATTERN - this order violates the rule, for this reason.
violates() {
    sample verify_raw
    sample "$2"
    exits 1 verify verify_raw "$2" && prints "^rule $1  violated .*$3" &&
        prints '^verify_raw: NOT in order$'
}

interleaved() {
    sample verify_interleaved_raw
    sample verify_interleaved_order
    exits 0 verify verify_interleaved_raw verify_interleaved_order
}

# forced ORDERED - records are windows away from their own, because one waits for the other.
forced() {
    sample verify_waits_raw
    sample "$1"
    exits 0 verify verify_waits_raw "$1" &&
        prints "^rule 4  ticks: 3;.* but for $2 that other records delay$"
}

forced_early() {
    sample verify_waits_raw
    sample verify_forced_early
    exits 1 verify verify_waits_raw verify_forced_early &&
        prints '^rule 4  violated .*of window 3 comes in window 0$'
}

lacking() {
    sample verify_lacking_raw
    sample verify_lacking_order
    exits 0 verify verify_lacking_raw verify_lacking_order && prints 'unrecorded objects: 2$' &&
        prints 'missing from the recording: 1$'
}

wrong_place() {
    sample verify_place_raw
    sample verify_place_order
    exits 1 verify verify_place_raw verify_place_order &&
        prints '^rule 2  violated .*names one at place 65, where none of lane 0 is alive$'
}

# A realloc that failed, told after the end of its object, is not one of an older object there.
late_failure() {
    sample verify_failure_raw
    sample verify_failure_late
    sample verify_failure_other
    exits 0 verify verify_failure_raw verify_failure_late &&
        exits 1 verify verify_failure_raw verify_failure_other &&
        prints '^rule 2  violated .*names one at place 65, where none of lane 0 is alive$'
}

mapped() {
    sample verify_mapped_raw
    exits 0 verify verify_mapped_raw &&
        prints 'none got .*; allocations: 3, where nothing is mapped: 0$'
}
unmapped() {
    sample verify_unmapped_raw
    exits 1 verify verify_unmapped_raw && prints '^rule 5  violated (mappings): 24 bytes at 0x7f0000000040,' &&
        prints '^verify_unmapped_raw: NOT in order$'
}
unmapped_attached() {
    sample verify_unmapped_attached
    exits 0 verify verify_unmapped_attached && prints '; allocations: 3, where nothing is mapped: 1$'
}
touched() {
    sample raw_touched
    sample verify_touched_raw
    exits 0 verify raw_touched && prints '; large ones with touched pages: 4, where nothing is mapped: 0$' &&
        exits 1 verify verify_touched_raw &&
        prints '^rule 5  violated (mappings): touched pages reach behind the end of an object of 1000000 bytes$'
}
# Also in a recording, of an object that has 2 MiB of 3 GiB.
touched_recorded() {
    rm -f sparse.raw
    TCMALLOC_TRACE_ADDRESSES=1 TCMALLOC_TRACE_OUTPUT=sparse.raw \
        LD_PRELOAD="$build_dir/lib/libtcmalloc_minimal_tracing.so" "$workloads/sparse" 2>err &&
        exits 0 verify sparse.raw && prints '; large ones with touched pages: 1, where nothing is mapped: 0$'
}
missed_free() {
    local one
    for one in raw order other silent; do sample "verify_missed_$one"; done
    sample verify_unmissed_raw
    exits 0 verify verify_missed_raw verify_missed_order && prints '; missed frees: 1$' &&
        exits 1 verify verify_missed_raw verify_missed_other &&
        prints '^rule 2  violated .*place 66 is marked as missed, but no other' &&
        exits 1 verify verify_missed_raw verify_missed_silent &&
        prints '^rule 2  violated .*begins at place 65, where one is live' &&
        exits 1 verify verify_unmissed_raw verify_missed_order &&
        prints '^rule 2  violated .*the recorder was not attached$'
}

names_the_place() {
    violates 1 verify_bad_size \
        'instruction 2, lane 0, record 4 (chunk at offset 0x[0-9a-f]*): malloc of 26 bytes'
}
from_a_pipe() {
    sample verify_good && "$bin/malloctape" verify verify_raw - <verify_good >out 2>err &&
        prints ': in order$'
}

other_recording() {
    sample raw_everything && exits 1 verify raw_everything verify_good && prints 'rule 1  violated'
}

cut_order() {
    sample instructions_cut
    sample verify_raw
    exits 1 verify verify_raw instructions_cut
}

damaged_order() {
    sample verify_good && head -c -10 verify_good >shortened &&
        exits 1 verify verify_raw shortened &&
        says '^malloctape verify: shortened: offset'
}

damaged_recording() {
    sample raw_bad_checksum && exits 1 verify raw_bad_checksum && says 'raw_bad_checksum: offset'
}

mistaken() {
    sample verify_raw && exits 1 verify verify_raw verify_raw &&
        says 'not an instruction stream, which malloctape order writes' && [ ! -s out ]
}
# Without a recording: what the reader of the stream checks.
ordered_alone() {
    sample verify_good && exits 0 verify verify_good && prints 'verify_good: consistent;' &&
        sample instructions_cut && exits 3 verify instructions_cut && prints 'as far as it goes' &&
        head -c 30 verify_good >begun && exits 1 verify begun && says 'begun: offset' &&
        head -c 200 verify_good >changed && printf x >>changed &&
        tail -c +202 verify_good >>changed && exits 1 verify changed && says 'changed: offset'
}
output_full() {
    sample verify_raw
    exit_status "$bin/malloctape" verify verify_raw >/dev/full 2>err
    [ "$status" = 1 ] && says 'cannot write to the standard output: No space left on device'
}
no_recording() { exits 1 verify no-such-file && says 'no-such-file: cannot open'; }
usage() { exits 2 verify && exits 2 verify a b c && exits 2 verify - && says 'must be a file'; }

postprocess_missing() {
    mkdir -p alone/bin
    cp "$bin/malloctape" alone/bin/
    alone/bin/malloctape verify verify_raw >out 2>err && return 1
    says 'alone/bin/postprocess not found'
}

orders_samples() {
    exits 0 verify verify_raw && prints ': in order$' && exits 0 verify verify_interleaved_raw &&
        exits 0 verify verify_waits_raw
}

# real PROGRAM... - records it; what postprocess makes of it is in order.
real() {
    record real.raw.lz4 "$@" && exits 0 verify real.raw.lz4 && prints '^real.raw.lz4: in order$'
}

killed() {
    record_killed killed.raw.lz4 || return 1
    exits 3 verify killed.raw.lz4 && prints 'in order, as far as it goes'
}

# The file ends in the middle, and there is no spool.
cut_recording() {
    lz4 -dc real.raw.lz4 >plain && head -c "$(($(wc -c <plain) / 2))" plain >half &&
        exits 3 verify half &&
        prints 'in order, as far as it goes'
}

# A second passes before the last instructions come.
progress() {
    record real.raw.lz4 "$workloads/threads" 500 16 &&
        "$bin/postprocess" --quiet real.raw.lz4 ordered &&
        in_terminal sh -c "(head -c 100000 ordered; sleep 1.2; tail -c +100001 ordered) |
            $bin/malloctape verify real.raw.lz4 -" >out &&
                prints 'malloctape verify: [0-9.]* M calls/s' &&
        prints 'real.raw.lz4: in order'
}

check 'the order of the recording' in_order verify_good
check 'progress on a terminal' progress
check 'records one window away' in_order verify_good_windows
check 'a call that came in between two entries of another' in_order verify_good_overlap
check 'a call before another, whose sequence number it has after its own' in_order verify_good_unit
check 'two calls that overtook each other' interleaved
check 'rule 4: early for a thread that could be late' forced_early
check 'late because what it waits for is' forced verify_forced_late 2
check 'what a recording may lack' lacking
check 'rule 1: a record is missing at the end' violates 1 verify_bad_missing \
    'the ordered stream ends without it'
check 'rule 1: a record is left out' violates 1 verify_bad_skipped \
    'free is where the recording has memalign'
check 'rule 1: a record too many' violates 1 verify_bad_twice 'no more records'
check 'rule 1: another size' violates 1 verify_bad_size 'malloc of 26 bytes; the recording says 25'
check 'rule 1: another kind' violates 1 verify_bad_kind \
    'calloc is where the recording has malloc'
check 'rule 1: another alignment' violates 1 verify_bad_alignment 'alignment'
check 'rule 1: a failed call that made an object' violates 1 verify_bad_outcome \
    'malloc failed in the recording'
check 'rule 2: another object' violates 2 verify_bad_object \
    'register 0 is object 0:1; the recording names 0:2'
check 'rule 2: unknown, but allocated' violates 2 verify_bad_unknown \
    'the recording has the allocation of 0:2'
check 'rule 2: before an allocation that its bound counts' violates 2 verify_bad_bound \
    'ends before allocation 2 of lane 1'
check 'rule 2: a place where nobody lives' wrong_place
check 'rule 2: a realloc that failed, of an object that has ended' late_failure
check 'rule 2: a free that was missed, in an attached recording alone' missed_free
check 'rule 3: a number before another' violates 3 verify_bad_number 'before number 3 of class 3'
check 'rule 4: two windows late' violates 4 verify_bad_late 'window 1 comes in window 3'
check 'rule 4: two windows early' violates 4 verify_bad_early 'of window 3 comes in window 1$'
check 'rule 4: another tick' violates 4 verify_bad_tick 'tick 1 is not that of the recording'
check 'rule 4: a tick is missing' violates 4 verify_bad_ticks '2 ticks; the recording has 3'
check 'rule 5: objects in memory that is mapped, a little later, too' mapped
check 'rule 5: an object where nothing is mapped' unmapped
check 'rule 5: of an attached process such objects are counted' unmapped_attached
check 'rule 5: touched pages lie in their object' touched
check 'rule 5: and in memory that is mapped' touched_recorded
check 'a violation is told with instruction, lane, record and offset' names_the_place
check 'an order from a pipe' from_a_pipe
check 'an order of another recording' other_recording
check 'an order that has no end' cut_order
check 'an order that is damaged' damaged_order
check 'a recording that is damaged' damaged_recording
check 'one taken for the other' mistaken
check 'a full standard output is told' output_full
check 'a recording that is not there' no_recording
check 'an instruction stream alone' ordered_alone
check 'exit 2 for wrong options' usage
check 'postprocess is not there' postprocess_missing
check 'what postprocess makes of the samples' orders_samples
check 'what postprocess makes of known calls' real "$workloads/known_calls"
check 'what postprocess makes of objects that go to and fro' real "$workloads/pingpong" 4 5000 all
check 'what postprocess makes of many threads' real "$workloads/threads" 500 16
check 'exit 3 for recordings that were cut' cut_recording
check 'exit 3 for a killed process' killed
