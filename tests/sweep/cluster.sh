# shellcheck shell=bash disable=SC2154 # tap.sh sets the variables
# cluster.sh - sourced by tests of sweeps on several machines: the plan, what its results have in
# common with those of a sweep here, and free ports.

. "$(dirname "${BASH_SOURCE[0]}")/../cli_tap.sh"

# 3 traces, of which one is still to be put in order, 4 entries, 3 runs.
prepare_plan() {
    "$build_dir/tests/tools/make_instructions" lanes 200000 5 >lanes
    "$build_dir/tests/tools/make_instructions" churn 200000 1000 >churn
    record threads.raw.lz4 "$workloads/threads" 2000
    cat >plan.json <<'JSON'
{"traces": ["lanes", "churn", "threads.raw.lz4"], "runs": 3, "engine": "switch",
 "allocators": ["tcmalloc", "glibc", "glibc:MALLOC_TOP_PAD_=16777216"],
 "search": {"glibc": {"MALLOC_ARENA_MAX": [1]}}}
JSON
    exits 0 sweep plan.json --dir here
}

# free_ports N - that nobody listens on, on one line.
free_ports() {
    ruby -rsocket -e 'open = Array.new(ARGV[0].to_i) { TCPServer.new("127.0.0.1", 0) }
        puts open.map { |each| each.addr[1] }.join(" ")' "$1"
}

# same_results DIR - as those of the sweep here: the same tasks with the same entries, replays and
# calls; each entry's memory within a tenth.
same_results() {
    diff here/results.list "$1/results.list" && ruby -rjson -e '
        wrong = File.readlines("here/results.list", chomp: true).flat_map do |id|
            one, other = [ARGV[0], "here"].map { |dir|
                JSON.parse(File.read("#{dir}/results/#{id}.json"))
            }
            one["allocators"].zip(other["allocators"]).reject { |a, b|
                same = [a, b].map { |each|
                    [each["entry"], each["status"], each["recorded"], each["reports"].size,
                     each["reports"][0].values_at("events", "by_kind", "live_at_end")]
                }
                peak = [a, b].map { |each| each["numbers"]["peak_net_rss_bytes"]["median"] }
                same.uniq.size == 1 && (peak[0] - peak[1]).abs < 0.1 * peak.max + (1 << 20)
            }.map { |a, b| "#{id}: #{a["entry"]}, #{b["entry"]}" }
        end
        puts wrong.map { |line| "# #{line}" }
        exit wrong.empty?' "$1"
}
