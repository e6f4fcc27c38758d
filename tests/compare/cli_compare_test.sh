#!/bin/bash
# cli_compare_test.sh - `malloctape compare` replays one trace under several allocators, tells what
# came of each, and goes on when one fails.
set -euo pipefail

. "$(dirname "$0")/../cli_tap.sh"

stub=$build_dir/tests/tools/failing_stub.so
run_page=$source_dir/tests/tools/run_page.js
node=$(command -v node || true)

if [ -n "$sanitized" ]; then
    echo '1..0 # SKIP nothing can be preloaded into a replay with this sanitizer'
    exit 0
fi
chartjs=
for file in /usr/share/javascript/chart.js/chart.min.js \
    /usr/share/javascript/chart.js/chart.umd.js /usr/share/nodejs/chart.js/dist/chart.umd.js \
    /usr/share/nodejs/chart.js/dist/chart.min.js; do
    [ ! -e "$file" ] || chartjs=$file
done

plan 78

export TMPDIR=$PWD/temporary
mkdir "$TMPDIR"
"$build_dir/tests/tools/make_instructions" lanes 100000 5 >lanes
lz4 -q lanes lanes.lz4
"$build_dir/tests/tools/make_instructions" churn 100000 1000 >churn
record threads.raw.lz4 "$workloads/threads" 2000
record big.raw.lz4 perl -e 'my @kept = map { "x" x 1_000_000 } 1 .. 20'

record_grows() {
    record grows.raw.lz4 perl -e 'for (1 .. 12) {
        push @kept, map { "x" x 1000 . $_ } 1 .. 2000; select undef, undef, undef, 0.03 }'
}
record_grows

leaves_nothing() { [ -z "$(ls "$TMPDIR")" ]; }

# --- traces of every form ---

all_complete='j["allocators"].all? { |a| a["status"] == "complete" &&
    a["reports"].size == j["runs"] }'
few=tcmalloc,glibc,none

compares_instructions() {
    exits 0 compare lanes --runs 2 -e switch -a "$few" --json lanes.json &&
        json lanes.json "$all_complete" &&
        json lanes.json 'j["trace"]["events"] == 101_000 && j["runs"] == 2'
}

compares_lz4() {
    exits 0 compare lanes.lz4 -r 1 -a "$few" --json f.json && json f.json "$all_complete"
}

# Nine tenths of the file are curves.
leaves_out_curves() {
    exits 0 compare lanes -r 1 -a glibc --no-series --json f.json &&
        json lanes.json 'j["allocators"][0]["series"]["seconds"].size > 1' &&
        json f.json 'j["allocators"][0]["series"].nil? && j["allocators"][0]["reports"].size == 1'
}

compares_raw() {
    exits 0 compare threads.raw.lz4 -r 1 -a "$few" --json raw.json &&
        json raw.json "$all_complete" &&
        "$bin/malloctape" info --json info.json threads.raw.lz4 >out &&
        [ "$(json_counts info.json)" = "$(ruby -rjson -e \
        'puts JSON.parse(File.read("raw.json"))["trace"].to_json' >t &&
            json_counts t)" ]
}
compares_piped_instructions() {
    cat lanes.lz4 | "$bin/malloctape" compare - -r 1 -a glibc --json f.json >out 2>err &&
        json f.json 'j["trace"]["events"] == 101_000'
}
compares_piped_raw() {
    lz4 -dc threads.raw.lz4 | "$bin/malloctape" compare - -r 1 -a glibc --json f.json >out 2>err &&
        json f.json "$all_complete"
}
# JSON is UTF-8.
compares_odd_path() {
    cp lanes $'caf\xe9' && exits 0 compare $'caf\xe9' -r 1 -a none --json f.json &&
        json f.json 'j["trace"]["file"] == "caf\\xe9" && j["trace"]["events"] == 101_000'
}
# A library, too; its label has a mark instead.
compares_odd_library() {
    cp "$stub" $'st\xe9.so' && exits 0 compare lanes -r 1 -a "$PWD/"$'st\xe9.so' --json f.json &&
        json f.json 'a = j["allocators"][0]
            a["entry"] == "st?.so" && a["name"].end_with?("st\\xe9.so") && a["status"] == "complete"'
}
tells_cut() {
    head -c 60000 lanes >cut && exits 3 compare cut -r 1 -a glibc --json f.json &&
        json f.json "$all_complete" && prints '^! the recording was cut short'
}
refuses_damage() {
    { head -c 50000 lanes && head -c 1000 /dev/zero && tail -c +51001 lanes; } >damaged &&
        exits 1 compare damaged -a glibc && says '^malloctape compare: damaged: offset 0x' &&
        leaves_nothing
}
refuses_damaged_recording() {
    lz4 -dc threads.raw.lz4 >raw && { head -c 20000 raw && head -c 1000 /dev/zero &&
        tail -c +21001 raw; } >bad.raw &&
        exits 1 compare bad.raw -a glibc && says '^malloctape compare: bad.raw: offset 0x' &&
        leaves_nothing
}

refuses_other_files() {
    exits 1 compare "$source_dir/tests/compare/cli_compare_test.sh" -a glibc &&
        says 'neither a raw stream nor an instruction stream'
}

refuses_missing_file() {
    exits 1 compare nothing -a glibc && says 'nothing: cannot open: No such file'
}

# --- what is told ---

# A row of an allocator in each table has its rank, and a number in every column; `none` has no
# rank.
tells_tables() {
    exits 0 compare lanes -r 3 -a "$few" -e switch && prints '^lanes.*: 101000 events, ' &&
        prints '^allocator  *peak  *mean  *at end  *kept  *peak/live  *at peak  *at worst  ' &&
        prints '^allocator  *CPU  *spread  *per event  *p50  *p99' &&
        [ "$(grep -c '^tcmalloc  *[1-9]=*?\( *\(< \)*[0-9][0-9.]*\)\{8\}' out)" = 2 ] &&
        [ "$(grep -c '^glibc  *[1-9]=*?\( *\(< \)*[0-9][0-9.]*\)\{8\}' out)" = 2 ] &&
        [ "$(grep -c '^none  *-  *[0-9]' out)" = 2 ]
}
# What the system tells, and which build each library is.
tells_machine() {
    json lanes.json 'first = ->(pattern) { Dir[pattern].map { |path| File.read(path).strip } }
        choice = ->(key) { first["/sys/kernel/mm/transparent_hugepage/#{key}"][0]&.[](/\[(.*)\]/, 1) }
        governors = first["/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"].uniq
        nodes = Dir["/sys/devices/system/node/node[0-9]*"].size
        m = j["machine"]
        ours = j["allocators"].find { |a| a["name"] == "tcmalloc" }
        id = `readelf -n #{ours["library_file"]}`[/Build ID: (\h+)/, 1]
        m["host"] == `uname -n`.strip && m["system"].start_with?(`uname -sr`.strip) &&
            m["transparent_hugepages"] == choice["enabled"] &&
            m["transparent_hugepages_defrag"] == choice["defrag"] &&
            m["governor"] == (governors.empty? ? nil : governors.join(", ")) &&
            m["numa_nodes"] == (nodes > 0 ? nodes : nil) && m["load"] >= 0 &&
            ours["library_file"] == File.realpath(ours["library"]) &&
            ours["library_build_id"] == id && j["allocators"][1]["library_file"].nil?' &&
        prints "processors\?, .*$(uname -sr).*load [0-9]"
}
# Also with long names and reasons.
fits_in_120_columns() {
    cp "$stub" lib_a_long_name_of_an_allocator.so
    exit_status "$bin/malloctape" compare threads.raw.lz4 -r 1 \
        -a "$few,$PWD/lib_a_long_name_of_an_allocator.so,$PWD/lib$(
        printf '_long%.0s' 1 2 3 4 5 6 7 8)/no.so,$stub:FAILING_STUB=exhaust" >out 2>err
    prints '^lib_a_long_name_of_an_allocator.so$' && prints 'an allocation failed' &&
        awk 'length > 120 && !/no.so|_long_long/ { print "# " $0; bad = 1 } END { exit bad }' out
}
# A call takes less than the step of a clock of 20 ns, or it has steps of 1 ns.
tells_steps() {
    exits 0 compare lanes -r 1 -a none,glibc --json f.json -- --sample 1 &&
        ruby -rjson -e \
        'j = JSON.parse(File.read("f.json"))
            step = j["allocators"][1]["reports"][0]["latency_resolution_ns"]
            p50 = j["allocators"][1]["numbers"]["allocation_p50_ns"]["median"]
            wanted = p50 < step ? format("< %.0f", step) : format(" %.0f", p50)
            row = File.read("out").lines.grep(/^glibc/)[1]
            exit(row.include?(wanted) && !row.match?(/ 0 *\d* *\d*$/))'
}
# Of a row with the recorded allocator, which is there in any case, the original itself. How
# well a replay follows a program depends on the machine: expects_known_memory has known numbers.
expects_memory() {
    exits 0 compare grows.raw.lz4 -r 4 -a tcmalloc,glibc --json both.json &&
        json both.json 'o = j["original"]
            own, other = j["allocators"].map { |a| a["expected"] }
            peaks = j["allocators"].map { |a| a["numbers"]["peak_net_rss_bytes"]["median"] }
            of_memory = %w[peak_rss_bytes mean_rss_bytes end_rss_bytes]
            curve = j["allocators"][0]["series"]["original_net_rss_bytes"].compact
            follows = (o["follows"] || 1) <= 0.12
            o["peak_rss_bytes"] >= curve.max && curve.max > 12e6 && o["mean_rss_bytes"] > 0 &&
                o["mean_rss_bytes"] < o["peak_rss_bytes"] &&
                o["end_rss_bytes"].between?(1, o["peak_rss_bytes"]) &&
                o["cpu_seconds"] > 0 && o["allocator_seconds"].between?(0, o["cpu_seconds"]) &&
                own["cpu_change_least_seconds"] == 0 && own["cpu_change_most_seconds"] == 0 &&
                other["cpu_change_least_seconds"] < other["cpu_change_most_seconds"] &&
                o["why_not"].empty? == follows &&
                own.values_at(*of_memory) == o.values_at(*of_memory).map { |v| v if follows } &&
                other["peak_rss_bytes"] ==
                    (o["peak_rss_bytes"] + peaks[1] - peaks[0] if follows)' &&
        exits 0 compare grows.raw.lz4 -r 1 -a glibc --json one.json && prints '^tcmalloc \*  *[12]=*? ' &&
        ! prints '^glibc \*' && prints '^\*: the allocator that the program was recorded on' &&
        prints '^One replay each: ' &&
        json one.json 'both = JSON.parse(File.read("both.json"))
            same = %w[peak_rss_bytes mean_rss_bytes end_rss_bytes cpu_seconds]
            j["allocators"].map { |a| a["recorded"] } == [false, true] &&
                j["allocators"][0]["expected"]["cpu_change_least_seconds"].nil? && !j["original"]["allocator_seconds"].nil? &&
                j["original"].values_at(*same) == both["original"].values_at(*same)'
}
# A buffer of which little is used; a recording that says nothing of the recorder.
# (Which pages were touched is not known of what comes through a pipe.)
expects_no_memory() {
    record untouched.raw.lz4 sort -S 300M churn &&
        exits 0 compare - -r 1 -a glibc --what-if 'of 1000-10000: remove' \
            --json f.json <untouched.raw.lz4 &&
        json f.json 'j["original"]["why_not"].include?("untouched") &&
            j["allocators"][0]["expected"].values.all?(&:nil?) &&
            j["allocators"].count { |a| a["warnings"].any? { |w|
                w.include?("the change may save much less") } == !a["what_if"].nil? } ==
                j["allocators"].size' &&
        json lanes.json 'j["original"]["why_not"].include?("allocator, which is not named")' &&
        sample raw_example && exits 0 compare raw_example -r 1 -a glibc --json f.json &&
        json f.json 'j["original"]["why_not"].include?("how much memory the recorder had") &&
            j["allocators"][0]["expected"]["cpu_change_most_seconds"].nil?'
}
tells_json() {
    json lanes.json 'n = j["allocators"][0]["numbers"]
        calls = j["allocators"][0]["reports"].map do |one|
            one["wall_seconds"] * 1e9 / one["measured_events"]
        end
        net = calls.max - n["own_cost_ns_per_event"]["median"]
        n.all? { |key, v| key.start_with?("realloc_") ? v.values.none? :
            v["min"] <= v["median"] && v["median"] <= v["max"] } &&
            n["events_per_second"]["min"] > 0 &&
            (n["net_ns_per_event"]["max"] - net).abs < 1e-3 &&
            n["peak_rss_bytes"]["median"] > 1e6 &&
            n["peak_net_rss_bytes"]["median"] > 1e5' &&
        json lanes.json 'j["allocators"].map { |a| a["entry"] } == %w[tcmalloc glibc none] &&
            j["allocation_kind"] == "malloc" && j["free_kind"] == "free" &&
                j["machine"]["processors"] > 0'
}

# One round in which all calls are timed; none in the others.
times_calls() {
    json lanes.json 'n = j["allocators"][1]["numbers"]
        n["allocation_sampled"].values.uniq == [51_000] && n["free_sampled"]["min"] > 40000 &&
            n["allocation_p999_ns"]["min"] > 0 && n["allocation_max_ns"]["min"] > 0 &&
            j["allocators"][1]["reports"].size == 2 &&
            j["allocators"][1]["reports"].all? { |r| r["sample_every"] == 0 }' &&
        exits 0 compare lanes -r 4 -a glibc --json f.json -- --sample 10 --limit 40000 &&
        json f.json 'n = j["allocators"][0]["numbers"]
            n["allocation_sampled"]["min"].between?(3000, 5500) &&
                n["allocation_p99_ns"]["min"] >= 0 && n["allocation_p999_ns"]["min"].nil? &&
                n["allocation_max_ns"]["min"].nil?'
}
# By default each has five replays besides, of which no call is timed.
replays_five_times() {
    rm -f made/a.timed
    reports a 300/1 300/1 300/1 300/1 300/1
    echo "0 0" >made/null
    made/bin/malloctape compare lanes -a glibc:ROW=a --json f.json >out &&
        json f.json 'j["runs"] == 5 && j["allocators"][0]["reports"].size == 5' &&
        [ "$(wc -l <made/a.timed)" = 2 ]
}
tells_json_alone() {
    exits 0 compare lanes -r 1 -a glibc --json - && cp out f.json && json f.json "$all_complete"
}

tells_curves() {
    json raw.json 's = j["allocators"][1]["series"]
        s["seconds"].size > 0 && s.values.map(&:size).uniq.size == 1 &&
            s["net_rss_bytes"].compact.max > 1e5'
}

page() {
    [ -n "$chartjs" ] || return 0
    exits 1 compare threads.raw.lz4 -r 2 --html page.html \
        -a "glibc:A=</script><b>\,\&,none,$PWD/no.so"
}
page_stands_alone() {
    page && ! grep -q -i 'src=\|<link\|@[A-Z]*@\|https*://[^w]*cdn' page.html &&
        grep -q -F "$(head -c 2000 "$chartjs" | tail -n 1)" page.html
}

page_has_numbers() {
    grep -q '<h1>threads under several allocators</h1>' page.html &&
        sed -n '/<pre>/,/<\/pre>/p' page.html | grep -q '^glibc .* [0-9.]* .* [0-9.]*$'
}

# (What an event takes is not known where a busy machine makes it less than the replay's own cost.)
page_runs() {
    node "$run_page" page.html >figures && grep -q '^Processor time of replays: [0-9]* drawn' figures &&
        grep -q '^Events: [0-9 ]*$' figures && grep -q '^Measured: 20' figures &&
        [ "$(grep -c '^[^ ].* | ' figures)" -gt 15 ] &&
        grep -q '^events M/s | ' figures && grep -q '^[^ ].* | [0-9.]* (.* to ' figures &&
        grep -q '^  malloc p50 ns | [<0-9]' figures
}

page_names_failures() {
    grep -q '<p class="warning">no.so: .*No such file or directory</p>' page.html
}

page_escapes() {
    grep -q 'A=&lt;/script&gt;&lt;b&gt;,&amp;' page.html &&
        ! grep -q '</script><b>' page.html &&
        ruby -rjson -e 'data = File.read("page.html")[%r{id="data">(.*)</script>}, 1]
            exit(JSON.parse(data)["allocators"][0]["settings"] == { "A" => "</script><b>,&" })'
}

# --- settings and failures ---

settings_reach_one_only() {
    exits 1 compare lanes -r 2 --json f.json -a "$stub,$stub:FAILING_STUB=refuse,glibc" &&
        json f.json 'j["allocators"].map { |a| a["status"] } == %w[complete failed complete] &&
            j["allocators"][1]["error"].include?("an allocation failed") &&
                j["allocators"][1]["reports"].empty?'
}
tells_crash() {
    exits 1 compare lanes -r 2 -a "$stub:FAILING_STUB=crash,$stub:FAILING_STUB=abort,glibc" &&
        prints '^failing_stub.so replay was killed by signal 11 (Segmentation fault)' &&
        prints 'signal 6 (Aborted): failing_stub: out of patience$' &&
        prints '^  FAILING_STUB=crash$' &&
        prints '^glibc  *[0-9]' && leaves_nothing
}
# kills_left NUMBER - so many more replays of the allocator $killed kill themselves.
killed=$stub:FAILING_STUB=kill=$PWD/kills
kills_left() { head -c "$1" /dev/zero >kills; }
# The third try is the last.
tries_again() {
    kills_left 2 && exits 0 compare lanes -r 4 -a "$killed,glibc" --json f.json &&
        json f.json 'j["allocators"].all? { |a| a["status"] == "complete" && a["reports"].size == 4 }
            j["allocators"][0]["ended_by"].nil? && !j["verdict"]["text"].include?("of the others")' &&
        [ ! -s kills ]
}
tells_killed() {
    kills_left 3 && exits 5 compare lanes -r 4 -a "$killed,glibc,tcmalloc" --json f.json &&
        prints_text '^In this recording: failing_stub.so with FAILING_STUB=kill=.* is missing (replay was' &&
        says '^malloctape compare: failing_stub.so.*: replay was killed by signal 9 (Killed), also when' &&
        ! grep -q 'Best: \|Best for\|best: \|^To start' out && [ ! -s kills ] &&
        json f.json 'a, *others = j["allocators"]
            a["ended_by"] == 9 && others.all? { |o| o["ended_by"].nil? && o["rank_memory"] } &&
                j["verdict"].values_at("memory", "time").all? { |v| v["best"].empty? } &&
                j["verdict"]["paste"].to_s.empty?'
}
tells_exhaustion() {
    exits 1 compare lanes -r 2 --json f.json -a "$stub:FAILING_STUB=exhaust,glibc" &&
        json f.json 'j["allocators"].map { |a| a["status"] } == %w[failed complete] &&
            j["allocators"][0]["error"].match?(
                /\Aoffset 0x\h+: an allocation failed.*: instruction \d+: malloc of/)'
}
tells_hang() {
    exits 1 compare lanes -r 2 --time-limit 1.5 --json f.json -a "$stub:FAILING_STUB=hang" &&
        json f.json \
        'j["allocators"][0]["error"].start_with?(
            "replay had not ended after 1.5 s and was stopped") &&
            j["allocators"][0]["ended_by"] == "time_limit"' &&
        prints_text '^In this recording: .* is missing (replay had not ended' &&
        prints '^failing_stub.so  *replay had not ended after 1.5 s' && leaves_nothing &&
        exits 2 compare lanes --time-limit 1x
}
# No file can be written: the directory for what is temporary is as good as full.
tells_full_directory() {
    exit_status sh -c \
        "trap '' XFSZ; ulimit -f 0; exec $bin/malloctape compare threads.raw.lz4 -a glibc 2>&1" |
        cat >out
    prints '^malloctape compare: threads.raw.lz4: .*cannot write: File too large' && leaves_nothing
}
tells_full_output() {
    exit_status "$bin/malloctape" compare lanes -r 1 -a glibc >/dev/full 2>err
    [ "$status" = 1 ] &&
        says '^malloctape: cannot write to the standard output: No space left on device$'
}
tells_missing() {
    exits 1 compare lanes -r 1 -a 'libnothing.so.7,glibc' &&
        prints '^libnothing.so.7  *not installed: ' &&
        prints '^glibc  *[0-9]'
}
tells_other_library() {
    exits 1 compare lanes -r 1 -a libm.so.6 && prints '^libm.so.6 .*has no malloc or was not loaded'
}
ignores_own_preload() {
    (export LD_PRELOAD=$stub NO_THREAD_CACHE_SWITCH=1 &&
        exits 0 compare lanes -r 1 -e switch -a tcmalloc,tcmalloc-noswitch,glibc --json f.json) &&
        json f.json 'r = j["allocators"].map { |a| a["reports"][0] }
            r.map { |one| one["thread_cache_switching"] } == [true, false, false] &&
                r[2]["allocator"].start_with?("glibc")'
}
# Threads where the trace has several, and pages touched; both are named.
answers_by_default() {
    exits 0 compare lanes -r 1 -a glibc --json f.json &&
        prints '^engine threads (.*), touch pages, clock original$' &&
        json f.json 'j["engine"] == "threads" && j["touch"] == "pages" &&
            j["clock"] == "original" &&
            j["trace"]["busy_threads"] == 5' &&
        exits 0 compare churn -r 1 -a glibc --json f.json &&
        prints '^engine switch (.*), touch pages, clock original$' &&
        json f.json 'j["engine"] == "switch" && j["trace"]["busy_threads"] == 1'
}
# 16 MiB and more of large objects: resident if they are touched, and otherwise a word about it.
tells_untouched() {
    exits 0 compare big.raw.lz4 -r 1 -a glibc --json f.json &&
        ! prints 'less RSS than live' &&
        json f.json 'j["allocators"][0]["numbers"]["rss_per_live"]["median"]
            .between?(0.98, 1.5)' &&
        exits 0 compare big.raw.lz4 -r 1 -a glibc -- -t none &&
        prints '^  ! less RSS than live bytes: pages' &&
        prints '^glibc  *-  *[0-9.]*!' || return 1
    [ -n "$chartjs" ] && [ -n "$node" ] || return 0
    exits 0 compare big.raw.lz4 -r 1 -a glibc --html page.html -- -t none &&
        node "$run_page" page.html >figures && grep -q '^RSS peak MiB | [0-9.]* !' figures &&
        ! grep -q '^RSS mean MiB .*!' figures
}
takes_options_of_replay() {
    exits 0 compare lanes -r 1 -a glibc --json f.json --engine switch -- --limit 1000 &&
        json f.json 'j["trace"]["events"] == 1000 && j["replay_options"] == %w[--limit 1000]' &&
        exits 1 compare lanes -a glibc -- --nonsense &&
        says "lanes: .*unrecognized option '--nonsense'"
}
# tcmalloc-noswitch only where thread caches are switched.
all_installed_by_default() {
    local trace
    exits 0 compare lanes -r 1 -e switch --json f.json &&
        json f.json 'names = j["allocators"].map { |a| a["name"] }
            %w[tcmalloc tcmalloc-noswitch glibc].all? { |name| names.include?(name) } &&
                !names.include?("none")' || return
    for trace in lanes churn; do
        exits 0 compare $trace -r 1 --json f.json &&
            json f.json 'names = j["allocators"].map { |a| a["name"] }
                names.include?("tcmalloc") && !names.include?("tcmalloc-noswitch")' || return
    done
}

# --- the verdict, of reports with known numbers ---

# A replay that calls no allocator: its report has the next line of the file $made/$ROW: bytes of
# peak RSS, seconds, and what else a report has. What is in the file $made/$ROW.printed it prints;
# $made/$ROW.series is its curve.
export made=$PWD/made
mkdir -p made/bin
ln "$bin/malloctape" made/bin/ 2>/dev/null || cp "$bin/malloctape" made/bin/
cat >made/bin/replay <<'END'
#!/bin/bash
json= sample= rss=0 seconds=0 more=
while [ $# -gt 0 ]; do
    [ "$1" != --json ] || json=$2
    case $1 in --sample=*) sample=$1 ;; esac
    shift
done
row=$made/${ROW:-${MALLOC_PERTURB_:-null}}
[ ! -e "$row.printed" ] || cat "$row.printed"
series=null
[ ! -e "$row.series" ] || series=$(cat "$row.series")
[ -n "${by_kind:-}" ] || by_kind='"malloc": 10000, "free": 10000'
if [ "$sample" = --sample=0 ]; then
    read -r rss seconds more <"$row"
    sed -i 1d "$row"
else
    echo "$sample" >>"$row.timed"
fi
cat >"$json" <<REPORT
{"status": "complete", "recording": "complete", "allocator": "made", "engine": "switch",
 "touch": "pages", "program": "${program:-/bin/made}", "events": ${events:-20000}, "threads": 1,
 "busy_threads": 1, "thread_switches": 0, "by_kind": {$by_kind},
 "live_at_end": 0, "peak_live_bytes": 10000000, "rss_per_live": 1.5,
 "peak_net_rss_bytes": $rss, "user_seconds": $seconds, "system_seconds": 0, "series": $series
 ${more:+, $more}}
REPORT
END
chmod +x made/bin/replay

# reports ROW RSS/SECONDS... [MORE] - what replays of that row report, one after another; MORE is
# added to each.
reports() {
    local row=$1 more= pair
    shift
    for pair in "$@"; do case $pair in '"'*) more=$pair ;; esac; done
    for pair in "$@"; do
        case $pair in '"'*) ;; *) echo "${pair%/*}000000 ${pair#*/} $more" ;; esac
    done >"made/$row"
}

# ranked ROW... - compares them, from the reports of their names, by their least number.
ranked() {
    local list=
    echo "0 0 ${of_null:-}" >made/null
    for row in "$@"; do list+=",glibc:ROW=$row"; done
    exit_status made/bin/malloctape compare lanes -r "${runs:-5}" -a "${list#,}" \
        ${sort:+--sort $sort} --json f.json >out 2>err
    [ "$status" = 0 ]
}
# order TABLE - the rows of the first or second table, with their ranks.
order() {
    awk -v wanted="$1" '/^allocator/ { table++ } /^Best|^For|^No/ { exit } table == wanted {
        if ($1 == "glibc") rank = $2 == "*" ? $3 : $2
        if ($1 ~ /^ROW=/) printf "%s%s:%s", found++ ? " " : "", rank, substr($1, 5) }' out
}
has_order() {
    [ "$(order "$1")" = "$2" ] && return
    echo "# table $1: $(order "$1"), not $2"
    return 1
}

# Memory: b and d are less than 1 MiB apart, and one disturbed round of c does not matter.
ranks_rows() {
    reports a 300/1.0 300/1.1 300/0.9 300/1.0 300/1.0
    reports b 100/2.0 100/2.0 100/2.0 100/2.0 100/2.1
    reports c 200/1.0 200/1.0 250/1.0 200/1.0 200/1.1
    reports d 100/3.0 100/3.0 101/3.0 100/3.0 100/9.0
    ranked a b c d && has_order 1 '1=:b 1=:d 3:c 4:a' && has_order 2 '1=:a 1=:c 3:b 4:d' &&
        json f.json 'j["allocators"].map { |a| [a["rank_memory"], a["rank_time"]] } ==
            [[4, 1], [1, 3], [3, 1], [1, 4]]'
}
says_verdict() {
    tr '\n' ' ' <out | tr -s ' ' >line
    sed -i 's/glibc:ROW=//g' line
    grep -q 'Best for memory: b and d (equal); the next, c, takes 95.4 MiB (100 % in replays) more' line &&
        grep -q ' more than b (95 % sure: 95.4 to [0-9.]* MiB)\. Best for time: ' line &&
        grep -q ' Best for time: a and c (equal); the next, b, takes 100 % more than a in' line &&
        grep -q '^In this recording: best: glibc with ROW=b, 95.4 MiB in replays\. ' line &&
        json f.json 'v = j["verdict"]; m = v["memory"]
            m["best"] == %w[glibc:ROW=b glibc:ROW=d] && m["next"] == "glibc:ROW=c" &&
                m["lead"] == 100e6 && v["time"]["best"] == %w[glibc:ROW=a glibc:ROW=c] &&
                    v["text"].start_with?("Best for memory: ")'
}
# Differences below 1 MiB, 1 % (5 % of time), and those that are less than the noise.
knows_equal() {
    reports a 500/1.00 500/1.00 500/1.00 500/1.00 500/1.00
    reports b 504/1.04 504/1.04 504/1.04 504/1.04 504/1.04
    ranked a b && has_order 1 '1=:a 1=:b' && prints 'For memory, all are equal. For time, all are' &&
        reports a 500/1.0 600/1.5 700/2.0 500/1.0 600/1.2 &&
        reports b 550/1.1 630/1.6 720/2.1 560/1.2 610/1.3 &&
        ranked a b && has_order 1 '1=:a 1=:b' && has_order 2 '1=:a 1=:b'
}
# In the page, too: columns of the table in the order of memory, and the verdict above all.
page_is_sorted() {
    reports a 300/1 300/1
    reports b 100/2 100/2
    echo '0 0' >made/null
    made/bin/malloctape compare lanes -r 2 -a glibc:ROW=a,glibc:ROW=b --html made.html >out &&
        grep -q '^<p class="answer">In this recording: best: glibc with ROW=b, ' made.html &&
        grep -q '^<p class="answer">Best for memory: glibc:ROW=b; the next, glibc:ROW=a, ' \
            made.html &&
        sed -n '/<pre>/,/<\/pre>/s/^  ROW=//p' made.html | grep -v PROGRAM | tr -d '\n' | grep -q '^baab$' || return 1
    [ -n "$node" ] || return 0
    node "$run_page" made.html >figures && grep -q '^ | glibc:ROW=b .*| glibc:ROW=a ' figures &&
        grep -q '^rank by memory | 1? | 2?$' figures && grep -q '^rank by time | 2? | 1?$' figures
}
sorts_by_one() {
    for sort in memory time; do
        reports a 300/1 300/1 300/1 300/1 300/1
        reports b 100/2 100/2 100/2 100/2 100/2
        ranked a b || return 1
        case $sort in
        memory) has_order 1 '1:b 2:a' && has_order 2 '2:b 1:a' || return 1 ;;
        time) has_order 1 '2:a 1:b' && has_order 2 '1:a 2:b' || return 1 ;;
        esac
    done
    sort=
    exits 2 compare lanes --sort size && says "'size' is not one of: memory, time"
}
# Row a is the recorded allocator; the program used so many seconds of user time, and one of system.
null_of_a() {
    echo '"recorded_allocator": "glibc (2.36)", "recorded_settings": {"ROW": "a"},' \
        "\"original_user_seconds\": $1, \"original_system_seconds\": 1${2:-}" | tr -d '\n'
}
# Of 100 s of the program, one replay takes 1 s more than that of the recorded allocator.
tells_change_of_program() {
    local of_null
    of_null=$(null_of_a 99)
    reports a 300/1 300/1 300/1 300/1 300/1
    reports b 100/21 100/21 100/21 100/21 100/21
    ranked a b && prints '^The program used 100 s of processor time, about 1 s (1 %) of it in' &&
        prints '^glibc \*  *1  *as recorded  *1.000' &&
        prints '^glibc  *2  *+16.0 (+4.0 to +53.0)  *21.000' &&
        prints '^  *s of 100.0 ' && tr '\n' ' ' <out | tr -s ' ' >line &&
        grep -q "takes 4.0 to 53.0 % more of the program's 100 s (in replays, 2000 %)\." line &&
        reports a 300/20 300/20 300/20 300/20 300/20 &&
        reports b 100/11.4 100/11.4 100/11.4 100/11.4 100/11.4 &&
        ranked a b && prints '^glibc  *1  *-6.9 (-23.0 to +0.0)  *11.400' &&
        json f.json 'j["allocators"][1]["expected"]["cpu_change_seconds"].round(6) == -6.88'
}
# The program had 400 MB and took 100 s; replays of its allocator have 300 MB and take 11 s more
# than one without, those of the other 100 MB and 21 s; in one second of five the recorded
# allocator's curve is 100 MB above the original's, apart from the distance that it keeps.
expects_known_memory() {
    local of_null list
    of_null=$(null_of_a 99 ', "original_peak_net_rss_bytes": 400000000,
        "original_mean_net_rss_bytes": 350000000, "original_end_net_rss_bytes": 330000000')
    echo '{"seconds": [1, 2, 3, 4, 5, 6],
        "net_rss_bytes": [1000000, 2000000, 103000000, 4000000, 5000000, 6000000],
        "original_net_rss_bytes":
            [201000000, 202000000, 203000000, 204000000, 205000000, 206000000]}' >made/a.series
    for list in 'a b' b; do
        # What is not listed is replayed with known settings only.
        [ "$list" != b ] || of_null=${of_null/ROW/MALLOC_PERTURB_}
        reports a 300/11 300/11 300/11 300/11 '"mean_net_rss_bytes": 250000000, "end_net_rss_bytes": 240000000'
        reports b 100/21 100/21 100/21 100/21 '"mean_net_rss_bytes": 90000000, "end_net_rss_bytes": 80000000'
        # shellcheck disable=SC2086 # a list
        runs=4 ranked $list || return 1
        head -n 2 out | tr '\n' ' ' | tr -s ' ' | grep -q '^In this recording: now glibc with [A-Z_]*=a, 381.5 MiB at peak. Best: glibc with ROW=b, 190.7 MiB, -50 %\. For time, none is clearly better\. ' &&
            tr '\n' ' ' <out | tr -s ' ' | grep -q 'takes 190.7 MiB (100 % of the process) more' || return 1
        json f.json 'j["original"] == { "peak_rss_bytes" => 400e6, "mean_rss_bytes" => 350e6,
            "end_rss_bytes" => 330e6, "cpu_seconds" => 100.0, "allocator_seconds" => 11.0,
            "follows" => 0.05, "touched" => nil, "why_not" => "" } &&
            j["allocators"].find { |a| a["entry"] == "glibc:ROW=b" }["expected"] == { "peak_rss_bytes" => 200e6,
                "mean_rss_bytes" => 190e6, "end_rss_bytes" => 170e6,
                "cpu_change_seconds" => 8.0, "cpu_change_least_seconds" => 0.5,
                "cpu_change_most_seconds" => 28.0 }' || return 1
    done
    # So far apart that no memory is expected; more time than the program took.
    sed -i 's/ 103000000/ 403000000/' made/a.series
    reports a 300/111
    reports b 100/21
    runs=1 ranked b && rm made/a.series && json f.json 'j["original"]["follows"] == 0.2 &&
        j["original"]["why_not"].include?("they are 20 % of the peak apart") &&
        j["original"]["allocator_seconds"] == 100 &&
        j["allocators"][0]["expected"]["peak_rss_bytes"].nil?'
}
# Of 1000 s of it, 20 s of replays would not show.
knows_what_would_not_show() {
    local of_null
    of_null=$(null_of_a 999)
    reports a 300/1 300/1 300/1 300/1 300/1
    reports b 100/21 100/21 100/21 100/21 100/21
    ranked a b && has_order 2 '1=:a 1=:b' && prints '^glibc  *1=  *none (-23\.0 to +80\.0)  *21\.000' &&
        tr '\n' ' ' <out | tr -s ' ' >line && grep -q "For time, no difference is clear: replays take \
1 s (glibc:ROW=a) to 21 s (glibc:ROW=b), but allocator and new pages are about 0.1 % of the \
program's 1000 s\." line
}
# A program saves no more than its allocator takes, but for the noise: here 3.3 s of 10.
limits_what_is_saved() {
    local of_null
    of_null=$(null_of_a 9)
    reports a 300/3.3 300/3.3 300/3.3 300/3.3 300/3.3
    reports b 100/0.3 100/0.3 100/0.3 100/0.3 100/0.3
    ranked a b && json f.json 'e = j["allocators"][1]["expected"]
        e["cpu_change_least_seconds"].round(6) == -3.6 && e["cpu_change_seconds"].round(6) == -2.4 &&
            e["cpu_change_most_seconds"].round(6) == -0.75' &&
        grep -q ' Best for time: glibc with ROW=b, -24.0 % (-36.0 to -7.5)\.' <(head -n 2 out | tr '\n' ' ' | tr -s ' ')
}
# Several that come next are named together, with the least lead over one of them.
names_all_that_come_next() {
    reports a 300/1 300/1 300/1 300/1 300/1
    reports b 100/2 100/2 100/2 100/2 100/2
    reports c 301/1 300/1 301/1 301/1 301/1
    ranked c a b && tr '\n' ' ' <out | tr -s ' ' | sed 's/glibc:ROW=//g' >line &&
        grep -q 'memory: b; the next, c and a (equal), take at least 190.7 MiB (200 % in replays) more' line
}
few_runs_are_unsure() {
    reports a 300/1 300/1
    reports b 100/2 100/2
    runs=2 ranked a b && tr '\n' ' ' <out | tr -s ' ' |
        grep -q '200 % in replays) more; 2 runs are too few for a confidence interval' &&
        prints '^?: with fewer than 4 replays each, ranks are by the median alone' &&
        head -n 1 out | grep -q '(2 replays each: not certain\.)$' && has_order 1 '1?:b 2?:a' || return 1
    # Two replays say less than ten: of the change of the program, no range.
    local of_null
    of_null=$(null_of_a 9)
    reports a 300/3.3 300/3.3
    reports b 100/0.3 100/0.3
    runs=2 ranked a b && prints '^glibc  *1?  *-2400\.0 ?  *0\.300' || prints '^glibc  *1?  *-2\.4 ?  *0\.300'
}
# Of three recordings, a has 10 % more than the recorded allocator in one and less in two; b always
# less. Of two, nothing is sure.
says_across() {
    local of_null
    of_null=$(null_of_a 9)
    echo "0 0 $of_null" >made/null
    for _ in 1 2; do echo "0 0 $of_null"; done >>made/null
    for seconds in 100 110 120; do
        for _ in 1 2 3 4 5; do echo "${seconds}000000 1"; done
    done >made/a
    for seconds in 105 100 113; do
        for _ in 1 2 3 4 5; do echo "${seconds}000000 1"; done
    done >made/b
    for seconds in 60 64 75; do
        for _ in 1 2 3 4 5; do echo "${seconds}000000 1"; done
    done >made/c
    cp lanes lanes2 && cp lanes lanes3 && exit_status made/bin/malloctape compare lanes lanes2 lanes3 \
        -a glibc:ROW=a,glibc:ROW=b,glibc:ROW=c --json f.json >out 2>err && [ "$status" = 0 ] &&
        tr '\n' ' ' <out | tr -s ' ' >line &&
        grep -q '^In these 3 recordings: now glibc:ROW=a, 104.9 MiB at peak in replays on average. Best: glibc:ROW=c, 63.3 MiB, -40 % (95 % sure: -4[0-9] to -3[0-9])' line &&
        grep -q ' The next, glibc:ROW=b: +60 % (95 % sure: +32 to +95)\.' line &&
        prints '^lanes2:$' && prints '^glibc:ROW=a  *104.9  *95.4  *114.4  *now  *now$' &&
        prints '^glibc:ROW=b  *101.1  *95.4  *107.8  *-3 (-20 to +16) ' &&
        json f.json 'e = j["entries"]
            e.map { |one| one["entry"][-1] } == %w[c b a] && j["recordings"].size == 3 &&
                e[0]["peaks"] == [60e6, 64e6, 75e6] && e[2]["recorded"] && !e[1]["recorded"] &&
                e[0]["memory_change"]["mean"].round(3) == -0.398' &&
        exits 2 compare lanes lanes2 --html x.html
}
# A master of few calls and its workers: no mean of the two roles, nor an interval that is impossible.
tells_roles() {
    local of_null
    of_null=$(null_of_a 9)
    for _ in 1 2 3 4; do echo "0 0 $of_null"; done >made/null
    for row in a:100:120:110:400 b:4:90:80:380; do
        IFS=: read -r name one two three four <<<"$row"
        for bytes in $one $two $three $four; do
            for _ in 1 2 3 4 5; do echo "${bytes}000000 1"; done
        done >"made/$name"
    done
    cat >made/events <<<$'3000\n20000\n30000\n60000'
    cat >made/bin/roles <<'END'
#!/bin/bash
# Gives each recording, which the null replay begins, another number of calls.
case " $* " in *' null '*) sed -n '1p' "$made/events" >"$made/now" && sed -i 1d "$made/events" ;; esac
events=$(cat "$made/now") exec "$made/bin/replay.real" "$@"
END
    chmod +x made/bin/roles && mv made/bin/replay made/bin/replay.real && mv made/bin/roles made/bin/replay
    exit_status made/bin/malloctape compare lanes lanes2 lanes3 lanes -a glibc:ROW=a,glibc:ROW=b \
        --json f.json >out 2>err
    mv made/bin/replay.real made/bin/replay
    tr '\n' ' ' <out | tr -s ' ' >line
    [ "$status" = 0 ] && grep -q '^These 4 recordings are not repetitions: .* They have 2 roles' line &&
        prints '^No ranking: fewer than 10000 calls' && prints '^In these 3 recordings: now glibc:ROW=a' &&
        json f.json 'j["roles"].map { |r| r["recordings"] } == [[0], [1, 2, 3]] &&
            j["entries"].nil? && j["text"].start_with?("These 4 recordings are not") &&
            j["roles"][1]["entries"][0]["memory_change"]["least"] > -1' &&
        for _ in 1 2; do echo "0 0 $of_null"; done >made/null &&
        for bytes in 4 90; do for _ in 1 2 3 4 5; do echo "${bytes}000000 1"; done; done >made/b &&
        for bytes in 100 100; do for _ in 1 2 3 4 5; do echo "${bytes}000000 1"; done; done >made/a &&
        made/bin/malloctape compare lanes lanes2 -a glibc:ROW=a,glibc:ROW=b --json f.json >out &&
        json f.json 'm = j["entries"][0]["memory_change"]
            m["least"] > -1 && m["most"] > 0 && j["roles"].size == 1'
}
knows_unsure_across() {
    local of_null
    of_null=$(null_of_a 9)
    for _ in 1 2; do echo "0 0 $of_null"; done >made/null
    for row in a:100:120 b:90:119; do
        IFS=: read -r name one two <<<"$row"
        for _ in 1 2 3 4 5; do echo "${one}000000 1"; done >"made/$name"
        for _ in 1 2 3 4 5; do echo "${two}000000 1"; done >>"made/$name"
    done
    exit_status made/bin/malloctape compare lanes lanes2 -a glibc:ROW=a,glibc:ROW=b >out 2>err
    tr '\n' ' ' <out | tr -s ' ' | grep -q 'None clearly takes less: the least is that of glibc:ROW=b, -6 % (95 % sure: '
}
# A line for a shell, of the row that is best for memory.
says_paste() {
    local of_null
    of_null=$(null_of_a 9)
    reports a 300/1 300/1 300/1 300/1 300/1
    reports b 100/1 100/1 100/1 100/1 100/1
    ranked a b && prints "^  ROW='b' PROGRAM$" && json f.json 'j["verdict"]["paste"] == "ROW='"'b'"' PROGRAM"' &&
        reports a 100/1 100/1 100/1 100/1 100/1 && reports b 300/1 300/1 300/1 300/1 300/1 &&
        ranked a b && ! prints 'PROGRAM$'
}
# Nothing that is only equal, and what gains time where nothing gains memory.
says_paste_of_gains() {
    local of_null
    of_null=$(null_of_a 9)
    reports a 100/3 100/3 100/3 100/3 100/3
    reports b 99/3 99/3 99/3 99/3 99/3
    ranked a b && prints ' None clearly takes less\.' && ! prints 'PROGRAM$' &&
        json f.json 'j["verdict"]["paste_of"].nil?' || return 1
    reports a 100/6 100/6 100/6 100/6 100/6
    reports b 100/1 100/1 100/1 100/1 100/1
    ranked a b && prints '^To start a program with the best for time:$' && prints "^  ROW='b' PROGRAM$" &&
        json f.json 'j["verdict"]["paste_of"] == "time"'
}
# The recorder's tcmalloc is not what the program has otherwise.
tells_what_the_program_has() {
    exits 0 compare threads.raw.lz4 -r 1 -a glibc && tr '\n' ' ' <out | tr -s ' ' >line &&
        grep -q "^In this recording: on malloctape's tcmalloc, not the program's own (record --al" line &&
        "$bin/malloctape" record -q --allocator=program -o own.raw.lz4 -- "$workloads/threads" 2000 >printed &&
        exits 0 compare own.raw.lz4 -r 1 -a glibc && prints '^In this recording: now glibc, '
}
# The C++ library, which tcmalloc needs, is its memory only in a program that has none itself.
counts_what_an_allocator_brings() {
    echo 'int main(void) { void *volatile kept = __builtin_malloc(1 << 20); return !kept; }' >linked.c
    ${CC:-cc} linked.c -o linked -Wl,--no-as-needed -lstdc++ && PATH=$PWD:$PATH record linked.raw.lz4 linked &&
        exits 0 compare linked.raw.lz4 -r 1 -a tcmalloc --json f.json &&
        json f.json '$has = j["allocators"][0]["reports"][0]["program_has"].split(",")
            $has.include?("libstdc++.so.6") && $has.include?("libgcc_s.so.1") && !$has.include?("libjansson.so.4")' &&
        exits 0 compare threads.raw.lz4 -r 1 -a tcmalloc --json f.json &&
        json f.json 'j["allocators"][0]["reports"][0]["program_has"] =~ /libc\.so\.6/ && $~.string !~ /stdc/'
}
# A table of reallocs, where there are some.
tells_reallocs() {
    "$build_dir/tests/tools/make_instructions" pairs 200000 >pairs
    exits 0 compare pairs -r 1 -a glibc,tcmalloc --json f.json &&
        json f.json 'j["allocators"].all? { |a| n = a["numbers"]
            n["realloc_moved"]["median"].between?(0, 1) && n["realloc_sampled"]["median"] > 50 &&
                n["realloc_p50_ns"]["median"] > 0 && n["realloc_p50_ns"]["median"] <= n["realloc_mean_ns"]["median"] * 10 }' &&
        ! prints '^REALLOC' && record reallocs.raw.lz4 perl -e 'for (1 .. 300) { my $s = ""; $s .= "x" x 100 for 1 .. 200 }' &&
        exits 0 compare reallocs.raw.lz4 -r 1 -a glibc,tcmalloc && prints '^REALLOC  *realloc' &&
        prints '^allocator  *moved  *p50' && prints '^Moved: the share'
}
# Threads that wait for one arena: in the program they may have more at a time than in the replay.
widens_where_threads_wait() {
    local of_null lanes=400000000
    reports_of_arena() {
        reports a 200/1 200/1 200/1 200/1 200/1
        reports 'b;MALLOC_ARENA_MAX=1' 100/6 100/6 100/6 100/6 100/6
        mv "made/b;MALLOC_ARENA_MAX=1" made/b
    }
    ranked_arena() {
        of_null=$(null_of_a 9 ", \"busy_threads\": 4, \"peak_live_bytes\": 100000000,
            \"lane_peaks_bytes\": $lanes, \"original_seconds\": $1" | tr -d '\n')
        for _ in 1 2; do echo "0 0 $of_null"; done >made/null
        reports_of_arena
        exit_status made/bin/malloctape compare lanes -a 'glibc:ROW=a,glibc:ROW=b;MALLOC_ARENA_MAX=1' \
            --json f.json >out 2>err
    }
    # 6 s of calls in 10 s: what waits takes 2.5 times as long. In 600 s, hardly longer.
    ranked_arena 10 && prints ' None clearly takes less\.' &&
        prints '^  ! this setting changes how threads wait for each other' && ! prints 'PROGRAM$' &&
        json f.json 'a, b = j["allocators"]
            a["more_bytes"] == 0 && b["more_bytes"] == 1.5 * 150e6 && b["rank_memory"] == 1' || return 1
    ranked_arena 600 && prints 'Best: glibc with ROW=b' && prints 'PROGRAM$' &&
        json f.json 'j["allocators"][1]["more_bytes"].between?(1.5e6, 1.6e6)' || return 1
    # No thread ever has more than it has at the peak.
    lanes=100000000
    ranked_arena 10 && prints 'Best: glibc with ROW=b' &&
        json f.json 'j["allocators"][1]["more_bytes"] == 0'
}
tunes() {
    exits 0 compare lanes -r 1 -a glibc,tcmalloc --tune --json f.json -- --limit 20000 &&
        json f.json 'e = j["allocators"].map { |a| a["entry"] }
            e.first(2) == %w[glibc tcmalloc] && e.include?("glibc:MALLOC_ARENA_MAX=1") &&
                e.any? { |one| one.start_with?("tcmalloc:TCMALLOC_") } && e.none?(/jemalloc/) &&
                    e.size > 6'
}
# 100 objects of 300 000 bytes, of each of which one line is written: huge pages are filled by that.
huge_pages() {
    echo '#include <stdlib.h>
        int main(void) { for (int i = 0; i < 100; i++) *(volatile char *)malloc(300000) = 1; }' >large.c
    ${CC:-cc} -O1 -o large large.c && exits 0 record --allocator=program -o large.lz4 ./large &&
        exits 0 compare large.lz4 -r 1 --no-latency -a jemalloc --thp always,never --json f.json -- --touch line &&
        json f.json 'rows = j["allocators"].to_h { |a| [a["settings"]["REPLAY_THP"], a["numbers"]["peak_net_rss_bytes"]["median"]] }
            rows["never"] < 8 << 20 && rows["always"] > 20 << 20'
}
# On a terminal of 80 columns.
fits_the_terminal() {
    stty_and() { in_terminal sh -c "stty cols 80; exec $bin/malloctape compare lanes -r 1 -a glibc,tcmalloc"; }
    stty_and | tr -d '\r' | sed 's/.*\x1b\[K//' >out
    prints '^glibc  *1' && prints ' more columns* on a wider terminal, or in a file)$' &&
        awk 'length > 80 { print "# " $0; bad = 1 } END { exit bad }' out
}
# Of a program that is not yet done growing: a word about it. On a busy machine its end may take so
# long that it is.
rises() {
    exits 0 compare grows.raw.lz4 -r 1 -a glibc &&
        prints "^! the program's memory was still rising at the end of the recording: [0-9]* % of it"
}
warns_of_rise() {
    local try
    for try in 1 2 3 4 5; do
        if rises; then break; fi
        [ "$try" != 5 ] && record_grows || return 1
    done
    exits 0 compare threads.raw.lz4 -r 1 -a glibc && ! prints 'still rising'
}
ranks_no_short_trace() {
    reports a 300/1
    reports b 100/2
    events=9999 runs=1 ranked a b && has_order 1 '-:a -:b' &&
        prints '^No ranking: fewer than 10000 calls' && ! prints '^Best' &&
        json f.json 'j["verdict"]["few_calls"] && j["verdict"]["memory"]["best"].empty? &&
            j["allocators"].all? { |a| a["rank_memory"].nil? }'
}
# Of few calls only the median is known, which is narrower than some names of calls.
names_calls_whole() {
    record few.raw.lz4 perl -e '@a = map { [$_] } 1 .. 500' &&
        exits 0 compare few.raw.lz4 -r 1 -a glibc && prints '^TIME .* malloc  *free$' &&
        prints '^allocator .* p50  *p50$'
}
# What an allocator prints, what a report warns of, and what all reports warn of.
warns() {
    local of_all='{"key": "unknown_frees", "text": "7 frees of unknown objects"}'
    reports a 300/1 '"warnings": ['"$of_all"']'
    reports b 100/2 '"warnings": ['"$of_all"',
        {"key": "no_release", "text": "cannot release"}]'
    sed -i ':a; N; s/\n */ /; ta' made/b
    printf 'replay: not this one\n\nbogus setting: x\nmore\n' >made/a.printed
    program=/bin/bash runs=1 ranked a b && rm made/a.printed &&
        [ "$(grep -c '7 frees of unknown objects' out)" = 1 ] && prints '^! 7 frees' &&
        prints '^! bash mostly starts other programs' &&
        prints '^  ! it printed: bogus setting: x$' && prints '^  ! cannot release$' &&
        json f.json 'a, b = j["allocators"]
            a["printed"] == "bogus setting: x" && b["printed"].nil? &&
                b["warnings"] == ["cannot release"] && j["warnings"].size == 2'
}
# Of a program that asked for sizes.
warns_of_questions() {
    for asked in 7 0; do
        reports a 300/1
        reports b 100/2
        of_null="\"original_sizes_asked\": $asked" runs=1 ranked a b || return 1
        cp out "asked.$asked"
    done
    grep -q '^! made asked 7 times how large its objects are' asked.7 &&
        ! grep -q 'how large' asked.0
}
# Of a trace from another machine.
warns_of_other_machine() {
    local here="$(uname -m) $(getconf PAGESIZE)" machine
    for machine in "s390x 4096" "$(uname -m) 32768" "$here"; do
        reports a 300/1
        reports b 100/2
        local null='"recorded_architecture": "'${machine% *}'", "recorded_page_bytes": '${machine#* }
        of_null=$null runs=1 ranked a b || return 1
        if [ "$machine" = "$here" ]; then
            ! grep -q 'recorded on' out || return 1
        else
            prints "^! recorded on ${machine% *} with pages of ${machine#* } bytes" || return 1
        fi
    done
}
# Of a trace with threads, by one thread.
warns_of_arenas() {
    exits 0 compare lanes -r 1 -a glibc:MALLOC_ARENA_MAX=1 -e switch &&
        prints '^  ! MALLOC_ARENA_MAX only has an effect with several threads' && prints '^glibc  *1?  *[0-9.]*! ' &&
        exits 0 compare lanes -r 1 -a glibc:MALLOC_ARENA_MAX=1 && ! prints '!' &&
        exits 0 compare churn -r 1 -a glibc:MALLOC_ARENA_MAX=1 && ! prints '!'
}
tells_complaint() {
    local jemalloc
    jemalloc=$(ls /usr/lib/*/libjemalloc.so.2 2>/dev/null | head -n 1)
    [ -n "$jemalloc" ] || return 0
    exits 0 compare churn -r 1 -a "$jemalloc:MALLOC_CONF=bogus:1,glibc" &&
        prints '^  ! it printed: <jemalloc>: Invalid conf pair: bogus:1$'
}

refuses_nonsense() {
    exits 2 compare && says 'which trace?' && exits 2 compare a b --html f.html &&
        says '--html takes one trace' &&
        exits 2 compare lanes -a jmalloc && says "there is no allocator 'jmalloc'" &&
        exits 2 compare lanes -a glibc: && says "is not the name of a variable" &&
        exits 2 compare lanes -r 0 && says "'0' is not a number from 1" &&
        exits 2 compare lanes --colour && exits 2 compare lanes --html - &&
        says 'html needs a file' && [ ! -e ./- ]
}
# While it copies a trace from a pipe that does not end.
stops_copying() {
    "$bin/malloctape" compare - -a glibc >out 2>err < <(
        cat lanes
        while echo; do sleep 0.05; done
    ) &
    local pid=$!
    while kill -0 "$pid" && leaves_nothing; do sleep 0.01; done
    kill -TERM "$pid"
    timeout 60 tail --pid="$pid" -f /dev/null || kill -KILL "$pid"
    exit_status wait "$pid" 2>/dev/null
    [ "$status" = 143 ] && leaves_nothing
}
stops_when_asked() {
    "$bin/malloctape" compare lanes -a glibc -r 1000 >out 2>err &
    local pid=$!
    while kill -0 "$pid" && leaves_nothing; do sleep 0.01; done
    kill -TERM "$pid"
    exit_status wait "$pid" 2>/dev/null
    [ "$status" = 143 ] && leaves_nothing
}

check 'an instruction stream' compares_instructions
check 'an instruction stream in lz4' compares_lz4
check 'a recording, all of whose calls are carried out' compares_raw
check 'an instruction stream from a pipe' compares_piped_instructions
check 'a recording from a pipe' compares_piped_raw
check 'JSON: a path that is not UTF-8 is printable' compares_odd_path
check 'JSON: a library whose name is not UTF-8 has one, and a label' compares_odd_library
check 'exit 3 for a trace that was cut' tells_cut
check 'a damaged trace is told once, with the offset' refuses_damage
check 'a damaged recording, too' refuses_damaged_recording
check 'other files are refused' refuses_other_files
check 'a missing file is told' refuses_missing_file
check 'the tables have a row for each' tells_tables
check 'JSON without curves' leaves_out_curves
check 'the machine, as far as results depend on it' tells_machine
check 'the tables have 120 columns at most' fits_in_120_columns
check 'a time below the step of the clock is told as that' tells_steps
check 'JSON: median, least and greatest of every number' tells_json
check 'JSON on the standard output, alone' tells_json_alone
check 'what the process would have, by the original' expects_memory
check 'no such figures where they would be wrong, and why' expects_no_memory
check 'calls are timed in a round of their own' times_calls
check 'JSON: curves' tells_curves
if [ -n "$chartjs" ]; then
    check 'the page needs no other file' page_stands_alone
    check 'the page has a text with numbers without a script' page_has_numbers
    check 'the page names what failed' page_names_failures
    check 'the page shows odd characters as they are' page_escapes
else
    for text in 'alone' 'numbers' 'failures' 'odd characters'; do
        skip_test "the page: $text" 'no libjs-chart.js'
    done
fi
if [ -n "$chartjs" ] && [ -n "$node" ]; then
    check 'the script of the page makes charts, facts and a table of all numbers' page_runs
else
    skip_test 'the script of the page' 'nodejs or libjs-chart.js is not installed'
fi
check 'settings reach their allocator only; one that fails is a row' settings_reach_one_only
check 'a crash is told with the last words' tells_crash
check 'a replay that a signal ends is tried again' tries_again
check 'after the third time it is missing, and nothing is the best' tells_killed
check 'an allocator that runs out of memory is a row with what replay says' tells_exhaustion
check 'one that hangs is stopped, and its row says so' tells_hang
check 'a full directory for temporary files is told' tells_full_directory
check 'a full standard output is told' tells_full_output
check 'a missing allocator is told, others go on' tells_missing
check 'a library that is no allocator is told' tells_other_library
check 'what is preloaded into compare is not preloaded into replays' ignores_own_preload
check 'threads and touched pages by default' answers_by_default
check 'RSS below live bytes has a word' tells_untouched
check 'options of replay behind --' takes_options_of_replay
check 'without a list, all that are installed' all_installed_by_default
check 'five replays each, if nothing else is asked for' replays_five_times
check 'rows are ranked, best first, and equal ones share a rank' ranks_rows
check 'the verdict: who is best, by how much, how sure' says_verdict
check 'small differences and noise are called equal' knows_equal
if [ -n "$chartjs" ]; then
    check 'the page goes best first, too' page_is_sorted
else
    skip_test 'the page goes best first, too' 'no libjs-chart.js'
fi
check 'all tables by one measure' sorts_by_one
check 'the change to expect of the program' tells_change_of_program
check 'the memory to expect, of known curves' expects_known_memory
check 'a change that would not show in the program' knows_what_would_not_show
check 'no more is saved than the allocator takes' limits_what_is_saved
check 'memory that still rises at the end' warns_of_rise
check 'several recordings, and an interval across them' says_across
check 'of which nothing is sure' knows_unsure_across
check 'recordings of different roles are told apart, and no interval leaves what is possible' tells_roles
check 'a command line is for what clearly gains, in memory or in time' says_paste_of_gains
check 'libraries of the program are no allocator'\''s' counts_what_an_allocator_brings
check 'what the recorder brought is not what the program has' tells_what_the_program_has
check 'reallocs have a table' tells_reallocs
check 'where a setting makes threads wait, the interval is wider' widens_where_threads_wait
check 'a line to paste' says_paste
check 'settings that are worth a try' tunes
if jemalloc=$(system_library libjemalloc.so.2) &&
    ! grep -qs '\[never\]' /sys/kernel/mm/transparent_hugepage/enabled && [ -z "$sanitized" ]; then
    check 'with huge pages and without' huge_pages
else
    skip 'with huge pages and without' 'no jemalloc, or no huge pages'
fi
check 'tables fit a terminal of 80 columns' fits_the_terminal
check 'several that come next are named' names_all_that_come_next
check 'few runs are not sure' few_runs_are_unsure
check 'fewer than 10 000 calls are not ranked' ranks_no_short_trace
check 'a name is whole over a single column' names_calls_whole
check 'warnings stand beside what they spoil' warns
check 'a program that asks for sizes of objects' warns_of_questions
check 'a trace from another machine' warns_of_other_machine
check 'settings of arenas, which one thread does not show' warns_of_arenas
check 'an allocator that complains is heard' tells_complaint
check 'exit 2 for mistakes on the command line' refuses_nonsense
check 'SIGTERM ends it and leaves nothing behind' stops_when_asked
check 'SIGTERM ends it while it copies' stops_copying
