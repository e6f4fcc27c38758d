#!/bin/bash
# program_allocator_test.sh - libmalloctape.so between a program and an allocator that it knows
# nothing of: which one it was is in the recording; interposers before and behind it see what they
# see without it; what it cannot see is not taken for something else.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

library=$build_dir/lib/libmalloctape.so
malloctape=$bin/malloctape
cc=${CC:-cc}

# An interposer that counts, as there are many.
cat >counts.c <<'CODE'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
static unsigned long mallocs, frees;
void *malloc(size_t size)
{
    static void *(*next)(size_t);
    if (!next) next = dlsym(RTLD_NEXT, "malloc");
    mallocs++;
    return next(size);
}
void free(void *object)
{
    static void (*next)(void *);
    if (!next) next = dlsym(RTLD_NEXT, "free");
    frees += object != NULL;
    next(object);
}
__attribute__((destructor)) static void end(void)
{
    char text[99];
    int bytes = snprintf(text, sizeof text, "%lu mallocs, %lu frees\n", mallocs, frees);
    if (write(1, text, bytes) != bytes) _exit(1);
}
CODE
# One that is made of the C library's own functions; and a program that calls one of them.
cat >over_libc.c <<'CODE'
#include <stddef.h>
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *object, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *object);
void *malloc(size_t size) { return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void *realloc(void *object, size_t size) { return __libc_realloc(object, size); }
void *memalign(size_t alignment, size_t size) { return __libc_memalign(alignment, size); }
void free(void *object) { __libc_free(object); }
CODE
cat >old.c <<'CODE'
#include <malloc.h>
#include <stdlib.h>
void *__libc_malloc(size_t size);
void __libc_free(void *object);
int main(void)
{
    for (int i = 0; i < 100; i++) __libc_free(__libc_malloc(777));
    free(realloc(calloc(888, 1), 100000));
    free(memalign(4096, 889));
}
CODE
cat >calls.cc <<'CODE'
#include <cstdlib>
#include <string>
#include <vector>
int main()
{
    std::vector<std::string *> all;
    for (int i = 0; i < 1000; i++) all.push_back(new std::string(100, 'x'));
    for (std::string *one : all) delete one;
    for (int i = 0; i < 100; i++) free(malloc(777));
}
CODE
cat >unaligned.cc <<'CODE'
#include <malloc.h>
#include <new>
int main()
{
    for (int i = 0; i < 100000; i++)
        operator delete(memalign(0, 24), std::align_val_t{0});
}
CODE
# Operators of its own for one object each, from a pool; those for arrays, of a known size and
# without exceptions are the runtime's, which lead to these.
cat >operators.cc <<'CODE'
#include <cstdio>
#include <cstdlib>
#include <new>
static char pool[4096];
static unsigned used, news, deletes;
void *operator new(std::size_t size)
{
    news++;
    return pool + (used += (size + 15) & ~15u);
}
void operator delete(void *object) noexcept
{
    if ((char *)object < pool || (char *)object >= pool + sizeof pool) abort();
    deletes++;
}
int main()
{
    operator delete(operator new(10), std::size_t{10});
    operator delete[](operator new[](20));
    operator delete[](operator new[](20, std::nothrow), std::size_t{20});
    operator delete(operator new(30, std::nothrow), std::nothrow);
    free(malloc(777));
    printf("%u %u\n", news, deletes);
}
CODE
# Threads that all live at once, and free what another one made.
cat >at_once.c <<'CODE'
#include <pthread.h>
#include <stdlib.h>
static pthread_barrier_t all;
static int threads;
static void *objects[10000];
static void *run(void *own)
{
    void **object = own;
    *object = malloc(777);
    pthread_barrier_wait(&all);
    free(objects[(object - objects + 1) % threads]);
    return NULL;
}
int main(int count, char **words)
{
    static pthread_t thread[10000];
    pthread_attr_t small;
    threads = atoi(words[count - 1]);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    pthread_barrier_init(&all, NULL, threads);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&thread[i], &small, run, &objects[i])) abort();
    for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
    return 0;
}
CODE
# A plugin whose malloc is the C library's (RTLD_DEEPBIND), or the program's; and one that has its
# own and is bound to it (-Bsymbolic).
cat >plugin.c <<'CODE'
#include <stdlib.h>
void *plugin(void) { free(malloc(888)); return malloc(889); }
CODE
cat >own.c <<'CODE'
#include <stddef.h>
static char memory[4096];
void *malloc(size_t size) { return size < sizeof memory ? memory : NULL; }
void *plugin(void) { return malloc(888); }
CODE
cat >loads.c <<'CODE'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
int main(int count, char **words)
{
    void *file = dlopen(words[1], RTLD_NOW | (count > 2 ? RTLD_DEEPBIND : 0));
    void *(*plugin)(void);
    if (!file) return 1;
    *(void **)&plugin = dlsym(file, "plugin");
    void *object = plugin();
    if (!strstr(words[1], "own")) free(object);
    free(malloc(777));
    return 0;
}
CODE

# jemalloc's own threads, from the program's start and while it is recorded. There, beginning one is
# the first recorded call of a thread, at a time when jemalloc is to be asked for its heap.
cat >threads_from_start.c <<'CODE'
#include <stdlib.h>
const char *malloc_conf = "background_thread:true";
int main(void)
{
    for (int i = 0; i < 100; i++) free(malloc(777));
}
CODE
cat >threads_later.c <<'CODE'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>
static int (*mallctl)(const char *, void *, size_t *, void *, size_t);
static void *call(void *unused)
{
    for (int i = 0; i < 50; i++) free(malloc(777));
    sleep(1); /* a stack that is left has what the C library allocates for a thread */
    return unused;
}
static void *begin(void *unused)
{
    bool on = true;
    usleep(300000);
    if (mallctl("background_thread", NULL, NULL, &on, sizeof on)) abort();
    return call(unused);
}
int main(void)
{
    pthread_t threads[2];
    *(void **)&mallctl = dlsym(RTLD_DEFAULT, "mallctl");
    return pthread_create(&threads[0], NULL, call, NULL) ||
           pthread_create(&threads[1], NULL, begin, NULL) || pthread_join(threads[0], NULL) ||
           pthread_join(threads[1], NULL);
}
CODE
# It begins and ends its threads by stacks that are all new: their definitions fill slots. The C
# library does not keep memory of threads with stacks as large as these.
cat >threads_by_new_stacks.c <<'CODE'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
static int (*mallctl)(const char *, void *, size_t *, void *, size_t);
__attribute__((noinline)) static void change(unsigned depth, unsigned long way, bool on)
{
    if (depth == 0) {
        if (mallctl("background_thread", NULL, NULL, &on, sizeof on)) abort();
    } else if (way % 2) {
        change(depth - 1, way / 2, on);
    } else {
        change(depth - 1, way / 2, on);
    }
    __asm__ volatile("");
}
int main(void)
{
    pthread_attr_t large;
    *(void **)&mallctl = dlsym(RTLD_DEFAULT, "mallctl");
    if (pthread_attr_init(&large) || pthread_attr_setstacksize(&large, 64 << 20) ||
        pthread_setattr_default_np(&large))
        return 1;
    for (int i = 0; i < 100; i++) free(malloc(777));
    for (int i = 0; i < 6000; i++)
        change(100, (unsigned long)random() * random(), i % 2 == 0);
}
CODE

compiled() {
    $cc -shared -fPIC -fno-builtin -O1 -o counts.so counts.c &&
        ${CXX:-c++} -O1 -fno-builtin -o calls calls.cc &&
        ${CXX:-c++} -O1 -fno-builtin -static-libstdc++ -static-libgcc -o calls.static \
            calls.cc &&
        ${CXX:-c++} -std=c++17 -O1 -fno-builtin -o unaligned unaligned.cc &&
        ${CXX:-c++} -std=c++17 -O1 -fno-builtin -o operators operators.cc &&
        $cc -shared -fPIC -fno-builtin -O1 -o over_libc.so over_libc.c &&
        $cc -fno-builtin -o old old.c &&
        $cc -fno-builtin -o last old.c -Wl,--no-as-needed -lc "$library" &&
        $cc -shared -fPIC -fno-builtin -o plugin.so plugin.c &&
        $cc -shared -fPIC -fno-builtin -Wl,-Bsymbolic -o own.so own.c &&
        $cc -fno-builtin -o loads loads.c -ldl &&
        $cc -fno-builtin -rdynamic -o threads_from_start threads_from_start.c &&
        $cc -fno-builtin -pthread -o threads_later threads_later.c -ldl &&
        $cc -fno-builtin -o threads_by_new_stacks threads_by_new_stacks.c -ldl &&
        $cc -fno-builtin -pthread -o at_once at_once.c
}

# through PRELOADED COMMAND... - recorded, and in order.
through() {
    local preloaded=$1
    shift
    rm -f raw.lz4*
    TCMALLOC_TRACE_OUTPUT=raw.lz4 LD_PRELOAD=$preloaded "$@" >out 2>err && verified raw.lz4 0
}

# kinds NAME... - how many events of these kinds.
kinds() {
    local kind
    for kind; do
        "$malloctape" info raw.lz4 | awk -v kind="$kind" '$1 == kind { n = $2 } END { print n + 0 }'
    done | tr '\n' ' '
}

named() { through "$library:$1" ./calls && "$malloctape" info raw.lz4 | grep -q "^allocator *$2"; }

# jemalloc_with_threads PROGRAM [SETTINGS]
# Its own threads begin with locks that asking it takes, too, and with all signals blocked.
jemalloc_with_threads() {
    rm -f raw.lz4*
    timeout -s KILL 300 env TCMALLOC_TRACE_OUTPUT=raw.lz4 LD_PRELOAD="$library:$jemalloc" \
        MALLOC_CONF="${2-}" "$1" >out 2>err &&
        verified raw.lz4 0 && [ "$(objects raw.lz4 777)" = 100 ] &&
        "$malloctape" info raw.lz4 | grep -q '^allocator *jemalloc [0-9]' &&
        "$malloctape" info raw.lz4 | grep -q '^  resident_bytes '
}

# What it makes by functions of its own is not recorded, and not called free.
jemalloc_has_others() {
    cat >others.c <<'CODE'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words)
{
    void *(*mallocx)(size_t, int) = (void *(*)(size_t, int))dlsym(RTLD_DEFAULT, words[1]);
    char *volatile object = malloc(5 << 20);
    memset(object, 1, 5 << 20);
    for (int i = 0; i < 12; i++)
        memset(mallocx(1 << 20, 0), 1, 1 << 20);
    for (int i = 0; i < 40000; i++) { /* jemalloc is asked in one of them now and then */
        object = malloc(1);
        if (i % 1000 == 0) usleep(1000);
    }
    return count - 2;
}
CODE
    "$cc" -O1 -w -o others others.c -ldl || return 1
    local said='^! The allocator had 7[0-9.]* MiB and more that recorded calls do not explain: '
    through "$library:$jemalloc" ./others mallocx && "$malloctape" report raw.lz4 >out &&
        grep -q "$said" out && grep -q '  the rest of the heap: objects that were not recorded, or free$' out &&
        through "$library:$jemalloc" ./others malloc && "$malloctape" report raw.lz4 >out &&
        ! grep -q '^! The allocator\|not recorded' out
}

jemalloc_has_threads() {
    jemalloc_with_threads ./threads_from_start &&
        jemalloc_with_threads ./calls background_thread:true &&
        jemalloc_with_threads ./threads_later &&
        TCMALLOC_TRACE_STACKS=all jemalloc_with_threads ./threads_by_new_stacks
}

counted_untraced() { LD_PRELOAD=$PWD/counts.so ./calls >counted; }

behind() {
    through "$library:$PWD/counts.so" ./calls && cmp -s out counted &&
        [ "$(kinds malloc free)" = '101 100 ' ]
}

old_names() { through "$library" ./old && [ "$(kinds malloc free)" = '100 102 ' ]; }

# What the program itself asks of the C library is not seen then.
over_libc() {
    through "$library:$PWD/over_libc.so" ./calls && [ "$(kinds malloc free)" = '101 100 ' ] &&
        through "$library:$PWD/over_libc.so" ./old &&
        [ "$(kinds calloc memalign malloc)" = '1 1 0 ' ] &&
        LD_PRELOAD=$library:$PWD/over_libc.so ./old
}

# The program is linked with it, behind the C library.
comes_last() {
    TCMALLOC_TRACE_OUTPUT=last.lz4 LD_LIBRARY_PATH=$build_dir/lib ./last >out 2>err &&
        grep -q 'not recording: no library after libmalloctape.so has a malloc' err && [ ! -e last.lz4 ]
}

# It sees what comes through: of operators, malloc.
before() {
    through "$PWD/counts.so:$library" ./calls && cmp -s out counted && one_line 'raw.lz4: ' &&
        grep -q 'another malloc is in use, only what it passes on was recorded: .*/counts.so' err
}

# As in another root directory: the linker does not complain to the program's standard error.
library_is_gone() {
    cp "$library" libmalloctape.so && : >notices &&
        TCMALLOC_TRACE_OUTPUT=gone.%p.lz4 TCMALLOC_TRACE_REPORT=$PWD/notices \
            LD_PRELOAD=$PWD/libmalloctape.so \
            sh -c 'rm libmalloctape.so; echo x | cat; env' >out 2>err &&
        head -n 1 out | grep -q '^x$' && ! grep -q '^LD_PRELOAD' out && [ ! -s err ] &&
        grep -q '^unreadable [0-9]* cat$' notices && grep -q '^unreadable [0-9]* env$' notices &&
        ! grep -q '^unreadable [0-9]* rm$' notices
}

own_operators() {
    through "$library" ./operators && [ "$(cat out)" = '4 4' ] &&
        [ "$(objects raw.lz4 777)" = 1 ] &&
        [ "$(kinds new delete_sized new_array delete)" = '0 0 0 0 ' ] &&
        LD_PRELOAD=$library ./operators >out 2>err
}

# So many calls get the short units of their kinds.
unaligned() {
    through "$library" ./unaligned && [ "$(kinds memalign delete_aligned)" = '100000 100000 ' ]
}

static_runtime() { through "$library" ./calls.static && [ "$(objects raw.lz4 777)" = 100 ]; }

plugin() {
    through "$library" ./loads ./plugin.so && [ "$(objects raw.lz4 888)" = 1 ] &&
        [ "$(objects raw.lz4 889)" = 1 ] && [ "$(objects raw.lz4 777)" = 1 ]
}

# What the plugin makes is not seen. The program frees one of its objects: an unknown one.
deep() {
    through "$library" ./loads ./plugin.so deep && [ "$(objects raw.lz4 888)" = 0 ] &&
        [ "$(objects raw.lz4 777)" = 1 ] &&
        "$malloctape" dump --only-calls raw.lz4 2>err | grep -q '^free ?'
}

symbolic() {
    through "$library" ./loads ./own.so && [ "$(objects raw.lz4 888)" = 0 ] &&
        [ "$(objects raw.lz4 777)" = 1 ]
}

at_once() {
    through "$library" ./at_once "$1" && [ "$(objects raw.lz4 777)" = "$1" ] &&
        [ "$("$malloctape" dump raw.lz4 | grep -c ' thread_begin ')" = $(($1 + 1)) ]
}

hands_on() {
    through "$library" "$workloads/handoff" 16 "$1" "$scratch/log"
}

# together PRELOADED... - with another interposer, in either order.
together() {
    local one
    for one; do
        through "$one" ./calls && [ "$(kinds new | cut -d ' ' -f 1)" -ge 1000 ] &&
            [ "$(objects raw.lz4 777)" = 100 ] || return 1
    done
}

own_malloc() {
    exit_status "$malloctape" record --allocator=program -o own.lz4 -- "$workloads/own_malloc" 0 \
        >out 2>err
    [ "$status" = 125 ] && grep -q 'another malloc is in use: .*/own_malloc' err
}

recorded_by_command() {
    "$malloctape" record --allocator=program -o raw.lz4 -- ./calls >out 2>err &&
        [ "$(objects raw.lz4 777)" = 100 ] && verified raw.lz4 0 &&
        exit_status "$malloctape" record --allocator=other -- ./calls 2>err && [ "$status" = 2 ] &&
        grep -q 'is not one of: tcmalloc, program' err
}

# Eight arenas. Freeing mapped chunks of 1 and 4 MiB moves the thresholds, one of 33 MiB does not:
# that is more than they may become (mallopt(3)). Says what malloc_info() and mallinfo2() say.
cat >arenas.c <<'CODE'
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static pthread_barrier_t made;
static void *make(void *end)
{
    void *object = malloc(1000);
    pthread_barrier_wait(&made);
    pause();
    free(object);
    return end;
}
int main(void)
{
    static char printed[4096];
    pthread_t thread;
    size_t bytes = 0, arenas = 0;
    char *text, go[2];
    setvbuf(stdout, printed, _IOFBF, sizeof printed); /* nothing is made after mallinfo2() */
    pthread_barrier_init(&made, NULL, 8);
    for (int i = 0; i < 7; i++)
        pthread_create(&thread, NULL, make, NULL);
    pthread_barrier_wait(&made);
    static void *volatile kept;
    kept = malloc(3 << 20);
    size_t sizes[] = {1 << 20, 4 << 20, 33 << 20};
    for (int i = 0; i < 3; i++) {
        void *volatile object = malloc(sizes[i]);
        free(object);
    }
    kept = malloc(40 << 20);
    FILE *info = open_memstream(&text, &bytes);
    malloc_info(0, info);
    fflush(info);
    for (char *at = text; (at = strstr(at, "<heap nr=")); at++)
        arenas++;
    struct mallinfo2 now = mallinfo2();
    printf("arenas %zu\nmapped_chunks %zu\nmapped_bytes %zu\nmmap_threshold_bytes %d\n"
           "trim_threshold_bytes %d\narenas_bytes %zu\n", arenas, now.hblks, now.hblkhd,
           (4 << 20) + 4096, 2 * ((4 << 20) + 4096), now.arena);
    fflush(stdout);
    return read(0, go, 1) != 1;
}
CODE
watch_arenas() {
    local process
    $cc -O0 -pthread -o arenas arenas.c 2>err && mkfifo go || return 0
    exec 8<>go
    TCMALLOC_TRACE_CONTROL=1 TCMALLOC_TRACE_OUTPUT=arenas.lz4 LD_PRELOAD=$library ./arenas \
        <&8 >wanted 2>err &
    process=$!
    while kill -0 "$process" && [ ! -s wanted ]; do sleep 0.01; done
    timeout 300 "$malloctape" top --count 1 "$process" >out 2>>err || true
    echo >&8
    wait "$process" || echo "status $?" >>wanted
}
# The heap of a glibc whose variables lie otherwise than in 2.36 may be unknown.
glibc_is_watched() {
    sed -n 's/^says *//p' out | tr ',' '\n' |
        awk '$1 ~ /^(main|other)_arenas?_bytes$/ { arenas += $2; next }
            $1 ~ /^arena_[2-8]_bytes$/ { each++; next }
            $1 ~ /^(arenas|mapped_chunks|.*_bytes)$/ { print $1, $2 }
            END { print "arenas_bytes", arenas; exit each != 7 }' | cmp - wanted
}
is_unknown_glibc() {
    [ "$glibc" != 'glibc 2.36' ] && grep -q '^memory ' out && ! grep -q 'arenas ' out
}

plan 27
check 'programs and libraries' compiled
check 'the C library' named '' 'glibc '
check "malloctape's plain tcmalloc" named "$plain_library" 'gperftools '
for other in jemalloc.so.2:jemalloc mimalloc.so.2:mimalloc tcmalloc_minimal.so.4:gperftools; do
    if file=$(system_library "lib${other%:*}"); then
        check "${other#*:}" named "$file" "${other#*:} "
    else
        skip_test "${other#*:}" 'it is not installed'
    fi
done
if jemalloc=$(system_library libjemalloc.so.2); then
    check 'jemalloc with threads of its own' jemalloc_has_threads
    check 'objects by functions of its own' jemalloc_has_others
else
    skip_test 'jemalloc with threads of its own' 'it is not installed'
    skip_test 'objects by functions of its own' 'it is not installed'
fi
counted_untraced || true
glibc=$(getconf GNU_LIBC_VERSION)
watch_arenas
if is_unknown_glibc; then
    skip_test "arenas, mapped chunks and thresholds of glibc's heap" "unknown in $glibc"
else
    check "arenas, mapped chunks and thresholds of glibc's heap" glibc_is_watched
fi
check 'an interposer behind' behind
check "the C library's other names" old_names
check 'an interposer that is made of these' over_libc
check 'the C library before' comes_last
check 'an interposer before' before
check 'a library that is gone' library_is_gone
check 'a program with some of the operators' own_operators
check 'an alignment of 0' unaligned
check 'a C++ runtime that is linked statically' static_runtime
check 'a plugin' plugin
check 'a plugin that is loaded with RTLD_DEEPBIND' deep
check 'a plugin with a malloc of its own' symbolic
check 'a program with a malloc of its own' own_malloc
check 'many threads at once' at_once "$(size 300 5000)"
check 'objects that all threads hand to all' hands_on "$(size 1000 1650000)"
for other in libeatmydata1:libeatmydata.so.1 libfaketime:faketime/libfaketimeMT.so.1; do
    if file=$(system_library "${other#*:}"); then
        check "${file##*/}, before and behind" together "$library:$file" "$file:$library"
    else
        skip_test "${other##*/}, before and behind" "${other%:*} is not installed"
    fi
done
check 'malloctape record --allocator' recorded_by_command
