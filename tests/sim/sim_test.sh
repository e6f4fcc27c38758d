#!/bin/bash
# sim_test.sh - the order oracle in short: simulated programs, spoiled results, failures that are
# made smaller, and the streams of the simulator as the decoders in Ruby see them.
set -euo pipefail

. "$(dirname "$0")/../cli_tap.sh"

plan 14

simulate=$build_dir/tests/sim/simulate
programs=$(size 12 500)
# Programs on opaque allocators take longer. All mistakes of the recorder show in 1 500 calls (below).
opaque_events=$(size 6000 20000)

# The program that checks itself (common/check.h).
run_simulate() { "$simulate" --postprocess="$build_dir/tests/sim/postprocess" "$@" >out 2>err; }

programs_are_right() { run_simulate --seeds=1-"$programs" events=20000; }
opaque_programs_are_right()
{
    run_simulate --seeds=1-"$programs" events="$opaque_events" opaque=1 sequences=1 reallocs=5
}
splitting_programs_are_right()
{
    run_simulate --seeds=1-"$programs" events="$opaque_events" opaque=1 sequences=1 split=1 reallocs=5
}
# It comes after the end of its object. An older one of the same lane seems to live at the place,
# because a pause hid its end.
late_failures_name_nobody() {
    run_simulate --seeds=1-3 pauses=100 failures=2 share=80 own=5 queue=0 mail=0
}
# Lanes wait for each other in a circle, and a pause hid the end of what was at the place of the
# realloc that has to go.
hidden='failures=2 share=80 queue=0 mail=0 own=5 pauses=100 end=0 opaque=1 events=20000'
circles_are_broken()
{
    # shellcheck disable=SC2086 # words
    run_simulate --seeds="115-$((114 + $(size 2 300)))" $hidden
}
verify_agrees()
{
    for seed in 108 115; do
        # shellcheck disable=SC2086 # words
        run_simulate --write --directory=. seed=$seed $hidden
        "$bin/postprocess" raw ordered 2>err
        "$bin/malloctape" verify raw ordered >out 2>err || return 1
    done
}
# Without the rule on the bytes of others, objects overlap, and verify says so.
overlaps_are_found()
{
    local words='seed=6 events=20000 opaque=1 sequences=1 split=1 reallocs=5 share=60 unknown=0 pauses=0 losses=0'
    # shellcheck disable=SC2086 # words
    run_simulate --write --directory=. $words end=0
    "$bin/malloctape" verify raw >out 2>err || return 1
    # shellcheck disable=SC2086 # words
    run_simulate --write --directory=. $words end=0 fault=14
    exit_status "$bin/malloctape" verify raw >out 2>err
    [ "$status" = 1 ] && grep -q '^rule 2  violated .* has not ended' out
}
long_program_is_right() { run_simulate seed=2024 threads=64 events=200000 end=0; }
same_seed_same_bytes() {
    mkdir -p first second
    for seed in 3 9; do
        run_simulate --write --directory=first seed=$seed events=3000 end=3
        run_simulate --write --directory=second seed=$seed events=3000 end=3
        cmp first/raw second/raw && cmp first/raw.spool second/raw.spool || return 1
    done
}
spoiled_results_are_found() {
    run_simulate --mutant=all --quiet --seeds=1-8 events="$(size 1500 3000)"
    grep -qx 'mutants: \([0-9]*\), found: \1' out && ! grep 'found in 0 programs' out
}
opaque_results_are_found()
{
    run_simulate --mutant=all --quiet --seeds="1-$(size 2 8)" events="$(size 2000 3000)" opaque=1 sequences=1 split=1 reallocs=5
    grep -qx 'mutants: \([0-9]*\), found: \1' out
}

# A program under test that is always wrong: what is reported, and how small it gets.
failure_is_reported() {
    ! run_simulate --postprocess=/bin/false seed=5 events=4000 && grep -q '^seed 5 fails' out
}
failure_is_made_smaller() { grep -q '^repeat with: .* seed=5 events=1 threads=1 ' out; }

# What malloctape prints of a simulated stream is what the decoder in Ruby prints.
dumps_agree() {
    for seed in 1 4 6 7 '2 opaque=1' '3 opaque=1 addresses=1'; do
        # shellcheck disable=SC2086 # words
        run_simulate --write --directory=. seed=$seed events=1500 frames=0
        reference_dump raw >expected 2>err || true
        "$bin/malloctape" dump raw >dumped 2>err || true
        cmp expected dumped || { echo "# seed $seed"; return 1; }
    done
}

check "$programs programs of 2 to 64 threads are ordered as they must be" programs_are_right
check "$programs programs on an opaque allocator" opaque_programs_are_right
check "$programs programs on one that splits and merges" splitting_programs_are_right
check 'verify finds objects that overlap' overlaps_are_found
check 'a realloc that failed and comes late' late_failures_name_nobody
check 'calls that wait for each other, where pauses hide ends' circles_are_broken
check 'and verify finds them in order' verify_agrees
check '64 threads' long_program_is_right
check 'the same seed writes the same bytes' same_seed_same_bytes
check 'results that were spoiled are found out' spoiled_results_are_found
check 'those of an opaque allocator, too' opaque_results_are_found
check 'a failure is reported' failure_is_reported
check 'a failure is made smaller' failure_is_made_smaller
check 'dumps are those of the decoder in Ruby' dumps_agree
