#!/bin/bash
# cli_sweep_test.sh - `malloctape sweep`: plans, the commands that they become, and what a sweep does
# that was interrupted.
set -euo pipefail

. "$(dirname "$0")/../cli_tap.sh"

if [ -n "$sanitized" ]; then
    echo '1..0 # SKIP nothing can be preloaded into a replay with this sanitizer'
    exit 0
fi

plan 26

export TMPDIR=$PWD/temporary
mkdir "$TMPDIR" raw
"$build_dir/tests/tools/make_instructions" lanes 20000 5 >lanes
"$build_dir/tests/tools/make_instructions" churn 20000 1000 >churn
record raw/threads.raw.lz4 "$workloads/threads" 200

# sweep_plan NAME TEXT - writes the plan NAME.json.
sweep_plan() { printf '%s\n' "$2" >"$1.json"; }

# sweep NAME [WORD...] - carries the plan out.
sweep() { exits 0 sweep "$1.json" "${@:2}"; }

# entries FILE - of a result, with the recorded one marked, one a line.
entries() {
    ruby -rjson -e 'JSON.parse(File.read(ARGV[0]))["allocators"].each do |a|
        puts "#{a["entry"]}#{" *" if a["recorded"]} #{a["status"]}"
    end' "$1"
}

# results DIR - the files of results.list.
results() { sed "s|.*|$1/results/&.json|" "$1/results.list"; }

# inodes DIR - which change when something is measured again.
inodes() { stat -c '%i %n' "$1"/results/*.json; }

# rows DIR - what is the same however often one measures: a line for each entry of each result.
rows() {
    local id
    while read -r id; do
        ruby -rjson -e 'result = JSON.parse(File.read(ARGV[0]))
            result["allocators"].each do |a|
                puts [ARGV[1], a["entry"], a["status"], a["recorded"], result["runs"],
                      a["reports"]&.size, result["trace"]["events"], a.dig("reports", 0, "by_kind"),
                      a.dig("reports", 0, "live_at_end")].to_json
            end' "$1/results/$id.json" "$id"
    done <"$1/results.list"
}

# --- plans ---

first_plan() {
    mkdir other && "$bin/malloctape" sweep --plan lanes churn raw/threads.raw.lz4 >other/plan.json &&
        json other/plan.json 'j["traces"] == %w[lanes churn raw/threads.raw.lz4].map { |t| File.realpath(t) }' &&
        [ "$("$bin/malloctape" sweep --plan lanes | grep -c "$PWD/lanes")" = 1 ] || return 1
    exits 0 sweep --plan lanes churn && cp out first.json &&
        json first.json 'j["traces"] == %w[lanes churn] && j["runs"] == 5 &&
            j["allocators"].include?("glibc") && !j["allocators"].include?("none")' &&
        sed -i 's/"runs": 5/"runs": 1/; s/"allocators": .*/"allocators": ["glibc",/' first.json &&
        sweep first && [ "$(wc -l <first.sweep/results.list)" = 2 ]
}

matrix='{"traces": ["lanes", "churn"], "allocators": ["glibc", "tcmalloc"], "runs": 1}'
carries_out_matrix() {
    sweep_plan matrix "$matrix" && sweep matrix && prints '^2 of 2 done; the table: ' &&
        [ "$(cut -d- -f1 matrix.sweep/results.list)" = $'lanes\nchurn' ] &&
        for file in $(results matrix.sweep); do
            [ "$(entries "$file")" = $'glibc complete\ntcmalloc complete' ] || return 1
        done && leaves_nothing
}
leaves_nothing() { [ -z "$(ls "$TMPDIR")" ] && ! ls ./*.sweep/*/new.* 2>/dev/null; }

does_nothing_twice() {
    inodes matrix.sweep >before && sweep matrix && prints '^2 of 2 done' &&
        inodes matrix.sweep | diff before - && exits 0 sweep matrix.sweep &&
        inodes matrix.sweep | diff before -
}
keeps_what_holds() {
    sweep_plan matrix "${matrix/'"churn"'/'"churn", "raw/threads.raw.lz4"'}" && sweep matrix &&
        prints '^3 of 3 done' && [ "$(inodes matrix.sweep | grep -c -F -f before)" = 2 ] &&
        sweep_plan matrix "${matrix/'"runs": 1'/'"runs": 2'}" && sweep matrix &&
        [ "$(wc -l <matrix.sweep/results.list)" = 2 ] && [ "$(inodes matrix.sweep | wc -l)" = 5 ]
}
# Results that have not all entries, too, where the recorded allocator joins them.
keeps_groups() {
    local threads='"raw/threads.raw.lz4", "lanes"'
    sweep_plan groups "{\"traces\": [$threads], \"runs\": 1, \"allocators\": [\"glibc\", \"tcmalloc\"]}"
    sweep groups && inodes groups.sweep | grep threads >before &&
        sed -i 's/"glibc"/"glibc:MALLOC_ARENA_MAX=1", "glibc", "glibc:MALLOC_ARENA_MAX=2"/' groups.json &&
        sweep groups && prints '^3 of 3 done' && inodes groups.sweep | grep -q -F -f before &&
        for file in $(results groups.sweep); do entries "$file"; done | diff - <(cat <<'LIST'
glibc complete
tcmalloc * complete
glibc:MALLOC_ARENA_MAX=1 complete
glibc:MALLOC_ARENA_MAX=2 complete
tcmalloc * complete
glibc:MALLOC_ARENA_MAX=1 complete
glibc complete
glibc:MALLOC_ARENA_MAX=2 complete
tcmalloc complete
LIST
) && inodes groups.sweep >before && sweep groups && inodes groups.sweep | diff before -
}
# The trace is told by what is in it.
keeps_moved_traces() {
    sweep_plan matrix "$matrix" && mkdir moved && cp lanes churn moved &&
        sed 's|"\(lanes\|churn\)"|"moved/\1"|g' matrix.json >moved.json &&
        exits 0 sweep moved.json --dir matrix.sweep && inodes matrix.sweep >all &&
        [ "$(wc -l <all)" = 5 ]
}

# In two directories.
tells_names_apart() {
    cp churn moved/lanes && sweep_plan names '{"traces": ["lanes", "moved/lanes"], "runs": 1,
        "allocators": ["glibc"]}' && sweep names &&
        [ "$(sed 's/-.*//' names.sweep/results.list)" = $'lanes\nmoved_lanes' ]
}

searches() {
    sweep_plan search '{"traces": ["lanes"], "runs": 1, "allocators": ["glibc", {
        "allocator": "glibc", "settings": {"glibc.malloc.arena_max": 1, "glibc.malloc.tcache_count": 0,
        "MALLOC_TOP_PAD_": 4096}}], "search": {"glibc": {"MALLOC_ARENA_MAX": [1, 2],
        "MALLOC_TOP_PAD_": [0, 65536]}}}' && sweep search && entries "$(results search.sweep)" >entries &&
        diff entries - <<'LIST'
glibc complete
glibc:GLIBC_TUNABLES=glibc.malloc.arena_max=1:glibc.malloc.tcache_count=0;MALLOC_TOP_PAD_=4096 complete
glibc:MALLOC_ARENA_MAX=1;MALLOC_TOP_PAD_=0 complete
glibc:MALLOC_ARENA_MAX=1;MALLOC_TOP_PAD_=65536 complete
glibc:MALLOC_ARENA_MAX=2;MALLOC_TOP_PAD_=0 complete
glibc:MALLOC_ARENA_MAX=2;MALLOC_TOP_PAD_=65536 complete
LIST
}
# Of jemalloc, whether it is installed or not.
joins_settings() {
    sweep_plan joined '{"traces": ["lanes"], "runs": 1,
        "search": {"jemalloc": {"dirty_decay_ms": [0, 1000], "narenas": [1]}}}' &&
        exits 0 sweep joined.json && grep -q -F -e \
        "--allocators 'jemalloc:MALLOC_CONF=dirty_decay_ms:0\\,narenas:1' --allocators 'jemalloc:MALLOC_CONF=dirty_decay_ms:1000\\,narenas:1'" \
        joined.sweep/tasks
}
takes_rows() {
    sweep_plan rows '{"runs": 2, "allocators": ["glibc"], "latency": false, "rows": [
        {"trace": "lanes"},
        {"trace": "churn", "allocators": ["tcmalloc", "none"], "runs": 1, "engine": "switch",
         "replay_options": ["--touch=all"]}]}' && sweep rows &&
        rows rows.sweep | cut -d, -f2-3,5-6 | sort >rows && diff rows - <<'LIST'
"glibc","complete",2,2
"none","complete",1,1
"tcmalloc","complete",1,1
LIST
}

# refuses LINE MESSAGE PLAN - with these; no directory is made.
refuses() {
    sweep_plan refused "$3" && exits 1 sweep refused.json &&
        says "^malloctape sweep: refused.json:$1: .*$2" && [ ! -e refused.sweep ]
}
refuses_bad_plans() {
    refuses 2 "'}' expected" $'{"traces": ["lanes"],\n "runs": 1 "runs"}' &&
        refuses 1 'duplicate object key' '{"runs": 1, "runs": 2}' &&
        refuses 3 "no member 'run'" $'{"traces": ["lanes"],\n "allocators": ["glibc"],\n "run": 1}' &&
        refuses 4 "no allocator 'glibd'" $'{"traces": ["lanes"],\n "allocators": [\n"glibc",\n"glibd"]}' &&
        refuses 2 'nothing: No such file' $'{"traces": ["lanes",\n"nothing"], "allocators": ["glibc"]}' &&
        refuses 1 'neither a raw stream' '{"traces": ["refused.json"], "allocators": ["glibc"]}' &&
        refuses 2 '"runs" is not a number' $'{"traces": ["lanes"], "allocators": ["glibc"],\n"runs": 0}' &&
        refuses 1 '"traces" is not a list' '{"allocators": ["glibc"]}' &&
        refuses 1 'there is neither "allocators" nor "search"' '{"traces": ["lanes"]}' &&
        refuses 3 'narenas is not a list' $'{"traces": ["lanes"], "search": {\n"jemalloc": {\n"narenas": 4}}}' &&
        refuses 2 'decay is not an environment variable' \
            $'{"traces": ["lanes"], "search": {\n"mimalloc": {"decay": [4]}}}' &&
        refuses 3 'not a number, a string, true or false' \
            $'{"traces": ["lanes"], "allocators": [\n\n{"allocator": "glibc", "settings": {"A": []}}]}' &&
        refuses 2 'tab or a newline in it' $'{"traces": ["lanes"],\n"allocators": ["glibc:A=a\\nb"]}' &&
        refuses 2 'LD_PRELOAD' $'{"traces": ["lanes"],\n"allocators": ["glibc:LD_PRELOAD=x"]}' &&
        refuses 3 '"engine" is not one of' \
            $'{"allocators": ["glibc"], "rows": [\n{"trace": "lanes",\n"engine": "best"}]}'
}
refuses_other_words() {
    exits 2 sweep && exits 2 sweep a b && exits 2 sweep --status --collect x &&
        exits 1 sweep nothing.json && says 'nothing.json: No such file' &&
        exits 1 sweep --status nothing && exits 2 sweep lanes.json --json x
}

# --- the commands ---

# By anything that runs a line of shell, as often as it likes.
lines_are_commands() {
    inodes matrix.sweep | grep -v churn >before && rm matrix.sweep/results/churn-*.json &&
        (cd / && sh "$scratch/matrix.sweep/tasks") && (cd / && sh "$scratch/matrix.sweep/tasks") &&
        inodes matrix.sweep >after && [ "$(grep -c churn after)" = 1 ] &&
        grep -v churn after | diff before - && prints_nothing
}
prints_nothing() { exits 0 sweep --status matrix.sweep && prints '^2 of 2 done$'; }

orders_once() {
    sweep_plan order '{"traces": ["raw/threads.raw.lz4"], "allocators": ["glibc"], "runs": 1}' &&
        sweep order && [ "$(wc -l <order.sweep/order)" = 1 ] && stat -c %i order.sweep/traces/* >before &&
        rm order.sweep/results/* && sweep order && stat -c %i order.sweep/traces/* | diff before - &&
        entries order.sweep/results/*.json | diff - <(printf 'glibc complete\ntcmalloc * complete\n')
}
# The recorded allocator is in both parts.
splits() {
    sweep_plan split '{"traces": ["raw/threads.raw.lz4", "lanes"], "runs": 1, "entries_per_task": 2,
        "search": {"glibc": {"MALLOC_ARENA_MAX": [1, 2, 3]}}}' && sweep split &&
        for file in $(results split.sweep); do entries "$file"; done | diff - <(cat <<'LIST'
glibc:MALLOC_ARENA_MAX=1 complete
tcmalloc * complete
glibc:MALLOC_ARENA_MAX=2 complete
glibc:MALLOC_ARENA_MAX=3 complete
tcmalloc * complete
glibc:MALLOC_ARENA_MAX=1 complete
glibc:MALLOC_ARENA_MAX=2 complete
glibc:MALLOC_ARENA_MAX=3 complete
LIST
)
}
goes_on_after_failures() {
    { head -c 5000 lanes && head -c 1000 /dev/zero && tail -c +6001 lanes; } >damaged &&
        sweep_plan failing '{"traces": ["damaged", "churn"], "runs": 1,
            "allocators": ["glibc", "/nothing/lib.so"]}' && exits 1 sweep failing.json &&
        says '^malloctape sweep: damaged-1-[0-9a-f]* failed: .*offset 0x' &&
        prints '^1 of 2 done; to continue, run the same command again' &&
        entries failing.sweep/results/churn*.json |
        diff - <(printf 'glibc complete\nlib.so failed\n') &&
        exits 1 sweep --status failing.sweep && prints '^1 of 2 done$' &&
        prints '^  damaged-1-[0-9a-f]*: .*offset 0x' && leaves_nothing
}
# A replay that a signal ends is no result: what is there is shown, and the rest measured again.
measures_again_what_was_killed() {
    head -c 3 /dev/zero >kills
    sweep_plan kills "{\"traces\": [\"churn\", \"lanes\"], \"runs\": 1, \"allocators\": [\"glibc\",
        \"$build_dir/tests/tools/failing_stub.so:FAILING_STUB=kill=$PWD/kills\"]}"
    exits 1 sweep kills.json && prints '^1 of 2 done; to continue' &&
        says '^malloctape sweep: churn-.* failed: .*replay was killed by signal 9' &&
        exits 1 sweep --status kills.sweep && prints '^1 of 2 done$' &&
        prints '^  churn-.*: .*killed by signal 9' && exits 1 sweep --collect kills.sweep --json f.json &&
        prints_text '^What is best is not known: failing_stub.so.* is missing in churn (replay was' &&
        json f.json 'j["rows"].map { |r| r["status"] }.sort == %w[complete complete complete failed] &&
            j["traces"].all? { |t| t["trace"] != "churn" || t["best_memory"].empty? }' &&
        inodes kills.sweep | grep lanes >before && sweep kills && prints '^2 of 2 done' &&
        inodes kills.sweep | grep -q -F -f before && exits 0 sweep --collect kills.sweep &&
        ! prints 'not known: ' &&
        for file in $(results kills.sweep); do entries "$file" | grep -c ' complete$' || return 1; done |
        diff - <(printf '2\n2\n')
}
# --- a Slurm that does nothing ---

mkdir slurm
cat >slurm/sbatch <<'END'
#!/bin/sh
echo "$@" >>"$SLURM/submitted"
wc -l <"$SLURM/submitted"
END
# Its own user's jobs are in the file queue, another one's in the file foreign.
cat >slurm/squeue <<'END'
#!/bin/sh
cat "$SLURM/queue"
case " $* " in *" --user=$(id -u) "*) ;; *) cat "$SLURM/foreign" ;; esac
END
chmod +x slurm/*
# on_slurm NAME QUEUE FOREIGN - carries the plan out, which fails: all tasks are missing.
on_slurm() {
    rm -rf "$1.sweep" slurm/submitted
    printf '%b' "$2" >slurm/queue
    printf '%b' "$3" >slurm/foreign
    exit_status env SLURM="$PWD/slurm" PATH="$PWD/slurm:$PATH" timeout 300 \
        "$bin/malloctape" sweep "$1.json" --on slurm >out 2>err
    [ "$status" = 1 ] && prints '^0 of [0-9]* done'
}
submits_again() {
    local state
    sweep_plan slurm '{"traces": ["lanes"], "allocators": ["glibc"], "runs": 1}'
    for state in PREEMPTED REVOKED NONE_OF_TODAY; do
        on_slurm slurm "1|1|999|$state|None|\n" "1|1|999|PENDING|Priority|\\n2|1|999|RUNNING|None|n\\n" &&
            [ "$(wc -l <slurm/submitted)" = 4 ] || return 1
    done
}
# Three recordings, which one job array puts in order: the tasks wait for that one.
waits_for_each_order_once() {
    cp raw/threads.raw.lz4 raw/second.raw.lz4 && cp raw/threads.raw.lz4 raw/third.raw.lz4
    sweep_plan orders '{"traces": ["raw/threads.raw.lz4", "raw/second.raw.lz4", "raw/third.raw.lz4"],
        "allocators": ["glibc"], "runs": 1}'
    on_slurm orders '1|1|77|RUNNING|None|n\n1|2|77|RUNNING|None|n\n1|3|77|PENDING|Priority|\n' '' &&
        [ "$(grep -o 'afterany[^ ]*' slurm/submitted | sort -u)" = $'afterany:1\nafterany:77' ]
}

times_no_calls() {
    exits 0 compare lanes -r 1 -a glibc --no-latency --json f.json &&
        json f.json 'j["allocators"][0]["numbers"]["allocation_p50_ns"]["median"].nil?' &&
        exits 0 compare lanes -r 1 -a glibc --json f.json &&
        json f.json '!j["allocators"][0]["numbers"]["allocation_p50_ns"]["median"].nil?'
}

# --- by halves ---

halves='{"traces": ["raw/threads.raw.lz4", "raw/grows.raw.lz4"], "runs": 5, "engine": "switch",
    "allocators": ["tcmalloc"], "search": {"glibc": {
        "MALLOC_MMAP_THRESHOLD_": [512],
        "MALLOC_MMAP_MAX_": [1000, 2000, 3000, 0, 4000, 5000, 6000, 7000]}}}'
# best DIR - the entry of glibc with the least geometric mean of peaks.
best() {
    ruby -rjson -e '
        sums = Hash.new(0)
        File.readlines("#{ARGV[0]}/results.list", chomp: true).each do |id|
            entries = JSON.parse(File.read("#{ARGV[0]}/results/#{id}.json"))["allocators"]
            entries.each { |a| sums[a["entry"]] += Math.log(a["numbers"]["peak_net_rss_bytes"]["median"]) }
        end
        puts sums.select { |entry,| entry.start_with?("glibc") }.min_by(&:last)[0]' "$1"
}
# replays DIR - of the settings that are searched.
replays() {
    ruby -rjson -e 'puts Dir["#{ARGV[0]}/results/*.json"].sum { |file|
        JSON.parse(File.read(file))["allocators"].sum { |a|
            a["settings"].empty? ? 0 : a["reports"].size } }' "$1"
}
halves() {
    record raw/grows.raw.lz4 perl -e 'for (1 .. 6) { push @kept, map { "x" x 1000 . $_ } 1 .. 2000 }' &&
        sweep_plan full "$halves" && sweep full && cp full.json halves.json &&
        sweep halves --halving memory && prints '^2 of 2 of the round done; the table: ' &&
        [ "$(best halves.sweep)" = "$(best full.sweep)" ] &&
        [ "$(replays halves.sweep)" -le "$(($(replays full.sweep) / 2))" ] &&
        json halves.sweep/halving.json 'j["by"] == "memory" && j["complete"] &&
            j["rounds"].map { |round| round["entries"].size } == [8, 4, 2, 2] &&
            j["rounds"].map { |round| round["runs"] } == [1, 1, 1, 5] &&
            j["rounds"].map { |round| round["entries"].count { |e| e["dropped"] } } == [4, 2, 1, 0] &&
            j["rounds"][0]["entries"].sort_by { |e| e["score"] }.map { |e| e["dropped"] } ==
                [false] * 4 + [true] * 4' &&
        sweep halves --halving memory && prints '^2 of 2 of the round done'
}

# --- interrupted ---

long='{"traces": ["lanes", "churn", "raw/threads.raw.lz4"], "runs": 3, "allocators": ["glibc", "tcmalloc",
    "glibc:MALLOC_ARENA_MAX=1"]}'
undisturbed() {
    sweep_plan undisturbed "$long" && sweep undisturbed && rows undisturbed.sweep >undisturbed
}
# Its tasks run on, and are not begun a second time.
goes_on_when_killed() {
    sweep_plan killed "$long"
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        "$bin/malloctape" sweep killed.json >out 2>err &
        sleep "0.$((RANDOM % 40 + 10))" # at any time
        kill -KILL $! 2>/dev/null || true
        wait $! 2>/dev/null || true
    done
    sweep killed && rows killed.sweep | diff undisturbed - && leaves_nothing
}
# With its tasks.
goes_on_when_all_is_killed() {
    sweep_plan all "$long"
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        setsid "$bin/malloctape" sweep all.json >out 2>err &
        sleep "0.$((RANDOM % 40 + 10))"
        kill_tree $!
        wait $! 2>/dev/null || true
    done
    sweep all && rows all.sweep | diff undisturbed -
}
kill_tree() {
    local child
    for child in $(cat "/proc/$1/task/"*/children 2>/dev/null); do kill_tree "$child"; done
    kill -KILL "$1" 2>/dev/null || true
}
ends_when_asked_to() {
    local sweep_pid
    rm -rf "${TMPDIR:?}"/* # of compare, killed in the test before
    sweep_plan asked "$long"
    for _ in 1 2 3; do
        "$bin/malloctape" sweep asked.json >out 2>err &
        sweep_pid=$!
        # compare has just begun.
        while [ -z "$(ls "$TMPDIR")" ]; do kill -0 $sweep_pid || return 1; done
        kill -TERM $sweep_pid
        exit_status wait $sweep_pid
        [ "$status" = 1 ] && prints 'of 3 done; to continue, run the same command again' &&
            leaves_nothing && flock -n asked.sweep/lock true || return 1
    done
    sweep asked && rows asked.sweep | diff undisturbed -
}
waits_for_another() {
    sweep_plan two "$long"
    "$bin/malloctape" sweep two.json >one 2>err.one &
    wait_until eval '[ -n "$(ls two.sweep/logs 2>/dev/null)" ]'
    exits 1 sweep --status two.sweep && prints ', a sweep is running here$' && sweep two &&
        says 'waiting for another sweep' && wait $! && grep -q '^3 of 3 done' one &&
        rows two.sweep | diff undisturbed -
}

check 'a first plan is printed, and carried out' first_plan
check 'every trace with every allocator: results are what compare writes' carries_out_matrix
check 'what is there is not measured again, by the plan or by the directory' does_nothing_twice
check 'a changed plan keeps the results that still hold' keeps_what_holds
check 'entries that are new are joined to the results that are there' keeps_groups
check 'results of a trace that was moved still hold' keeps_moved_traces
check 'traces of one name are told apart' tells_names_apart
check 'settings, and every combination of those that are searched' searches
check 'settings that one variable holds are put together' joins_settings
check 'rows with members of their own' takes_rows
check 'a wrong plan is refused with its line, and nothing begins' refuses_bad_plans
check 'wrong words are refused' refuses_other_words
check 'the tasks are commands, each safe to run twice' lines_are_commands
check 'recordings are put in order once' orders_once
check 'many entries are divided, the recorded allocator in each part' splits
check 'a task that fails is told with its reason, and the others are done' goes_on_after_failures
check 'a replay that a signal ended is measured again, and until then nothing is the best' measures_again_what_was_killed
check "jobs that ended in any way are submitted again, whatever another user's are called" submits_again
check 'tasks wait for the job that puts their traces in order, which is named once' \
    waits_for_each_order_once
check 'compare --no-latency times no calls' times_no_calls
check 'halving finds the setting that all replays find, with half of them' halves
check 'a sweep that nothing disturbs' undisturbed
check 'killed ten times, a sweep goes on, and has the same rows' goes_on_when_killed
check 'so has one that is killed with its tasks' goes_on_when_all_is_killed
check 'asked to end, a sweep ends its task' ends_when_asked_to
check 'a second sweep of the directory waits for the first' waits_for_another
