#!/bin/bash
# pipeline_test.sh - the lines of the README, typed word for word beside the programs, with programs
# of several threads; all stages count the same events.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

# The places that the lines name: ./postprocess and so on, ../lib/libtcmalloc_minimal.so.
mkdir bin
ln -s "$build_dir/lib" lib
for program in postprocess replay malloctape bump-pipes.rb; do
    ln -s "$build_dir/bin/$program" "bin/$program"
done
cd bin

record() {
    ln -sf "$workloads/$1" server
    # shellcheck disable=SC2086 # a list of arguments
    set -- $2
    rm -f raw.lz4 p.lz4
    TCMALLOC_TRACE_OUTPUT=raw.lz4 LD_PRELOAD=../lib/libtcmalloc_minimal_tracing.so ./server "$@" \
        >out 2>err
}

order() { ./postprocess raw.lz4 /dev/stdout 2>err | lz4 >p.lz4 2>>err; }

order_through_large_pipes() {
    ./postprocess raw.lz4 /dev/stdout 2>err | ./bump-pipes.rb lz4 >p2.lz4 2>>err &&
        same_instructions p.lz4 p2.lz4
}

# The same instructions. Not the same bytes: what waits for input writes out what it has.
instructions() { ./malloctape dump "$1" 2>>err | cut -d ' ' -f 2-; }
same_instructions() { [ "$(instructions "$1" | md5sum)" = "$(instructions "$2" | md5sum)" ]; }

# Direct reading is not possible on every file system.
flag=iflag=direct
replay_with_switch() {
    dd if=p.lz4 bs=1M $flag 2>err | ./bump-pipes.rb lz4 -d 2>>err |
        LD_PRELOAD=../lib/libtcmalloc_minimal.so ./replay >out 2>>err
}

replay_without_switch() {
    dd if=p.lz4 bs=1M $flag 2>err | ./bump-pipes.rb lz4 -d 2>>err |
        NO_THREAD_CACHE_SWITCH=1 LD_PRELOAD=../lib/libtcmalloc_minimal.so ./replay >out 2>>err
}

orders_standard_input() {
    ./postprocess - - <raw.lz4 2>err >p3 && same_instructions p.lz4 p3 || return 1
    # Not a file that could be read twice, and without frames.
    lz4 -dc <raw.lz4 | ./postprocess --json stdin.json - /dev/stdout 2>>err >p4 &&
        same_instructions p3 p4
}

# Either is the stream, without any program of ours.
lz4_decodes_raw() {
    lz4 -d -f raw.lz4 raw 2>err >out && [ "$(head -c 8 raw)" = MTAPERAW ] &&
        ./malloctape info --json plain.json raw >out 2>err
}

numbers_agree() {
    ./malloctape info --json info.json raw.lz4 >out 2>err &&
        ./postprocess --json order.json raw.lz4 p5 2>>err &&
        LD_PRELOAD=../lib/libtcmalloc_minimal.so ./replay --json replay.json p5 >out 2>>err &&
        LD_PRELOAD=../lib/libtcmalloc_minimal.so NO_THREAD_CACHE_SWITCH=1 ./replay \
        --json replay-1.json p.lz4 >>out 2>>err &&
        ./replay --json replay-libc.json p.lz4 >>out 2>>err || return 1
    for stage in info plain order stdin replay replay-1 replay-libc; do
        json_counts "$stage.json" >"$stage.counts" || return 1
        if ! cmp -s info.counts "$stage.counts"; then
            diff info.counts "$stage.counts" >err || true
            return 1
        fi
    done
    echo "# $(cut -c 1-160 info.counts)"
    [ "$(json_value info.json events)" -ge "$1" ]
}

is_right() { ./malloctape verify raw.lz4 >out 2>err; }

# pipeline PROGRAM ARGUMENTS EVENTS - EVENTS at least are recorded.
pipeline() {
    check "$1 $2: recorded" record "$1" "$2"
    check "$1 $2: ordered, through pipes" order
    check "$1 $2: ordered, through enlarged pipes" order_through_large_pipes
    check "$1 $2: ordered from standard input" orders_standard_input
    check "$1 $2: replayed with thread caches switched" replay_with_switch
    check "$1 $2: replayed without" replay_without_switch
    check "$1 $2: lz4 -d decodes the raw stream" lz4_decodes_raw
    check "$1 $2: the same events by kind and live objects in every stage" numbers_agree "$3"
    check "$1 $2: verified" is_right
}

plan 37
: >probe
if ! dd if=probe of=/dev/null iflag=direct 2>/dev/null; then flag=; fi
pipeline churn '2 1000 100000 cross' 400000
pipeline pingpong '4 20000' 160000
pipeline pingpong '5 2000 all' 80000
pipeline threads '2000' 200000

different_numbers_are_noticed() {
    sed 's/"live_at_end": *[0-9]*/"live_at_end": 12345/' info.json >other.json
    json_counts other.json >other.counts && ! cmp -s info.counts other.counts
}
check 'counts that differ would be noticed' different_numbers_are_noticed
