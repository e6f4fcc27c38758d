/* known_calls - every way to ask for memory and to give it back, once or more, in a known order.
 *
 *   known_calls [-p]
 *
 *   -p   prints the calls it made, one line each, in the names of common/call_kind.h:
 *
 *            malloc 1001 -> 3                 object 3 was allocated, of 1001 bytes
 *            aligned_alloc 1024 64 -> 7       alignment 64
 *            realloc_moved 3 5000 -> 4        object 3 became object 4
 *            delete_sized 9 1010              object 9 died, 1010 bytes were named
 *            malloc 4611686018427387904 failed
 *
 * One thread. The sequence starts with malloc(424242) and its free and ends with malloc(434343) and
 * its free; sizes in between differ, so that a recording can be compared call by call. What runs
 * before and after (the C++ library's start, the printing of -p) is not part of it; -p writes from
 * static memory.
 *
 * Freeing NULL is called, too, and is no event. One object of 777 bytes is never freed. Calls that
 * the C library may lack (cfree, free_sized, free_aligned_sized) are looked up at run time and left
 * out where they do not exist. A throwing operator new that fails is left out: the exception would
 * allocate, too. */
#include <dlfcn.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

constexpr size_t kTooMuchBytes = size_t{1} << 62;
constexpr unsigned kLinesMax = 128;

struct Object {
    void *address;
    unsigned number;
};

struct Line {
    const char *kind;
    size_t size_bytes;
    size_t alignment_bytes;
    unsigned died; /* object numbers; 0 is none */
    unsigned allocated;
    bool has_size;
    bool failed;
};

Line lines[kLinesMax];
unsigned lines_count;
unsigned objects_count;

Line &line_add(const char *kind)
{
    if (lines_count == kLinesMax) abort();
    lines[lines_count] = Line{};
    lines[lines_count].kind = kind;
    return lines[lines_count++];
}

Object allocation(const char *kind, size_t size_bytes, void *address, size_t alignment_bytes = 0)
{
    if (!address) abort();
    memset(address, 0x5a, size_bytes);
    Line &line = line_add(kind);
    line.size_bytes = size_bytes;
    line.has_size = true;
    line.alignment_bytes = alignment_bytes;
    line.allocated = ++objects_count;
    return Object{address, line.allocated};
}

void failure(const char *kind, void *address, size_t alignment_bytes = 0)
{
    if (address) abort();
    Line &line = line_add(kind);
    line.size_bytes = kTooMuchBytes;
    line.has_size = true;
    line.alignment_bytes = alignment_bytes;
    line.failed = true;
}

/* Notes the free of an object after the fact. */
void freeing(const char *kind, Object object, size_t alignment_bytes = 0)
{
    Line &line = line_add(kind);
    line.died = object.number;
    line.alignment_bytes = alignment_bytes;
}

void free_sized(const char *kind, Object object, size_t size_bytes, size_t alignment_bytes = 0)
{
    Line &line = line_add(kind);
    line.died = object.number;
    line.size_bytes = size_bytes;
    line.has_size = true;
    line.alignment_bytes = alignment_bytes;
}

void free_noted(Object object)
{
    free(object.address);
    freeing("free", object);
}

Object realloc_noted(Object object, size_t size_bytes)
{
    void *address = realloc(object.address, size_bytes);
    Object after = allocation(address == object.address ? "realloc_in_place" : "realloc_moved",
                              size_bytes, address);
    lines[lines_count - 1].died = object.number;
    return after;
}

void *posix_memalign_simple(size_t alignment_bytes, size_t size_bytes)
{
    void *address = nullptr;
    return posix_memalign(&address, alignment_bytes, size_bytes) == 0 ? address : nullptr;
}

/* Functions that need not exist. */
struct Optional {
    void (*cfree)(void *);
    void (*free_sized)(void *, size_t);
    void (*free_aligned_sized)(void *, size_t, size_t);
};

template <typename Function> void look_up(Function *&function, const char *name)
{
    function = reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
}

void call_plain()
{
    free_noted(allocation("malloc", 1001, malloc(1001)));
    free_noted(allocation("malloc", 0, malloc(0)));
    free_noted(allocation("malloc", 1, malloc(1)));
    free_noted(allocation("malloc", 3 << 20, malloc(3 << 20)));
    free_noted(allocation("calloc", 3 * 401, calloc(3, 401)));
    free(nullptr);
}

void call_realloc()
{
    Object object = allocation("realloc_null", 40, realloc(nullptr, 40));
    object = realloc_noted(object, 41);
    object = realloc_noted(object, 5000);
    object = realloc_noted(object, 4900);
    object = realloc_noted(object, 50);
    object = realloc_noted(object, 1 << 20);
    failure("realloc_moved", realloc(object.address, kTooMuchBytes));
    lines[lines_count - 1].died = object.number;
    if (realloc(object.address, 0)) abort();
    freeing("realloc_zero", object);
    free_noted(allocation("realloc_null", 0, realloc(nullptr, 0)));
}

void call_aligned()
{
    free_noted(allocation("memalign", 1002, memalign(128, 1002), 128));
    free_noted(allocation("aligned_alloc", 1024, aligned_alloc(64, 1024), 64));
    free_noted(allocation("posix_memalign", 1003, posix_memalign_simple(256, 1003), 256));
    free_noted(allocation("posix_memalign", 8192, posix_memalign_simple(65536, 8192), 65536));
    free_noted(allocation("valloc", 1004, valloc(1004)));
    free_noted(allocation("pvalloc", 1005, pvalloc(1005)));
}

void call_new()
{
    Object object = allocation("new", 1006, ::operator new(1006));
    ::operator delete(object.address);
    freeing("delete", object);

    object = allocation("new_nothrow", 1007, ::operator new(1007, std::nothrow));
    ::operator delete(object.address, std::nothrow);
    freeing("delete_nothrow", object);

    object = allocation("new_array", 1008, ::operator new[](1008));
    ::operator delete[](object.address);
    freeing("delete_array", object);

    object = allocation("new_array_nothrow", 1009, ::operator new[](1009, std::nothrow));
    ::operator delete[](object.address, std::nothrow);
    freeing("delete_array_nothrow", object);

    object = allocation("new", 1010, ::operator new(1010));
    ::operator delete (object.address, size_t{1010});
    free_sized("delete_sized", object, 1010);

    object = allocation("new_array", 1011, ::operator new[](1011));
    ::operator delete[](object.address, size_t{1011});
    free_sized("delete_array_sized", object, 1011);

    ::operator delete(nullptr);
}

void call_new_aligned()
{
    constexpr std::align_val_t alignment{512};

    Object object = allocation("new_aligned", 1012, ::operator new(1012, alignment), 512);
    ::operator delete(object.address, alignment);
    freeing("delete_aligned", object, 512);

    object =
        allocation("new_aligned_nothrow", 1013, ::operator new(1013, alignment, std::nothrow), 512);
    ::operator delete(object.address, alignment, std::nothrow);
    freeing("delete_aligned_nothrow", object, 512);

    object = allocation("new_array_aligned", 1014, ::operator new[](1014, alignment), 512);
    ::operator delete[](object.address, alignment);
    freeing("delete_array_aligned", object, 512);

    object = allocation("new_array_aligned_nothrow", 1015,
                        ::operator new[](1015, alignment, std::nothrow), 512);
    ::operator delete[](object.address, alignment, std::nothrow);
    freeing("delete_array_aligned_nothrow", object, 512);

    object = allocation("new_aligned", 1016, ::operator new(1016, alignment), 512);
    ::operator delete (object.address, size_t{1016}, alignment);
    free_sized("delete_sized_aligned", object, 1016, 512);

    object = allocation("new_array_aligned", 1017, ::operator new[](1017, alignment), 512);
    ::operator delete[](object.address, size_t{1017}, alignment);
    free_sized("delete_array_sized_aligned", object, 1017, 512);
}

void call_optional(const Optional &optional)
{
    if (optional.cfree) {
        Object object = allocation("malloc", 1018, malloc(1018));
        optional.cfree(object.address);
        freeing("cfree", object);
    }
    if (optional.free_sized) {
        Object object = allocation("malloc", 1019, malloc(1019));
        optional.free_sized(object.address, 1019);
        free_sized("free_sized", object, 1019);
    }
    if (optional.free_aligned_sized) {
        Object object = allocation("aligned_alloc", 2048, aligned_alloc(64, 2048), 64);
        optional.free_aligned_sized(object.address, 64, 2048);
        free_sized("free_aligned_sized", object, 2048, 64);
    }
}

void call_failing()
{
    failure("malloc", malloc(kTooMuchBytes));
    failure("calloc", calloc(1, kTooMuchBytes));
    failure("realloc_null", realloc(nullptr, kTooMuchBytes));
    failure("memalign", memalign(128, kTooMuchBytes), 128);
    failure("posix_memalign", posix_memalign_simple(128, kTooMuchBytes), 128);
    failure("new_nothrow", ::operator new(kTooMuchBytes, std::nothrow));
    failure("new_array_aligned_nothrow",
            ::operator new[](kTooMuchBytes, std::align_val_t{512}, std::nothrow), 512);
}

void call_everything(const Optional &optional)
{
    free_noted(allocation("malloc", 424242, malloc(424242)));
    call_plain();
    call_realloc();
    call_aligned();
    call_new();
    call_new_aligned();
    call_optional(optional);
    call_failing();
    allocation("malloc", 777, malloc(777));
    free_noted(allocation("malloc", 434343, malloc(434343)));
}

/* Numbers and strings alone: snprintf allocates nothing for them. */
void lines_print()
{
    static char text[kLinesMax * 128];
    size_t length = 0;
    auto put = [&length](const char *format, auto value) {
        length += static_cast<size_t>(snprintf(text + length, sizeof text - length, format, value));
    };
    for (unsigned i = 0; i < lines_count; i++) {
        const Line &line = lines[i];
        put("%s", line.kind);
        if (line.died) put(" %u", line.died);
        if (line.has_size) put(" %zu", line.size_bytes);
        if (line.alignment_bytes) put(" %zu", line.alignment_bytes);
        if (line.allocated) put(" -> %u", line.allocated);
        put("%s\n", line.failed ? " failed" : "");
    }
    if (write(STDOUT_FILENO, text, length) != static_cast<ssize_t>(length)) _exit(1);
}

} // namespace

int main(int count, char **words)
{
    bool print = count == 2 && strcmp(words[1], "-p") == 0;
    if (count > 1 && !print) {
        fputs("usage: known_calls [-p]\n", stderr);
        return 2;
    }
    Optional optional;
    look_up(optional.cfree, "cfree");
    look_up(optional.free_sized, "free_sized");
    look_up(optional.free_aligned_sized, "free_aligned_sized");
    call_everything(optional);
    if (print) lines_print();
    return 0;
}
