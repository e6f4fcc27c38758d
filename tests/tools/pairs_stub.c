/* pairs_stub.so - to be preloaded: the C library's malloc, which knows its objects and who calls.
 *
 *   [ size, state, where the block begins ][ object ... ]
 *
 * At exit it writes one line of NAME=NUMBER pairs to the file that PAIRS_STUB_LOG names:
 *
 *   calls       calls from the code of the program itself, not of a library
 *   threads     threads that made such calls
 *   peak        the most such threads that were there at once, but for the main one
 *   loader      calls from the dynamic loader since the first one from the program: what creating
 *               threads takes
 *   other       calls from other libraries by these threads, but the main one, in that time
 *   wrong       objects that were ended twice, or by a sized call of another size than they were
 *               made with, or were no objects at all
 *
 * Any number of threads. */
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/atomic.h"

void *__libc_malloc(size_t size);
void __libc_free(void *object);

void *_Znwm(size_t size);
void _ZdlPvm(void *object, size_t size);
void free_sized(void *object, size_t size);

enum state { STATE_LIVE = 0x5eed11fe, STATE_DEAD = 0x5eeddead };

struct header {
    size_t size;
    uint32_t state; /* atomic */
    void *block;
} __attribute__((aligned(16)));

struct range {
    uintptr_t begin, end;
};

static struct {
    struct range program, loader;
    pthread_key_t key;
    pthread_t main_thread;
    uint64_t calls, threads, alive, peak, loader_calls, other_calls, wrong;
} stub;

static __thread bool is_player __attribute__((tls_model("initial-exec")));

/* ---- who calls ---- */

static int find_range(struct dl_phdr_info *info, size_t bytes, void *argument)
{
    static bool is_program = true; /* which comes first */
    struct range *range = is_program                             ? &stub.program
                          : strstr(info->dlpi_name, "/ld-linux") ? &stub.loader
                                                                 : NULL;
    (void)bytes, (void)argument;
    is_program = false;
    for (int i = 0; range != NULL && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        range->begin = info->dlpi_addr + part->p_vaddr;
        range->end = range->begin + part->p_memsz;
    }
    return 0;
}

static bool is_in(const struct range *range, const void *address)
{
    return (uintptr_t)address >= range->begin && (uintptr_t)address < range->end;
}

static void add(uint64_t *counter)
{
    atomic_add_relaxed(counter, 1);
}

static void thread_ends(void *value)
{
    (void)value;
    atomic_add_relaxed(&stub.alive, -1);
}

static void thread_begins(void)
{
    is_player = true;
    pthread_setspecific(stub.key, &stub);
    add(&stub.threads);
    if (pthread_equal(pthread_self(), stub.main_thread)) return; /* it stays till the end */
    uint64_t alive = atomic_add_relaxed(&stub.alive, 1) + 1;
    uint64_t peak = atomic_load_relaxed(&stub.peak);
    while (alive > peak && !atomic_swap_once(&stub.peak, &peak, alive))
        ;
}

static void count_call(const void *caller)
{
    if (is_in(&stub.program, caller)) {
        if (!is_player) thread_begins();
        add(&stub.calls);
    } else if (stub.calls == 0) {
        return;
    } else if (is_in(&stub.loader, caller)) {
        add(&stub.loader_calls);
    } else if (is_player && !pthread_equal(pthread_self(), stub.main_thread)) {
        add(&stub.other_calls);
    }
}

#define COUNT_CALL() count_call(__builtin_return_address(0))

/* ---- objects ---- */

static void *object_new(size_t size, size_t alignment)
{
    size_t extra = sizeof(struct header) + alignment;
    if (size > SIZE_MAX / 2 || alignment > SIZE_MAX / 4) return NULL;
    char *block = __libc_malloc(size + extra);
    if (block == NULL) return NULL;
    uintptr_t at = (uintptr_t)block + sizeof(struct header);
    at = (at + alignment - 1) / alignment * alignment;
    struct header *header = (struct header *)at - 1;
    *header = (struct header){.size = size, .state = STATE_LIVE, .block = block};
    return header + 1;
}

/* `size` SIZE_MAX: not said. */
static void object_end(void *object, size_t size)
{
    struct header *header = (struct header *)object - 1;
    if (object == NULL) return;
    if (atomic_exchange_relaxed(&header->state, STATE_DEAD) != STATE_LIVE) {
        add(&stub.wrong);
        return;
    }
    if (size != SIZE_MAX && size != header->size) add(&stub.wrong);
    __libc_free(header->block);
}

/* ---- calls ---- */

void *malloc(size_t size)
{
    COUNT_CALL();
    return object_new(size, 16);
}

void *_Znwm(size_t size)
{
    COUNT_CALL();
    return object_new(size, 16);
}

void *calloc(size_t count, size_t size)
{
    COUNT_CALL();
    if (size != 0 && count > SIZE_MAX / size) return NULL;
    void *object = object_new(count * size, 16);
    if (object != NULL) memset(object, 0, count * size);
    return object;
}

void *realloc(void *object, size_t size)
{
    COUNT_CALL();
    void *grown = object_new(size, 16);
    if (grown == NULL || object == NULL) return grown;
    size_t old_size = ((struct header *)object - 1)->size;
    memcpy(grown, object, old_size < size ? old_size : size);
    object_end(object, SIZE_MAX);
    return grown;
}

void *memalign(size_t alignment, size_t size)
{
    COUNT_CALL();
    return object_new(size, alignment < 16 ? 16 : alignment);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **object, size_t alignment, size_t size)
{
    COUNT_CALL();
    *object = object_new(size, alignment < 16 ? 16 : alignment);
    return *object != NULL ? 0 : ENOMEM;
}

void free(void *object)
{
    /* The C library does this a lot when a thread ends. */
    if (object == NULL) return;
    COUNT_CALL();
    object_end(object, SIZE_MAX);
}

void free_sized(void *object, size_t size)
{
    COUNT_CALL();
    object_end(object, size);
}

void _ZdlPvm(void *object, size_t size)
{
    COUNT_CALL();
    object_end(object, size);
}

static __attribute__((constructor)) void stub_begin(void)
{
    pthread_key_create(&stub.key, thread_ends);
    stub.main_thread = pthread_self();
    dl_iterate_phdr(find_range, NULL);
}

static __attribute__((destructor)) void stub_report(void)
{
    const char *path = getenv("PAIRS_STUB_LOG");
    FILE *log = path != NULL ? fopen(path, "w") : NULL;
    if (log == NULL) return;
    fprintf(log, "calls=%ju threads=%ju peak=%ju loader=%ju other=%ju wrong=%ju\n",
            (uintmax_t)stub.calls, (uintmax_t)stub.threads, (uintmax_t)stub.peak,
            (uintmax_t)stub.loader_calls, (uintmax_t)stub.other_calls, (uintmax_t)stub.wrong);
    fclose(log);
}
