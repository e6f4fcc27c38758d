#!/bin/bash
# many_objects_test.sh - objects that live at the same time are limited by memory alone, and
# ordering them takes 32 bytes for each.
#
# MALLOCTAPE_LONG set: more of them than fit into 27 bits, which takes 7 GB of memory and a minute.
# Places with such numbers are in units_test, shadow_test, object_table_test and the simulator in
# any case.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

objects=1000000
if [ -n "${MALLOCTAPE_LONG:-}" ]; then objects=140000000; fi
limit_kib=$((64 * 1024 + objects * 32 / 1024))

is_recorded() {
    recorded raw.lz4 "$workloads/many" "$objects" &&
        "$bin/malloctape" info --json=info.json raw.lz4 >out 2>err &&
        [ "$(json_value info.json events)" -ge $((2 * objects)) ]
}

is_ordered() {
    local peak
    "$build_dir/bench/workloads/usage" usage.json \
        "$bin/postprocess" -q --json=order.json raw.lz4 /dev/null >out 2>err || return 1
    peak=$(($(json_value usage.json peak_rss_bytes) / 1024))
    echo "# postprocess: $((peak / 1024)) MiB, at most $((limit_kib / 1024))"
    [ "$peak" -gt 0 ] && [ "$peak" -le "$limit_kib" ]
}

all_are_freed() { [ "$(json_value order.json live_at_end)" -lt 100 ]; }

plan 3
check "$objects objects that live at the same time are recorded" is_recorded
if [ -n "$sanitized" ]; then
    skip_test 'and ordered within the memory that they may take' 'a sanitizer takes more'
    skip_test 'and the frees are theirs' 'a sanitizer takes more'
else
    check 'and ordered within the memory that they may take' is_ordered
    check 'and the frees are theirs' all_are_freed
fi
