/* entry_points - calls each of the functions named on the command line, in every way that matters,
 * and says what a recording has to show.
 *
 *   entry_points SYMBOL...
 *
 * A function is looked up with dlsym and called between malloc(ENTRY_MARK + n) and
 * malloc(ENTRY_MARK + n + 1), where n counts the words of the command line from 0. On stdout, for
 * each, a line "symbol NAME" and then the events that belong between the marks, as `malloctape dump
 * --only-calls` prints them, with objects named by their addresses; "*" stands for any size.
 * "unknown" instead of events: this program has no expectation for the symbol.
 *
 * Results are looked at here: alignment, usable size, NULL or an exception for what must fail. A
 * wrong one ends the program with a word on stderr and exit status 1. */
#include <dlfcn.h>
#include <gperftools/malloc_extension.h>
#include <malloc.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

constexpr size_t kMarkBytes = 7000000; /* ENTRY_MARK in entry_points_test.rb */
constexpr size_t kTooMuchBytes = size_t{1} << 62;
constexpr size_t kSizes[] = {0, 1, 8, 9, 24, 1000, 40000, 300000, 3000000};
constexpr size_t kAlignments[] = {8, 16, 64, 4096, 65536};

const char *symbol;

[[noreturn]] void fail(const char *what)
{
    fprintf(stderr, "entry_points: %s: %s\n", symbol, what);
    _exit(1);
}

/* Static memory: nothing here may call the allocator. */
char text[1 << 20];
size_t text_length;

__attribute__((format(printf, 1, 2))) void expect(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    text_length += static_cast<size_t>(
        vsnprintf(text + text_length, sizeof text - text_length, format, arguments));
    va_end(arguments);
    if (text_length + 256 > sizeof text) fail("too much to expect");
}

/* --- allocations: one line expected, and the object given back --- */

size_t asked, nulls; /* calls of malloc_usable_size(), and that free NULL */

/* What `ask` says; counted. */
size_t size_of(size_t (*ask)(void *), void *object)
{
    asked++;
    return ask(object);
}

void *checked(void *object, size_t size, size_t alignment)
{
    if (!object) fail("no object");
    if (reinterpret_cast<uintptr_t>(object) % alignment != 0) fail("not aligned");
    if (size_of(malloc_usable_size, object) < size) fail("too small");
    memset(object, 0x5a, size < 4096 ? size : 4096);
    return object;
}

void give_back(void *object)
{
    free(object);
    expect("free %p\n", object);
}

size_t natural_alignment(size_t size)
{
    return size >= 16 ? 16 : 8;
}

template <typename Call>
void allocation(const char *kind, size_t size, size_t least_alignment, Call call)
{
    void *object = checked(call(), size, least_alignment);
    expect("%s %zu -> %p\n", kind, size, object);
    give_back(object);
}

template <typename Call>
void allocation_aligned(const char *kind, size_t size, size_t alignment, Call call)
{
    void *object = checked(call(), size, alignment);
    expect("%s %zu %zu -> %p\n", kind, size, alignment, object);
    give_back(object);
}

/* --- failures --- */

bool handler_ran;

/* The second attempt finds no handler. */
void handler()
{
    handler_ran = true;
    std::set_new_handler(nullptr);
    void *object = malloc(4321);
    expect("malloc 4321 -> %p\n", object);
    give_back(object);
}

/* " 64" or nothing, after a size. */
const char *alignment_text(size_t alignment)
{
    static char one[32];
    one[0] = 0;
    if (alignment) snprintf(one, sizeof one, " %zu", alignment);
    return one;
}

template <typename Call> void failure(const char *kind, size_t size, size_t alignment, Call call)
{
    if (call()) fail("an object of impossible size");
    expect("%s %zu%s failed\n", kind, size, alignment_text(alignment));
}

/* The exception is an object, too: allocated before the failure is recorded, as the call has not
 * returned yet. */
template <typename Call>
void failure_throws(const char *kind, size_t size, size_t alignment, Call call)
{
    bool thrown = false;
    try {
        call();
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    if (!thrown) fail("no exception");
    expect("malloc * -> exception\n%s %zu%s failed\nfree exception\n", kind, size,
           alignment_text(alignment));
}

template <typename Call> void with_handler(bool is_called, Call call)
{
    handler_ran = false;
    std::set_new_handler(handler);
    call();
    std::set_new_handler(nullptr);
    if (handler_ran != is_called)
        fail(is_called ? "the new handler did not run" : "the new handler ran");
}

/* --- forms of functions --- */

void call_size(void *function, const char *kind)
{
    auto call = reinterpret_cast<void *(*)(size_t)>(function);
    bool is_page = strstr(kind, "valloc") != nullptr;
    for (size_t size : kSizes)
        allocation(kind, size, is_page ? 4096 : natural_alignment(size),
                   [=] { return call(size); });
    failure(kind, kTooMuchBytes, 0, [=] { return call(kTooMuchBytes); });
    if (!is_page) failure(kind, SIZE_MAX, 0, [=] { return call(SIZE_MAX); });
    if (!is_page)
        with_handler(false,
                     [=] { failure(kind, kTooMuchBytes, 0, [=] { return call(kTooMuchBytes); }); });
}

void call_new(void *function, const char *kind)
{
    auto call = reinterpret_cast<void *(*)(size_t)>(function);
    for (size_t size : kSizes)
        allocation(kind, size, natural_alignment(size), [=] { return call(size); });
    failure_throws(kind, kTooMuchBytes, 0, [=] { return call(kTooMuchBytes); });
    with_handler(true, [=] { failure_throws(kind, SIZE_MAX, 0, [=] { return call(SIZE_MAX); }); });
}

void call_new_nothrow(void *function, const char *kind)
{
    auto call = reinterpret_cast<void *(*)(size_t, const std::nothrow_t &)>(function);
    for (size_t size : kSizes)
        allocation(kind, size, natural_alignment(size), [=] { return call(size, std::nothrow); });
    failure(kind, kTooMuchBytes, 0, [=] { return call(kTooMuchBytes, std::nothrow); });
    with_handler(true,
                 [=] { failure(kind, SIZE_MAX, 0, [=] { return call(SIZE_MAX, std::nothrow); }); });
}

void call_new_aligned(void *function, const char *kind)
{
    auto call = reinterpret_cast<void *(*)(size_t, std::align_val_t)>(function);
    for (size_t alignment : kAlignments)
        for (size_t size : kSizes)
            allocation_aligned(kind, size, alignment,
                               [=] { return call(size, std::align_val_t{alignment}); });
    auto too_much = [=] { return call(kTooMuchBytes, std::align_val_t{64}); };
    failure_throws(kind, kTooMuchBytes, 64, too_much);
    with_handler(true, [=] { failure_throws(kind, kTooMuchBytes, 64, too_much); });
}

void call_new_aligned_nothrow(void *function, const char *kind)
{
    auto call =
        reinterpret_cast<void *(*)(size_t, std::align_val_t, const std::nothrow_t &)>(function);
    for (size_t alignment : kAlignments)
        for (size_t size : kSizes)
            allocation_aligned(kind, size, alignment, [=] {
                return call(size, std::align_val_t{alignment}, std::nothrow);
            });
    auto too_much = [=] { return call(kTooMuchBytes, std::align_val_t{64}, std::nothrow); };
    failure(kind, kTooMuchBytes, 64, too_much);
    with_handler(true, [=] { failure(kind, kTooMuchBytes, 64, too_much); });
}

void call_aligned(void *function, const char *kind)
{
    auto call = reinterpret_cast<void *(*)(size_t, size_t)>(function);
    for (size_t alignment : kAlignments)
        for (size_t size : kSizes)
            allocation_aligned(kind, size, alignment, [=] { return call(alignment, size); });
    failure(kind, kTooMuchBytes, 64, [=] { return call(64, kTooMuchBytes); });
    failure(kind, SIZE_MAX, 64, [=] { return call(64, SIZE_MAX); });
}

void call_posix(void *function, const char *kind)
{
    auto call = reinterpret_cast<int (*)(void **, size_t, size_t)>(function);
    static int untouched;
    auto object_of = [=](size_t alignment, size_t size, int status) {
        void *object = &untouched;
        if (call(&object, alignment, size) != status) fail("wrong status");
        if (status != 0 && object != &untouched) fail("the result was touched by a failure");
        return status == 0 ? object : nullptr;
    };
    for (size_t alignment : kAlignments)
        for (size_t size : kSizes)
            allocation_aligned(kind, size, alignment,
                               [=] { return object_of(alignment, size, 0); });
    failure(kind, kTooMuchBytes, 64, [=] { return object_of(64, kTooMuchBytes, ENOMEM); });
    failure(kind, 100, 24, [=] { return object_of(24, 100, EINVAL); });
    failure(kind, 100, 4, [=] { return object_of(4, 100, EINVAL); });
}

void call_calloc(void *function, const char *kind)
{
    auto call = reinterpret_cast<void *(*)(size_t, size_t)>(function);
    for (size_t size : kSizes)
        allocation(kind, 3 * size, natural_alignment(size), [=] { return call(3, size); });
    allocation(kind, 0, 8, [=] { return call(0, 8); });
    failure(kind, kTooMuchBytes, 0, [=] { return call(kTooMuchBytes / 4, 4); });
    /* More than a number can say. */
    failure(kind, SIZE_MAX, 0, [=] { return call(size_t{1} << 33, size_t{1} << 33); });
}

void realloc_to(void *(*call)(void *, size_t), size_t old_size, size_t new_size, bool is_moved)
{
    void *object = malloc(old_size);
    expect("malloc %zu -> %p\n", old_size, object);
    void *result = checked(call(object, new_size), new_size, natural_alignment(new_size));
    if ((result != object) != is_moved) fail(is_moved ? "did not move" : "moved");
    expect("realloc_%s %p %zu -> %p\n", is_moved ? "moved" : "in_place", object, new_size, result);
    free(result);
    expect("free %p\n", result);
}

void call_realloc(void *function, const char *)
{
    auto call = reinterpret_cast<void *(*)(void *, size_t)>(function);
    for (size_t size : kSizes)
        allocation("realloc_null", size, natural_alignment(size),
                   [=] { return call(nullptr, size); });
    failure("realloc_null", kTooMuchBytes, 0, [=] { return call(nullptr, kTooMuchBytes); });
    realloc_to(call, 1000, 1001, false);
    realloc_to(call, 1000, 600, false);
    realloc_to(call, 1000, 5000, true);
    realloc_to(call, 1000, 10, true);
    realloc_to(call, 300000, 3000000, true);
    void *object = malloc(1002);
    expect("malloc 1002 -> %p\n", object);
    if (call(object, kTooMuchBytes)) fail("an object of impossible size");
    expect("realloc_moved %p %zu failed\n", object, kTooMuchBytes);
    if (call(object, 0)) fail("realloc to nothing returned something");
    expect("realloc_zero %p\n", object);
}

void *fresh(size_t size)
{
    void *object = malloc(size);
    expect("malloc %zu -> %p\n", size, object);
    return object;
}

void *fresh_aligned(size_t size)
{
    void *object = memalign(64, size);
    expect("memalign %zu 64 -> %p\n", size, object);
    return object;
}

void call_free(void *function, const char *kind)
{
    auto call = reinterpret_cast<void (*)(void *)>(function);
    for (size_t size : kSizes) {
        void *object = fresh(size);
        call(object);
        expect("%s %p\n", kind, object);
    }
    nulls++;
    call(nullptr);
}

void call_free_nothrow(void *function, const char *kind)
{
    auto call = reinterpret_cast<void (*)(void *, const std::nothrow_t &)>(function);
    for (size_t size : kSizes) {
        void *object = fresh(size);
        call(object, std::nothrow);
        expect("%s %p\n", kind, object);
    }
    nulls++;
    call(nullptr, std::nothrow);
}

void call_free_sized(void *function, const char *kind)
{
    auto call = reinterpret_cast<void (*)(void *, size_t)>(function);
    for (size_t size : kSizes) {
        void *object = fresh(size);
        call(object, size);
        expect("%s %p %zu\n", kind, object, size);
    }
    nulls++;
    call(nullptr, 24);
}

void call_free_aligned(void *function, const char *kind)
{
    auto call = reinterpret_cast<void (*)(void *, std::align_val_t)>(function);
    for (size_t size : kSizes) {
        void *object = fresh_aligned(size);
        call(object, std::align_val_t{64});
        expect("%s %p 64\n", kind, object);
    }
    nulls++;
    call(nullptr, std::align_val_t{64});
}

void call_free_aligned_nothrow(void *function, const char *kind)
{
    auto call =
        reinterpret_cast<void (*)(void *, std::align_val_t, const std::nothrow_t &)>(function);
    for (size_t size : kSizes) {
        void *object = fresh_aligned(size);
        call(object, std::align_val_t{64}, std::nothrow);
        expect("%s %p 64\n", kind, object);
    }
    nulls++;
    call(nullptr, std::align_val_t{64}, std::nothrow);
}

void call_free_sized_aligned(void *function, const char *kind)
{
    auto call = reinterpret_cast<void (*)(void *, size_t, std::align_val_t)>(function);
    for (size_t size : kSizes) {
        void *object = fresh_aligned(size);
        call(object, size, std::align_val_t{64});
        expect("%s %p %zu 64\n", kind, object, size);
    }
    nulls++;
    call(nullptr, 24, std::align_val_t{64});
}

/* C23: alignment first. */
void call_free_aligned_sized(void *function, const char *kind)
{
    auto call = reinterpret_cast<void (*)(void *, size_t, size_t)>(function);
    for (size_t size : kSizes) {
        void *object = fresh_aligned(size);
        call(object, 64, size);
        expect("%s %p %zu 64\n", kind, object, size);
    }
    nulls++;
    call(nullptr, 64, 24);
}

/* --- calls that concern the whole heap --- */

void call_plain(void *function, const char *kind)
{
    reinterpret_cast<void (*)()>(function)();
    expect("%s\n", kind);
}

void call_mallopt(void *function, const char *)
{
    auto call = reinterpret_cast<int (*)(int, int)>(function);
    call(M_TRIM_THRESHOLD, 131072);
    expect("mallopt -1 131072\n");
    call(M_ARENA_MAX, -1);
    expect("mallopt -8 -1\n");
}

void call_trim(void *function, const char *)
{
    reinterpret_cast<int (*)(size_t)>(function)(12345);
    expect("malloc_trim 12345\n");
}

void call_release(void *function, const char *)
{
    auto call = reinterpret_cast<void (*)(size_t)>(function);
    call(65536);
    expect("release_memory 65536\n");
    call(0);
    expect("release_memory 0\n");
}

void call_release_all(void *function, const char *)
{
    reinterpret_cast<void (*)()>(function)();
    expect("release_memory 18446744073709551615\n");
}

int (*set_property)(const char *, size_t);

/* A limit that an allocation reaches, then a handler that raises it. */
void raise_limit()
{
    std::set_new_handler(nullptr);
    set_property("tcmalloc.heap_limit_mb", 0);
    expect("set_property 3 0\n");
}

void call_set_property(void *function, const char *)
{
    constexpr size_t large = 200 << 20;
    set_property = reinterpret_cast<int (*)(const char *, size_t)>(function);
    if (!set_property("tcmalloc.max_total_thread_cache_bytes", 32 << 20)) fail("not set");
    expect("set_property 1 %d\n", 32 << 20);
    if (!set_property("tcmalloc.aggressive_memory_decommit", 0)) fail("not set");
    expect("set_property 2 0\n");
    if (!set_property("tcmalloc.min_per_thread_cache_bytes", 1 << 20)) fail("not set");
    expect("set_property 4 %d\n", 1 << 20);
    if (set_property("no such property", 5)) fail("set");
    expect("set_property 0 5\n");
    set_property("tcmalloc.heap_limit_mb", 1);
    expect("set_property 3 1\n");
    failure("malloc", large, 0, [] { return malloc(large); });
    std::set_new_handler(raise_limit);
    allocation("new", large, 16, [] { return ::operator new(large); });
    std::set_new_handler(nullptr);
}

void call_set_release_rate(void *function, const char *)
{
    reinterpret_cast<void (*)(double)>(function)(1);
    expect("set_release_rate 1000\n");
}

void call_extension(void *function, const char *)
{
    MallocExtension *extension = reinterpret_cast<MallocExtension *(*)()>(function)();
    extension->SetMemoryReleaseRate(2.5);
    expect("set_release_rate 2500\n");
    if (extension->GetMemoryReleaseRate() != 2.5) fail("the rate was not set");
    extension->SetMemoryReleaseRate(1);
    expect("set_release_rate 1000\n");
    extension->MarkThreadIdle();
    expect("thread_idle\n");
    extension->MarkThreadTemporarilyIdle();
    expect("thread_temporarily_idle\n");
    extension->MarkThreadBusy();
    expect("thread_busy\n");
    extension->ReleaseToSystem(4096);
    expect("release_memory 4096\n");
    extension->ReleaseFreeMemory();
    expect("release_memory 18446744073709551615\n");
}

/* --- questions: nothing is recorded --- */

void ask_nothing(void *function, const char *)
{
    reinterpret_cast<int (*)()>(function)();
}

/* Upstream collects the text in memory of its own heap: no call of the program's. */
void ask_printed_stats(void *function, const char *)
{
    reinterpret_cast<void (*)()>(function)();
}

void ask_object(void *function, const char *)
{
    void *object = fresh(1000);
    auto call = reinterpret_cast<size_t (*)(void *)>(function);
    call(object);
    call(nullptr);
    give_back(object);
}

/* The answer must be upstream's, also where the entry of the object's page gives it. */
void ask_bytes(void *function, const char *)
{
    using Ask = size_t (*)(void *);
    auto call = reinterpret_cast<Ask>(function);
    auto upstream = reinterpret_cast<Ask>(dlsym(RTLD_DEFAULT, "MallocExtension_GetAllocatedSize"));
    if (!upstream) fail("nothing to compare with");
    for (size_t size : kSizes) {
        void *object = fresh(size);
        if (size_of(call, object) < size || size_of(call, object) != upstream(object))
            fail("wrong size");
        give_back(object);
    }
    if (size_of(call, nullptr) != 0) fail("NULL has a size");
}

void ask_size(void *function, const char *)
{
    if (reinterpret_cast<size_t (*)(size_t, int)>(function)(1000, 0) < 1000) fail("too small");
}

template <typename Information> void ask_information(void *function, const char *)
{
    if (reinterpret_cast<Information (*)()>(function)().arena <= 0) fail("no heap");
}

void ask_release_rate(void *function, const char *)
{
    if (reinterpret_cast<double (*)()>(function)() < 0) fail("no rate");
}

void ask_property(void *function, const char *)
{
    size_t value = 0;
    auto call = reinterpret_cast<int (*)(const char *, size_t *)>(function);
    if (!call("generic.heap_size", &value) || value == 0) fail("no heap");
}

void ask_stats(void *function, const char *)
{
    static char stats[1 << 16];
    reinterpret_cast<void (*)(char *, int)>(function)(stats, sizeof stats);
    if (!strstr(stats, "MALLOC:")) fail("no statistics");
}

void ask_version(void *function, const char *)
{
    const char *patch;
    int major, minor;
    reinterpret_cast<const char *(*)(int *, int *, const char **)>(function)(&major, &minor,
                                                                             &patch);
    if (major != 2) fail("another version");
}

void ask_memory_stats(void *function, const char *)
{
    int blocks;
    size_t total;
    static int histogram[64];
    reinterpret_cast<int (*)(int *, size_t *, int *)>(function)(&blocks, &total, histogram);
}

void set_mode(void *function, const char *)
{
    auto call = reinterpret_cast<int (*)(int)>(function);
    call(1);
    with_handler(
        true, [=] { failure("malloc", kTooMuchBytes, 0, [=] { return malloc(kTooMuchBytes); }); });
    call(0);
}

/* Made of other calls. */

void call_reallocarray(void *function, const char *)
{
    auto call = reinterpret_cast<void *(*)(void *, size_t, size_t)>(function);
    void *object = call(nullptr, 10, 100);
    expect("realloc_null 1000 -> %p\n", object);
    void *grown = call(object, 100, 100);
    expect("realloc_moved %p 10000 -> %p\n", object, grown);
    if (call(grown, size_t{1} << 33, size_t{1} << 33)) fail("an object of impossible size");
    free(grown);
    expect("free %p\n", grown);
}

void call_reallocf(void *function, const char *)
{
    auto call = reinterpret_cast<void *(*)(void *, size_t)>(function);
    void *object = call(nullptr, 1000);
    expect("realloc_null 1000 -> %p\n", object);
    void *grown = call(object, 10000);
    expect("realloc_moved %p 10000 -> %p\n", object, grown);
    if (call(grown, kTooMuchBytes)) fail("an object of impossible size");
    expect("realloc_moved %p %zu failed\nfree %p\n", grown, kTooMuchBytes, grown);
}

void call_reallocarr(void *function, const char *)
{
    auto call = reinterpret_cast<int (*)(void *, size_t, size_t)>(function);
    void *object = nullptr, *before;
    if (call(&object, 10, 100) != 0) fail("wrong status");
    expect("realloc_null 1000 -> %p\n", object);
    before = object;
    if (call(&object, 100, 100) != 0) fail("wrong status");
    expect("realloc_moved %p 10000 -> %p\n", before, object);
    before = object;
    if (call(&object, size_t{1} << 33, size_t{1} << 33) != EOVERFLOW) fail("wrong status");
    if (call(&object, kTooMuchBytes / 4, 4) != ENOMEM) fail("wrong status");
    expect("realloc_moved %p %zu failed\n", object, kTooMuchBytes);
    if (object != before) fail("the object was touched by a failure");
    if (call(&object, 0, 100) != 0 || object) fail("not freed");
    expect("free %p\n", before);
}

void call_strdup(void *function, const char *)
{
    allocation("malloc", 6, 8,
               [=] { return reinterpret_cast<char *(*)(const char *)>(function)("words"); });
}

void call_strndup(void *function, const char *)
{
    auto call = reinterpret_cast<char *(*)(const char *, size_t)>(function);
    allocation("malloc", 6, 8, [=] { return call("words", 100); });
    allocation("malloc", 4, 8, [=] { return call("words", 3); });
}

const struct Entry {
    const char *symbol;
    void (*call)(void *function, const char *kind);
    const char *kind;
} entries[] = {
    {"malloc", call_size, "malloc"},
    {"tc_malloc", call_size, "malloc"},
    {"__libc_malloc", call_size, "malloc"},
    {"tc_malloc_skip_new_handler", call_size, "malloc_skip_new_handler"},
    {"valloc", call_size, "valloc"},
    {"tc_valloc", call_size, "valloc"},
    {"__libc_valloc", call_size, "valloc"},
    {"pvalloc", call_size, "pvalloc"},
    {"tc_pvalloc", call_size, "pvalloc"},
    {"__libc_pvalloc", call_size, "pvalloc"},
    {"calloc", call_calloc, "calloc"},
    {"tc_calloc", call_calloc, "calloc"},
    {"__libc_calloc", call_calloc, "calloc"},
    {"realloc", call_realloc, ""},
    {"tc_realloc", call_realloc, ""},
    {"__libc_realloc", call_realloc, ""},
    {"memalign", call_aligned, "memalign"},
    {"tc_memalign", call_aligned, "memalign"},
    {"__libc_memalign", call_aligned, "memalign"},
    {"aligned_alloc", call_aligned, "aligned_alloc"},
    {"posix_memalign", call_posix, "posix_memalign"},
    {"tc_posix_memalign", call_posix, "posix_memalign"},
    {"__posix_memalign", call_posix, "posix_memalign"},

    {"_Znwm", call_new, "new"},
    {"tc_new", call_new, "new"},
    {"_Znam", call_new, "new_array"},
    {"tc_newarray", call_new, "new_array"},
    {"_ZnwmRKSt9nothrow_t", call_new_nothrow, "new_nothrow"},
    {"tc_new_nothrow", call_new_nothrow, "new_nothrow"},
    {"_ZnamRKSt9nothrow_t", call_new_nothrow, "new_array_nothrow"},
    {"tc_newarray_nothrow", call_new_nothrow, "new_array_nothrow"},
    {"_ZnwmSt11align_val_t", call_new_aligned, "new_aligned"},
    {"tc_new_aligned", call_new_aligned, "new_aligned"},
    {"_ZnamSt11align_val_t", call_new_aligned, "new_array_aligned"},
    {"tc_newarray_aligned", call_new_aligned, "new_array_aligned"},
    {"_ZnwmSt11align_val_tRKSt9nothrow_t", call_new_aligned_nothrow, "new_aligned_nothrow"},
    {"tc_new_aligned_nothrow", call_new_aligned_nothrow, "new_aligned_nothrow"},
    {"_ZnamSt11align_val_tRKSt9nothrow_t", call_new_aligned_nothrow, "new_array_aligned_nothrow"},
    {"tc_newarray_aligned_nothrow", call_new_aligned_nothrow, "new_array_aligned_nothrow"},

    {"free", call_free, "free"},
    {"tc_free", call_free, "free"},
    {"__libc_free", call_free, "free"},
    {"cfree", call_free, "cfree"},
    {"tc_cfree", call_free, "cfree"},
    {"__libc_cfree", call_free, "cfree"},
    {"free_sized", call_free_sized, "free_sized"},
    {"tc_free_sized", call_free_sized, "free_sized"},
    {"free_aligned_sized", call_free_aligned_sized, "free_aligned_sized"},
    {"tc_free_aligned_sized", call_free_aligned_sized, "free_aligned_sized"},
    {"_ZdlPv", call_free, "delete"},
    {"tc_delete", call_free, "delete"},
    {"_ZdaPv", call_free, "delete_array"},
    {"tc_deletearray", call_free, "delete_array"},
    {"_ZdlPvRKSt9nothrow_t", call_free_nothrow, "delete_nothrow"},
    {"tc_delete_nothrow", call_free_nothrow, "delete_nothrow"},
    {"_ZdaPvRKSt9nothrow_t", call_free_nothrow, "delete_array_nothrow"},
    {"tc_deletearray_nothrow", call_free_nothrow, "delete_array_nothrow"},
    {"_ZdlPvm", call_free_sized, "delete_sized"},
    {"tc_delete_sized", call_free_sized, "delete_sized"},
    {"_ZdaPvm", call_free_sized, "delete_array_sized"},
    {"tc_deletearray_sized", call_free_sized, "delete_array_sized"},
    {"_ZdlPvSt11align_val_t", call_free_aligned, "delete_aligned"},
    {"tc_delete_aligned", call_free_aligned, "delete_aligned"},
    {"_ZdaPvSt11align_val_t", call_free_aligned, "delete_array_aligned"},
    {"tc_deletearray_aligned", call_free_aligned, "delete_array_aligned"},
    {"_ZdlPvSt11align_val_tRKSt9nothrow_t", call_free_aligned_nothrow, "delete_aligned_nothrow"},
    {"tc_delete_aligned_nothrow", call_free_aligned_nothrow, "delete_aligned_nothrow"},
    {"_ZdaPvSt11align_val_tRKSt9nothrow_t", call_free_aligned_nothrow,
     "delete_array_aligned_nothrow"},
    {"tc_deletearray_aligned_nothrow", call_free_aligned_nothrow, "delete_array_aligned_nothrow"},
    {"_ZdlPvmSt11align_val_t", call_free_sized_aligned, "delete_sized_aligned"},
    {"tc_delete_sized_aligned", call_free_sized_aligned, "delete_sized_aligned"},
    {"_ZdaPvmSt11align_val_t", call_free_sized_aligned, "delete_array_sized_aligned"},
    {"tc_deletearray_sized_aligned", call_free_sized_aligned, "delete_array_sized_aligned"},

    {"mallopt", call_mallopt, ""},
    {"tc_mallopt", call_mallopt, ""},
    {"malloc_trim", call_trim, ""},
    {"MallocExtension_MarkThreadIdle", call_plain, "thread_idle"},
    {"MallocExtension_MarkThreadTemporarilyIdle", call_plain, "thread_temporarily_idle"},
    {"MallocExtension_MarkThreadBusy", call_plain, "thread_busy"},
    {"MallocExtension_ReleaseToSystem", call_release, ""},
    {"MallocExtension_ReleaseFreeMemory", call_release_all, ""},
    {"MallocExtension_SetMemoryReleaseRate", call_set_release_rate, ""},
    {"MallocExtension_SetNumericProperty", call_set_property, ""},
    {"_ZN15MallocExtension8instanceEv", call_extension, ""},

    {"malloc_usable_size", ask_bytes, ""},
    {"malloc_size", ask_bytes, ""},
    {"tc_malloc_size", ask_bytes, ""},
    {"malloc_stats", ask_printed_stats, ""},
    {"tc_malloc_stats", ask_printed_stats, ""},
    {"mallinfo", ask_information<struct mallinfo>, ""},
    {"tc_mallinfo", ask_information<struct mallinfo>, ""},
    {"mallinfo2", ask_information<struct mallinfo2>, ""},
    {"tc_mallinfo2", ask_information<struct mallinfo2>, ""},
    {"nallocx", ask_size, ""},
    {"tc_nallocx", ask_size, ""},
    {"tc_version", ask_version, ""},
    {"tc_query_new_mode", ask_nothing, ""},
    {"tc_set_new_mode", set_mode, ""},
    {"MallocExtension_GetAllocatedSize", ask_object, ""},
    {"MallocExtension_GetEstimatedAllocatedSize", ask_size, ""},
    {"MallocExtension_GetMemoryReleaseRate", ask_release_rate, ""},
    {"MallocExtension_GetNumericProperty", ask_property, ""},
    {"MallocExtension_GetOwnership", ask_object, ""},
    {"MallocExtension_GetStats", ask_stats, ""},
    {"MallocExtension_GetThreadCacheSize", ask_nothing, ""},
    {"MallocExtension_MallocMemoryStats", ask_memory_stats, ""},
    {"MallocExtension_VerifyAllMemory", ask_nothing, ""},
    {"MallocExtension_VerifyArrayNewMemory", ask_object, ""},
    {"MallocExtension_VerifyMallocMemory", ask_object, ""},
    {"MallocExtension_VerifyNewMemory", ask_object, ""},

    {"reallocarray", call_reallocarray, ""},
    {"reallocarr", call_reallocarr, ""},
    {"reallocf", call_reallocf, ""},
    {"_aligned_malloc", call_aligned, "aligned_alloc"},
    {"vfree", call_free, "free"},
    {"strdup", call_strdup, ""},
    {"__strdup", call_strdup, ""},
    {"strndup", call_strndup, ""},
};

const Entry *find_entry(const char *name)
{
    for (const Entry &entry : entries)
        if (strcmp(entry.symbol, name) == 0) return &entry;
    return nullptr;
}

void mark(int number)
{
    free(malloc(kMarkBytes + static_cast<size_t>(number)));
}

} // namespace

int main(int count, char **words)
{
    /* A first exception may set up what later ones use again. */
    try {
        throw std::bad_alloc();
    } catch (const std::bad_alloc &) {
    }
    for (int i = 1; i < count; i++) {
        symbol = words[i];
        expect("symbol %s\n", symbol);
        const Entry *entry = find_entry(symbol);
        void *function = dlsym(RTLD_DEFAULT, symbol);
        if (!function && entry) fail("not found");
        mark(i - 1);
        if (entry)
            entry->call(function, entry->kind);
        else
            expect("unknown\n");
    }
    mark(count - 1);
    expect("asked %zu\nnulls %zu\n", asked, nulls);
    return write(STDOUT_FILENO, text, text_length) != static_cast<ssize_t>(text_length);
}
