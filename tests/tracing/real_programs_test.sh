#!/bin/bash
# real_programs_test.sh - programs that know nothing of us: recorded, they do what they do
# otherwise; the recording is put in order, verified and replayed, and every stage counts the same
# events.
#
# MALLOCTAPE_LONG set: much more work for each of them. A program that is not installed is skipped.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

# pipeline EVENTS - raw.lz4 through everything; at least so many events are in it.
pipeline() {
    "$bin/malloctape" info --json info.json raw.lz4 >out 2>err &&
        "$bin/postprocess" --json order.json raw.lz4 ordered 2>err &&
        "$bin/malloctape" verify raw.lz4 ordered >out 2>err &&
        LD_PRELOAD=$plain_library "$bin/replay" --json replay.json ordered >out 2>err || return 1
    for stage in info order replay; do
        json_counts $stage.json >$stage.counts
        cmp info.counts $stage.counts >out 2>err || return 1
    done
    echo "# $(json_value info.json events) events, $(json_value info.json threads) threads," \
        "$(json_value info.json live_at_end) objects left, $(stat -c %s raw.lz4) bytes"
    [ "$(json_value info.json events)" -ge "$1" ] && [ ! -e raw.lz4.spool ]
}

# same TEXT EVENTS COMMAND... - two tests: the output and exit status of COMMAND, and its recording.
# Where there is a file `result`, COMMAND's result is that and not what it prints.
same() {
    local text=$1 events=$2
    shift 2
    rm -f raw.lz4 result wanted
    exit_status "$@" >wanted.out 2>wanted.err
    local wanted_status=$status
    if [ -e result ]; then mv result wanted; else mv wanted.out wanted; fi
    exit_status recorded raw.lz4 "$@"
    if [ ! -e result ]; then mv out result; fi
    check "$text: same output" same_results "$wanted_status"
    check "$text: recorded, ordered, verified, replayed" pipeline "$events"
}

same_results() {
    [ "$status" = "$1" ] && [ "$1" = 0 ] && [ -s wanted ] && cmp wanted result >out || return 1
    # The recorder's own line comes at the end; else stderr is the program's.
    grep -v '^malloctape: ' err | diff wanted.err - >out
}

skip_same() {
    skip_test "$1: same output" "$2"
    skip_test "$1: recorded, ordered, verified, replayed" "$2"
}

# --- redis-server ---

redis_works() {
    local requests=$1
    rm -f raw.lz4
    TCMALLOC_TRACE_OUTPUT=raw.lz4 LD_PRELOAD=$tracing_library "$redis_server" --port 0 \
        --unixsocket redis.socket --save '' --appendonly no --daemonize no --dir . \
        >redis.log 2>err &
    local server=$!
    redis_answers $server || return 1
    redis-benchmark -s redis.socket -q -t set,lpush,hset,zadd -n "$requests" -P 16 -r 10000 \
        >out 2>&1 || return 1
    redis-cli -s redis.socket dbsize >size
    redis-cli -s redis.socket shutdown nosave >>out 2>&1
    exit_status wait $server
    [ "$status" = 0 ] && grep -q 'ZADD.*requests per second' out && [ "$(cat size)" -gt 1000 ] &&
        grep -q 'ready to exit' redis.log
}

# --- inputs ---

# Much of the standard library, and code made of it.
big_source() {
    # shellcheck disable=SC2046 # words
    printf '#include <%s>\n' algorithm map string vector \
        $(size '' 'functional iostream memory regex set sstream unordered_map')
    local i begins
    begins=$(size 'text.find("7") == 0' 'std::regex_match(text, std::regex("[0-9]+"))')
    for i in $(seq "$1"); do
        cat <<CODE
struct thing${i} { int a; std::string b; std::vector<double> c; };
std::map<std::string, thing${i}> table${i};
int work${i}(int n) {
    std::vector<int> v(n);
    for (auto &x : v) x = n * $i;
    std::sort(v.begin(), v.end(), [](int a, int b) { return a > b + $i; });
    table${i}[std::to_string(n)].b = "text $i";
    const std::string &text = table${i}.begin()->first;
    return $begins ? v[0] : $i;
}
CODE
    done
}

lines() {
    awk -v n="$1" \
        'BEGIN { s = 1; for (i = 0; i < n; i++) { s = (s * 16807) % 2147483647; print s, i } }'
}

sql() {
    cat <<SQL
create table t(a integer primary key, b text, c real);
insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < $1)
    select i, 'row ' || (i * 7919 % 100003), i / 3.0 from n;
create index tb on t(b);
select count(*), sum(length(b)), max(c) from t;
select substr(b, 1, 6) as p, count(*) from t group by p order by 2 desc, 1 limit 20;
select group_concat(b) from (select b from t where a % 1000 = 0 order by b);
SQL
}

# In the file $1. The interpreters' programs: text, hashes, sorting.
ruby_program() {
    cat >"$1" <<'CODE'
require 'json'
words = Hash.new(0)
Integer(ARGV[0]).times { |i| words["word#{i * 7919 % 5003}"] += i.to_s.reverse.to_i }
tree = words.sort_by { |word, count| [count, word] }
    .each_slice(7).map { |slice| { 'slice' => slice } }
text = JSON.generate(tree)
puts text.size, JSON.parse(text).first(3).inspect, words.keys.map(&:upcase).uniq.sort.last
puts Thread.new { (1..20000).map { |i| "x#{i}" }.join.size }.value
CODE
}

perl_program() {
    cat >"$1" <<'CODE'
my %words;
$words{"word" . ($_ * 7919 % 5003)} .= reverse($_) for 1 .. $ARGV[0];
my @sorted = sort { length($words{$a}) <=> length($words{$b}) || $a cmp $b } keys %words;
print join(",", map { "$_:" . length($words{$_}) } @sorted[0 .. 50]), "\n";
my $text = join " ", @sorted;
$text =~ s/(\d)(\d)/$2$1/g;
print substr($text, 0, 1000), "\n";
CODE
}

python_program() {
    cat >"$1" <<'CODE'
import collections, json, sys, threading
words = collections.defaultdict(list)
for i in range(int(sys.argv[1])):
    words["word%d" % (i * 7919 % 5003)].append(str(i)[::-1])
text = json.dumps(words, sort_keys=True)
print(len(text), len(json.loads(text)), max(words, key=lambda word: (len(words[word]), word)))
results = [0, 0]
def work(n):
    results[n] = len(",".join(sorted(text[n:50000:7])))
threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(results)
CODE
}

lines_of_part() { lines $(($1 * 800)); }

export HOME=$scratch GIT_CONFIG_NOSYSTEM=1 LC_ALL=C PYTHONHASHSEED=0 PYTHONMALLOC=malloc \
    GIT_PAGER=cat

plan 18

if redis_server=$(found redis-server) && command -v redis-benchmark >/dev/null; then
    check 'redis-server: serves, and shuts down' redis_works "$(size 10000 400000)"
    check 'redis-server: recorded, ordered, verified, replayed' pipeline 100000
else
    skip_test 'redis-server: serves, and shuts down' 'redis-server is not installed'
    skip_test 'redis-server: recorded, ordered, verified, replayed' 'redis-server is not installed'
fi

if cc1plus=$(g++ -print-prog-name=cc1plus 2>/dev/null) && [ -x "$cc1plus" ]; then
    big_source "$(size 5 100)" >big.cc
    g++ -E -o big.ii big.cc
    same 'cc1plus' 100000 "$cc1plus" -quiet -fpreprocessed "$(size -O0 -O2)" -o result big.ii
else
    skip_same 'cc1plus' 'g++ is not installed'
fi

lines "$(size 300000 4000000)" >lines.txt
same 'sort --parallel=2' 10 sort --parallel=2 -S 64M -o result lines.txt

if ruby=$(found ruby || found ruby3.1); then
    ruby_program program.rb
    RUBYOPT='' same 'ruby' 100000 "$ruby" program.rb "$(size 20000 1000000)"
else
    skip_same 'ruby' 'no ruby in /usr/bin'
fi

if perl=$(found perl); then
    perl_program program.pl
    same 'perl' 20000 "$perl" program.pl "$(size 50000 1000000)"
else
    skip_same 'perl' 'no perl in /usr/bin'
fi

if python=$(found python3); then
    python_program program.py
    same 'python3' 200000 "$python" program.py "$(size 50000 1000000)"
else
    skip_same 'python3' 'no python3 in /usr/bin'
fi

if git=$(found git) && git_repository lines_of_part >out 2>&1; then
    same 'git log' 5000 "$git" -C repository log -p --stat
    same 'git grep' 1000 "$git" -C repository grep --threads 2 -n 77
else
    skip_same 'git log' 'no git in /usr/bin'
    skip_same 'git grep' 'no git in /usr/bin'
fi

if sqlite3=$(found sqlite3); then
    sql "$(size 100000 1000000)" >work.sql
    same 'sqlite3' 100000 "$sqlite3" :memory: '.read work.sql'
else
    skip_same 'sqlite3' 'sqlite3 is not installed'
fi
