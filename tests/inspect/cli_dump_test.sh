#!/bin/bash
# cli_dump_test.sh - `malloctape dump` prints what the decoders in Ruby, written from the format
# documents, print: for every sample and for real recordings.
set -euo pipefail

. "$(dirname "$0")/../cli_tap.sh"

golden=$source_dir/tests/golden

plan 24

list=$("$write_samples" --list)
good_samples=$(grep -v -e _bad_ -e _cut <<<"$list")
verify_samples=$(grep '^verify_bad_' <<<"$list")
bad_samples=$(grep -e '^raw_bad_' -e '^instructions_bad_' <<<"$list")
cut_samples=$(grep _cut <<<"$list")
# shellcheck disable=SC2086 # names
{
    samples $list
    ruby "$reference/expected.rb" $list
}

# Streams whose end chunk is wrong: a dump prints them all the same, their totals are for `info` to
# check.
is_for_info() { [ "$1" = raw_bad_totals ]; }

all_good() {
    for name in $good_samples $verify_samples; do
        exits 0 dump "$name" && cmp "$name.expected" out && [ ! -e "$name.refused" ] ||
            { echo "# $name"; return 1; }
    done
}

# A reader may refuse a block as a whole of which the other prints the beginning.
is_beginning() { cmp -s -n "$(wc -c <"$1")" "$1" "$2"; }

all_bad() {
    for name in $bad_samples; do
        ! is_for_info "$name" || continue
        exits 1 dump "$name" && says "^malloctape dump: $name: offset 0x[0-9a-f]*: " &&
            is_beginning out "$name.expected" || { echo "# $name"; return 1; }
        [ -s "$name.refused" ] || [ "$name" = raw_bad_checksum ] ||
            { echo "# accepted: $name"; return 1; }
    done
}

all_cut() {
    for name in $cut_samples; do
        exits 3 dump "$name" && cmp "$name.expected" out && says 'end' && [ -s "$name.refused" ] ||
            { echo "# $name"; return 1; }
    done
}

# The example of FORMAT.md 5.6.
raw_example() {
    sample raw_example
    cat >expected <<'END'
000000000000 raw 4.0 features 0x0 info 0x0 recording 000102030405060708090a0b0c0d0e0f start 1700000000123456789 pid 4711
000000000040 metadata program=/usr/bin/sample
000000000058 metadata allocator=gperftools 2.10
000000000072 L0 segment unit 0 allocations 0 key profile free - - malloc - - realloc_moved
000000000072 L0 #0 thread_begin 4711
000000000072 L0 #1 cache_begin
000000000072 L0 #1 sequence_before class 3 number 1
000000000072 L0 #2 sequence_before page_heap number 1
000000000072 L0 #3 class 3 bytes 24
000000000072 L0 #3 cached class 3 @65
000000000072 L0 #3 cached class 3 @64
000000000072 L0 #3 malloc 24 -> 0:1@65
000000000072 L0 #4 malloc 20 -> 0:2@64
000000000072 L0 #5 free @65
000000000072 L0 #6 malloc 24 -> 0:3@65
0000000000c4 end status 0 nanoseconds 50000000 events 4 lost 0 waits 0 waited 0
0000000000c4 end lane 0 units 19
END
    exits 0 dump raw_example && diff expected out
}

# The bytes that FORMAT.md 5.6 gives, from the profile on.
raw_example_bytes() {
    sample raw_example
    ruby -e 'puts File.binread("raw_example").byteslice(0x96, 46).unpack1("H*")' >out
    [ "$(cat out)" = "1500000100001200"$(printf %s 30f06712 39f0 03f10100 fff10100 38f003001800 \
        3af00300020041000100 \
        18a0 14a0 4100 18a0) ]
}

# The example of INSTRUCTIONS.md 5.4.
instructions_example() {
    sample instructions_example
    cat >expected <<'END'
000000000000 instructions 4.0 features 0x0 info 0x0
000000000024 metadata run=000102030405060708090a0b0c0d0e0f
000000000049 metadata program=/usr/bin/sample
000000000061 metadata pid=4711
00000000006a metadata allocator=gperftools 2.10
000000000084 metadata start=1700000000
000000000095 #0 L3 lane
000000000095 #1 L3 malloc 24 -> r0
000000000095 #2 L3 calloc 300 -> r1
000000000095 #3 L3 free r0
0000000000b7 end status 0 live 1 registers 2 threads 0 lost 0
0000000000b7 end count malloc 1
0000000000b7 end count calloc 1
0000000000b7 end count free 1
END
    exits 0 dump instructions_example && diff expected out
}

instructions_example_bytes() {
    sample instructions_example
    ruby -e 'puts File.binread("instructions_example").byteslice(0xa5, 18).unpack1("H*")' >out
    [ "$(cat out)" = b2041205033001021500182c010000010007 ]
}

only_calls() {
    printf 'malloc 24 -> 0:1@65\nmalloc 20 -> 0:2@64\nfree @65\nmalloc 24 -> 0:3@65\n' >expected
    exits 0 dump --only-calls raw_example && diff expected out
}

only_calls_of_instructions() {
    printf 'malloc 24 -> r0\ncalloc 300 -> r1\nfree r0\n' >expected
    exits 0 dump --only-calls instructions_example && diff expected out
}

one_lane() {
    sample verify_raw
    exits 0 dump verify_raw && grep ' L1 ' out >expected && exits 0 dump --lane 1 verify_raw &&
        diff expected out &&
        exits 0 dump --lane 77 verify_raw && [ ! -s out ]
}

one_lane_of_instructions() {
    sample verify_good
    exits 0 dump verify_good && grep ' L1 ' out >expected && exits 0 dump --lane 1 verify_good &&
        diff expected out
}

# The same stream in a file and from a pipe, plain and packed, in frames after one another.
any_way_in() {
    for name in raw_example instructions_example; do
        exits 0 dump "$name"
        cp out expected
        lz4 -qc "$name" >packed
        { head -c 100 "$name" | lz4 -qc; tail -c +101 "$name" | lz4 -qc; } >frames
        exits 0 dump packed && cmp expected out && exits 0 dump frames && cmp expected out ||
            return 1
        for file in "$name" packed frames; do
            exits 0 dump - <"$file" && cmp expected out || return 1
            cat "$file" | "$bin/malloctape" dump - >out 2>err && cmp expected out || return 1
        done
    done
}

neither_format() {
    echo 'something else' >text
    exits 1 dump text &&
        says '^malloctape dump: text: .*neither a raw stream nor an .*: `malloctape import`'
}

nothing_at_all() { : >empty && exits 1 dump empty && [ ! -s out ]; }
no_such_file() { exits 1 dump no-such-file && says 'no-such-file: cannot open: No such file'; }
usage() {
    exits 2 dump && exits 2 dump a b && exits 2 dump --lane x raw_example &&
        exits 2 dump --lane 65536 raw_example
}

full_disk() {
    "$bin/malloctape" dump raw_example >/dev/full 2>err && return 1
    says 'cannot write'
}

# real FILE - both formats of a recording, by both decoders.
real() {
    lz4 -dc "$1" >plain && reference_dump plain >expected && exits 0 dump "$1" &&
        cmp expected out &&
        "$bin/postprocess" -q "$1" ordered && reference_dump ordered >expected &&
        exits 0 dump ordered && cmp expected out
}

records_known() { record known.raw.lz4 "$workloads/known_calls" && real known.raw.lz4; }
records_threads() { record threads.raw.lz4 "$workloads/threads" 100 && real threads.raw.lz4; }

records_killed() {
    record_killed killed.raw.lz4 || return 1
    exits 3 dump killed.raw.lz4 && says 'no end chunk' &&
        prints '^spool [0-9a-f]\{12\} L0 #[0-9]* malloc ' &&
        sed -n 's/.* L0 #\([0-9]*\) .*/\1/p' out >numbers &&
            [ "$(tail -n 1 numbers)" = $(($(uniq numbers | wc -l) - 1)) ]
}

# The lines of one lane are in order; those of a wait, and of memory that came and went.
paths() {
    exits 0 dump --paths --only-calls --lane 2 "$golden/raw-4.0-inside" &&
        cmp out - <<'END' &&
-CP---- malloc 48 -> 2:1@1985
T------ free @1985
--P-W-- malloc 1048576 -> 2:2@2176
--PS--- free @2176
END
        exits 0 dump --paths "$golden/raw-4.0-inside" &&
        prints ' L0 #9 --PS--- malloc 268435456 ' && [ "$(wc -l <out)" = 12 ] && exits 1 dump --paths "$golden/raw-4.0-opaque" &&
        exits 1 dump --paths "$golden/instructions-4.0-plain" && says 'does not say how far'
}

# What the page heap did with spans in calls of which that is known, in pages of 8 KiB. What is left
# of the free span behind the pieces is the rest, or that and so many pieces.
spans() {
    TCMALLOC_RELEASE_RATE=0 record spans.raw.lz4 "$workloads/spans" &&
        exits 0 dump spans.raw.lz4 && ruby -e '
            piece = File.read("printed").to_i
            lines = $stdin.filter_map do |line|
                line[/ L0 #\d+ (\w+_(before|after) bytes \d+|malloc \d+|free|release_memory)/, 1]
            end
            lines.shift until lines.empty? || lines[0] == "malloc #{6 * piece}"
            lines.shift until lines.empty? || lines[0].start_with?("split_before")
            rest = lines[6].to_s[/split_before bytes (\d+)/, 1].to_i
            split = ->(pieces) { "split_before bytes #{rest + pieces * piece}" }
            merge = ->(bytes) { "merge_after bytes #{bytes}" }
            made = [*[3, 2, 1, 0].flat_map { |left| [split[left], "malloc #{piece}"] },
                    "free", "free", merge[piece], "free", merge[2 * piece], merge[rest],
                    split[0], "malloc #{3 * piece}", "free", merge[rest], "release_memory"]
            used = [split[2], "reuse_before bytes #{piece}", "malloc #{piece}", "free",
                    "malloc #{piece}", "free"]
            given = lines[made.size...-6].to_a.sum do |line|
                line[/\Arelease_after bytes (\d+)/, 1].to_i
            end
            right = rest >= 2 * piece && given >= rest + 3 * piece &&
                lines.first(made.size) == made && lines.last(6) == used
            puts lines unless right
            exit right' <out &&
        exits 0 dump --paths --only-calls spans.raw.lz4 &&
        tail -n 10 out | cut -d ' ' -f 1,2 >letters && cmp letters - <<'END'
--P---- free
--P---M free
--P---M free
--P--D- malloc
--P---M free
--PS--- release_memory
--P--D- malloc
--P---- free
--P---- malloc
--P---- free
END
}

# Those that are no calls, of all lines but the header's and the end's.
manual_page_has_words() {
    for name in $good_samples; do cat "$name.expected"; done |
        grep -vE '^\w+ (raw|instructions|metadata|end) ' >lines
    ruby -e 'lines, kinds, page = ARGV.map { |file| File.read(file) }
        words = lines.scan(/(?<= )[a-z_]+(?=[ \n])/).uniq - kinds.scan(/"(\w+)"/).flatten
        missing = words.reject { |word| page.match?(/\b#{word}\b/) }
        puts missing
        exit words.size > 20 && missing.empty?' \
        lines "$source_dir/common/call_kind.h" "$source_dir/cli/malloctape.1" >out
}

# A reader that goes away, as head does, is no news, not for postprocess either, which `cat` waits
# for here.
ends_with_its_reader() {
    "$build_dir/tests/tools/make_raw" steps=400000 >many
    { { "$bin/malloctape" dump --objects many || true; } | head -n 1 >out; } 2>&1 | cat >err
    prints '^# kind size' && [ ! -s err ]
}

check 'both decoders agree on every good sample' all_good
check 'the manual page has the words of every line' manual_page_has_words
check 'what the documents forbid is refused, by both' all_bad
check 'streams that were cut: what is there, and exit 3' all_cut
check 'the example of FORMAT.md: its dump' raw_example
check 'the example of FORMAT.md: its bytes' raw_example_bytes
check 'the example of INSTRUCTIONS.md: its dump' instructions_example
check 'the example of INSTRUCTIONS.md: its bytes' instructions_example_bytes
check '--only-calls of a raw stream' only_calls
check '--only-calls of an instruction stream' only_calls_of_instructions
check '--lane of a raw stream' one_lane
check '--lane of an instruction stream' one_lane_of_instructions
check '--objects, whose reader goes away' ends_with_its_reader
check 'files and pipes, plain and LZ4' any_way_in
check 'neither of the formats' neither_format
check 'an empty file: a recording that was cut at once' nothing_at_all
check 'a file that is not there' no_such_file
check 'exit 2 for wrong options' usage
if [ -e /dev/full ]; then
    check 'a full disk' full_disk
else
    skip_test 'a full disk' 'no /dev/full'
fi
check 'both decoders agree on a recording and its order: known calls' records_known
check 'both decoders agree on a recording and its order: threads' records_threads
check 'how far calls went' paths
check 'spans that are split, merged, given back and used again' spans
check 'a killed process: the spool has the rest' records_killed
