#!/bin/bash
# golden_test.sh - a sample of every version of the formats is still read, by the programs and by
# the decoders in Ruby.
#
# Samples are never made anew. NAME.dump is what `malloctape dump` prints of NAME, but for offsets
# of its own messages; a sample of a raw stream may have a NAME.spool.
set -euo pipefail

. "$(dirname "$0")/../cli_tap.sh"

golden=$source_dir/tests/golden
samples=$(cd "$golden" && ls raw-* instructions-* | grep -v -e '\.dump$' -e '\.spool$')

plan $((3 * $(wc -w <<<"$samples")))

plain() {
    case $1 in
    *.lz4) lz4 -dc "$1" ;;
    *) cat "$1" ;;
    esac
}

# What the programs say about recordings that lack something.
wanted_status() {
    case $1 in
    *-killed | *-lossy) echo 3 ;;
    *) echo 0 ;;
    esac
}

dumped() {
    exit_status "$bin/malloctape" dump "$1" >out 2>err
    case $1 in *-killed) [ "$status" = 3 ] ;; *) [ "$status" = 0 ] ;; esac &&
        cmp "$golden/$1.dump" out
}

# The decoder in Ruby knows no spools: of a process that was killed it prints the beginning.
dumped_by_ruby() {
    plain "$1" >plain_stream
    case $1 in
    *-killed)
        ! reference_dump plain_stream >out 2>err && [ -s out ] &&
            cmp -n "$(wc -c <out)" "$golden/$1.dump" out
        ;;
    *) reference_dump plain_stream >out 2>err && cmp "$golden/$1.dump" out ;;
    esac
}

# Instructions are replayed. Raw streams are ordered, and rightly; one that has everything in it
# could never have been.
used() {
    case $1 in
    instructions-*) "$bin/replay" --engine=null "$1" >out 2>err ;;
    raw-*-everything) "$bin/malloctape" info "$1" >out 2>err ;;
    raw-*)
        exit_status "$bin/postprocess" -q "$1" ordered 2>err
        [ "$status" = "$(wanted_status "$1")" ] || return 1
        exit_status "$bin/malloctape" verify "$1" ordered >out 2>err
        [ "$status" = "$(wanted_status "$1")" ]
        ;;
    esac
}

for name in $samples; do
    cp "$golden/$name" .
    if [ -f "$golden/$name.spool" ]; then cp "$golden/$name.spool" .; fi
    check "$name: dump" dumped "$name"
    check "$name: dump in Ruby" dumped_by_ruby "$name"
    check "$name: used" used "$name"
done
