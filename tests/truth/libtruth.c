/* libtruth.so - to be preloaded in front of the tracing library: writes down each call (truth.h),
 * and makes it.
 *
 *   TRUTH_OUTPUT=FILE [TRUTH_LOCK=1] [TRUTH_RECORDS=N] \
 *       LD_PRELOAD="libtruth.so libtcmalloc_minimal_tracing.so" PROGRAM
 *
 * FILE must not exist: so what the program execs writes none. A forked child writes none either.
 * FILE is a shared mapping, and therefore complete however the program ends. N: records there is
 * room for; the file is sparse.
 *
 * Nothing is taken from the capture core, except whether it is recording, where that changes: after
 * the calls of malloctape.h, and once the process has begun to exit. Where recording is paused,
 * TRUTH_LOCK is needed: else which calls were recorded is uncertain during malloctape_pause() and
 * malloctape_resume().
 *
 * Not seen: calls by other names (tc_malloc, __libc_malloc). Calls in signal handlers may be
 * written down in another order than they are recorded in. What the C library has on top of these
 * functions (reallocarray, strdup) calls them here. */
#include "truth.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MALLOCTAPE_LIBRARY
#include "common/atomic.h"
#include "tracing/preload/entry_points.h"
#include "tracing/process/malloctape.h"

#define RECORDS_DEFAULT (UINT64_C(1) << 24)

/* Whether calls are recorded: the lower two bits; above them, how often that has changed. */
enum { PHASE_RECORDED = 0, PHASE_UNRECORDED = 1, PHASE_UNKNOWN = 2, PHASE_STEP = 4 };

/* In memory that a forked child finds zeroed: there, nothing is watched. */
struct witness {
    uint32_t active;
    uint32_t locks;
    uint32_t threads;
    uint32_t asking; /* the capture core for the phase, before and after each call */
    uint64_t phase;
    pthread_mutex_t lock;
};

static struct witness *witness;
static struct truth_header *header;
static struct truth_record *records;
static uint64_t unready;
static bool decided, deciding;

static __thread __attribute__((tls_model("initial-exec"))) struct {
    uint32_t number;            /* of this thread; 0: not seen yet */
    uint32_t depth;             /* calls it is in */
    struct truth_record beyond; /* what there is no room for */
} me;

/* --- the functions behind this library --- */

#define DECLARE_ALLOCATION(function, kind, parameters, ...) \
    void *function parameters;                              \
    static void *(*real_##function)parameters;
ENTRY_ALLOCATIONS(DECLARE_ALLOCATION)
#define DECLARE_FREE(function, kind, parameters, ...) \
    void function parameters;                         \
    static void(*real_##function) parameters;
ENTRY_FREES(DECLARE_FREE)

static void *(*real_realloc)(void *object, size_t size);
static int (*real_posix_memalign)(void **result, size_t alignment, size_t size);
static void (*real__exit)(int status);
static int (*real_start)(const char *output);
static int (*real_stop)(void);
static int (*real_pause)(void);
static int (*real_resume)(void);

static void look_up(void *place, const char *function)
{
    void *found = dlsym(RTLD_NEXT, function);
    memcpy(place, &found, sizeof found);
}

static void look_up_all(void)
{
#define LOOK_UP(function, ...) look_up(&real_##function, #function);
    ENTRY_ALLOCATIONS(LOOK_UP)
    ENTRY_FREES(LOOK_UP)
    LOOK_UP(realloc)
    LOOK_UP(posix_memalign)
    LOOK_UP(_exit)
    look_up(&real_start, "malloctape_library_start");
    look_up(&real_stop, "malloctape_library_stop");
    look_up(&real_pause, "malloctape_library_pause");
    look_up(&real_resume, "malloctape_library_resume");
}

/* --- beginning --- */

static void complain(const char *what)
{
    static const char name[] = "libtruth: ";
    if (write(STDERR_FILENO, name, sizeof name - 1) < 0 ||
        write(STDERR_FILENO, what, strlen(what)) < 0 || write(STDERR_FILENO, "\n", 1) < 0)
        return;
}

/* The allocator has an mmap() of its own, which would be its first call. */
static void *map(size_t bytes, int flags, int file)
{
    long memory = syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
    return memory == -1 ? MAP_FAILED : (void *)memory;
}

static bool open_output(const char *path, uint64_t room)
{
    size_t bytes = TRUTH_HEADER_BYTES + room * sizeof *records;
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) return false;
    void *memory = MAP_FAILED;
    if (ftruncate(file, (off_t)bytes) == 0) memory = map(bytes, MAP_SHARED, file);
    close(file);
    if (memory == MAP_FAILED) {
        complain("no mapping of the output");
        return false;
    }
    header = memory;
    header->magic = TRUTH_MAGIC;
    header->room = room;
    header->unready = unready;
    records = (struct truth_record *)((char *)memory + TRUTH_HEADER_BYTES);
    return true;
}

static void begin(void)
{
    const char *path = getenv("TRUTH_OUTPUT");
    const char *room = getenv("TRUTH_RECORDS");
    const char *locks = getenv("TRUTH_LOCK");
    if (!path || !open_output(path, room ? strtoull(room, NULL, 10) : RECORDS_DEFAULT)) return;
    void *memory = map(TRUTH_HEADER_BYTES, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (memory == MAP_FAILED || madvise(memory, TRUTH_HEADER_BYTES, MADV_WIPEONFORK) != 0) {
        complain("no memory that a forked child finds zeroed");
        return;
    }
    witness = memory;
    pthread_mutex_init(&witness->lock, NULL);
    witness->locks = locks != NULL;
    witness->phase = PHASE_UNKNOWN;
    witness->asking = 1; /* until library_begins() */
    witness->active = 1;
}

/* The first call of the process, and those after it until there is an environment. The capture core
 * begins at the same call, behind this one. */
static void decide(void)
{
    int kept_errno = errno;
    if (deciding) {
        complain("looking for a function needs the allocator");
        abort();
    }
    deciding = true;
    if (!real_malloc) look_up_all();
    if (environ) {
        decided = true;
        begin();
    } else {
        unready++;
    }
    deciding = false;
    errno = kept_errno;
}

static bool is_watching(void)
{
    if (!decided) decide();
    return witness && atomic_load_relaxed(&witness->active);
}

/* --- what the capture core is doing --- */

static unsigned phase_asked(void)
{
    struct malloctape_summary summary = {.activity = MALLOCTAPE_NOT_LOADED};
    if (malloctape_library_status) malloctape_library_status(&summary, sizeof summary);
    return summary.activity == MALLOCTAPE_IS_RECORDING ? PHASE_RECORDED : PHASE_UNRECORDED;
}

static void phase_change(unsigned to)
{
    uint64_t before = atomic_load_seq_cst(&witness->phase);
    atomic_store_seq_cst(&witness->phase, (before / PHASE_STEP + 1) * PHASE_STEP + to);
}

/* A thread in the middle of a call may record it though recording has just ended, so that answer
 * says little. */
static uint64_t phase_now(void)
{
    if (atomic_load_seq_cst(&witness->asking))
        return phase_asked() == PHASE_RECORDED ? PHASE_RECORDED : PHASE_UNKNOWN;
    return atomic_load_seq_cst(&witness->phase);
}

/* With the lock, no call overlaps a change. */
static void phase_will_change(void)
{
    if (!is_watching()) return;
    if (witness->locks) pthread_mutex_lock(&witness->lock);
    phase_change(PHASE_UNKNOWN);
}

static void phase_has_changed(void)
{
    if (!is_watching()) return;
    phase_change(phase_asked());
    if (witness->locks) pthread_mutex_unlock(&witness->lock);
}

int malloctape_library_start(const char *output)
{
    phase_will_change();
    int result = real_start(output);
    phase_has_changed();
    return result;
}

int malloctape_library_stop(void)
{
    phase_will_change();
    int result = real_stop();
    phase_has_changed();
    return result;
}

int malloctape_library_pause(void)
{
    phase_will_change();
    int result = real_pause();
    phase_has_changed();
    return result;
}

int malloctape_library_resume(void)
{
    phase_will_change();
    int result = real_resume();
    phase_has_changed();
    return result;
}

static void phase_ask_always(bool always)
{
    if (is_watching()) atomic_store_seq_cst(&witness->asking, always);
}

static __attribute__((constructor)) void library_begins(void)
{
    if (is_watching()) phase_change(phase_asked());
    phase_ask_always(false);
}

/* What is recorded from here on ends while the process does. */
static __attribute__((destructor)) void process_ends(void)
{
    phase_ask_always(true);
}

void _exit(int status)
{
    phase_ask_always(true);
    real__exit(status);
    __builtin_unreachable();
}

void _Exit(int status)
{
    _exit(status);
}

/* --- records --- */

static struct truth_record *record_new(void)
{
    uint64_t ticket = atomic_add_seq_cst(&header->tickets, 1);
    struct truth_record *record = ticket < header->room ? &records[ticket] : &me.beyond;
    record->thread = me.number;
    return record;
}

static void record_write(struct truth_record *record, unsigned kind, unsigned flags)
{
    record->flags = (uint8_t)flags;
    atomic_store_release(&record->kind, (uint8_t)kind);
}

static void thread_begins(void)
{
    me.number = atomic_add_relaxed(&witness->threads, 1) + 1;
    struct truth_record *record = record_new();
    record->size = (uint64_t)syscall(SYS_gettid);
    record_write(record, TRUTH_THREAD, TRUTH_RETURNED);
}

struct call {
    unsigned kind;
    uint64_t object, result, size, alignment;
    uint64_t phase;
    struct truth_record *record; /* of a free or realloc */
    bool watched;
};

static unsigned flags_of(const struct call *call)
{
    unsigned state = call->phase % PHASE_STEP;
    if (phase_now() != call->phase || state == PHASE_UNKNOWN) return TRUTH_RETURNED | TRUTH_UNSURE;
    return TRUTH_RETURNED | (state == PHASE_UNRECORDED ? TRUTH_UNRECORDED : 0);
}

static void call_enter(struct call *call)
{
    call->watched = is_watching();
    if (!call->watched) return;
    if (!me.number) thread_begins();
    if (me.depth++ == 0 && witness->locks) pthread_mutex_lock(&witness->lock);
    call->phase = phase_now();
}

static void call_leave(void)
{
    if (--me.depth == 0 && witness->locks) pthread_mutex_unlock(&witness->lock);
}

static void free_begins(struct call *call)
{
    if (!call->watched) return;
    call->record = record_new();
    call->record->object = call->object;
    call->record->size = call->size;
    call->record->alignment = call->alignment;
    record_write(call->record, call->kind, 0);
}

/* Of any call, also one that is left by an exception. In a child that was forked meanwhile nothing
 * is watched. */
static void call_ends(struct call *call)
{
    if (!call->watched || !is_watching()) return;
    unsigned flags = flags_of(call);
    if (call->record) {
        call->record->result = call->result;
        call->record->flags = (uint8_t)flags;
    }
    if (!call->record || call->kind == CALL_REALLOC_MOVED) {
        struct truth_record *record = record_new();
        bool is_allocation = !call->record;
        record->object = is_allocation ? 0 : (uint64_t)(call->record - records);
        record->result = call->result;
        record->size = call->size;
        record->alignment = call->alignment;
        record_write(record, is_allocation ? call->kind : TRUTH_REALLOC_DONE, flags);
    }
    call_leave();
}

#define WATCHED_CALL(...)                                                 \
    struct call call __attribute__((cleanup(call_ends))) = {__VA_ARGS__}; \
    call_enter(&call)

/* --- the functions --- */

#define DEFINE_ALLOCATION(function, call_kind, parameters, arguments, bytes, align)    \
    void *function parameters                                                          \
    {                                                                                  \
        WATCHED_CALL(.kind = CALL_##call_kind, .size = (bytes), .alignment = (align)); \
        void *result = real_##function arguments;                                      \
        call.result = (uintptr_t)result;                                               \
        return result;                                                                 \
    }
ENTRY_ALLOCATIONS(DEFINE_ALLOCATION)

#define DEFINE_FREE(function, call_kind, parameters, arguments, bytes, align)                \
    void function parameters                                                                 \
    {                                                                                        \
        if (!object) {                                                                       \
            is_watching();                                                                   \
            real_##function arguments;                                                       \
            return;                                                                          \
        }                                                                                    \
        WATCHED_CALL(.kind = CALL_##call_kind, .object = (uintptr_t)object, .size = (bytes), \
                     .alignment = (align));                                                  \
        free_begins(&call);                                                                  \
        real_##function arguments;                                                           \
    }
ENTRY_FREES(DEFINE_FREE)

void *realloc(void *object, size_t size)
{
    bool ends = object != NULL && size == 0;
    WATCHED_CALL(.kind = !object ? CALL_REALLOC_NULL
                         : ends  ? CALL_REALLOC_ZERO
                                 : CALL_REALLOC_MOVED,
                 .object = (uintptr_t)object, .size = size);
    if (object) free_begins(&call);
    void *result = real_realloc(object, size);
    call.result = (uintptr_t)result;
    return result;
}

int posix_memalign(void **result, size_t alignment, size_t size)
{
    WATCHED_CALL(.kind = CALL_POSIX_MEMALIGN, .size = size, .alignment = alignment);
    int status = real_posix_memalign(result, alignment, size);
    if (status == 0) call.result = (uintptr_t)*result;
    return status;
}
