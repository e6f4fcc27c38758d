#!/bin/bash
# crowd_test.sh - many threads that live at the same time: each that has made few calls takes little
# memory, those that wait for a slot sleep until there is one, none waits where they begin one after
# the other, and what they count together is counted.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

info() { "$bin/malloctape" info --json=info.json raw.lz4 >/dev/null; }

takes_little() {
    recorded raw.lz4 "$workloads/crowd" 3000 20 && info || return 1
    local bytes
    bytes=$(($(json_value info.json recorder_bytes) / 3000))
    echo "# $1: $bytes bytes of the recorder's a thread"
    [ "$bytes" -gt 0 ] && [ "$bytes" -le 20000 ]
}

# For a slot once, or again if another thread was faster; the allocator's own locks make threads
# sleep, too. When all that waited woke for each slot, it was some hundred times a wait.
sleeps_while_it_waits() {
    recorded raw.lz4 "$workloads/crowd" 2000 "$(size 2000 6666)" && info || return 1
    local sleeps waits
    sleeps=$(sed 's/.*KiB, \(.*\) sleeps/\1/' out)
    waits=$(json_value info.json waits)
    echo "# $1: $sleeps sleeps, waited $waits times for a slot"
    [ "$sleeps" -le $((5 * (2000 + waits))) ]
}

# There are 64 slots at first, and each thread keeps one. The machine may keep the writer from running
# for so long that they are used up.
finds_slots_ahead() {
    local attempt waits
    for attempt in 1 2 3 4 5; do
        recorded raw.lz4 "$workloads/crowd" 150 20 4 0 2000 && info || return 1
        waits=$(json_value info.json waits)
        echo "# $1: attempt $attempt: waited $waits times for a slot"
        [ "$waits" != 0 ] || return 0
    done
    return 1
}

# A thread that has not recorded anything shares a counter with others.
counts_each_ask() {
    recorded raw.lz4 "$workloads/crowd" 8 1 1 200000 && info || return 1
    ruby -rjson -e '
        asked = JSON.parse(File.read("info.json"))["statistics"]["malloc_usable_size"]
        puts "# asked #{asked} times"
        exit asked == 8 * 200_000'
}

plan 10
for name in libtcmalloc_minimal_tracing libmalloctape; do
    tracing_library=$build_dir/lib/$name.so
    check "$name: a thread with few calls takes little memory" takes_little $name
    check "$name: threads that begin one after the other wait for no slot" finds_slots_ahead $name
    check "$name: threads that wait for a slot sleep" sleeps_while_it_waits $name
    check "$name: and nothing is lost" verified raw.lz4 0
    check "$name: each question for the size of an object is counted" counts_each_ask
done
