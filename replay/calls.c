#include "replay/calls.h"

#include <string.h>

#include "allocators/facts_tcmalloc.h"

#define PAGE 4096u /* the smallest that a system has */

#define ACTION_SHAPE_ALLOCATION                       ACTION_ALLOCATE
#define ACTION_SHAPE_ALLOCATION_ALIGNED               ACTION_ALLOCATE_ALIGNED
#define ACTION_SHAPE_REALLOC                          ACTION_REALLOC
#define ACTION_SHAPE_FREE                             ACTION_FREE
#define ACTION_SHAPE_FREE_SIZED                       ACTION_FREE_SIZED
#define ACTION_SHAPE_FREE_ALIGNED                     ACTION_FREE_SIZED
#define ACTION_SHAPE_FREE_SIZED_ALIGNED               ACTION_FREE_SIZED
#define ACTION_SHAPE_HEAP                             ACTION_HEAP
#define ACTION_ENTRY(number, identifier, name, shape) [(number)] = ACTION_SHAPE_##shape,
const uint8_t call_actions[256] = {
    CALL_KIND_LIST(ACTION_ENTRY)[CALL_REALLOC_MOVED | INSTRUCTION_UNKNOWN] = ACTION_ALLOCATE,
    [CALL_REALLOC_IN_PLACE | INSTRUCTION_UNKNOWN] = ACTION_ALLOCATE,
    [INSTRUCTION_LANE] = ACTION_LANE,
    [INSTRUCTION_THREAD_BEGIN] = ACTION_BORDER,
    [INSTRUCTION_THREAD_END] = ACTION_BORDER,
    [INSTRUCTION_THREAD_CACHE_DELETED] = ACTION_BORDER,
};

/* ---- samples ---- */

void calls_draw_sample(struct calls *calls)
{
    if (calls->latency == NULL) return;
    calls->random ^= calls->random << 13;
    calls->random ^= calls->random >> 7;
    calls->random ^= calls->random << 17;
    const unsigned __int128 random = calls->random; /* below 2^64: scaled, since dividing is slow */
    calls->until_sample = (uint64_t)(random * (2 * calls->sample_every - 1) >> 64);
}

void calls_open(struct calls *calls, const struct allocator *allocator, const struct policy *policy,
                struct promises *promises, struct latency *latency, uint64_t seed)
{
    const bool checks = policy->touch != TOUCH_NONE || policy->check;
    *calls = (struct calls){
        .allocator = allocator,
        .latency = policy->sample_every > 0 ? latency : NULL,
        .samples = latency != NULL ? &latency->list : NULL,
        .sample_every = policy->sample_every,
        .random =
            UINT64_C(88172645463325252) +
            (seed + policy->sample_offset * INSTRUCTION_LANES_MAX) * UINT64_C(0x9e3779b97f4a7c15),
        .touch = policy->touch,
        .heap_calls = policy->heap_calls,
        .page_bytes = policy->page_bytes,
        .promises = checks ? promises : NULL,
        .watched_below = checks && promises != NULL ? promises->watched_below : 0,
    };
    calls_draw_sample(calls);
}

/* ---- calls that need more than themselves ---- */

static size_t power_of_two(size_t least)
{
    size_t power = 1;
    while (power < least && power <= SIZE_MAX / 2)
        power *= 2;
    return power;
}

/* Called when the allocator has returned NULL. If it may have refused an alignment that the
 * recorded allocator accepted, makes the call once more: with the next power of two, with the
 * minimum of posix_memalign(), and for aligned_alloc() with a size that is a multiple of the
 * alignment. */
void *calls_allocate_realigned(struct calls *calls, unsigned opcode, size_t size, size_t alignment)
{
    const struct allocator *const to = calls->allocator;
    size_t power = power_of_two(alignment), whole = size;
    if (opcode == CALL_POSIX_MEMALIGN && power < sizeof(void *)) power = sizeof(void *);
    if (opcode == CALL_ALIGNED_ALLOC && size <= SIZE_MAX - power)
        whole = (size + power - 1) / power * power;
    if (opcode > CALL_POSIX_MEMALIGN || (power == alignment && whole == size)) return NULL;
    calls->realigned++;
    switch (opcode) {
    case CALL_MEMALIGN: return to->memalign(power, size);
    case CALL_ALIGNED_ALLOC: return to->aligned_alloc(power, whole);
    default: return to->posix_memalign(power, size);
    }
}

/* realloc() to 0 bytes frees the object. Some allocators then return a new, empty object, which
 * would leak. */
void calls_realloc_zero(const struct allocator *allocator, void *object)
{
    void *left = allocator->realloc(object, 0);
    if (left != NULL) allocator->free(left);
}

/* Does nothing if the allocator lacks the call, which the report then lists as substituted. */
void calls_heap(const struct calls *calls, unsigned kind, const uint64_t *numbers, unsigned count)
{
    static const char *const properties[] = {NULL, TCMALLOC_PROPERTIES};
    const struct allocator_functions *library = &calls->allocator->library;
    uint64_t first = count > 0 ? numbers[0] : 0, second = count > 1 ? numbers[1] : 0;
    if (!calls->heap_calls || calls->allocator->substituted[kind]) return;
    switch (kind) {
    case CALL_RELEASE_MEMORY: library->MallocExtension_ReleaseToSystem(first); break;
    case CALL_THREAD_IDLE: library->MallocExtension_MarkThreadIdle(); break;
    case CALL_THREAD_TEMPORARILY_IDLE: library->MallocExtension_MarkThreadTemporarilyIdle(); break;
    case CALL_THREAD_BUSY: library->MallocExtension_MarkThreadBusy(); break;
    case CALL_SET_PROPERTY:
        if (first >= 1 && first < sizeof properties / sizeof *properties)
            library->MallocExtension_SetNumericProperty(properties[first], second);
        break;
    case CALL_SET_RELEASE_RATE:
        library->MallocExtension_SetMemoryReleaseRate((double)first / 1000);
        break;
    case CALL_MALLOPT: library->mallopt((int)(int64_t)first, (int)(int64_t)second); break;
    case CALL_MALLOC_TRIM: library->malloc_trim(first); break;
    default: break;
    }
}

/* Writes to those pages, the first of which is the one in which the object begins. */
void calls_touch_runs(struct calls *calls, void *object, size_t size, struct calls_runs touched)
{
    const uint64_t skew = (uintptr_t)object % touched.page_bytes, end = size + skew;
    volatile char *const bytes = object;
    uint64_t at = 0; /* from the beginning of that page */
    for (size_t i = 0; i < touched.count && at < end; i++) {
        const uint64_t left = (end - at) / touched.page_bytes + 1;
        const uint64_t skipped = touched.at[2 * i], resident = touched.at[2 * i + 1];
        const uint64_t from = at + (skipped < left ? skipped : left) * touched.page_bytes;
        calls->untouched += (from < end ? from : end) - at;
        at = from;
        for (uint64_t page = 0; page < resident && at < end; page++)
            for (uint64_t part = 0; part < touched.page_bytes; part += PAGE, at += PAGE)
                if (at < end) bytes[at > skew ? at - skew : 0] = 1;
    }
    if (at < end) calls->untouched += end - at;
}

/* Writes to the parts of a new object that the policy names (REPORT.md, `touch`). */
void calls_touch(enum touch touch, void *object, size_t size)
{
    volatile char *const bytes = object;
    if (object == NULL || size == 0) return;
    switch (touch) {
    case TOUCH_NONE: return;
    case TOUCH_LINE: bytes[0] = 1; return;
    case TOUCH_PAGES:
        bytes[0] = 1;
        for (size_t at = PAGE - (uintptr_t)object % PAGE; at < size; at += PAGE)
            bytes[at] = 1;
        return;
    case TOUCH_ALL: memset(object, 1, size); return;
    }
}
