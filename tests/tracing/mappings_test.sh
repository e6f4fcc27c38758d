#!/bin/bash
# mappings_test.sh - what a program does to its address space is recorded: each call, in the order of
# the calls, with its stack and its file; and what is resident, all of RSS.
#
# With MALLOCTAPE_LONG (make check-truth) at 1 000 moments.
set -eu
# shellcheck source=tests/cli_tap.sh
. "$(dirname "$0")/../cli_tap.sh"

lib=$build_dir/lib
moments=${MALLOCTAPE_LONG:+1000}
moments=${moments:-15}
libraries='libmalloctape.so libtcmalloc_minimal_tracing.so'

# record NAME LIBRARY PROGRAM ARGUMENTS... - to NAME, and NAME.dump of the ordered recording.
record() {
    local name=$1 library=$2
    shift 2
    rm -f "$name" "$name".*
    exit_status env TCMALLOC_TRACE_OUTPUT="$name" LD_PRELOAD="$lib/$library" "$@" 2>err
    exit_status "$bin/postprocess" -q "$name" "$name.p" 2>err
    { [ "$status" = 0 ] || [ "$status" = 3 ]; } && "$bin/malloctape" dump "$name.p" >"$name.dump"
}

# holds LIBRARY [kill|reserves|files] - at random moments what is mapped is what /proc/self/maps says.
holds() {
    record maps.raw "$1" "$workloads/maps" moments "$RANDOM" "$moments" ${2+"$2"} &&
        ruby "$source_dir/tests/truth/maps.rb" moments <maps.raw.dump >out &&
        { "$bin/malloctape" verify maps.raw maps.raw.p >out 2>err || [ $? = 3 ]; } &&
        prints '^rule 5  mapping calls: [0-9]*; none got pages that were mapped$'
}

# Each call, without addresses and threads.
wanted='map bytes 12288 protection 3 flags 0x22
map bytes 100 protection 1 flags 0x1 file FILE
map bytes 0 protection 1 flags 0x22 failed
advise bytes 4096 protection 4 flags 0x0
advise bytes 4096 protection 3 flags 0x0
protect bytes 4096 protection 0 flags 0x0
protect bytes 4096 protection 3 flags 0x0
move_from bytes 12288 protection 0 flags 0x1
move_to bytes 2048000 protection 0 flags 0x1
move_from bytes 4096 protection 0 flags 0x0 failed
unmap bytes 2043904 protection 0 flags 0x0
unmap bytes 4096 protection 0 flags 0x0 failed
unmap bytes 100 protection 0 flags 0x0
attach bytes 4096 protection 3 flags 0x0 file ID
detach bytes 0 protection 0 flags 0x0
detach bytes 0 protection 0 flags 0x0 failed
break bytes 0 protection 0 flags 0x0
break bytes 0 protection 0 flags 0x0'

each_call() {
    head -c 9000 /dev/zero >'a file' &&
        TCMALLOC_TRACE_STACKS=1 record calls.raw "$1" "$workloads/mapping_calls" 'a file' &&
        grep ' mapping ' calls.raw.dump | grep -v -e ' own' -e ' found ' >lines &&
        sed -e 's/^\w* mapping //' -e 's/ thread [0-9]* at 0x[0-9a-f]*//' \
            -e 's/ stack [0-9]*//' -e 's/ lane [0-9]* calls [0-9]*//' \
            -e 's/file offset 4096 device [0-9]* inode [0-9]* .*\/a file/file FILE/' \
            -e 's/file offset 0 device 0 inode [0-9]*$/file ID/' lines >out &&
        [ "$(cat out)" = "$wanted" ] && ! grep -v ' stack [0-9]* lane 0 calls [0-9]' lines >out &&
        exits 0 info calls.raw.p && prints '^mapping calls  *[0-9]*, [4-9] of them failed, .* mapped at most$'
}

# The recorded allocator's own calls are marked.
own_calls() {
    record own.raw libtcmalloc_minimal_tracing.so "$workloads/many" 400000 &&
        grep -q ' mapping \(map\|break\) .* own$' own.raw.dump
}

# What jemalloc has mapped before the recording begins is the heap's, as objects are in it; other
# memory without a name is known to have been there.
found_before() {
    rm -f found.raw
    env TCMALLOC_TRACE_OUTPUT=found.raw LD_PRELOAD="$lib/libmalloctape.so:$jemalloc" \
        "$workloads/many" 200000 2>err && exits 0 dump found.raw &&
        prints ' mapping found thread 0 at 0x' && prints ' area .* heap' &&
        exits 0 report --json=found.json found.raw &&
        json found.json "j['rss']['unowned'] == 0"
}

# all_resident LIBRARY - areas together have the RSS of the tick, but for what comes and goes
# meanwhile.
all_resident() {
    record areas.raw "$1" "$workloads/maps" moments 1 3 && ruby -e '
        sum = nil
        sums = []
        $stdin.each_line do |line|
            sum = 0 if line.include?(" residency ")
            sum += $1.to_i if sum && line =~ / area .* resident (\d+)/
            next unless sum && line =~ / tick .* rss (\d+)/
            sums << [sum, $1.to_i / 1024]
            sum = nil
        end
        puts sums.inspect
        exit sums.size > 1 && sums.all? { |all, rss| (all - rss).abs < 500 + rss / 50 }' <areas.raw.dump >out &&
        grep -q ' residency end nanoseconds ' areas.raw.dump
}

# ends LIBRARY MODE [VARIABLE] - the program ends, and what is recorded is in order.
ends() {
    rm -f ends.raw*
    timeout 300 env ${3+"$3"} TCMALLOC_TRACE_OUTPUT=ends.raw LD_PRELOAD="$lib/$1" \
        "$workloads/mapping_hazards" "$2" >out 2>err && prints '^done$' || return 1
    exit_status "$bin/malloctape" verify ends.raw && { [ "$status" = 0 ] || [ "$status" = 3 ]; }
}

# A handler with little stack maps: recording takes less than 700 bytes of it, with stacks, too.
little_stack() {
    ends "$1" little TCMALLOC_TRACE_STACKS=1 && [ "$(sed -n 's/^taken //p' out)" -lt 700 ]
}

# A thread that is held up between the two parts of a record, as on a busy machine, holds up the others
# that map; nothing is lost.
held_up() { ends "$1" held && exits 0 dump ends.raw && ! prints ' mapping lost '; }

# Threads map while one recording ends and the next begins: each has its own calls, and all of them.
again_and_again_once() {
    rm -f reset-*.raw
    timeout 300 env TCMALLOC_TRACE_STACKS=1 TCMALLOC_TRACE_OUTPUT=reset-0.raw \
        LD_PRELOAD="$lib/$1" "$workloads/mapping_hazards" reset >out 2>err || return 1
    for i in 0 1 2 3 4 5 6 7 8 9 10; do
        exits 0 dump "reset-$i.raw" && ! grep -q 'mapping lost' out || return 2
        exits 0 verify "reset-$i.raw" && prints 'none got pages that were mapped' || return 1
    done
}
# A call that a thread is in when its recording ends may be lost, and is counted: one of three runs has none.
again_and_again() {
    local status
    for _ in 1 2 3; do
        status=0
        again_and_again_once "$1" || status=$?
        [ "$status" = 2 ] || return "$status"
    done
    return 1
}

plan 22
for library in $libraries; do
    check "$library: each call, with its stack and its file" each_call "$library"
    check "$library: what is mapped at random moments" holds "$library"
    check "$library: and in a process that was killed" holds "$library" kill
    check "$library: areas have all of RSS" all_resident "$library"
    check "$library: a child of vfork() maps" ends "$library" vfork
    check "$library: a signal handler maps" ends "$library" handler TCMALLOC_TRACE_STACKS=1
    check "$library: a thread is held up within a call" held_up "$library"
    check "$library: maps beyond a limit of bytes" ends "$library" many TCMALLOC_TRACE_MAX_BYTES=60000
done
check 'what is mapped in a program that reserves' holds libmalloctape.so reserves
check 'and in one that maps files' holds libmalloctape.so files
check 'a signal handler with little stack maps' little_stack libmalloctape.so
check 'recordings follow one another' again_and_again libmalloctape.so
check "the allocator's own calls are marked" own_calls
if jemalloc=$(system_library libjemalloc.so.2); then
    check 'memory that was there before' found_before
else
    skip 'memory that was there before' 'no jemalloc'
fi
