#!/bin/bash
# attach_programs_test.sh - programs under load are attached to and detached from, again and again:
# they go on, lose no reply and print what they should, and each recording is complete and in order.
# How long one of their threads was stopped is noted. MALLOCTAPE_ATTACHES=N: N times each (make
# check-attach); else the few that need no other package, 2 times.
set -eu
# shellcheck source=tests/cli_tap.sh
. "$(dirname "$0")/../cli_tap.sh"

rounds=${MALLOCTAPE_ATTACHES:-2}
loads="ruby $source_dir/tests/attach/attach_loads.rb"
pids=()
trap 'touch stop; exec 5>&- 6>&-; kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
mkdir -m 777 open

# begin COMMAND... - in the background, as $program, which reads descriptor 5.
begin() {
    rm -f input answers stop
    mkfifo input
    "$@" <input >answers 2>program.err &
    program=$!
    pids+=("$program")
    exec 5>input
}

# load WORDS... - a client in the background, as $client, until the file `stop` is there. It ends with 0
# if every answer came and was right.
load() {
    rm -f load.out
    $loads "$@" >load.out 2>load.err 5>&- &
    client=$!
    pids+=("$client")
    wait_until grep -q '^ready' load.out
}

# load_ends - and has had some answers.
load_ends() {
    touch stop
    wait "$client" && grep -q '^right [1-9]' load.out
}

# round NUMBER - attaches to process $pid, records for a moment, detaches.
round() {
    local recorder raw=open/$1.lz4
    rm -f "$raw" err
    "$bin/malloctape" record --pid "$pid" -o "$scratch/$raw" >out 2>err 5>&- &
    recorder=$!
    pids+=("$recorder")
    wait_until grep -qs 'recording process\|cannot' err && ! grep -q cannot err || return 1
    sleep 0.1
    kill -INT "$recorder"
    wait "$recorder" && says 'detached from process' || return 1
    sed -n 's/.*stopped for \([0-9.]*\) ms/\1/p' err >>stops
    "$bin/malloctape" verify "$raw" >out 2>err && "$bin/malloctape" info --json=info.json "$raw" >out &&
        json info.json 'j["end"] == "complete"'
}

# attaches NAME - so often; then one line about the time.
attaches() {
    local i
    : >stops
    for ((i = 0; i < rounds; i++)); do
        round "$1" || {
            echo "# $1: round $i"
            return 1
        }
    done
    # shellcheck disable=SC2016 # Ruby's variables
    sort -n stops | ruby -e 'n = $stdin.map(&:to_f); puts format("# %s: %d stops; one thread was stopped for %.1f ms in the median, %.1f at worst", ARGV[0], n.size, n[n.size / 2], n[-1])' "$1"
}

# ends_well - when its input ends.
ends_well() {
    exec 5>&-
    wait "$program" && tail -n 1 answers | grep -q '^done' && ! grep -qv '^malloctape' program.err
}

crew() {
    begin "$workloads/crew"
    pid=$program
    sleep 0.2
    attaches crew && ends_well
}

# It looks at what a thread has of its own when it is asked, and the thread that asks first has nothing.
crew_on_mimalloc() {
    begin env LD_PRELOAD="$mimalloc" "$workloads/crew"
    pid=$program
    sleep 0.2
    attaches mimalloc && json info.json 'j["allocator"].start_with?("mimalloc")' && ends_well
}

hazards() {
    begin "$workloads/hazards"
    pid=$program
    wait_until grep -q ready answers
    attaches hazards && ends_well
}

redis() {
    begin redis-server --port 0 --unixsocket redis.socket --save ''
    pid=$program
    redis_answers "$pid"
    load redis redis.socket
    redis-benchmark -s redis.socket -q -l -t set,get,lpush,lpop,hset,spop,zadd -n 20000 -P 8 -r 10000 >benchmark.out 2>&1 5>&- &
    benchmark=$!
    pids+=("$benchmark")
    attaches redis || return 1
    kill -0 "$benchmark" && kill "$benchmark"
    load_ends && kill "$program" && wait "$program"
}

nginx_serves() {
    mkdir -p nginx
    # shellcheck disable=SC2016 # nginx's variables
    printf '%s\n' 'daemon off; master_process off; error_log stderr; pid nginx/pid;' \
        'events { worker_connections 64; }' 'http {' 'access_log off; client_body_temp_path nginx/a;' \
        'proxy_temp_path nginx/b; fastcgi_temp_path nginx/c; uwsgi_temp_path nginx/d;' \
        'scgi_temp_path nginx/e; gzip on; gzip_types text/plain; gzip_min_length 1;' \
        'server { listen unix:nginx.socket; keepalive_requests 20; location / { default_type text/plain; return 200 "answer $arg_n\n"; } } }' >nginx.conf
    begin nginx -p "$scratch" -c nginx.conf
    pid=$program
    wait_until test -S nginx.socket
    load nginx nginx.socket
    attaches nginx && load_ends && kill -QUIT "$program" && wait "$program"
}

python() {
    begin python3 -u -c '
import select, sys, json, hashlib, os
def work():
    made = [{"number": i, "text": "x" * (i % 300), "list": list(range(i % 50))} for i in range(2000)]
    return hashlib.sha256(json.dumps(made).encode()).hexdigest()
first = work()
print("ready", os.getpid())
while not select.select([0], [], [], 0)[0]:
    if work() != first: raise SystemExit("another result")
print("done")'
    wait_until grep -q ready answers
    pid=$(sed -n 's/ready //p' answers)
    attaches python && ends_well
}

node_runs() {
    begin node -e '
const crypto = require("crypto"), zlib = require("zlib");
function work() {
    const made = [];
    for (let i = 0; i < 2000; i++) made.push({number: i, text: "x".repeat(i % 300)});
    return crypto.createHash("sha256").update(zlib.gzipSync(JSON.stringify(made))).digest("hex");
}
const first = work();
let over = false;
process.stdin.on("end", () => { over = true; }).resume();
console.log("ready");
(function again() {
    if (work() !== first) throw new Error("another result");
    if (over) console.log("done"); else setImmediate(again);
})();'
    wait_until grep -q ready answers
    pid=$program
    attaches node && ends_well
}

# A server process of one connection.
postgres_backend() {
    local as="setpriv --reuid=postgres --regid=postgres --clear-groups" bin_dir
    bin_dir=$(dirname "$(realpath "$(command -v postgres)")")
    mkdir -p data && chown postgres data
    $as "$bin_dir/initdb" -D data -A trust >initdb.out 2>&1 || return 1
    $as "$bin_dir/postgres" -D data -c listen_addresses= -c unix_socket_directories="$scratch/open" >pg.out 2>&1 5>&- &
    server=$!
    pids+=("$server")
    wait_until psql -h "$scratch/open" -U postgres -c 'select 1' >/dev/null 2>&1
    rm -f stop
    load postgres "$scratch/open"
    pid=$(sed -n 's/^ready //p' load.out)
    attaches postgres && load_ends && kill -INT "$server" && wait "$server"
}

if [ -n "$sanitized" ]; then
    echo '1..0 # SKIP a sanitizer follows no process that another one stops'
    exit 0
fi

# check_with PROGRAM TEXT COMMAND - if there is that program.
check_with() {
    if [ -z "${MALLOCTAPE_ATTACHES:-}" ]; then
        skip_test "$2" 'make check-attach'
    elif command -v "$1" >/dev/null; then
        check "$2" "$3"
    else
        skip_test "$2" "needs $1"
    fi
}

plan 8
check 'eight threads that only allocate, in C++' crew
if mimalloc=$(system_library libmimalloc.so.2); then
    check 'the same, on mimalloc' crew_on_mimalloc
else
    skip_test 'the same, on mimalloc' 'it is not installed'
fi
check 'what is in the way: vfork, signals, sleeps, libraries that come and go' hazards
check_with redis-benchmark 'redis-server' redis
check_with nginx 'nginx' nginx_serves
check_with python3 'python3' python
check_with node 'node' node_runs
check_with psql 'a server process of PostgreSQL' postgres_backend
