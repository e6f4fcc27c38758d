#!/bin/bash
# cli_report_test.sh - `malloctape report` says what is in a trace, and a slow program in Ruby
# counts the same from the lines of `dump`.
set -euo pipefail

. "$(dirname "$0")/../cli_tap.sh"

make_instructions=$build_dir/tests/tools/make_instructions
run_page=$source_dir/tests/tools/run_page.js
rounding_check=$build_dir/tests/tools/rounding_check

plan 58

# counted FILE - whether every number of report.json is what the lines of a dump of FILE add up to.
counted() {
    { "$bin/malloctape" dump "$1" 2>/dev/null || true; } |
        ruby "$reference/report.rb" report.json >differences
}

# numbers_right FILE [STATUS]
numbers_right() {
    exits "${2:-0}" report "$1" --json report.json && counted "$1"
}

# --- every number ---

of_golden() {
    local file
    for file in "$source_dir"/tests/golden/instructions-*; do
        case $file in *.dump) continue ;; esac
        numbers_right "$file" || return 1
    done
}
of_kinds() { "$make_instructions" kinds >kinds && numbers_right kinds; }
of_threads() { "$make_instructions" pairs 20000 7 >pairs && numbers_right pairs; }
of_cut() { head -c 60000 lanes >cut && numbers_right cut 3 && prints 'The recording is cut short'; }

# Orders the recording, and compares the report of either.
of_recording() {
    "$bin/postprocess" --quiet "$1" ordered && numbers_right ordered &&
        mv report.json ordered.json && exits 0 report "$1" --json report.json &&
        ruby -rjson -e 'a, b = %w[ordered report].map { |f|
            JSON.parse(File.read("#{f}.json")).except("path") }
            exit a == b && a["numbers"]["calls"] > 1000'
}
of_threads_recorded() {
    TCMALLOC_RELEASE_RATE=3 record threads.raw.lz4 "$workloads/threads" 400 &&
        of_recording threads.raw.lz4
}
of_script_recorded() {
    record perl.raw.lz4 perl -e 'my @a = map { "x" x ($_ * 37) } 1 .. 900; $_ = uc for @a;
        @a = grep { length($_) % 3 == 0 } @a; my $s = ""; $s .= "y" x $_ for 1 .. 3000' &&
        of_recording perl.raw.lz4
}

# What a launcher ran in its own process is not in its recording: that is told, not for others.
of_launcher() {
    record env.raw.lz4 env "$workloads/known_calls" && exits 0 report env.raw.lz4 --json report.json &&
        prints '^! It ends where the process ran another program' &&
        grep -q '"ends_at_exec": *true' report.json && exits 0 info env.raw.lz4 &&
        prints 'complete: another program ran in the process' && exits 0 verify env.raw.lz4 &&
        "$bin/postprocess" --quiet env.raw.lz4 ordered && exits 0 report ordered &&
        prints '^! It ends where the process ran another program' && exits 0 verify ordered &&
        exits 0 info ordered && prints "another program ran" &&
        record part.raw.lz4 sh -c "$workloads/known_calls; true" &&
        exits 0 report part.raw.lz4 && ! prints 'another program'
}

# 2^53 is the last number with which a double still counts one by one.
great() {
    ruby -e 'puts "= Start"
        ARGV.each_with_index { |size, i| puts "@ p:[0x1] + #{4096 * (i + 1)} #{size}" }' \
        "$@" >mtrace.txt &&
        "$bin/malloctape" import --quiet --from mtrace -o great-$# mtrace.txt
}
of_great_sizes() {
    great 0x20000000000001 && numbers_right great-1 && exits 0 report great-1 &&
        prints '^peak .* alive, 1 object$' && prints '^at the end .* alive, 1 object, 100 %' &&
        json report.json 'j["numbers"]["bytes"] == 2**53 + 1' &&
        exits 6 report great-1 --fail-if 'bytes>9007199254740992' &&
        exits 0 report great-1 --fail-if 'bytes>9007199254740993' &&
        great 0x20000000000001 0x20000000000001 && numbers_right great-2 &&
        great 0x20000000000001 0x20000000000001 1 && numbers_right great-3 &&
        exits 0 report great-2 great-3 --json f.json && prints '^ *bytes .* + 1 byte ' &&
        json f.json 'j["numbers"]["bytes"] == { "before" => 2**54 + 2, "after" => 2**54 + 3,
            "difference" => 1, "per_cent" => j["numbers"]["bytes"]["per_cent"], "unit" => "bytes" }'
}

# The comparison itself: it finds each number that is changed.
finds_wrong_numbers() {
    local key
    "$make_instructions" lanes 500 5 >few && numbers_right few && cp report.json few.json
    for key in '["numbers"]["calls"]' '["numbers"]["peak_objects"]' '["sizes"]["peak_bytes"][3]' \
        '["ages"]["peak_objects"][1]' '["threads"]["longest_turn"][2]' \
        '["lifetimes"]["by_size"]["objects"][0]' '["timeline"]["most_live_bytes"][0]' '["timeline"]["by_kind"]["free"][0]' \
        '["rounding"]["glibc"]["taken"]' '["rounding"]["jemalloc"]["classes"]["peak_taken"][0]' \
        '["others"]["busiest_calls"]'; do
        ruby -rjson -e 'j = JSON.parse(File.read("few.json"))
            eval("j#{ARGV[0]} += 1"); File.write("report.json", j.to_json)' "$key" &&
            ! counted few && [ -s differences ] || return 1
    done
}
of_lanes() {
    "$make_instructions" lanes 30000 5 >lanes && numbers_right lanes
}

# --- what allocators round up to ---

# rounds LIBRARY NAME GREATEST - a library of the system, or of ours by its path.
rounds() {
    local library=$1
    case $library in
    '' | /*) ;;
    *)
        if ! LD_PRELOAD=$library true 2>&1 | wc -c | grep -q '^0$'; then
            skip_test "$2 rounds as we think" "$library is not installed"
            return
        fi
        ;;
    esac
    if [ -n "$sanitized" ]; then
        skip_test "$2 rounds as we think" 'nothing can be preloaded with this sanitizer'
    else
        check "$2 rounds as we think" env LD_PRELOAD="$library" "$rounding_check" "$2" "$3"
    fi
}

# --- where a trace comes from, and where the report goes ---

takes_pipes() {
    lz4 -q lanes lanes.lz4 &&
        "$bin/malloctape" report - --json f.json <lanes.lz4 >out &&
        json f.json 'j["numbers"]["objects"] > 1000' &&
        cat threads.raw.lz4 | "$bin/malloctape" report - --json - >f.json &&
        json f.json 'j["threads"]["lane"].size > 1 && j["status"] == "complete"'
}
refuses_outputs() {
    local option
    for option in --json --html --call-sizes; do
        exits 1 report lanes "$option" missing/f && says 'missing/f: \|no page: ' && [ ! -s out ] ||
            return 1
    done
    exits 1 report lanes --json . && says ' \.: cannot open for writing: Is a directory' &&
        exits 2 report lanes --html - && says 'html needs a file' && [ ! -e ./- ]
}
tells_text() {
    exits 0 report lanes && prints "^make_instructions: 31 000 calls by 5 threads" &&
        prints '^peak  *[0-9.]* KiB alive, ' &&
        prints '^over time  *calls ' && prints '^sizes  *[0-9]* bytes* at least, [0-9.]* .* on average, ' &&
        prints '^left at the end [0-9 ]* of [0-9 ]* bytes' && prints '^sizes, by how many' &&
        prints '^  glibc  *[0-9.]* [KM]iB ' && prints '^  last   quarter ' &&
        awk 'length > 120 { bad = 1 } END { exit bad }' out
}
refuses_damage() {
    { head -c 50000 lanes && head -c 1000 /dev/zero && tail -c +51001 lanes; } >damaged &&
        exits 1 report damaged && says '^malloctape report: damaged: offset 0x' && [ ! -s out ]
}
refuses_damaged_recording() {
    lz4 -dc threads.raw.lz4 >raw && { head -c 20000 raw && head -c 1000 /dev/zero &&
        tail -c +21001 raw; } >bad.raw && exits 1 report bad.raw &&
        says '^malloctape report: bad.raw: offset 0x'
}
# Ordering that is killed, as by a system without memory: somebody says so.
tells_killed_ordering() {
    mkdir -p killed && cp "$bin/malloctape" killed/ &&
        printf '#!/bin/bash\nkill -KILL $$\n' >killed/postprocess && chmod +x killed/postprocess &&
        (bin=killed && exits 1 report threads.raw.lz4) && [ ! -s out ] &&
        says 'postprocess ended by signal 9'
}
refuses_others() {
    exits 1 report "$source_dir/README.md" &&
        says 'neither a raw stream nor an instruction stream' &&
        exits 1 report nothing && says 'nothing: cannot open' &&
        exits 2 report && exits 2 report a b c
}
# As heaptrack writes it down: 2 000 objects of 10 000 bytes in 100 ms, all freed in as many, and a
# few less again.
tells_second_peak() {
    ruby -e 'puts "v 10400 3", "I 1000 1000"
        [2000, 1900].each_with_index do |count, turn|
            puts "c #{(200 * turn).to_s(16)}"
            count.times { |i| puts "+ 2710 1 #{(4096 * (i + 1)).to_s(16)}" }
            puts "c #{(200 * turn + 100).to_s(16)}"
            count.times { |i| puts "- #{(4096 * (i + 1)).to_s(16)}" }
        end
        puts "c 258"' >peaks &&
        "$bin/malloctape" import --quiet --from heaptrack -o two_peaks peaks &&
        exits 0 report two_peaks &&
        prints '^another peak  *[0-9.]* MiB alive, 95[.0]* % of the first$' &&
        prints '^peak at call .*, the other until 300 ms$' &&
        prints '^busiest  *[0-9 ]* calls, in [0-9.]* m*s, from ' &&
        exits 0 report lanes && ! prints '^another peak'
}
# What is allocated behind a pause did not come slowly in the course of it.
tells_pauses() {
    record pause.raw.lz4 ruby -e 'x = "x" * 100_000; sleep 0.6; 3000.times { |i| x << "y" * i }' &&
        exits 0 report pause.raw.lz4 --json f.json && json f.json '
            ends = j["timeline"]["end_ns"]
            rows = ends.each_with_index.map { |ns, i|
                [ns - (i > 0 ? ends[i - 1] : 0), j["timeline"]["calls"][i]] }
            # Of several rows, if there is a tick in it.
            parts = rows.chunk { |_, calls| calls.zero? }.to_a
            pause = parts.index { |none, part| none && part.sum(&:first) > 400_000_000 }
            !pause.nil? && pause + 1 < parts.size'
}
# The address space, as the system counts it.
tells_vm_size() {
    exits 0 report pause.raw.lz4 --json f.json && prints '^over time .* RSS  *VmSize$' &&
        prints '^  to .* [0-9.]* [MG]iB$' && json f.json '
            j["timeline"]["rss_bytes"].zip(j["statistics"]["timeline"]["vm_size_bytes"])
                .all? { |rss, size| size > rss } &&
            j["statistics"]["last"]["vm_size_bytes"] % 4096 == 0' &&
        ! prints '^  vm_size' && exits 0 report lanes && ! prints 'VmSize$'
}
# Its parts add up; pages of the heap are told apart by a replay. What is never freed is named.
tells_first() {
    sum='r = j["first"]["rss"]
        r.values_at("live", "rounding", "partly", "empty", "shared", "others").sum == r["rss"]'
    exits 0 report pause.raw.lz4 --json f.json && json f.json "$sum" &&
        json f.json 'j["first"]["rss"]["peak"] == j["numbers"]["peak_rss"] &&
            j["first"]["rss"]["rss"] >= 0.99 * j["timeline"]["rss_bytes"].max - 1 &&
            j["numbers"]["peak_rss"] >= j["rss"]["peak"]["bytes"] -
                j["rss"]["owners"].then { |o| o["bytes"][o["kind"].index("recorder")] }' &&
        json f.json 'o = j["rss"]["owners"]
            pss = o["kind"].zip(o["pss"]).sum { |kind, bytes| kind == "recorder" ? 0 : bytes.to_i }
            said = File.read("out")[/; ([\d.]+) MiB with what is shared divided among/, 1].to_f
            j["rss"]["peak"]["brief"] || (pss / 1048576.0 - said).abs < 0.06' &&
        sed -n 3p out | grep -q '^RSS  *peak [0-9.]* MiB[,;].* at ' &&
        sed -n 4p out | grep -q '^ *[0-9.]* MiB  *[0-9.]* %.*  alive, as asked for$' &&
        prints ' free in the heap (--under: ' && prints '^ .* 100 %.*  = RSS$' &&
        prints '^calls  *malloc [0-9]* %, ' && prints '^ *made [0-9.]* % of [0-9]* bytes' || return 1
    ruby -e 'puts "= Start"
        4000.times { |i| printf("@ p:[0x1] + %#x 0x30\n@ p:[0x1] + 0x10 0x40\n@ p:[0x1] - 0x10\n", 4096 * (i + 1)) }
        100.times { |i| printf("@ p:[0x1] + %#x 0x50\n", 4096 * (i + 9000)) }
        9000.times { |i| printf("@ p:[0x1] + 0x10 0x40\n@ p:[0x1] - 0x10\n") }
        printf("@ p:[0x1] + 0x9990000 0x30\n")' >mtrace.txt &&
        "$bin/malloctape" import --quiet --from mtrace -o leaks mtrace.txt && numbers_right leaks &&
        prints '^may leak  *188 KiB of 48 bytes, 4 001 of 4 001 made are never freed$' &&
        [ "$(grep -c 'are never freed' out)" = 1 ]
}
# What was alive is that of the first tick near the largest RSS, not of one at which the program had
# freed most of it.
tells_plateau() {
    sample instructions_plateau && numbers_right instructions_plateau &&
        json report.json 'j["first"]["rss"].values_at("peak", "rss", "live", "call") ==
            [10_000_000, 9_900_000, 100_000, 3]' &&
        prints '^RSS  *peak 9.5 MiB; 9.4 MiB of it, at 30 ms, after call 3:$'
}
# A forked process: what its parent made is not free in its heap.
tells_forks() {
    record fork.%p.lz4 perl -MPOSIX -e '
        my @kept = map { "x" x 1000 } 1 .. 20_000;
        my $child = fork;
        if (!$child) {
            splice @kept, 0, 5_000;
            my @own = map { "y" x 3000 } 1 .. 1_000;
            if (!fork) {
                my @more = map { "z" x 2000 } 1 .. 200;
                POSIX::_exit(0);
            }
            wait;
            POSIX::_exit(0);
        }
        print "$$ $child\n";
        wait;' || return 1
    local parent child
    read -r parent child <printed
    exits 0 report "fork.$child.lz4" --json f.json &&
        prints '^forked  *from a running process: [0-9 ]* frees and [0-9 ]* reallocs are of objects inherited at fork$' &&
        prints ' the rest of the heap: older objects, or free$' && ! prints 'free in the heap' &&
        ! prints ' the peak, the heap was\|allocation was not recorded\|heap, .* times the peak' &&
        json f.json 'g = j["growth"]
            g["forked"] && g["older_frees"] >= 5_000 && g["grown_bytes"] >= 3_000_000 &&
                g["rss_before"] > 20_000_000' &&
        exits 0 report "fork.$parent.lz4" --json f.json && json f.json 'j["growth"].nil?' || return 1
    for file in fork.*.lz4; do
        [ "$("$bin/malloctape" dump "$file" | grep -c 'metadata forked=1$')" = \
            "$([ "$file" = "fork.$parent.lz4" ]; echo $?)" ] || return 1
    done
    [ "$(ls fork.*.lz4 | wc -l)" = 3 ]
}
# On a terminal of 80 columns: from the first table on, but for those of single allocators.
fits_the_terminal() {
    for trace in lanes pause.raw.lz4; do
        in_terminal sh -c "stty cols 80; exec $bin/malloctape report $trace" | tr -d '\r' |
            sed -n '/^sizes, by how many$/,$p' >out
        prints '^sizes, alive at the peak$' && prints '^over time ' &&
            awk 'length > 80 { print "# " $0; bad = 1 } END { exit bad }' out || return 1
    done
    prints ' RSS  *VmSize$'
}
# fits_columns LABEL WORDS... - so do, from the table with that label on, those of $COLUMNS columns.
fits_columns() {
    local label=$1
    shift
    COLUMNS=80 exits 0 report "$@" && sed -n "/^$label/,\$p" out >tables && [ -s tables ] &&
        awk 'length > 80 { print "# " $0; bad = 1 } END { exit bad }' tables
}
others_fit() {
    TCMALLOC_TRACE_ADDRESSES=1 "$bin/malloctape" record --quiet --allocator=program -o arenas.raw.lz4 \
        "$workloads/threads" 500 >printed 2>err &&
        fits_columns "glibc's arenas" arenas.raw.lz4 && fits_columns 'served by' threads.raw.lz4 --depths &&
        fits_columns 'what grew most' few lanes && fits_columns 'what grew most' great-1 great-2 &&
        grep -q '^ *9 007 199 254 740 993  ' tables && fits_columns 'what grew most' few threads.raw.lz4 &&
        exits 0 report few lanes && prints '^what grew most  *before  *after  *difference$' &&
        awk 'length > 120 { bad = 1 } END { exit bad }' out
}
tells_pages_first() {
    exits 0 report fragments.raw.lz4 --under --json f.json && json f.json "$sum" &&
        json f.json 'j["first"]["rss"]["has_pages"]' && prints ' free in pages that are partly full$'
}
# Peak and end have pages of their own; a look at the peak may come too late.
tells_pages_at_end() {
    local try
    for try in 1 2 3; do
        record freed.raw.lz4 "$workloads/fragments" 2000 freed
        exits 0 report freed.raw.lz4 --under || return
        awk '/ free in pages that are partly full$/ || / empty pages of the heap$/ {
                 is_empty = sub(/ *empty pages.*/, ""); sub(/ *free in.*/, "")
                 end[is_empty] = $(NF - 1) * ($NF == "MiB" ? 1024 : $NF == "KiB"); seen++
             }
             END { print "# at the end: " end[0] ", " end[1]; exit !(seen == 2 && end[1] > 8 * end[0]) }' out && return
    done
    return 1
}
tells_unusual() {
    exits 0 report kinds && prints '^! [0-9]* calls failed\.$' &&
        prints '^! [0-9]* frees were of objects that had been freed already\.$'
}

# --- the change ---

# 1 byte less of 100 000.
has_no_negative_zero() {
    for bytes in 100000 99999; do
        printf '%s\n' 1 1 2 1 "a 0 $bytes" 'f 0' >"$bytes.rep"
        exits 0 import -q "$bytes.rep" -o "$bytes.ordered" || return 1
    done
    exits 0 report 100000.ordered 99999.ordered && prints '^ *peak_live .* - 1 byte  *0\.0 %$'
}

# --- the page ---

has_charts() { [ -e /usr/share/javascript/chart.js ] || [ -e /usr/share/nodejs/chart.js ]; }
# It has the data, and needs nothing else.
writes_page() {
    exits 0 report lanes --html page.html --json f.json &&
        ! grep -q -i 'src=\|<link\|@[A-Z]*@' page.html &&
        grep -q '<h1>make_instructions: what it asks of its allocator</h1>' page.html &&
        grep -q '<p class="warning">.* ended by another thread' page.html &&
        grep -q '"packed":"steps"' page.html &&
        ruby -r "$reference/page_data.rb" \
            -e 'exit page_data(File.read("page.html")) == JSON.parse(File.read("f.json"))'
}
# Of two traces, too; of the two, one size differs.
runs_scripts() {
    local under=(--under glibc)
    [ -z "$sanitized" ] || under=()
    exits 0 report before.raw.lz4 after.raw.lz4 --html two.html && ! grep -q '@[A-Z]*@' two.html &&
        grep -q '<h1>copies_before and copies_after: what changed' two.html &&
        node "$run_page" two.html >figures &&
        grep -q '^Objects by size, what changed most: 1 drawn, 1 rows$' figures &&
        exits 0 report great-1 few --html two.html && node "$run_page" two.html >figures &&
        exits 0 report few lanes --html two.html && grep -q '<h1>few and lanes: what' two.html &&
        exits 0 report threads.raw.lz4 --depths "${under[@]}" --html one.html &&
        node "$run_page" one.html >figures && [ "$(grep -c ' drawn' figures)" -ge 9 ] &&
        grep -q '^Objects made and ended: [0-9]* drawn in steps, ' figures &&
        grep -q '^Calls by kind: [0-9]* drawn in steps, ' figures &&
        grep -q '^Memory over time: [0-9]* drawn, ' figures &&
        grep -q '^  bytes | objects$' figures && grep -q '^  size from | objects | bytes |' figures
}

# --- objects and sizes, one by one ---

# The lines add up to the report.
dumps_objects() {
    exits 0 dump --objects threads.raw.lz4 && same_objects out
}
same_objects() {
    cp "$1" objects && exits 0 report threads.raw.lz4 --json f.json &&
        json f.json 'rows = File.readlines("objects", chomp: true).drop(1).map(&:split)
            n = j["numbers"]
            ended, alive = rows.partition { |row| row[6] != "-" }
            remote = ended.count { |row| row[3] != row[7] }
            rows.size == n["objects"] && alive.size == n["end_objects"] &&
                rows.sum { |row| row[1].to_i } == n["bytes"] &&
                ended.sum { |row| row[8].to_i - row[4].to_i } ==
                    j["sizes"]["lifetime_calls"].sum &&
                rows.map { |row| row[4] }.uniq.size == rows.size && remote > 0 &&
                rows.map(&:first).tally == j["by_kind"].slice(*rows.map(&:first))'
}
writes_call_sizes() {
    exits 0 report kinds --call-sizes sizes &&
        "$bin/malloctape" dump --only-calls kinds | ruby -e 'puts $stdin.each_line.map { |line|
            words = line.split.reject { |word| word =~ /\A(r\d+|\?)\z/ }
            words[1] if line.include?("->") || words.last == "failed" }.compact' >wanted &&
        cmp sizes wanted && exits 0 report kinds --call-sizes sizes.lz4 &&
        lz4 -dc sizes.lz4 | cmp - wanted
}
# Read with a program of Avro itself.
exports_avro() {
    exits 0 export --quiet --to avro -o objects.avro threads.raw.lz4 &&
        avrocat objects.avro >rows && ruby -rjson -e 'puts "#"
            File.foreach("rows") { |line| row = JSON.parse(line).except("stack").values
                row.map! { |value| value.is_a?(Hash) ? value.values[0] : value }
                puts row.map { |value| value.nil? ? "-" : value }.join(" ") }' >avro_objects &&
        same_objects avro_objects && "$bin/malloctape" dump --objects threads.raw.lz4 >lines &&
        [ "$(tail -n +2 lines | cksum)" = "$(tail -n +2 avro_objects | cksum)" ]
}

# --- how far calls go ---

# The same from the lines of a dump: what stands before a call is of the next one of the lane, what
# stands after it of the latest. Programs wait, their memory grows, and their spans are split.
counts_depths() {
    record waits.raw.lz4 "$workloads/waits" held 3
    record spans.raw.lz4 "$workloads/spans"
    for trace in threads spans waits; do
        exits 0 report $trace.raw.lz4 --depths --json f.json &&
            prints '^served by  *calls  *cache ' &&
            "$bin/malloctape" dump $trace.raw.lz4 | counted_from_dump || return 1
    done
    prints '^waited for the lock of ' && prints '^  from the system, by sbrk  *[0-9]* ' &&
        prints '^  remainders of spans that were split  *[0-9]* '
}
counted_from_dump() {
    ruby -rjson -e '
        coming = Hash.new { |all, lane| all[lane] = [] }
        calls = Hash.new { |all, lane| all[lane] = [] }
        lists, waits = Hash.new(0), Hash.new { |all, of| all[of] = [0, 0] }
        kinds = %w[sbrk mmap release reuse split merge]
        times, bytes = Hash.new(0), Hash.new(0)
        rows = [Hash.new(0)]
        reach = lambda do |call, letters, letter|
            far = %w[C P S]
            rows.last[letter] += 1 if call && !letters.include?(letter)
            rows.last["beyond"] += 1 if call && far.include?(letter) && (letters & far).empty?
            letters << letter
        end
        $stdin.each_line do |line|
            lane, words = line[/ L(\d+) #\d+ /, 1], line.split.drop(3)
            rows << Hash.new(0) if line =~ /\A\h{12} tick /
            next unless lane
            what, order = words[0].match(/\A(\w+)_(before|after)\z/)&.captures
            structure = line[/class \d+|page_heap/]
            case what
            when "sequence" then lists[structure] += 1
            when "waited"
                [structure, lane].each do |of|
                    waits[of] = waits[of].zip([1, words.last.to_i]).map(&:sum)
                end
            when *kinds
                times[what] += 1
                bytes[what] += words.last.to_i
            end
            letters = { "sequence" => structure == "page_heap" ? %w[P] : %w[C],
                        "waited" => %w[W], "reuse" => [], "split" => %w[D], "merge" => %w[M] }
            if order
                letters.fetch(what, %w[S]).each do |letter|
                    order == "before" ? coming[lane] << letter : reach.(*calls[lane].last, letter)
                end
            elsif %w[thread_cache_deleted release_memory].include?(words[0])
                calls[lane] << [nil, []]
            elsif %w[malloc calloc free].include?(words[0])
                kind = words[0] == "free" ? "free" : "allocation"
                calls[lane] << [kind, []]
                rows.last["calls"] += 1
                (coming.delete(lane) || []).each { |one| reach.(*calls[lane].last, one) }
            end
        end
        all = calls.values.flatten(1).select(&:first).map do |call, letters|
            [call, (letters & %w[C P S]).empty? ? "T" : "-",
             *%w[C P S W D M].map { |letter| letters.include?(letter) ? letter : "-" }]
        end
        told = JSON.parse(File.read("f.json"))["depths"]
        paths = Hash.new(0)
        rows_of = ->(table) { table.values.transpose.map { |row| table.keys.zip(row).to_h } }
        rows_of.(told["paths"]).each { |one|
            paths[[one["call"], *one["path"].chars]] += one["calls"] }
        told_lists = rows_of.(told["central_lists"]).to_h { |one| ["class #{one["class"]}", one] }
        told_lists["page_heap"] = told["page_heap"]
        lanes = rows_of.(told["lanes"]).to_h { |one| [one["lane"].to_s, one] }
        rows.pop if rows.last.empty?
        same = {
            paths: paths == all.tally,
            entries: told_lists.transform_values { |one| one["entries"] } == lists,
            waits: waits == told_lists.merge(lanes).transform_values { |one|
                one.values_at("waits", "waited_ns") }.reject { |_, one| one == [0, 0] },
            far: %w[allocations frees].all? { |key|
                told[key].values_at("central", "page_heap").sum > 0 },
            inside: told.values_at("system", "spans").flat_map(&:values) ==
                kinds.map { |kind| { "times" => times[kind], "bytes" => bytes[kind] } },
            times: told["timeline"]["waits"].sum * 2 == waits.values.sum(&:first),
            reached: rows.map { |row| row.values_at("calls", "beyond", *%w[C P S W]) } ==
                told["timeline"].values_at("calls", "beyond_cache", "central", "page_heap",
                                           "system", "waited").transpose
        }
        puts same
        exit same.values.all?'
}
knows_no_depths() {
    exits 0 report lanes --depths --json f.json && json f.json 'j["depths"].nil?' &&
        prints '^how far calls went: only recordings' && exits 2 report - --depths <lanes
}

# --- what keeps pages resident ---

# blames ALLOCATOR - a program that keeps every 64th of its objects of 64 bytes: to these goes the
# blame at the end, to nearly nothing else, and there are as many as were kept.
blames() {
    exits 0 report fragments.raw.lz4 --under "$1" --json f.json &&
        prints "^under $1, engine switch.*, at the end (after call " && json f.json '
            snapshot = j["under"]["snapshots"].find { |one| one["at"].include?("end") }
            sparse = snapshot["sparse"]
            first = sparse["by_size"].transform_values(&:first)
            first["size"] == 64 && first["objects"] == 2000 &&
                first["kept_bytes"] > 0.95 * sparse["kept_bytes"] &&
                first["kept_bytes"] > 2000 * 3800 && first["last_call"] < 129_000 &&
                (1950..2100) === sparse["pages"] && sparse["by_lane"]["lane"].size == 1 &&
                snapshot["pages_by_fullness"].sum == snapshot["pages"] &&
                sparse["without_oldest"][2] > 0.45 * 2000 * 4096 &&
                sparse["without_oldest"][2] < 0.6 * 2000 * 4096'
}
# recounted FILE ENGINE ALLOCATOR [OPTION] - every number of each snapshot, from the lines of a dump
# and the snapshots of replay, which report throws away.
recounted() {
    local file=$1 engine=$2 allocator=$3
    shift 3
    rm -rf keeping kept && mkdir -p keeping/bin kept && cp "$bin/malloctape" keeping/bin/ &&
        ln -s "$bin/../lib" keeping/lib &&
        "$bin/postprocess" --quiet "$file" ordered &&
        cat >keeping/bin/replay <<END &&
#!/bin/bash
for word; do
    case \$word in
    --snapshot=*) snapshot=\${word#*=} ;;
    --limit=*) limit=\${word#*=} ;;
    esac
done
echo "\$TCMALLOC_RELEASE_RATE" >"$PWD/kept/rate"
"$bin/replay" "\$@" && { [ -z "\$snapshot" ] || cp "\$snapshot" "$PWD/kept/\$limit"; }
END
        chmod +x keeping/bin/replay &&
        (bin=keeping/bin && exits 0 report ordered "$@" --json f.json) &&
        json f.json "u = j[\"under\"]
            u[\"engine\"] == \"$engine\" && u[\"allocator\"] == \"$allocator\" &&
                u[\"snapshots\"].size > 1" &&
        "$bin/malloctape" dump ordered | ruby "$reference/fragments.rb" f.json kept >differences
}
# Lanes have lines, five at most, where more than one keeps pages. In which snapshots that is so
# depends on how the program's threads ran.
tells_lanes() {
    json f.json 'j["under"]["snapshots"].sum { |one|
            lanes = one["sparse"]["by_lane"]["lane"].size
            lanes > 1 ? [lanes, 5].min : 0
        } == File.foreach("out").grep(/^ *lane \d+ +[\d ]+ objects? keep/).size'
}
recounts_fragments() {
    recounted fragments.raw.lz4 switch glibc --under glibc &&
        recounted threads.raw.lz4 threads tcmalloc --under && [ "$(cat kept/rate)" = 3 ] &&
        tells_lanes &&
        ! prints 'made by calls \([0-9 ]*\) to \1$'
}
finds_wrong_fragments() {
    local key
    cp f.json right.json
    for key in live_bytes pages_by_fullness,1 sparse,by_size,kept_bytes,0 sparse,by_age,63 \
        sparse,without_oldest,2 map,live_per_mille,0; do
        ruby -rjson -e 'j = JSON.parse(File.read("right.json"))
            *path, last = ARGV[0].split(",").map { |word| Integer(word, exception: false) || word }
            first = j["under"]["snapshots"][0]
            (path.empty? ? first : first.dig(*path))[last] += 1
            File.write("f.json", j.to_json)' "$key" || return 1
        ! "$bin/malloctape" dump ordered |
            ruby "$reference/fragments.rb" f.json kept >differences &&
            grep -q "^call [0-9]*, ${key%%,*}: " differences || return 1
    done
}
check_blames() {
    if [ -n "$sanitized" ]; then
        skip_test "$1: the blame goes to what was kept" 'nothing can be preloaded into a replay'
    elif [ -n "$2" ] && ! system_library "$2" >/dev/null; then
        skip_test "$1: the blame goes to what was kept" "$2 is not installed"
    else
        check "$1: the blame goes to what was kept" blames "$1"
    fi
}
# The pages of the snapshot are those that the system counts, and the heap is that of mallinfo2().
agrees_with_system() {
    "$bin/postprocess" --quiet fragments.raw.lz4 ordered &&
        LD_PRELOAD='' "$bin/replay" -q --json r.json --snapshot=snapshot ordered 2>err &&
        ruby -rjson -e 'magic, page, objects, pages = File.binread("snapshot", 32).unpack("Q<4")
            r = JSON.parse(File.read("r.json"))
            bytes = page * pages
            rss = r["rss_at_end_bytes"] || r["peak_net_rss_bytes"]
            puts "# #{bytes} bytes in pages, #{rss} RSS, #{r["peak_heap_bytes"]} heap"
            exit magic == 0x50414e535041544d && objects == r["live_at_end"] &&
                (bytes - r["peak_heap_bytes"]).abs < 0.05 * bytes &&
                    (bytes - rss).abs < 0.1 * bytes'
}
refuses_engines() {
    "$make_instructions" churn 1000 >churn &&
        exit_status "$bin/replay" -e null --snapshot=s churn >out 2>err
    [ "$status" = 1 ] && says 'this engine cannot write a snapshot' &&
        exits 1 report churn --under && says 'name an allocator: ' &&
        exits 2 report churn --under=nothing && exits 1 report churn --under /nothing.so &&
        exits 2 report churn --under=none && says "there is no allocator 'none'" &&
        exits 2 report --under jemaloc churn && says "there is no allocator 'jemaloc'$" &&
        exits 2 report --under glibc && says 'which trace?' && cp churn churn.sorted &&
        exits 1 report --under churn.sorted && says 'churn.sorted: --under: name an allocator: '
}
refuses_no_malloc() {
    exits 1 report churn --under libm.so.6 && says 'libm.so.6 has no malloc or was not loaded'
}

# --- classes of sizes ---

# many_sizes COUNT SIZE - as many sizes as have a line of their own, so that what follows is counted
# in a class: COUNT objects of SIZE bytes, and one, at the peak, of the greatest size of the class.
many_sizes() {
    { cat many && ruby -e 'puts "@ p:[0x1] + 0x1000 #{ARGV[1]}\n@ p:[0x1] - 0x1000\n" * ARGV[0].to_i
        puts format("@ p:[0x1] + 0x1000 %#x", 999_423)' "$@"; } >mtrace.txt &&
        "$bin/malloctape" import --quiet -o "many-$1-$2" mtrace.txt
}
tells_classes() {
    ruby -e 'puts "= Start"
        262_144.times { |i| printf("@ p:[0x1] + 0x1000 %#x\n@ p:[0x1] - 0x1000\n", 4096 + i) }' \
        >many && many_sizes 100 0xf0000 && many_sizes 1100 0xf0000 && many_sizes 100 0xf0001 &&
        exits 0 report many-100-0xf0000 --json f.json && prints '^  glibc  *17 bytes ' &&
        prints '^left at the end 1 of 983 040 to 999 423 bytes$' &&
        json f.json 'j["rounding"].all? { |_, all| all["peak_taken"] >= j["numbers"]["peak_live"] }' &&
        exits 0 report many-100-0xf0000 many-1100-0xf0000 && prints '^ *983 040\.\.  *101  *1 101 ' &&
        head -n 1 out | grep -q \
            '^1 000 more objects of 983 040 to 999 423 bytes were made (1 101 instead of 101)' &&
        exits 0 report many-100-0xf0000 many-100-0xf0001 &&
        prints '^The number of objects of each size is the same; other numbers differ\.$'
}

# --- two traces ---

# Two builds of a program, one of which copies a string in a loop: that is what is said first.
finds_copy() {
    record before.raw.lz4 "$workloads/copies_before" 20000 &&
        record after.raw.lz4 "$workloads/copies_after" 20000 &&
        exits 0 report before.raw.lz4 after.raw.lz4 --json f.json &&
        head -n 1 out |
        grep -q '^20 000 more objects of 61 bytes were made (20 001 instead of 1)' &&
        json f.json 's = j["sizes"][0]
            s["size"] == 61 && s["made"]["difference"] == 20_000 &&
                s["bytes"]["after"] == 61 * 20_001 &&
                j["sizes"].size == 1 && j["numbers"]["calls"]["difference"] == 40_000 &&
                    j["after"]["numbers"]["calls"] - j["before"]["numbers"]["calls"] == 40_000'
}
# leaks FREED MORE - of 4 000 objects of 48 bytes so many are freed, and so many of 24 are made.
leaks() {
    ruby -e 'freed, more = ARGV.map(&:to_i)
        puts "= Start"
        4000.times { |i| printf("@ p:[0x1] + %#x 0x30\n", 4096 * (i + 1)) }
        freed.times { |i| printf("@ p:[0x1] - %#x\n", 4096 * (i + 1)) }
        puts "@ p:[0x1] + 0x40 0x18\n@ p:[0x1] - 0x40\n" * more' "$@" >mtrace.txt &&
        "$bin/malloctape" import --quiet --from mtrace -o "leaks-$1-$2" mtrace.txt
}
# Of what is alive, the part of all is one of bytes.
makes_few_large() {
    ruby -e 'more = ARGV[0].to_i
        puts "= Start\n@ p:[0x1] + 0x40 0x18\n@ p:[0x1] - 0x40\n"
        more.times { |i| printf("@ p:[0x1] + %#x 0x61a80\n", (i + 1) << 20) }
        (100 * more).times { |i| printf("@ p:[0x1] + %#x 0xa0\n", (i + 1) << 32) }' "$1" >mtrace.txt &&
        "$bin/malloctape" import --quiet --from mtrace -o "large-$1" mtrace.txt
}
shares_bytes() {
    makes_few_large 0 && makes_few_large 10 && exits 0 report large-0 large-10 &&
        prints '^10 more objects of 400 000 bytes are alive at the end (10 instead of 0): 96 % of the increase, 3\.8 MiB\.$'
}
# A leak that is mended: as many objects are made as before, or hardly more.
finds_mended_leak() {
    leaks 0 0 && leaks 3000 0 && leaks 3000 8 && leaks 0 3 || return 1
    exits 0 report leaks-0-0 leaks-3000-8 && head -n 1 out | grep -q '^3 000 fewer' &&
        sed -n 2p out | grep -q '^8 more objects of 24 bytes were made' &&
        exits 0 report leaks-0-0 leaks-0-3 &&
        head -n 1 out | grep -q '^No size differs by a thousandth of all objects, ' &&
        prints '^ *objects  *4 000  *4 003 ' || return 1
    exits 0 report leaks-0-0 leaks-3000-0 --json f.json --html two.html &&
        sed -n 2p out | grep -q '^The number of objects of each size is the same; other numbers differ\.$' &&
        sed -n 1p out | grep -q '^3 000 fewer objects of 48 bytes are alive at the end (1 000 instead of 4 000): 100 % of the decrease, 141 KiB\.$' &&
        sed -n '/^alive at the end /,$p' out | grep -q '^ *48  *4 000  *1 000  *- 3 000 ' &&
        ! prints '^alive at the peak' && json f.json 's = j["sizes"][0]
            s["made"]["difference"] == 0 && s["end_objects"]["difference"] == -3000 &&
                s["end_bytes"]["after"] == 48_000 && s["peak_bytes"]["difference"] == 0' || return 1
    ! has_charts || grep -q '<p class="answer">3 000 fewer objects of 48 bytes are alive' two.html
}
# Two recordings of one program.
tells_noise() {
    record pause2.raw.lz4 ruby -e 'x = "x" * 100_000; sleep 0.6; 3000.times { |i| x << "y" * i }'
    exits 0 report pause.raw.lz4 pause2.raw.lz4 --json f.json &&
        json f.json 'n = j["numbers"]["peak_rss"]
            (n["difference"] != 0 && n["per_cent"].abs < 2) == File.read("out").match?(/^ *peak_rss .* may be noise$/)'
}
finds_nothing() {
    exits 0 report before.raw.lz4 before.raw.lz4 &&
        prints '^The number of objects of each size is the same, and no number differs\.$' &&
        exits 0 report after.raw.lz4 before.raw.lz4 &&
        head -n 1 out | grep -q '^20 000 fewer objects of 61 bytes were made (1 instead of 20 001)'
}
breaks_limits() {
    exits 6 report before.raw.lz4 after.raw.lz4 --fail-if 'calls>+5%' &&
        says "^malloctape report: --fail-if calls>+5% holds: [0-9 ]* became [0-9 ]*$" &&
        exits 6 report before.raw.lz4 after.raw.lz4 --fail-if 'objects>+19999' &&
        exits 6 report after.raw.lz4 --fail-if 'bytes>1M' &&
        exits 6 report after.raw.lz4 --fail-if 'failed<1' &&
        exits 6 report before.raw.lz4 after.raw.lz4 --fail-if 'peak_live>+5%' \
            --fail-if 'bytes>+1MiB'
}
keeps_limits() {
    exits 0 report before.raw.lz4 after.raw.lz4 --fail-if 'objects>+20000' \
        --fail-if 'end_live>+5%' &&
        exits 0 report after.raw.lz4 before.raw.lz4 --fail-if 'calls>+5%' &&
        exits 0 report after.raw.lz4 --fail-if 'bytes>1G' &&
        exits 2 report after.raw.lz4 --fail-if 'calls>+5%' &&
        exits 2 report after.raw.lz4 --fail-if 'calls>5%' &&
        exits 2 report after.raw.lz4 --fail-if 'cells>5' &&
        says "'cells' is not the name of a number; these are: peak_live .* remote_frees .* lost_events$" &&
        exits 2 report after.raw.lz4 --fail-if calls &&
        exits 2 report after.raw.lz4 --fail-if 'bytes>1KB' && says 'may end in KiB, MiB or GiB$'
}
# Limits of what a trace does not say are not kept; beside another trace it is not 0.
knows_no_rss() {
    exits 0 report few --fail-if 'peak_rss>1G' --fail-if 'time>1000' &&
        exits 1 report great-1 --fail-if 'peak_rss>1G' &&
        says '^malloctape report: --fail-if peak_rss>1G: great-1 does not have this number$' &&
        exits 1 report great-1 --fail-if 'time<1' --fail-if 'calls>0' &&
        says '^malloctape report: --fail-if calls>0 holds: 1$' &&
        exits 1 report great-1 few --fail-if 'peak_rss>+5%' && says ': great-1 does not have this number$' &&
        exits 1 report few great-1 --fail-if 'peak_heap<+5' && says ': great-1 does not have this number$' &&
        exits 0 report great-1 few --fail-if 'peak_rss>1G' --json f.json &&
        prints '^ *peak_rss  *-  *[0-9.]* [KMG]iB  *- *$' &&
        json f.json 'n = j["numbers"]["peak_rss"]
            n.values_at("before", "difference", "per_cent") == [nil] * 3 && n["after"] > 0'
}

check 'every number is right: many threads' of_lanes
check 'every number is right: beyond what a double holds' of_great_sizes
check 'a wrong number is found' finds_wrong_numbers
check 'every number is right: all kinds of calls' of_kinds
check 'every number is right: frees by other threads, reallocs' of_threads
check 'every number is right: streams of the past' of_golden
check 'every number is right: a stream that was cut' of_cut
check 'every number is right: a program with threads, also when ordered on the way' \
    of_threads_recorded
check 'every number is right: a script' of_script_recorded
check 'what a launcher ran is not in its recording: that is told' of_launcher
rounds "$plain_library" tcmalloc 3000000
rounds libjemalloc.so.2 jemalloc 30000000
rounds libmimalloc.so.2 mimalloc 30000000
rounds '' glibc 131000
check 'reads from pipes, writes JSON alone' takes_pipes
check 'what cannot be written is refused before the trace is read' refuses_outputs
check 'the text has everything, in 120 columns' tells_text
check 'a second peak is told' tells_second_peak
check 'a pause is a time of its own' tells_pauses
check 'so is the address space' tells_vm_size
check 'where RSS is, what may leak and what makes the calls comes first' tells_first
check 'what was alive when RSS came near its peak' tells_plateau
check 'what a forked process inherited is not called free' tells_forks
check 'tables fit a terminal of 80 columns' fits_the_terminal
check 'so do those of arenas, of depths and of two traces' others_fit
check 'what is unusual is said' tells_unusual
if has_charts; then
    check 'the page stands alone and has the same numbers' writes_page
else
    skip_test 'the page stands alone and has the same numbers' 'libjs-chart.js is not installed'
fi
check 'objects one by one add up to the report' dumps_objects
check 'the sizes of all calls are written' writes_call_sizes
check 'how far calls went' counts_depths
check 'an ordered stream does not know that' knows_no_depths
if command -v avrocat >/dev/null; then
    check 'the Avro file has the same objects' exports_avro
else
    skip_test 'the Avro file has the same objects' 'avrocat (avro-bin) is not installed'
fi
record fragments.raw.lz4 "$workloads/fragments" 2000
check_blames glibc ''
check_blames tcmalloc ''
check_blames jemalloc libjemalloc.so.2
check_blames mimalloc libmimalloc.so.2
if [ -n "$sanitized" ]; then
    skip_test 'pages that are partly full, and empty ones' 'nothing can be preloaded'
    skip_test 'those at the end' 'nothing can be preloaded'
    skip_test 'every number about pages is right, with threads too' 'nothing can be preloaded'
    skip_test 'a wrong number about pages is found' 'nothing can be preloaded'
    skip_test 'pages and heap are those that the system tells of' 'nothing can be preloaded'
else
    check 'pages that are partly full, and empty ones' tells_pages_first
    check 'those at the end' tells_pages_at_end
    check 'every number about pages is right, with threads too' recounts_fragments
    check 'a wrong number about pages is found' finds_wrong_fragments
    check 'pages and heap are those that the system tells of' agrees_with_system
fi
check 'what cannot be replayed is refused' refuses_engines
if [ -n "$sanitized" ]; then
    skip_test 'so is a library without malloc' 'nothing can be preloaded into a replay'
else
    check 'so is a library without malloc' refuses_no_malloc
fi
check 'sizes beyond those that have a line each are told as classes' tells_classes
check 'of two builds, the copy that one makes is said first' finds_copy
check 'a leak that was mended' finds_mended_leak
check 'of what is alive, the share is one of bytes' shares_bytes
check 'peak RSS that differs by chance' tells_noise
check 'of two equal traces, that they are' finds_nothing
check 'what rounds to 0 has no sign' has_no_negative_zero
if has_charts && command -v node >/dev/null; then
    check 'the scripts of both pages run' runs_scripts
else
    skip_test 'the scripts of both pages run' 'nodejs or libjs-chart.js is not installed'
fi
check 'limits that are broken fail' breaks_limits
check 'limits that are kept do not, and wrong ones are refused' keeps_limits
check 'what a trace does not say is not 0' knows_no_rss
check 'a damaged stream is refused' refuses_damage
check 'a damaged recording is refused' refuses_damaged_recording
check 'ordering that is killed is told' tells_killed_ordering
check 'other files and wrong options are refused' refuses_others
