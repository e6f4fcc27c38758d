#!/bin/bash
# cli_outputs_test.sh - what programs write does not destroy what they read, and what could not be
# written leaves nothing behind.
set -euo pipefail

. "$(dirname "$0")/../cli_tap.sh"

samples raw_example >raw
samples instructions_example >p

# spares STATUS FILE PROGRAM... - refused, and the file is as it was.
spares() {
    local wanted=$1 file=$2
    shift 2
    cp "$file" before
    exit_status "$bin/$1" "${@:2}" >out 2>err </dev/null
    [ "$status" = "$wanted" ] && says "$file" && cmp "$file" before
}

report_spares() {
    cp p q && ln -f p linked && spares 2 p malloctape report p --html p &&
        spares 2 p malloctape report p --json p && spares 2 p malloctape report p --json linked &&
        spares 2 q malloctape report p q --json q && spares 2 p malloctape report p --call-sizes p
}
others_spare() {
    ln -sf p link && spares 2 p malloctape compare p --json p &&
        spares 2 p malloctape compare p --html link && spares 2 p malloctape info p --json p &&
        spares 2 p replay p --json=p && spares 2 p replay p --snapshot=p &&
        spares 2 raw postprocess raw raw && spares 2 raw postprocess raw --json raw o.lz4 &&
        spares 2 p malloctape export --to ops p -o p &&
        spares 2 p malloctape export --to ops p -o out.ops --json p &&
        [ ! -e o.lz4 ] && [ ! -e out.ops ]
}

# leaves_nothing FILE STATUS PROGRAM... - with files of at most 512 bytes.
leaves_nothing() {
    local file=$1 wanted=$2
    shift 2
    rm -f "$file"
    exit_status bash -c 'ulimit -f 1; trap "" XFSZ; exec "$@"' bash "$bin/$1" "${@:2}" >out 2>err
    [ "$status" = "$wanted" ] && [ ! -e "$file" ]
}
# Streams of 1 024 bytes and more.
large_stream() {
    [ -s large ] || "$bin/malloctape" record -q -o large ruby -e '1000.times.map { |i| i.to_s * i }'
}
stumps() {
    large_stream && leaves_nothing o.lz4 4 postprocess --quiet large o.lz4 &&
        leaves_nothing o.json 1 malloctape info --json o.json large &&
        leaves_nothing o.json 1 malloctape report --json o.json p &&
        leaves_nothing o.json 1 replay --quiet --json=o.json p &&
        "$bin/postprocess" --quiet large ordered 2>err &&
        leaves_nothing o.latency.csv 1 replay --quiet --sample=1 --csv=o ordered &&
        leaves_nothing o.ops 1 malloctape export --to ops -o o.ops large &&
        leaves_nothing o.sizes 1 malloctape report --call-sizes o.sizes large
}
page_stump() { leaves_nothing o.html 1 malloctape report --html o.html p; }

# What a recording that is damaged has made so far is no instruction stream.
damage_leaves_nothing() {
    large_stream && lz4 -dc large >plain && ruby -e 'text = File.binread("plain")
        text[-600, 4] = "\xff\xff\xff\xff".b
        File.binwrite("damaged", text)' &&
        exit_status "$bin/postprocess" --quiet damaged o.lz4 2>err
    [ "$status" = 1 ] && [ ! -e o.lz4 ]
}

# A pipe, a device and a link stay.
others_stay() {
    large_stream && ln -sf /dev/full full && exit_status "$bin/postprocess" --quiet large full 2>err
    [ "$status" = 4 ] && [ -L full ] || return 1
    exit_status "$bin/malloctape" info --json /dev/full large >out 2>err
    [ "$status" = 1 ] && [ -c /dev/full ] || return 1
    "$bin/postprocess" --quiet large /dev/stdout 2>err | lz4 -dc 2>/dev/null >/dev/null || :
    "$bin/postprocess" --quiet large - 2>err | head -c 8 >out
    [ "$(cat out)" = MTAPEINS ] && [ -e /dev/stdout ]
}

plan 6
check 'report writes over no trace' report_spares
check 'compare, info, replay, postprocess and export neither' others_spare
check 'what cannot be written leaves no file' stumps
if ls /usr/share/javascript/chart.js/* >/dev/null 2>&1 || ls /usr/share/javascript/chart*/* >/dev/null 2>&1; then
    check 'nor a page' page_stump
else
    skip_test 'nor a page' 'Chart.js is not installed'
fi
check 'nor what is damaged' damage_leaves_nothing
check 'pipes, devices and links stay' others_stay
