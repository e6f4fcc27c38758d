#!/bin/bash
# replay_threads_test.sh - engine threads: nothing hangs, every object reaches the thread that ends
# it, and what is carried out is what engine switch carries out. RUNS=N repeats what depends on how
# threads are scheduled.
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

runs=${RUNS:-1}
replay=$build_dir/tests/replay/replay # it checks itself (common/check.h)
make_instructions=$build_dir/tests/tools/make_instructions
stub=$build_dir/tests/tools/pairs_stub.so

# A replay that takes longer hangs. Sanitizers and loaded machines are slow.
patience=600

# replay_under ALLOCATOR JSON ARGS... - ALLOCATOR is a library, or "system".
replay_under() {
    local preload=$1 json=$2
    shift 2
    [ "$preload" != system ] || preload=
    timeout -k 5 $patience env LD_PRELOAD="$preload" "$replay" --json "$json" "$@" \
        >out 2>err </dev/null
}

allocators() {
    echo system
    [ -z "$sanitized" ] || return 0
    [ ! -e "$plain_library" ] || echo "$plain_library"
    { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | sed -n 's/.*=> //p' |
        grep -E '/lib(jemalloc|mimalloc|tcmalloc_minimal)\.so\.[0-9]+$'
}

# counts_agree ALLOCATOR FILE - threads against switch, $runs times.
counts_agree() {
    local run
    for ((run = 0; run < runs; run++)); do
        replay_under "$1" threads.json --engine=threads "$2" || return 1
        cmp -s "$2.counts" <(json_counts threads.json) || return 1
    done
}

recorded_in_order() { # recorded_in_order FILE COMMAND... - an instruction stream
    local file=$1
    shift
    recorded "$file.raw" "$@" && "$bin/postprocess" --quiet "$file.raw" "$file" >out 2>err
}

make_streams() {
    recorded_in_order churn "$workloads/churn" 2 10000 200000 cross &&
        recorded_in_order one "$workloads/churn" 1 1000 20000 &&
        recorded_in_order crowd "$workloads/churn" 64 500 3000 cross &&
        recorded_in_order handoff "$workloads/handoff" 16 2000 log strict &&
        recorded_in_order short "$workloads/threads" 5000 64 &&
        "$make_instructions" lanes 20000 5000 >lanes &&
        "$make_instructions" kinds >kinds &&
        "$make_instructions" pairs 200000 4 >few &&
        "$make_instructions" pairs 300000 40 >pairs
}

count_with_switch() {
    local file
    for file in "${streams[@]}"; do
        replay_under system switch.json --engine=switch "$file" &&
            json_counts switch.json >"$file.counts" ||
            return 1
    done
}

streams=(churn crowd handoff short lanes kinds pairs)
check 'streams' make_streams
check 'replayed by one thread' count_with_switch
check 'crowd has 64 threads and one' eval \
    '"$replay" --json crowd.json crowd >out 2>err; [ "$(json_value crowd.json threads)" -ge 64 ]'
check 'lanes has 5 000 threads at once' eval \
    '"$replay" --json lanes.json lanes >out 2>err; [ "$(json_value lanes.json threads)" -ge 5000 ]'
for allocator in $(allocators); do
    [ "$allocator" = system ] || streams=(churn crowd lanes)
    for file in "${streams[@]}"; do
        check "${allocator##*/}: $file, $runs times: the same counts" counts_agree "$allocator" \
            "$file"
    done
done

# --- the right objects, by the right threads ------------------------------------------------------

stub_says() { tr ' ' '\n' <stub.log | sed -n "s/^$1=//p"; }

replay_with_stub() {
    timeout -k 5 $patience env PAIRS_STUB_LOG=stub.log LD_PRELOAD="$stub" "$replay" \
        --json threads.json --engine=threads "$@" >out 2>err </dev/null
}

every_object_is_the_right_one() {
    local run
    for ((run = 0; run < runs; run++)); do
        replay_with_stub few && [ "$(stub_says wrong)" -eq 0 ] || return 1
        replay_with_stub pairs && [ "$(stub_says wrong)" -eq 0 ] || return 1
    done
}

if [ -z "$sanitized" ]; then
    check 'every object is ended as what it was made' every_object_is_the_right_one
    sed 's/^/# /' stub.log
    # One more is the buffer of the JSON file, at the end.
    check 'each call is made once' [ "$(stub_says calls)" -eq \
        $(($(json_value threads.json events) + 1)) ]
    check 'by as many threads as there were' [ "$(stub_says threads)" -eq "$(json_value \
        threads.json threads)" ]
    check 'never more at once than there were' [ "$(stub_says peak)" -le 40 ]
    check 'no other call while they run' [ "$(stub_says other)" -eq 0 ]
    check 'but one for the stack of each that is there at once' [ "$(stub_says loader)" -le 80 ]
fi

# --- options, failure ----------------------------------------------------------------------------

ends() { # ends STATUS PATTERN ARGS... - engine threads with ARGS, in $runs runs
    local wanted=$1 pattern=$2 run status
    shift 2
    for ((run = 0; run < runs; run++)); do
        exit_status replay_under system threads.json --engine=threads "$@"
        [ "$status" -eq "$wanted" ] || return 1
        [ -z "$pattern" ] || grep -q -- "$pattern" err || return 1
    done
}

: >nothing
# Every tick has its row, those at the end, too: event and time are the same with each engine.
series_agree() {
    local engine
    for engine in switch threads; do
        replay_under system f.json --engine=$engine --csv=$engine handoff || return 1
        ruby -rcsv -e 'puts CSV.read(ARGV[0], headers: true).map { |row|
            row.fields("event", "original_seconds").join(" ") }' $engine.series.csv >$engine.rows
    done
    [ -s switch.rows ] && diff switch.rows threads.rows >out
}
check 'every tick has its row' series_agree

# auto_takes ENGINE FILE - so does engine null say.
auto_takes() {
    replay_under system auto.json --engine=auto "$2" &&
        [ "$(json_value auto.json engine)" = "$1" ] &&
        replay_under system null.json --engine=null "$2" &&
        [ "$(json_value null.json auto_engine)" = "$1" ]
}
check '--engine auto takes threads where several threads make calls' auto_takes threads churn
check '--engine auto takes switch where one thread makes them' auto_takes switch one

check '--limit' ends 0 '' --limit=100000 pairs
check '--limit is kept to' [ "$(json_value threads.json events)" -eq 100000 ]
check '--warmup' ends 0 '' --warmup=100000 pairs
check '--warmup is not measured' [ "$(json_value threads.json measured_events)" -eq \
    $(($(json_value threads.json events) - 100000)) ]
check '--touch and --sample' ends 0 '' --touch=all --sample=1 pairs

sampled() {
    ruby -rjson -e \
        'puts JSON.parse(File.read(ARGV[0])).fetch("latency").fetch("malloc").fetch("sampled")' "$1"
}

malloc_calls() {
    ruby -rjson -e 'puts JSON.parse(File.read(ARGV[0])).fetch("by_kind").fetch("malloc")' "$1"
}

check '--sample=1 times every call' [ "$(sampled threads.json)" -eq "$(malloc_calls threads.json)" ]
check 'addresses are not promised' ends 1 'cannot be verified with this engine' \
    --verify-addresses pairs

"$make_instructions" huge malloc >huge
check 'an allocation that fails is named' ends 1 \
    'instruction 1: malloc of 4611686018427387904 bytes' huge
check 'and what came before is reported' [ "$(json_value threads.json events)" -eq 1 ]
"$make_instructions" hopeless 100 >hopeless
check 'nobody waits for what will not come' ends 1 \
    'instruction [0-9]*: malloc of 4611686018427387904 bytes' hopeless
check 'what the others did is counted' [ "$(json_value threads.json events)" -eq \
    "$(ruby -rjson -e 'puts JSON.parse(File.read(ARGV[0]))["by_kind"].values.sum' threads.json)" ]
if [ -z "$sanitized" ]; then
    check 'exactly' eval 'exit_status replay_with_stub hopeless; [ "$status" -eq 1 ] &&
        [ "$(stub_says calls)" -eq $(($(json_value threads.json events) + 2)) ]'
fi

head -c 300000 pairs >cut
check 'a cut stream' ends 3 'the stream was cut short; what there is has been replayed' cut
check 'with what was replayed' eval '"$replay" -q --json switch.json cut 2>err;
    cmp -s <(json_counts switch.json) <(json_counts threads.json)'
{ head -c 300000 pairs; printf XX; tail -c +300003 pairs; } >damaged
check 'a damaged one' ends 1 'damaged: offset 0x[0-9a-f]*: the checksum does not match' damaged

no_more_threads() { (ulimit -v 600000 && ends 1 'cannot create a thread: ' lanes) }
[ -n "$sanitized" ] || check 'no memory for more threads' no_more_threads

plan $tests_run
