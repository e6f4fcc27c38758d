#!/bin/bash
# What replay's options, messages and exit statuses are. Prints TAP.
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

replay=$bin/replay
make_instructions=$build_dir/tests/tools/make_instructions
stub=$build_dir/tests/tools/cache_stub.so
failing=$build_dir/tests/tools/failing_stub.so
tcmalloc=$plain_library
unset NO_THREAD_CACHE_SWITCH

# UBSan's runtime brings the C++ library: then its functions are there, and take their memory from
# malloc.
with_cxx=
if ldd "$replay" | grep -q libstdc++; then
    with_cxx="the sanitizer's runtime brings the C++ library"
fi

run() { # run ARGS... - replay; leaves status, out, err
    "$replay" "$@" >out 2>err </dev/null
    status=$?
}

ended() { # ended STATUS [PATTERN in stderr]
    [ "$status" -eq "$1" ] && { [ $# -eq 1 ] || grep -q -- "$2" "$scratch/err"; }
}

value() { # value KEY - of the last JSON report, top level
    sed -n "s/^  \"$1\": \(.*[^,]\),\{0,1\}\$/\1/p" "$scratch/json"
}

has() { # has KEY VALUE
    [ "$(value "$1")" = "$2" ]
}

has_every_key() {
    for key in status recording limited program engine allocator allocator_path \
        thin thread_cache_switching thread_caches touch heap_calls clock speed limit warmup \
        release_every program_has uncleared_objects free_at_end break_from break_to \
        releases release_means release_seconds freed_at_end \
        sample_every sample_offset \
        events by_kind substituted measured_events events_per_second wall_seconds elapsed_seconds \
        user_seconds system_seconds reading_seconds minor_faults major_faults \
        own_cost_ns_per_event latency latency_clock latency_ns_per_tick latency_overhead_ns \
        latency_resolution_ns thread_switches threads ticks lost_events freed_twice realigned untouched_bytes \
        unknown_frees warnings live_at_end \
        peak_live_bytes peak_rss_bytes base_rss_bytes base_net_rss_bytes own_rss_bytes peak_net_rss_bytes \
        mean_net_rss_bytes end_net_rss_bytes end_live_bytes not_given_back_bytes looks \
        fragmentation_at_peak_rss fragmentation_most most_not_live_bytes \
        reallocs reallocs_moved busy_threads peak_heap_bytes heap_source rss_per_live \
        fragmentation original_peak_rss_bytes original_peak_heap_bytes original_seconds \
        original_recorder_bytes original_peak_net_rss_bytes original_mean_net_rss_bytes \
        original_end_net_rss_bytes original_user_seconds original_system_seconds \
        address_match addresses_checked addresses_matched address_mismatches; do
        grep -q "^  \"$key\": ." "$scratch/json" || { echo "# no $key"; return 1; }
    done
}

both() { # both PATTERN PATTERN - in the standard output
    grep -q -- "$1" "$scratch/out" && grep -q -- "$2" "$scratch/out"
}

logged() { # logged NAME - a number that the stub counted
    tr ' ' '\n' <"$scratch/log" | sed -n "s/^$1=//p"
}

"$make_instructions" kinds >"$scratch/kinds"
"$make_instructions" alignments >"$scratch/alignments"
"$make_instructions" churn 100000 1000 >"$scratch/churn"
"$make_instructions" lanes 100000 5 >"$scratch/lanes"
"$make_instructions" huge malloc >"$scratch/huge"
"$make_instructions" idle 1000 >"$scratch/idle"
"$make_instructions" lull 1000 >"$scratch/lull"
lz4 -q -f "$scratch/churn" "$scratch/churn.lz4"

# --- options ---
run --help
check "--help names the engines" both 'switch .*default' 'null  '
check "--help succeeds" ended 0
run --version
check "--version" both '^replay (malloctape) [0-9]' .
run --no-such-option
check "an unknown option is a usage error" ended 2 'see replay --help'
run --engine=none
check "an unknown engine is named" ended 2 "there is no engine 'none'"
run --engine=auto </dev/null
check "--engine auto reads twice" ended 2 'reads the stream twice, so it needs a file'
run a b
check "two files are a usage error" ended 2 'more than one file'
run "$scratch/missing"
check "a missing file is named" ended 1 "$scratch/missing: cannot open: No such file"

for wrong in --speed=0 --speed=fast --warmup=x --sample=-1 --touch=some \
    --limit=-1 --limit=; do
    run "$wrong"
    check "$wrong is a usage error" ended 2 'see replay --help'
done

# --- input ---
run --json="$scratch/json" "$scratch/churn"
check "a file" ended 0
check "all calls" has events 100000
check "live objects at the end" has live_at_end 1000
check "the table says the same" both '^events  *100000$' '^live at end  *1000$'
check "every key is there" has_every_key
run --json="$scratch/json" "$scratch/churn.lz4"
check "an lz4 file" has events 100000
cat "$scratch/churn.lz4" "$scratch/churn.lz4" >"$scratch/twice.lz4"
run "$scratch/twice.lz4"
check "a second stream behind the first is refused" ended 1 'something follows the end block'
"$replay" -q --json="$scratch/json" <"$scratch/churn" >"$scratch/out" 2>"$scratch/err"
status=$?
check "the standard input" has events 100000
check "--quiet prints no table" [ ! -s "$scratch/out" ]
lz4 -d -c "$scratch/churn.lz4" |
    "$replay" -q --json="$scratch/json" - >"$scratch/out" 2>"$scratch/err"
check "a pipe, named -" has events 100000
cat "$scratch/churn.lz4" | "$replay" --json=- >"$scratch/json" 2>"$scratch/err"
check "lz4 through a pipe, JSON on the standard output" has events 100000
from_pipe_without_allocator() {
    "$@" | "$replay" -q --engine=null --json="$scratch/json" >"$scratch/out" 2>"$scratch/err"
    has events 100000
}
check "a pipe, without an allocator" from_pipe_without_allocator lz4 -d -c "$scratch/churn.lz4"
check "lz4 through a pipe, without an allocator" from_pipe_without_allocator cat \
    "$scratch/churn.lz4"
check "--json=- prints nothing else" [ "$(head -n 1 "$scratch/json")" = "{" ]
run --json=/no/such/directory/x "$scratch/churn"
check "JSON that cannot be written" ended 1 \
    'replay: /no/such/directory/x: cannot open for writing: No such file'

# --- engines ---
run --json="$scratch/json" "$scratch/kinds"
check "every kind of call" ended 0
check "every kind of call is counted" has events 90
check "an object that was freed twice is reported" both \
    '^freed twice  *1 (left out of the replay)$' .
check "also in the JSON" has freed_twice 1
if [ -z "$sanitized" ]; then
    text='kinds that the C library lacks are substituted'
    if [ -n "$with_cxx" ]; then
        skip_test "$text" "$with_cxx"
    else
        check "$text" both 'new_array_aligned .*(substituted)' 'release_memory .*(not carried out)'
    fi
    check "kinds that it has are not" eval \
        '! grep -q "\(malloc \|memalign\|pvalloc\) .*substituted" "$scratch/out"'
    check "switching is not claimed" has thread_cache_switching false
    check "and its absence is said" ended 0 'thread caches are not switched: glibc has no'
fi
cp "$scratch/json" "$scratch/json.switch"
run --engine=null --json="$scratch/json" "$scratch/kinds"
check "engine null" has engine '"null"'
check "engine null needs no allocator" has allocator '"none"'
by_kind() { sed -n '/"by_kind"/,/}/p' "$1"; }
check "engine null counts the same" [ "$(by_kind "$scratch/json")" = "$(by_kind \
    "$scratch/json.switch")" ]

# --- thread caches ---
if [ -z "$sanitized" ]; then
    CACHE_STUB_LOG=$scratch/log LD_PRELOAD=$stub "$replay" --json="$scratch/json" "$scratch/lanes" \
        >"$scratch/out" 2>"$scratch/err"
    status=$?
    cp "$scratch/json" "$scratch/json.stub"
    check "thread caches are switched where that is possible" has thread_cache_switching true
    check "nothing to say then" [ ! -s "$scratch/err" ]
    check "the allocator is called for the stream only" [ "$(logged calls)" -eq "$(value events)" ]
    lz4 -q -f "$scratch/lanes" "$scratch/lanes.lz4"
    CACHE_STUB_LOG=$scratch/log LD_PRELOAD=$stub "$replay" -q "$scratch/lanes.lz4" \
        >"$scratch/out" 2>"$scratch/err"
    check "also when the stream is lz4" [ "$(logged calls)" -eq "$(value events)" ]
    threads=$(value threads)
    check "a cache for each thread that allocated, none of another" \
        [ "$(logged made)" -le "$threads" ]
    check "caches of dead threads are destroyed" [ $(($(logged made) - $(logged destroyed))) -le 5 ]
    check "switches" [ "$(logged sets)" -ge "$(value thread_switches)" ]
    NO_THREAD_CACHE_SWITCH=1 CACHE_STUB_LOG=$scratch/log LD_PRELOAD=$stub "$replay" \
        --json="$scratch/json" "$scratch/lanes" >"$scratch/out" 2>"$scratch/err"
    status=$?
    check "NO_THREAD_CACHE_SWITCH" has thread_cache_switching false
    check "NO_THREAD_CACHE_SWITCH is said" ended 0 'NO_THREAD_CACHE_SWITCH is set'
    check "NO_THREAD_CACHE_SWITCH is obeyed" [ "$(logged sets)" -eq 0 ]
    check "the same calls" [ "$(by_kind "$scratch/json")" = "$(by_kind "$scratch/json.stub")" ]
    NO_THREAD_CACHE_SWITCH= CACHE_STUB_LOG=$scratch/log LD_PRELOAD=$stub "$replay" \
        --json="$scratch/json" "$scratch/lanes" >"$scratch/out" 2>"$scratch/err"
    check "NO_THREAD_CACHE_SWITCH, empty, is not set" has thread_cache_switching true
fi

# --- other allocators ---
run_with() { # run_with LIBRARY ARGS...
    library=$1
    shift
    LD_PRELOAD=$library "$replay" --json="$scratch/json" "$@" \
        >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
}

if [ -z "$sanitized" ] && [ -f "$tcmalloc" ]; then
    for stream in kinds lanes; do
        run_with "$tcmalloc" "$scratch/$stream"
        check "our tcmalloc, $stream" ended 0
        check "our tcmalloc, $stream: thread caches are switched" has thread_cache_switching true
    done
    check "our tcmalloc is named" eval 'value allocator | grep -q "^\"tcmalloc (gperftools "'
    run_with "$tcmalloc" "$scratch/kinds"
    check "calls on the whole heap wait for --heap-calls" both \
        'release_memory .*(not carried out)' 'set_property .*(not carried out)'
    run_with "$tcmalloc" --heap-calls "$scratch/kinds"
    check "--heap-calls" eval '! grep -q "not carried out" "$scratch/out"'
    check "our tcmalloc needs few substitutes" [ "$(grep -c 'substituted)' "$scratch/out")" -le 3 ]
fi
installed=$( (ldconfig -p || /sbin/ldconfig -p) 2>/dev/null | sed -n 's/.*=> //p' |
    grep -E '/lib(jemalloc|mimalloc|tcmalloc_minimal)\.so\.[0-9]+$')
[ -z "$sanitized" ] || tcmalloc='' installed=''
for library in $tcmalloc $installed; do
    [ -f "$library" ] || continue
    file=${library##*/}
    run_with "$library" "$scratch/kinds"
    check "$file: every kind of call" ended 0
    check "$file: the same counts" [ "$(by_kind "$scratch/json")" = "$(by_kind \
        "$scratch/json.switch")" ]
    run_with "$library" "$scratch/lanes"
    check "$file: lanes" ended 0
    switched=false
    [ "$library" != "$tcmalloc" ] || switched=true
    check "$file: thread caches are switched: $switched" has thread_cache_switching $switched
    # Each alignment occurs twice; one of six is refused by all, four more by those who want powers
    # of two.
    case $file in libtcmalloc*) realigned=2 ;; *) realigned=10 ;; esac
    for engine in switch threads; do
        run_with "$library" --engine=$engine "$scratch/alignments"
        check "$file: alignments that tcmalloc takes, $engine" ended 0
        check "$file: those that were refused are counted, $engine" has realigned $realigned
    done
    for kind in malloc calloc new_nothrow realloc_null pvalloc new new_array_aligned; do
        case $with_cxx,$file,$kind in
        ?*,libmimalloc*,new | ?*,libmimalloc*,new_array_aligned)
            skip_test "$file: a $kind that fails" "$with_cxx"
            continue
            ;;
        esac
        "$make_instructions" huge "$kind" >"$scratch/huge.$kind"
        run_with "$library" "$scratch/huge.$kind"
        check "$file: a $kind that fails" ended 1 "instruction 1: $kind of 46"
    done
done

# The C++ library ends the program for such an alignment, when it is asked.
if [ -z "$sanitized" ]; then
    "$make_instructions" huge new_aligned 24 >"$scratch/aligned"
    run_with libstdc++.so.6 "$scratch/aligned"
    check "an alignment that cannot be" ended 1 "instruction 1: new_aligned of 46"
fi

# --- policies ---
for touch in none line pages all; do
    run --touch=$touch --json="$scratch/json" "$scratch/kinds"
    check "--touch=$touch" has touch "\"$touch\""
    check "--touch=$touch: every call" has events 90
done
for limit in 0 1 20000 99999; do
    run --limit=$limit --json="$scratch/json" "$scratch/churn"
    check "--limit=$limit" has events $limit
    check "--limit=$limit is success" ended 0
    check "--limit=$limit says so" has limited true
done
run --limit=100000 --json="$scratch/json" "$scratch/churn"
check "--limit as long as the stream" has live_at_end 1000


above() { # above KEY NUMBER - of the last JSON report
    awk -v value="$(value "$1")" -v least="$2" 'BEGIN { exit !(value > least) }'
}
# Times as long as the original, never less; and not much more, where "much" leaves a busy machine
# its time.
takes() { # takes FACTOR SPEED
    run --speed="$2" --json="$scratch/json" "$scratch/lanes"
    least=$(awk -v value="$(value original_seconds)" -v factor="$1" \
        'BEGIN { print value * factor }')
    above elapsed_seconds "$least" &&
        ! above elapsed_seconds "$(awk -v least="$least" 'BEGIN { print least + 100 }')"
}

run --warmup=90000 --json="$scratch/json" "$scratch/churn"
check "--warmup: all is carried out" has events 100000
check "--warmup: the rest is measured" has measured_events 10000
run --warmup=100000 --json="$scratch/json" "$scratch/churn"
check "--warmup as long as the stream" has measured_events 0
run --warmup=200000 --json="$scratch/json" "$scratch/churn"
check "--warmup longer than the stream" has measured_events 0

run --json="$scratch/json" "$scratch/lanes"
check "the original's time" above original_seconds 0.1
check "--speed=0.5 takes twice as long" takes 2 0.5
check "--speed=4 takes a quarter" takes 0.25 4

# --- numbers ---
run --sample=1 --json="$scratch/json" --csv="$scratch/csv" "$scratch/churn"

sampled() {
    sed -n '/"latency": {/,/^  }/s/.*"sampled": \([0-9]*\),.*/\1/p' "$scratch/json" |
        awk '{ n += $1 } END { print n }'
}

check "--sample=1 times every call" [ "$(sampled)" -eq 100000 ]
check "the histogram has every sample" [ "$(awk -F, 'NR > 1 { n += $4 } END { print n }' \
    "$scratch/csv.latency.csv")" -eq 100000 ]
run --sample=100 --json="$scratch/json" "$scratch/churn"
check "--sample=100 times a hundredth" eval '[ "$(sampled)" -ge 900 ] && [ "$(sampled)" -le 1100 ]'
buckets() { sed -n '/"latency": {/,/^  }/p' "$scratch/json"; }
offset() { # offset N - what is sampled
    run --sample=100 --sample-offset="$1" --json="$scratch/json" "$scratch/churn"
    sampled
}
check "--sample-offset: other calls" [ "$(offset 1)" -ne "$(offset 2)" ]
check "the same offset: the same calls" [ "$(offset 2)" -eq "$(offset 2)" ]
check "no percentile with fewer than 30 samples above it" eval \
    'buckets | grep -q "\"p90\": [0-9]" && buckets | grep -q "\"p999\": null"'
check "no longest call when not all are timed" eval 'buckets | grep -q "\"max\": null"'
run --sample=1 --json="$scratch/json" "$scratch/churn"
check "all of it when all calls are timed" eval '! buckets | grep -q null'
run --sample=0 --json="$scratch/json" "$scratch/churn"
check "--sample=0 times none" [ "$(grep -c sampled "$scratch/json")" -eq 0 ]
run --json="$scratch/json" --series --csv="$scratch/csv" "$scratch/lanes"
check "a row for each tick, one at the end, and names" \
    [ "$(wc -l <"$scratch/csv.series.csv")" -eq $(($(value ticks) + 2)) ]
check "rows ascend and end with the last call" eval \
    '[ "$(tail -n 1 "$scratch/csv.series.csv" | cut -d, -f1)" -eq "$(value events)" ] &&
    tail -n +2 "$scratch/csv.series.csv" | sort -c -t, -n -k1,1'
check "the largest live size of a row is the peak or less" eval \
    '[ "$(cut -d, -f4 "$scratch/csv.series.csv" | tail -n +2 | sort -n | tail -n 1)" -le \
        "$(value peak_live_bytes)" ]'
check "the original's memory" eval \
    'has original_peak_rss_bytes 18874368 && has original_recorder_bytes 1048576 &&
    has original_peak_net_rss_bytes 17825792 && has original_mean_net_rss_bytes 15728640 &&
    has original_end_net_rss_bytes 15728640'
check "the original's memory in each row" \
    [ "$(cut -d, -f11 "$scratch/csv.series.csv" | sort -u | tr '\n' ' ')" = \
    "15728640 original_net_rss_bytes " ]
check "the original's processor time: 5 and 2 ms a tick" \
    awk -v user="$(value original_user_seconds)" -v kernel="$(value original_system_seconds)" \
    -v ticks="$(value ticks)" 'BEGIN { exit int(user * 200 + .5) != ticks ||
        int(kernel * 500 + .5) != ticks || !ticks }'
check "the same in the report" ruby -rjson -rcsv -e '
    columns = { "original_seconds" => "seconds", "event" => "events" }
    series = JSON.parse(File.read(ARGV[0]))["series"]
    rows = CSV.read(ARGV[1], headers: true)
    same = rows.headers.filter_map do |name|
        list = series[columns[name] || name] or next
        list.size == rows.size && list == rows[name].map { |one| one && JSON.parse(one) }
    end
    exit same == [true] * 10 && series.size == 10 && series["vm_size_bytes"].last >
        series["net_rss_bytes"].last' "$scratch/json" "$scratch/csv.series.csv"
check "the original's heap" has original_peak_heap_bytes 8388608
run --csv=/no/such/directory/x "$scratch/churn"
check "CSV that cannot be written" ended 1 'cannot write /no/such/directory/x.series.csv'
[ -n "$sanitized" ] || check "the heap of the C library" above peak_heap_bytes 100000
run --engine=null --json="$scratch/json" "$scratch/churn"
check "engine null has no heap" has peak_heap_bytes null
check "engine null's own cost is its cost" above own_cost_ns_per_event 0

# --- memory ---
below() { # below KEY NUMBER
    ! above "$1" "$2"
}
run --engine=null --json="$scratch/json" "$scratch/churn"
if [ -z "$sanitized" ]; then
    check "the replay's own memory is shown" above own_rss_bytes 1000000
    check "and in no net value" below end_net_rss_bytes 500000
    # What is read takes more and more of the shared memory, at a time of its own.
    "$make_instructions" churn 2000000 1000 >"$scratch/long"
    peaks_are_small() {
        for _ in 1 2 3 4 5 6 7 8; do
            run --engine=null --json="$scratch/json" "$scratch/long"
            below peak_net_rss_bytes 400000 || return 1
        done
    }
    check "nor in their peak" peaks_are_small
    rm "$scratch/long"
fi
check "without ticks there is no mean" has mean_net_rss_bytes null
run --touch=all --json="$scratch/json" "$scratch/lanes"
cp "$scratch/json" "$scratch/json.all"
check "a mean over the original's time" eval \
    'above mean_net_rss_bytes 0 && below mean_net_rss_bytes "$(value peak_net_rss_bytes)"'
check "memory was looked at" above looks 2
check "at the end it is what is live and what is not given back" [ \
    $(($(value end_net_rss_bytes) - $(value end_live_bytes))) -eq "$(value not_given_back_bytes)" ]
check "the most that was not live is no more than the peak" below most_not_live_bytes \
    "$(value peak_net_rss_bytes)"
run --touch=none --json="$scratch/json" "$scratch/idle"
# A sanitizer keeps what is freed.
[ -n "$sanitized" ] || check "RSS below live bytes is not printed without a word" both \
    '^peak RSS .* 0\.[0-9]* times' \
    '^warning  *peak RSS is less .*: pages that nobody wrote to'
if [ -z "$sanitized" ] && [ -z "$with_cxx" ]; then
    net() { # net LIBRARY
        LD_PRELOAD=$1 "$replay" -q --json="$scratch/json" "$scratch/churn" 2>"$scratch/err"
        value end_net_rss_bytes
    }
    check "a library that comes with the allocator is not the replay's own" \
        [ $(($(net libstdc++.so.6) - $(net ''))) -gt 500000 ]
fi

# --- giving memory back, freeing ---
warns() { # warns KEY - in the last JSON report
    sed -n '/"warnings": \[/,$p' "$scratch/json" | grep -q "\"key\": \"$1\""
}
jemalloc=$(echo "$installed" | grep jemalloc)
gives_back() { # gives_back LIBRARY ENGINE - less than without it; some allocators only now and then
    run_with "$1" --engine="$2" "$scratch/idle"
    local before
    before=$(value end_net_rss_bytes)
    run_with "$1" --engine="$2" --release-every=1s "$scratch/idle"
    has releases 5 && below end_net_rss_bytes $((before / 2)) && both 'given back *5 times by' . &&
        run_with "$1" --engine="$2" --release-every=1000events "$scratch/idle" &&
        has releases 41 && below end_net_rss_bytes $((before / 2))
}
for wrong in --thp=often --release-every=0 --release-every=-1s --release-every=s --release-every=1m \
    --report=short; do
    run "$wrong" "$scratch/idle"
    check "$wrong is a usage error" ended 2 'see replay --help'
done
for engine in switch threads; do
    [ -n "$sanitized" ] || check "$engine: glibc gives memory back" gives_back '' $engine
    for library in $tcmalloc $jemalloc; do
        check "$engine: ${library##*/} gives memory back" gives_back "$library" $engine
    done
    run --engine=$engine --free-at-end --json="$scratch/json" "$scratch/idle"
    check "$engine: what is alive at the end is freed" has freed_at_end 63
    check "$engine: when it has been counted" has live_at_end 63
done
base_with() { # base_with WORDS... - of a replay on tcmalloc, which needs the C++ library, in bytes
    LD_PRELOAD=$tcmalloc "$replay" "$@" --quiet --json="$scratch/json" "$scratch/kinds" &&
        base=$(value base_net_rss_bytes)
}
the_programs_own_are_not_counted() {
    local all
    base_with && has program_has null && all=$base &&
        base_with --program-has=libother.so.1,libstdc++.so.6 && [ "$base" -lt $((all - 500000)) ] &&
        has program_has '"libother.so.1,libstdc++.so.6"' &&
        base_with --program-has=libstdc++.so && [ "$base" -gt $((all - 100000)) ]
}
[ -n "$sanitized" ] ||
    check "libraries of the program are not the allocator's" the_programs_own_are_not_counted
REPLAY_RELEASE_EVERY=2s run --json="$scratch/json" "$scratch/idle"
check "a setting of compare" has release_every '"2s"'
if [ -z "$sanitized" ]; then
    CACHE_STUB_LOG=$scratch/log LD_PRELOAD=$stub "$replay" --release-every=1 --free-at-end \
        --json="$scratch/json" "$scratch/lanes" >"$scratch/out" 2>"$scratch/err"
    check "an allocator that cannot is named" warns no_release
    check "each live object is freed once" [ "$(logged calls)" -eq \
        $(($(value events) + $(value live_at_end))) ]
fi

# --- the report of trace_run ---
trace_run_lines() { # in the order by which scripts read them
    local n='[0-9][0-9,]*' at=0 line
    local lines=("$n cycles" "$n usec wall time" "$n usec across 1 thread" \
        "$n Kb Max RSS ($n -> $n)" "$n Kb Max Ideal RSS" '' 'sizeof ticks_t is 8' \
        "Avg malloc time: *$n in 51,000 calls" "Avg calloc time: *0 in 0 calls" \
        "Avg realloc time: *0 in 0 calls" "Avg free time: *$n in 50,000 calls" \
        "Total call time: $n cycles")
    while IFS= read -r line; do
        echo "$line" | grep -q -x -- "${lines[at]}" || { echo "# $line"; return 1; }
        at=$((at + 1))
    done <"$scratch/out"
    [ $at -eq ${#lines[@]} ]
}
"$make_instructions" churn 101000 1000 >"$scratch/churn.odd"
run --report=trace_run --json="$scratch/json" "$scratch/churn.odd"
check "--report=trace_run has its lines" trace_run_lines
check "and times every call" has sample_every 1

# --- warnings ---
run --json="$scratch/json" "$scratch/kinds"
check "unknown frees are counted" has unknown_frees 5
check "and warned of" warns unknown_frees
check "also in the table" both '^warning  *5 frees and reallocs of objects' .
check "few calls are warned of" warns few_events
check "and lost ones" warns lost_events
run --touch=none --json="$scratch/json" "$scratch/idle"
[ -n "$sanitized" ] || check "RSS below live bytes is warned of" warns rss_below_live
MALLOC_ARENA_MAX=1 run --engine=switch --json="$scratch/json" "$scratch/lanes"
check "a setting that one thread cannot show" \
    both '^warning  *MALLOC_ARENA_MAX only has an effect with several threads' .
MALLOC_ARENA_MAX=1 run --engine=threads --json="$scratch/json" "$scratch/lanes"
check "but threads can" eval '! warns setting_not_shown'
MALLOC_CONF=dirty_decay_ms:0 run --json="$scratch/json" "$scratch/churn"
check "a setting that is about time" warns setting_not_shown
MALLOC_CONF=dirty_decay_ms:0 run --clock=original --json="$scratch/json" "$scratch/churn"
check "no other warning" eval '! warns .'

# Objects of 0 bytes with an alignment, which an operator delete is told: jemalloc 5.3.0 would put
# them into a wrong cache, and return objects that overlap, or crash.
if [ -n "$jemalloc" ] && [ -z "$sanitized" ]; then
    "$make_instructions" empty 200000 >"$scratch/empty"
    for engine in switch threads; do
        run_with "$jemalloc" --engine=$engine "$scratch/empty"
        check "$engine: jemalloc's objects stay apart although some are empty" ended 0
    done
    case $(value allocator) in
    *5.3.0*) check "what the program would meet is told" warns empty_frees ;;
    esac
    run_with "$jemalloc" "$scratch/churn"
    check "but not of one that has no such objects" eval '! warns empty_frees'
fi

# --- realloc ---
"$make_instructions" pairs 100000 3 >"$scratch/pairs"
for engine in switch threads; do
    run --engine=$engine --json="$scratch/json" "$scratch/pairs"
    check "$engine: reallocs are counted" [ "$(value reallocs)" -gt 10 ]
    check "$engine: and those that moved their object" \
        [ "$(value reallocs_moved)" -gt 0 -a "$(value reallocs_moved)" -le "$(value reallocs)" ]
done

# --- what malloc promises ---
breaks() { # breaks HOW PATTERN ARGS... - the allocator is blamed, with the first call that went wrong
    local how=$1 pattern=$2
    shift 2
    export FAILING_STUB=$how
    run_with "$failing" "$@" "$scratch/churn"
    unset FAILING_STUB
    ended 1 "the allocator is at fault: it broke what malloc promises: instruction [0-9]*: malloc of \
[0-9]* bytes returned 0x[0-9a-f]*, $pattern"
}
if [ -z "$sanitized" ]; then
    for engine in switch threads; do
        check "$engine: objects that overlap are the allocator's fault" \
            breaks overlap 'where a live object is: 0x[0-9a-f]*, [0-9]* bytes' --engine=$engine
        check "$engine: with --check, the first one" \
            breaks overlap 'where a live object is: 0x[0-9a-f]*, [0-9]* bytes' --engine=$engine --check
        check "$engine: so is an alignment" \
            breaks shift 'which is not aligned to 16' --engine=$engine
    done
    FAILING_STUB=overlap LD_PRELOAD=$failing run -q --touch=none "$scratch/churn"
    check "where nothing is written to objects, nothing is checked" ended 0
    for library in '' $tcmalloc $installed; do
        for engine in switch threads; do
            run_with "$library" --engine=$engine --check "$scratch/pairs"
            check "$engine: ${library##*/} keeps its promises" ended 0
        done
        run_with "$library" --check "$scratch/kinds"
        check "${library##*/} keeps them for every kind of call" ended 0
    done
fi

# --- the original's time ---
run --clock=fast "$scratch/idle"
check "a clock that is none" ended 2 "'fast' is not one of: real, original, cpu"
if [ -n "$jemalloc" ] && [ -z "$sanitized" ]; then
    # 40 MB are freed within the first second of 500, and given back 50 seconds later.
    export MALLOC_CONF=dirty_decay_ms:50000,muzzy_decay_ms:0
    for engine in switch threads; do
        run_with "$jemalloc" --engine=$engine --clock=real "$scratch/lull"
        check "$engine: what is to be given back in time is not, at full speed" \
            above end_net_rss_bytes 30000000
        run_with "$jemalloc" --engine=$engine --clock=original "$scratch/lull"
        check "$engine: but it is by the original's clock" below end_net_rss_bytes 15000000
        check "$engine: by which the replay's own time is not measured" below elapsed_seconds 400
    done
    run_with "$jemalloc" --clock=cpu "$scratch/lull"
    check "not by its processor time, of which it takes little" above end_net_rss_bytes 30000000
    unset MALLOC_CONF
fi

# --- addresses ---
"$make_instructions" places 50000 >"$scratch/places"
"$make_instructions" places 50000 10 >"$scratch/places.fresh"
run --json="$scratch/json" "$scratch/places"
check "addresses are compared on demand only" has address_match null
run --verify-addresses "$scratch/churn"
check "a recording without addresses" ended 1 'addresses cannot be verified: the recording has none'
check "and no table of what did not begin" [ ! -s out ]
run --engine=null --verify-addresses "$scratch/places"
check "an engine without addresses" ended 1 'addresses cannot be verified with this engine'
if [ -z "$sanitized" ]; then # which does not use memory again at once
    run --verify-addresses --json="$scratch/json" "$scratch/places"
    check "the same place, again and again" has address_match 1.0
    check "every allocation is compared" has addresses_checked 25000
    run --verify-addresses --json="$scratch/json" "$scratch/places.fresh"
    check "a place that the original did not take" has addresses_matched 22500
    check "what differs is named" both 'address match  *90.0000 %: 22500 of 25000' \
        'mismatch at instruction 18, malloc of 100 bytes: originally 0x10080, not used.*by instruction 16'
fi

# --- failure ---
run --json="$scratch/json" "$scratch/huge"
check "an allocation that fails is named" ended 1 \
    'offset 0x[0-9a-f]*: an allocation failed.*instruction 1: malloc of 4611686018427387904 bytes'
check "and what came before is reported" has events 1
check "with its status" has status '"failed"'
head -c 50000 "$scratch/churn" >"$scratch/cut"
run --json="$scratch/json" "$scratch/cut"
check "a cut stream has its own status" ended 3 \
    'the stream was cut short; what there is has been replayed'
check "a cut stream is reported" has status '"cut"'
check "with what was replayed" [ "$(value events)" -gt 0 ]
lz4 -q -B4 -c "$scratch/churn" | head -c 80000 >"$scratch/cut.lz4"
run --json="$scratch/json" "$scratch/cut.lz4"
check "a cut lz4 frame" ended 3 'the input ends inside an LZ4 frame'
head -c 20 "$scratch/churn" >"$scratch/cut"
run "$scratch/cut"
check "a cut header" ended 1 'after 0 instructions'
: >"$scratch/empty"
run "$scratch/empty"
check "an empty file" ended 1 'not an instruction stream.*: the input is empty'
check "has no table" [ ! -s "$scratch/out" ]
printf MTAPERAW >"$scratch/recording"
run "$scratch/recording"
check "a recording is told what to do with" ended 1 \
    'this is a recording; order it first with malloctape order$'
check "and has no table" [ ! -s "$scratch/out" ]
"$replay" "$scratch/churn" >/dev/full 2>"$scratch/err"
status=$?
check "a full standard output" ended 1 \
    'cannot write to the standard output: No space left on device'
run "$replay"
check "something else" ended 1 'not an instruction stream'
{ head -c 60000 "$scratch/churn"; printf XX; tail -c +60003 "$scratch/churn"; } >"$scratch/damaged"
run --json="$scratch/json" "$scratch/damaged"
check "damage is named with its place" ended 1 \
    "$scratch/damaged: offset 0x[0-9a-f]*: the checksum does not match"
check "what came before the damage was replayed" [ "$(value events)" -ge 16384 ]

plan "$tests_run"
