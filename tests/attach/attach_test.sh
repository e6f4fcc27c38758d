#!/bin/bash
# attach_test.sh - malloctape record --pid: a process that runs is recorded from then on, call by
# call, goes on as before, and is not touched where that cannot be.
set -eu
# shellcheck source=tests/cli_tap.sh
. "$(dirname "$0")/../cli_tap.sh"

rounds=$(size 2 50)
under program
pids=()
trap 'exec 5>&- 6>&-; kill "${pids[@]}" 2>/dev/null || true; rm -rf "$scratch"' EXIT

# begin THREADS [kept|pieces|leaks] - obey, which runs, with its input at descriptor 5 and its process in $pid
begin() {
    rm -f input answers
    mkfifo input
    "$workloads/obey" "$@" <input >answers 2>obey.err &
    pid=$!
    pids+=("$pid")
    exec 5>input
    make_objects 0
}

# make NUMBER - and waits until it has.
make_objects() {
    echo "$1" >&5
    wait_until grep -qx "made $1" answers
}

# over - the program ends by itself, as it does alone.
over() {
    exec 5>&-
    wait "$pid" && [ "$(tail -n 1 answers)" = done ] && ! grep -qv '^malloctape' obey.err
}

# attach RAW [OPTION] - `record --pid` in the background, as process $recorder; returns when it
# records.
attach() {
    rm -f err # of the one before
    "$bin/malloctape" record --pid "$pid" -o "$1" ${2:+"$2"} >out 2>err 5>&- &
    recorder=$!
    pids+=("$recorder")
    wait_until grep -qs 'recording process' err
}

detach() {
    kill -INT "$recorder"
    wait "$recorder" && says 'stopped: ' && says 'detached from process'
}

threads_of() { find "/proc/$1/task" -mindepth 1 -maxdepth 1 | wc -l; }
is_alone() { [ "$(threads_of "$pid")" = 1 ]; }

counts() { # counts RAW NUMBER
    "$bin/malloctape" verify "$1" >out 2>err &&
        "$bin/malloctape" info --json=info.json "$1" >out 2>err &&
        json info.json "k = j['by_kind']; k['malloc'] == $2 && k['free'] == $2 &&
            j['events'] == 3 * $2 && j['end'] == 'complete'"
}

exact() {
    begin 0
    make_objects 100
    attach first.lz4
    make_objects 1000
    detach || return 1
    make_objects 200
    counts first.lz4 1000 && wait_until is_alone
}

again() {
    attach second.lz4
    make_objects 300
    detach && counts second.lz4 300 && wait_until is_alone && over
}

stacks() {
    begin 1
    attach stacks.lz4 --stacks=all
    make_objects 400
    detach && "$bin/malloctape" verify stacks.lz4 >out 2>err &&
        [ "$("$bin/malloctape" dump --only-calls stacks.lz4 | grep -c '^malloc 777 .* stack [1-9]')" = 400 ] &&
        over
}

busy() {
    local i
    begin "$(size 2 8)"
    for ((i = 0; i < rounds; i++)); do
        attach busy.lz4
        make_objects "$((1000 + i))"
        detach && "$bin/malloctape" verify busy.lz4 >out 2>err &&
            [ "$(objects busy.lz4 777)" = "$((1000 + i))" ] || return 1
    done
    over
}

# An allocation where an object lives says that its free was missed.
kept() {
    begin 1 kept
    attach kept.lz4
    make_objects 5000
    detach || return 1
    "$bin/malloctape" verify kept.lz4 >out 2>err && prints '; missed frees: [0-9]*' &&
        exits 0 order kept.lz4 -o kept.ordered && says 'frees that were missed: ' &&
        exits 0 info --json=info.json kept.ordered &&
        json info.json 'j["missed_frees"] > 4000 && j["by_kind"]["malloc"] >= 5000 &&
            j["live_at_end"] < 800' &&
        exits 0 report kept.lz4 && prints 'frees were not recorded' && over
}

# So does one on whose bytes another one is made, at another place.
pieces() {
    begin 0 pieces
    attach pieces.lz4
    make_objects 300
    detach && "$bin/malloctape" verify pieces.lz4 >out 2>err &&
        exits 0 order pieces.lz4 -o pieces.ordered && exits 0 info --json=info.json pieces.ordered &&
        json info.json 'j["missed_frees"] > 2900 && j["by_kind"]["malloc"] == 3300 &&
            j["live_at_end"] <= 10 && (j["freed_twice"] || 0) == 0' && over
}

ends() {
    begin 2
    attach ends.lz4
    make_objects 400
    over && wait "$recorder" &&
        says 'ends.lz4: [0-9]* events, [0-9]* bytes; process [0-9]* has ended$' &&
        "$bin/malloctape" verify ends.lz4 >out 2>err &&
        [ "$(objects ends.lz4 777)" = 400 ] && [ ! -e ends.lz4.spool ]
}

killed() {
    begin 2
    attach killed.lz4
    make_objects 500
    kill -KILL "$pid"
    wait "$recorder" && says 'finished by record' && "$bin/malloctape" verify killed.lz4 >out 2>err &&
        [ "$(objects killed.lz4 777)" = 500 ] && [ ! -e killed.lz4.spool ]
}

recorder_killed() {
    begin 0
    attach lonely.lz4
    kill -KILL "$recorder"
    make_objects 600
    exits 0 ctl "$pid" stop && counts lonely.lz4 600 && over
}

# Another program in the process is not recorded; what was recorded before is complete.
execs() {
    rm -f input answers
    mkfifo input
    dash -c 'read line; exec cat' <input >answers 2>obey.err &
    pid=$!
    pids+=("$pid")
    exec 5>input
    attach execs.lz4
    echo go >&5
    wait "$recorder" && says 'now runs .*/cat, which is not recorded' &&
        "$bin/malloctape" verify execs.lz4 >out 2>err && [ ! -e execs.lz4.spool ] || return 1
    echo more >&5
    wait_until grep -qx more answers
    exec 5>&-
    wait "$pid"
}

# A forked child writes nothing, and can be attached to.
forks() {
    local parent child parents_recorder
    rm -f input answers ./*.lz4*
    mkfifo input
    # shellcheck disable=SC2016 # Ruby's variables
    ruby -e '$stdout.sync = true
        puts "parent"
        gets
        child = fork { puts "child #{$$}"; loop { "x" * 10000; sleep 0.001 } }
        gets
        Process.kill(:TERM, child)
        Process.wait(child)
        puts "done"' <input >answers 2>obey.err &
    parent=$!
    pids+=("$parent")
    exec 5>input
    wait_until grep -q parent answers
    pid=$parent
    attach parent.lz4
    parents_recorder=$recorder
    echo go >&5
    wait_until grep -q child answers
    child=$(sed -n 's/child //p' answers)
    pid=$child
    attach child.lz4
    sleep 0.05
    detach && kill -0 "$child" && kill -INT "$parents_recorder" && wait "$parents_recorder" || return 1
    echo go >&5
    wait "$parent" && grep -q done answers && ! grep -qv '^malloctape' obey.err || return 1
    "$bin/malloctape" verify parent.lz4 >out 2>err && "$bin/malloctape" verify child.lz4 >out 2>err &&
        "$bin/malloctape" info --json=info.json child.lz4 >out && json info.json 'j["events"] > 0' &&
        [ "$(echo ./*.lz4*)" = './child.lz4 ./parent.lz4' ]
}

# Not for longer than it takes to begin: what two busy threads do in a second takes many to verify.
is_recorded_again() {
    rm -f err # of the one before
    "$bin/malloctape" record --pid "$pid" -o after.lz4 >out 2>err 5>&- &
    recorder=$!
    wait_until eval 'grep -qs "recording process" err || ! kill -0 "$recorder" 2>/dev/null'
    kill -INT "$recorder" 2>/dev/null
    wait "$recorder" && says 'detached from process'
}

# Killed at any moment: `record`, or the process that it attaches with.
is_killed() { # is_killed recorder|injector
    local i
    begin 2
    for ((i = 0; i < $(size 8 200); i++)); do
        "$bin/malloctape" record --pid "$pid" -o moment.lz4 >out 2>err 5>&- &
        recorder=$!
        sleep "0.$(printf '%03d' "$((i * 7 % 60))")"
        if [ "$1" = injector ]; then pkill -KILL -P "$recorder" || true; fi
        kill -KILL "$recorder" 2>/dev/null || true
        wait "$recorder" 2>/dev/null || true
        kill -0 "$pid" || return 1
        "$bin/malloctape" ctl "$pid" stop >out 2>err || true
    done
    make_objects 50
    wait_until is_recorded_again || return 1
    make_objects 60
    wait_until test "$(threads_of "$pid")" = 3 && "$bin/malloctape" verify after.lz4 >out 2>err && over
}

# Asked to end while it still attaches, it leaves the process as it was.
is_asked_at_any_moment() {
    local i program
    begin 0
    for ((i = 0; i < $(size 8 200); i++)); do
        env --default-signal=INT "$bin/malloctape" record --pid "$pid" -o moment.lz4 >out 2>err 5>&- &
        recorder=$!
        # Before env has begun malloctape, SIGINT is ignored.
        while program=$(readlink "/proc/$recorder/exe") && [[ $program != */malloctape ]]; do :; done
        sleep "0.$(printf '%03d' "$((i * 7 % 60))")"
        kill -INT "$recorder"
        wait "$recorder" || true
        ! says 'does not answer' && wait_until is_alone || return 1
        make_objects "$((i + 1))"
    done
    over
}

# Killed where it makes one of its calls of ptrace(2), each in turn, until it makes no more of them.
is_killed_at_each() {
    local i step
    step=$(size 7 1)
    begin 1
    for ((i = RANDOM % step + 1; ; i += step)); do
        strace -f -o calls -e trace=ptrace -e "inject=ptrace:signal=KILL:when=$i" \
            "$bin/malloctape" record --pid "$pid" --seconds 1 -o moment.lz4 >out 2>err 5>&- || true
        kill -0 "$pid" || return 1
        "$bin/malloctape" ctl "$pid" stop >out 2>err || true
        grep -q 'killed by SIGKILL' calls || break
        make_objects "$i" || return 1
    done
    [ "$i" -gt 20 ] && over
}

# What grows is first, though more is alive of something else.
grows() {
    begin 0 leaks
    make_objects 5000
    attach grows.lz4 --stacks=all
    make_objects 20000
    detach && exits 0 report grows.lz4 && prints '^attached  *to a running process: 1.000 frees' &&
        prints '^grown ' &&
        [ "$(grep -A 1 '^functions, ' out | sed -n 's/.* \(leaks\|holds\)  .*/\1/p' | head -n 1)" = leaks ] &&
        exits 0 report --json report.json grows.lz4 &&
        exits 0 order grows.lz4 -o grows.ordered && exits 0 replay grows.ordered &&
        grep -q '^warning .*attached to a running process: .* MiB RSS then' out err &&
        json report.json 'g = j["growth"]; g["older_frees"] >= 1000 && g["rss_before"] > 0 &&
            g["grown_objects"] >= 3000 && g["by_age"]["objects"].sum == g["grown_objects"]' && over
}

grows_on_page() {
    exits 0 report grows.lz4 --html page.html && node "$source_dir/tests/tools/run_page.js" page.html >figures &&
        grep -q '^What was made since recording began and is alive: 1 drawn, [1-9] rows$' figures
}

looks() {
    begin 1
    exits 0 top --pid "$pid" --count 2 && says 'detached from process' && [ "$(grep -c '^calls ' out)" = 2 ] ||
        return 1
    wait_until test "$(threads_of "$pid")" = 2
    ruby -rpty -e 'out, into, pid = PTY.spawn(*ARGV)
        text = +""
        text << out.readpartial(4096) until text.include?("sizes")
        into.write("q")
        begin
            loop { text << out.readpartial(4096) }
        rescue Errno::EIO, EOFError
            Process.wait(pid)
        end
        exit($?.exitstatus == 0 && text.include?("detached from process"))' "$bin/malloctape" top --pid "$pid" || return 1
    make_objects 10
    over
}

# Another library has a mmap() of its own: it goes on to get all calls, and they are recorded.
wraps() {
    cat >wrap.c <<'EOF'
#include <dlfcn.h>
#include <stdio.h>
#include <sys/mman.h>
static unsigned long wrapped;
void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset)
{
    static void *(*next)(void *, size_t, int, int, int, off_t);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "mmap");
    wrapped += length == 12345;
    return next(address, length, protection, flags, file, offset);
}
__attribute__((destructor)) static void end(void) { printf("wrapped %lu\n", wrapped); }
EOF
    cat >maps.c <<'EOF'
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
int main(void)
{
    unsigned long calls = 0, count;
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (scanf("%lu", &count) == 1) {
        for (unsigned long i = 0; i < count; i++, calls++)
            munmap(mmap(NULL, 12345, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 12345);
        printf("made %lu\n", count);
    }
    printf("calls %lu\n", calls);
}
EOF
    ${CC:-cc} -D_GNU_SOURCE -shared -fPIC -o wrap.so wrap.c && ${CC:-cc} -O1 -o maps maps.c || return 1
    rm -f input answers
    mkfifo input
    LD_PRELOAD=$PWD/wrap.so ./maps <input >answers &
    pid=$!
    pids+=("$pid")
    exec 5>input
    make_objects 10
    attach wraps.lz4
    make_objects 20
    detach && make_objects 30 || return 1
    exec 5>&-
    wait "$pid" && grep -qx 'calls 60' answers && grep -qx 'wrapped 60' answers &&
        "$bin/malloctape" dump wraps.lz4 >out 2>err && [ "$(grep -c 'mapping map .* bytes 12345 ' out)" = 20 ]
}

# The limit ends the recording, and then the process is let go.
limited() {
    begin 2
    exits 0 record --pid "$pid" --max-bytes 30k -o limited.lz4 && says 'detached from process' &&
        [ "$(stat -c %s limited.lz4)" -le 30720 ] && "$bin/malloctape" verify limited.lz4 >out 2>err && over
}

# As in a container: another root directory, where the library is not, and other namespaces.
contained() {
    local outside
    rm -f input answers
    mkfifo input
    mkdir -p root/tmp root/proc
    ldd "$workloads/obey" | grep -o '/[^ ]*' | while read -r file; do
        mkdir -p "root$(dirname "$file")" && cp -L "$file" "root$file"
    done
    cp "$workloads/obey" root/obey
    unshare --mount --net --pid --fork sh -c 'mount -t proc proc root/proc && exec chroot root /obey 1' <input >answers 2>obey.err &
    outside=$!
    pids+=("$outside")
    exec 5>input
    make_objects 0
    pid=$(pgrep -P "$outside")
    attach contained.lz4
    make_objects 400
    detach && "$bin/malloctape" verify contained.lz4 >out 2>err &&
        [ "$(objects contained.lz4 777)" = 400 ] && [ -z "$(ls root/tmp)" ] || return 1
    attach contained2.lz4
    make_objects 500
    kill -KILL "$pid"
    wait "$recorder" && says 'finished by record' && "$bin/malloctape" verify contained2.lz4 >out 2>err &&
        [ "$(objects contained2.lz4 777)" = 500 ] && [ -z "$(ls root/tmp)" ]
}

# Nothing is put into a process that listens already.
listens() {
    rm -f input answers
    mkfifo input
    TCMALLOC_TRACE_CONTROL=1 LD_PRELOAD=$tracing_library "$workloads/obey" <input >answers 2>obey.err &
    pid=$!
    pids+=("$pid")
    exec 5>input
    wait_until exits 0 ctl "$pid" status
    attach there.lz4
    make_objects 700
    exit_status "$bin/malloctape" record --pid "$pid" -o second.lz4 2>second.err
    [ "$status" = 1 ] && grep -q "already, to .*; .malloctape ctl $pid stop. ends that\$" second.err || return 1
    kill -INT "$recorder"
    wait "$recorder" && ! says 'attached' && counts there.lz4 700 && over
}

# refuses TEXT - $pid
refuses() {
    exits 1 record --pid "$pid" -o refused.lz4 && says "cannot attach to process $pid: .*$1" &&
        [ ! -e refused.lz4 ]
}

not_possible() {
    pid=999999999
    refuses 'there is no such process'
    begin 0
    kill -STOP "$pid"
    wait_until grep -q '^State:.*T' "/proc/$pid/status"
    refuses 'its state is T' || return 1
    kill -CONT "$pid"
    over
}

preloaded() {
    rm -f input answers
    mkfifo input
    LD_PRELOAD=$tracing_library "$workloads/obey" <input >answers 2>obey.err &
    pid=$!
    pids+=("$pid")
    exec 5>input
    make_objects 1
    refuses 'started with libmalloctape.so, but without `record --control` or TCMALLOC_TRACE_CONTROL=1' && over
}

static_one() {
    echo 'int main(void) { for (;;) continue; }' >static.c
    ${CC:-cc} -static -o static static.c 2>err || return 1
    ./static &
    pid=$!
    pids+=("$pid")
    wait_until test "/proc/$pid/exe" -ef static
    refuses 'statically linked' && kill "$pid"
}

another_users() {
    chmod 755 "$scratch"
    begin 0
    exit_status setpriv --reuid=nobody --regid=nogroup --clear-groups "$bin/malloctape" record --pid "$pid" -o /tmp/refused.lz4 >out 2>err
    [ "$status" = 1 ] && says "belongs to another user: only root can attach to it" && over
}

confined() {
    rm -f input answers
    mkfifo input
    ruby -rfiddle -e '$stdout.sync = true
        prctl = Fiddle::Function.new(Fiddle::Handle::DEFAULT["prctl"], [Fiddle::TYPE_LONG] * 5, Fiddle::TYPE_INT)
        # A filter of one instruction, which allows everything.
        code = Fiddle::Pointer[[6, 0, 0, 0x7fff0000].pack("SCCL")]
        filter = [1, code.to_i].pack("Sx6Q")
        prctl.call(38, 1, 0, 0, 0)
        raise "no filter" if prctl.call(22, 2, Fiddle::Pointer[filter].to_i, 0, 0) != 0
        puts "made 0"
        gets' <input >answers 2>obey.err &
    pid=$!
    pids+=("$pid")
    exec 5>input
    wait_until grep -q made answers
    refuses 'seccomp' && exec 5>&- && wait "$pid"
}

with_sanitizer() {
    echo 'int main(void) { for (;;) continue; }' >checked.c
    ${CC:-cc} -fsanitize=address -o checked checked.c 2>err || return 1
    ./checked &
    pid=$!
    pids+=("$pid")
    wait_until grep -q libasan "/proc/$pid/maps"
    refuses 'sanitizer' && kill "$pid"
}

is_traced() { ! grep -q '^TracerPid:.0$' "/proc/$pid/status"; }

traced() {
    local tracer
    begin 0
    strace -f -o strace.out -p "$pid" 2>/dev/null &
    tracer=$!
    pids+=("$tracer")
    wait_until is_traced || return 1
    refuses "process $tracer, a debugger or strace, traces it already"
    kill "$tracer"
    wait "$tracer" || true
    over
}

# It waits in a system call that the kernel restarts in another way.
sleeps() {
    sleep 600 &
    pid=$!
    pids+=("$pid")
    attach sleeps.lz4
    detach && kill "$pid" && "$bin/malloctape" verify sleeps.lz4 >out 2>err
}

usage() {
    exits 2 record --pid 1 true && exits 2 record --pid x && exits 2 record --pid 1 --follow
}

if [ -n "$sanitized" ]; then
    echo '1..0 # SKIP a sanitizer follows no process that another one stops'
    exit 0
fi
plan 31
check 'what is called while it is attached is recorded, no call less or more' exact
check 'again' again
check 'with call stacks' stacks
check 'threads that allocate all the time' busy
check 'frees by a pointer that was taken before: their objects do not live for ever' kept
check 'frees that were missed, of objects whose bytes others have later' pieces
check 'the process ends: the recording is complete' ends
check 'the process is killed: nothing is lost' killed
check 'record is killed: the process goes on, and ctl ends the recording' recorder_killed
check 'record is killed at any moment' is_killed recorder
check 'the process that it attaches with is killed at any moment' is_killed injector
check 'record is asked to end at any moment: the process is as before' is_asked_at_any_moment
if command -v strace >/dev/null; then
    check 'it is killed at each of its calls' is_killed_at_each
else
    skip_test 'it is killed at each of its calls' 'needs strace'
fi
check 'the process begins another program' execs
check 'it forks' forks
check 'what grows comes first' grows
if command -v node >/dev/null; then
    check 'and stands on the page' grows_on_page
else
    skip_test 'and stands on the page' 'needs node'
fi
check 'top --pid' looks
check 'calls of a library that wraps mmap()' wraps
check '--max-bytes' limited
check_as_root 'a process in a container' contained
check 'a process that listens already is used as it is' listens
check 'what is not there or has been stopped is not touched' not_possible
check 'nor what was preloaded' preloaded
compiler=${CC:-cc}
if command -v "${compiler%% *}" >/dev/null; then
    check 'nor what is linked statically' static_one
else
    skip_test 'nor what is linked statically' 'needs a compiler'
fi
check_as_root "nor another user's" another_users
check 'nor what has confined itself' confined
if command -v strace >/dev/null; then
    check 'nor what is traced already' traced
else
    skip_test 'nor what is traced already' 'needs strace'
fi
if echo 'int main(void) { return 0; }' | ${CC:-cc} -x c -fsanitize=address -o /dev/null - 2>/dev/null; then
    check 'nor what has a sanitizer' with_sanitizer
else
    skip_test 'nor what has a sanitizer' 'needs libasan'
fi
check 'a process that only sleeps' sleeps
check 'mistakes on the command line' usage
