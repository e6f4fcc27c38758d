#!/bin/bash
# cli_convert_test.sh - `malloctape import` and `export`: files of real tools, compressed files,
# mistakes in files, options.
set -euo pipefail

. "$(dirname "$0")/../cli_tap.sh"

plan 23

# numbers FILE EVENTS LIVE THREADS - what import and info say of it.
numbers() {
    exits 0 import --json j -o p.lz4 "$1" && exits 0 info --json k p.lz4 &&
        json j "j.values_at('events', 'live_at_end', 'threads') == [$2, $3, $4]" &&
        json k "j.values_at('events', 'live_at_end', 'threads') == [$2, $3, $4]" &&
        "$bin/malloctape" verify p.lz4 >verify.out && "$bin/replay" --quiet p.lz4
}

# calls MADE FREED: a program that makes known calls, besides those of its libraries.
small_program() {
    cat >small.c <<'C'
#include <mcheck.h>
#include <stdlib.h>
int main(void)
{
    mtrace();
    void *objects[100];
    for (int i = 0; i < 100; i++) objects[i] = malloc(1000 + i);
    for (int i = 0; i < 100; i += 2) objects[i] = realloc(objects[i], 100000 + i);
    for (int i = 0; i < 60; i++) free(objects[i]);
    void *volatile aligned = aligned_alloc(64, 640);
    muntrace();
    return aligned == NULL;
}
C
    ${CC:-gcc} -O0 -o small small.c
}

mtrace_of_glibc() {
    MALLOC_TRACE=mtrace.txt LD_PRELOAD=$1 ./small && numbers mtrace.txt 211 41 1 &&
        json j 'j["by_kind"].values_at("malloc", "free") == [101, 60] &&
            j["peak_live_bytes"] == (0..99).sum { |i| i.even? ? 100_000 + i : 1000 + i }'
}

# heaptrack counts what its own interpreter makes of the same file.
heaptrack_file() {
    heaptrack --raw -o h ./small >heaptrack.out 2>&1
    zstd -dc h.raw.zst | "$(grep -o '/[^ ]*heaptrack_interpret' heaptrack.out)" 2>stats >/dev/null
    exits 0 import --json j -o p.lz4 h.raw.zst && "$bin/malloctape" verify p.lz4 >verify.out &&
        json j 'stats = File.read("stats")
                j["by_kind"]["malloc"] == stats[/^\s*allocations:\s*(\d+)/, 1].to_i &&
                j["live_at_end"] == stats[/^\s*leaked allocations:\s*(\d+)/, 1].to_i'
}

# Prints a file of heaptrack as its versions before 1.3 wrote it: texts have no length.
without_lengths() { sed -e '1s/3$/2/' -e 's/^\([sxm]\) [0-9a-f]* /\1 /' "$1"; }

# The way of each call out of the program, by module and offset, also of a file that is mapped again
# elsewhere.
heaptrack_stacks() {
    printf '%s\n' 'v 10400 3' 'x b /bin/a prog' 'm 1 -' 'm 1 x 400000 1000 200 2000 10' \
        'm 7 lib add 70000 0 100' 't 401010 0' 't 70020 1' 't 999 2' '+ 18 3 a000' '+ 19 2 b000' \
        'm 1 -' 'm 1 x 400000 1000 200' 'm 7 lib add 80000 0 100' 't 80020 1' 't 401010 4' \
        '+ 1a 5 c000' '- a000' '+ 1b 0 d000' >stacks.ht
    exits 0 import -q -o p stacks.ht && exits 0 dump p && grep -o 'define.*\|malloc.*' out >lines
    grep -v -e 'text of' -e '^malloc [0-9]*$' lines >got
    cat >wanted <<'END'
define module 1 from 0x401000 to 0x402010 bias 0x400000
define module 2 from 0x70000 to 0x70100 bias 0x70000
define codes 1 module 1 0x1010
define nodes 8 parent 0 codes 1
define codes 2 module 2 0x20
define nodes 9 parent 8 codes 2
define codes 3 module 0 0x999
define nodes 10 parent 9 codes 3
define module 2 unloaded
define module 3 from 0x80000 to 0x80100 bias 0x80000
define codes 4 module 3 0x20
define nodes 11 parent 8 codes 4
define codes 5 module 1 0x1010
define nodes 12 parent 11 codes 5
malloc 24 -> r0 stack 10
malloc 25 -> r1 stack 9
malloc 26 -> r2 stack 12
malloc 27 -> r0
END
    without_lengths stacks.ht >stacks2.ht && exits 0 import -q -o p2 stacks2.ht && cmp p p2 &&
        cmp wanted got && grep -q 'text of module 1 path 11 from 0 2f62696e2f612070726f67' lines &&
        printf '%s\n' 'v 10400 3' 't 5 0' 't 6 3' >bad.ht && exits 1 import -o p bad.ht &&
        says 'line 3: expected .t ADDRESS PARENT., with a parent before' &&
        printf '%s\n' 'v 10200 2' 'm lib.so' >bad.ht && exits 1 import -o p bad.ht &&
        says 'line 2: expected .m NAME BASE' &&
        printf '%s\n' 'v 10900 4' >bad.ht && exits 1 import -o p bad.ht && says 'FORMAT from 1 to 3'
}

# What heaptrack writes without --raw, which knows names but no objects.
interpreted() {
    printf '%s\n' 'v 10400 3' 'X ./a' 's 6 /bin/a' 's 8 run(int)' 's 4 main' 's 3 a.c' 'i 401010 1 2 4 7 3 4 9' \
        'i 401020 1' 't 2 0' 't 1 1' 'a 18 2' 'a 19 0' '+ 0' '+ 0' '+ 1' 'c 14' '- 0' '+ 0' '- 1' >i.ht
    exits 0 import -q -o p i.ht && exits 0 dump p && grep -o 'define codes.*\|define nodes.*\|L0 malloc.*\|L0 free.*' out >got
    cat >wanted <<'END'
define codes 1 module 1 0x401010
define codes 2 module 1 0x401020
define nodes 8 parent 0 codes 2
define nodes 9 parent 8 codes 1
L0 malloc 24 -> r0 stack 9
L0 malloc 24 -> r1 stack 9
L0 malloc 25 -> r2
L0 free r1
L0 malloc 24 -> r1 stack 9
L0 free r2
END
    without_lengths i.ht >i2.ht && exits 0 import -q -o p2 i2.ht && cmp p p2 &&
        cmp wanted got && exits 0 export --to folded --measure calls -o folded p && cat folded &&
        grep -qx 'a+0x401020;main;run 3' folded &&
        printf '%s\n' 'v 10400 3' 's 1 a' 'i 5 1' 't 1 0' 'a 18 1' '- 0' >bad.ht && exits 1 import -o p bad.ht &&
        says 'line 6: expected what heaptrack.s interpreter writes'
}

heaptrack_interpreted() {
    heaptrack -o hi ./small >heaptrack.out 2>&1
    exits 0 import --json j -o p.lz4 hi.zst && "$bin/malloctape" verify p.lz4 >verify.out &&
        heaptrack_print hi.zst >printed &&
        json j 'j["by_kind"]["malloc"] == File.read("printed")[/calls to allocation functions: (\d+)/, 1].to_i' &&
        exits 0 export --to folded --measure calls -o folded p.lz4 && grep -q ';main' folded
}

rep() { printf '%s\n' 1000 3 "$(($# ? $# : 1))" 1 "$@"; }

# Some public files have one more than they say.
one_too_many() {
    rep 'a 0 24' 'f 0' 'a 1 5' | sed '3s/3/2/' >more.rep && numbers more.rep 3 1 1 &&
        json j 'j["beyond_count"] == 1'
}

compressed() {
    rep 'a 0 24' 'a 1 100' 'f 0' >plain.rep
    gzip -k plain.rep && lz4 -q plain.rep plain.rep.lz4 && numbers plain.rep 3 1 1 &&
        numbers plain.rep.gz 3 1 1 && numbers plain.rep.lz4 3 1 1
}

zipped() {
    printf '1: malloc 0x10 24\n2: free 0x10\n' >memory_replay.txt
    python3 -m zipfile -c one.zip memory_replay.txt && numbers one.zip 2 0 2 &&
        python3 -m zipfile -c two.zip memory_replay.txt plain.rep &&
            exits 1 import -o p.lz4 two.zip && says 'more than one file in the archive'
}

pipes() {
    rep 'a 0 24' | "$bin/malloctape" import - -o - 2>err | "$bin/malloctape" info --json - - >out &&
        json out 'j["events"] == 1 && j["source"] == "CS:APP .rep" && j["lacks"] =~ /threads/ &&
            j["duration_ns"].nil?'
}

damaged_archive() {
    head -c 20 plain.rep.gz >cut.gz
    exits 1 import -o p.lz4 cut.gz && says 'cut.gz: cannot be read'
}

# bad TEXT MESSAGE - a file with these lines is refused with this message.
bad() {
    printf '%b' "$1" >bad
    if exits 1 import -o p.lz4 bad && says "^malloctape import: bad: $2"; then return 0; fi
    echo "# $1"
    return 1
}

# shellcheck disable=SC2016 # backquotes of messages
mistakes() {
    bad '10\n2\n2\n1\na 0 24\na 0 24\n' 'line 6: id 0 is allocated' &&
        bad '10\n2\n2\n1\na 0 24\nf 1\n' 'line 6: id 1 is not allocated' &&
        bad '10\n2\n2\n1\na 5 24\n' 'line 5: id 5, but the file says that it has 2' &&
        bad '10\n2\n9\n1\na 0 24\n' 'line 6: the file ends after 1 operations of 9' &&
        bad '10\n2\n2\n1\na 0 x\n' 'line 5: expected `a ID BYTES`' &&
        bad '= Start\n+ 0x10 0x20\n? 0x30\n' 'line 3: expected + - < > !' &&
        bad '= Start\n@ a:[0x1] < 0x10\n- 0x10\n' 'line 3: expected a line with >' &&
        bad '= Start\n+ 0x10 99999999999999999\n' 'line 2: expected a size' &&
        bad '1: malloc 0x10 3\n1: mallocx 0x10 4\n' 'line 2: expected a thread id' &&
        bad '1: malloc 0x10 3\n1: calloc 0x20 9999999999 9999999999\n' 'line 2: expected `calloc' &&
        bad 'v 1 3\n+ 10 1\n' 'line 2: expected `+ SIZE TRACE POINTER`' &&
        bad '1 1 malloc(3)=0x10\n1 1 free(0x10\n' 'line 2: expected the arguments of free' &&
        bad 'a 3 10 1 5\nb 3 10 1 5\n' 'line 2: expected `a SIZE POINTER THREAD NS`' &&
        bad 'nothing that is known\n' 'the format is not recognized: say --from FORMAT' &&
        bad 'Obj\x01\x04\x14avro.codec' 'this is Avro, which malloctape can write, but not read$'
}

mistakes_in_bytes() {
    bad '\x08\x02\x09\x00\x0a\x01\x0b\x09\x01\x02\x03\x04\x01' 'offset 0x9: pointer 3 is beyond' &&
        bad '\x08\x02\x09\x00\x0a\x01\x0b\x40\x01' 'offset 0x6: a thread begins at 64' &&
        bad '\x08\x02\x09\xff\xff\xff\x7f\x0a\x01\x01' 'offset 0x2: 268435455 syncs are more' &&
        bad '\x08\x02\x09\x04\x0a\x01\x0b\x09\x01\x07\x01\x01\x00\x00\x00\x00\x00\x00\x00' \
            'offset 0xb: SYNC_R 1, to which no SYNC_W comes' &&
        bad '\xe4\x63\xbd\x6c\x07' 'offset 0x5: the file ends inside an event' &&
        bad '\xe4\x63\xbd\x6c\x0d' 'offset 0x4: an event of type 0x6'
}

# What came before a mistake is there.
kept_before() {
    printf '1: malloc 0x10 3\n1: malloc 0x20 4\nx\n' >bad
    exits 1 import -o p bad && exits 3 info p && prints '^events  *2$' || return 1
    # wip_raw: a buffer with a malloc, and half a buffer, without a barrier.
    printf '\xe4\x63\xbd\x6c\x07\x01\x07\x05\x01\x21\x07\x01\x07\x21' >bad
    exits 1 import -o p bad && says 'the file ends inside a buffer' && exits 3 info p &&
        prints '^events  *1$'
}

# One thread allocates where another's object still is: its free comes two lines later.
held_back() {
    printf '%s\n' '1: malloc 0x10 100' '2: malloc 0x10 200' '2: free 0x10' '3: malloc 0x20 1' \
        '1: free 0x10' >late
    exits 0 import --json j -o p late && json j 'j.values_at("held_back", "never_freed",
            "unknown_objects", "live_at_end", "peak_live_bytes") == [1, 0, 0, 1, 201]' &&
        "$bin/malloctape" dump --only-calls p | grep '^free' >frees && [ "$(wc -l <frees)" = 2 ]
}

never_freed() {
    printf '%s\n' '= Start' '+ 0x10 0x64' '+ 0x10 0xc8' '- 0x30' '- 0' >twice
    exits 0 import --json j -o p twice && json j 'j.values_at("events", "held_back", "never_freed",
            "unknown_objects", "frees_of_null", "live_at_end") == [3, 1, 1, 1, 1, 2]'
}

# The second file goes on with the objects of the first.
several_files() {
    printf '= Start\n+ 0x10 0x64\n= End\n' >one && printf '= Start\n- 0x10\n= End\n' >two &&
        exits 0 import --json j -o p one two &&
            json j 'j.values_at("events", "unknown_objects", "live_at_end") == [2, 0, 0]' &&
        exits 1 import -o p one plain.rep && says 'plain.rep: a file of CS:APP .rep is a whole' &&
        exits 1 import -o p one memory_replay.txt && says 'but the file before it is mtrace' ||
        return 1
    # A munged log of logalloc has numbers, not addresses.
    printf '1 1 malloc(3)=#1\n' >munged && printf '1 1 malloc(3)=0x10\n' >as_it_is
    exits 0 import -o p munged && exits 0 import -o p as_it_is as_it_is &&
        exits 1 import -o p as_it_is munged && says 'munged: line 1: a munged log names slots'
}

export_losses() {
    sample instructions_everything
    for format in memory_replay mtrace ops rep wl; do
        exits 0 export --to "$format" --json j instructions_everything -o exported &&
            json j 'j["calls"] > 20 && j["heap_calls"].positive? && j["failed"].positive? &&
                j["unknown"].positive? && j["kinds_changed"].positive?' || return 1
        from=
        [ "$format" != ops ] || from=--from=ops
        # shellcheck disable=SC2086 # none, or one
        exits 0 import $from --json k -o again exported &&
            json k 'j["events"] == JSON.parse(File.read("j"))["calls"]' || return 1
    done
}

# One after another, more than a .wl of ours has regions.
many_threads() {
    ruby -e '65_540.times { |i| puts "#{i + 1}: malloc 0x10 8", "#{i + 1}: free 0x10",
                                     "#{i + 1}: thread_done 0x0" }' >many
    exits 0 import --quiet -o p many && exits 0 export --to wl --json j p -o exported &&
        json j 'j.values_at("calls", "threads_joined") == [131_080, 4]' &&
        exits 0 import --json k -o again exported &&
        json k 'j.values_at("events", "threads", "live_at_end") == [131_080, 65_536, 0]'
}

# A postprocess that is killed when it has written nearly everything.
ordering_killed() {
    sample raw_example && "$bin/postprocess" --quiet raw_example ordered && mkdir -p killed &&
        cp "$bin/malloctape" "$bin/malloctape-convert" killed &&
        printf '#!/bin/sh\nhead -c -8 %s\nkill -KILL $$\n' "$PWD/ordered" >killed/postprocess &&
        chmod +x killed/postprocess || return 1
    local bin=$PWD/killed
    exits 1 export --to mtrace raw_example -o exported &&
        says '^malloctape: postprocess ended by signal 9' &&
        exits 1 dump --objects raw_example && says '^malloctape: postprocess ended by signal 9'
}

# A stream that ends in its header.
cut_in_header() {
    sample instructions_everything && head -c 40 instructions_everything >short &&
        exits 1 export --to mtrace short -o exported && says 'without an end block'
}

# A recording that was cut, ordered: the stream is whole, and says that the recording was not.
cut_and_ordered() {
    sample raw_example && head -c -8 raw_example >raw_cut &&
        exit_status "$bin/postprocess" --quiet raw_cut cut 2>err && [ "$status" = 3 ] &&
        exits 3 dump --objects raw_cut && mv out objects && exits 3 dump --objects cut &&
        cmp out objects && exits 3 export --to mtrace cut -o exported
}

usage() {
    exits 2 import && exits 2 import plain.rep && exits 2 import --from nonsense plain.rep -o p &&
        says "there is no format 'nonsense'" && exits 2 export --to nonsense p -o q &&
        exits 2 export p -o q &&
        exits 2 export --to avro p -o q.lz4 && says 'avro is compressed already' &&
        exits 2 export --to rep p -o q.gz && says '-o - | gzip -c > FILE makes this one' &&
        [ ! -e q.lz4 ] &&
        exits 2 export --to rep p &&
        exits 1 import no-such-file -o p && says 'no-such-file: cannot open' &&
        exits 1 import plain.rep -o missing/p && says 'missing/p: cannot open' &&
        exits 2 import plain.rep -o plain.rep && says 'would be both read and written' &&
        exits 0 import plain.rep -o p && exits 2 export --to rep p -o p &&
        sample raw_example && exits 1 import raw_example -o p && says 'this is a recording'
}

# What a file is that a program cannot read, and which command makes it readable.
others_are_named() {
    sample raw_example && sample instructions_example && gzip -kf raw_example &&
        lz4 -qf instructions_example p.lz4 && gzip -f p.lz4 || return 1
    exits 0 export --to wl instructions_example -o x.wl || return 1
    printf '= Start\n@ ./a:[0x1] + 0x55d0 0x18\n' >x.trace
    for file in raw_example.gz p.lz4.gz x.wl x.trace; do
        case $file in
        *.gz) wanted='this is gzip: `gzip -dc` unpacks it$' ;;
        x.wl) wanted='this is a \.wl, .*: `malloctape import` makes an instruction stream of it$' ;;
        *) wanted='this is a trace of mtrace(3): `malloctape import` makes' ;;
        esac
        exit_status "$bin/replay" "$file" >out 2>err && [ "$status" = 1 ] && says "$wanted" &&
            exit_status "$bin/postprocess" "$file" ordered 2>err && [ "$status" = 1 ] &&
            says "$wanted" && exits 1 dump "$file" && says "$wanted" && exits 1 info "$file" &&
            says "$wanted" || return 1
    done
}

small_program
debug_library=$(ls /lib/*/libc_malloc_debug.so.0 2>/dev/null | head -n 1)
if [ -n "$debug_library" ] && [ -z "$sanitized" ]; then
    check 'mtrace(3)' mtrace_of_glibc "$debug_library"
else
    skip_test 'mtrace(3)' 'this C library has no libc_malloc_debug'
fi
check 'heaptrack: call stacks' heaptrack_stacks
check 'heaptrack: an interpreted file' interpreted
if command -v heaptrack zstd >/dev/null; then
    check 'heaptrack: what its own interpreter counts' heaptrack_file
    check 'heaptrack: one that it interpreted itself' heaptrack_interpreted
else
    skip_test 'heaptrack: what its own interpreter counts' 'heaptrack or zstd is not installed'
    skip_test 'heaptrack: one that it interpreted itself' 'heaptrack or zstd is not installed'
fi
check 'more operations than the file says' one_too_many
check 'compressed files' compressed
if command -v python3 >/dev/null; then
    check 'a zip with one file, and one with two' zipped
else
    skip_test 'a zip with one file, and one with two' 'python3 is not installed'
fi
check 'through pipes; info shows where it comes from' pipes
check 'a compressed file that is cut' damaged_archive
check 'mistakes are told with the line and what was expected' mistakes
check 'mistakes in binary files are told with the offset' mistakes_in_bytes
check 'what comes before a mistake is written' kept_before
check 'an allocation is held back until the free of its address' held_back
check 'objects whose free is not in the file' never_freed
check 'several files follow one another where that is honest' several_files
check 'exports count what they lose' export_losses
check 'more threads than a .wl has regions' many_threads
check 'a postprocess that is killed is told of' ordering_killed
check 'a recording that was cut is so when it has been ordered' cut_and_ordered
check 'a stream that ends in its header: the reason is said' cut_in_header
check 'files of others are named, with the command for them' others_are_named
check 'wrong options and files' usage
