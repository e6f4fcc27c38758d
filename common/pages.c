#include "common/pages.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *pages_result(long address)
{
    return address == -1 ? NULL : (void *)address;
}

/* ---- what is mapped ---- */

/* How many pages one mincore() call covers. */
#define RESIDENT_STEP 4096u

struct range {
    void *at;
    size_t bytes;
};

static struct {
    pthread_mutex_t lock;
    struct range ranges[PAGES_RANGES]; /* `at` NULL: free */
} pages_mapped = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Remembers a mapping that has moved from `old`, or a new one (`old` is NULL), or forgets one (`at`
 * is NULL). */
static void pages_note(void *old, void *at, size_t bytes)
{
    unsigned i = 0;
    pthread_mutex_lock(&pages_mapped.lock);
    while (i < PAGES_RANGES && pages_mapped.ranges[i].at != old)
        i++;
    if (i < PAGES_RANGES) pages_mapped.ranges[i] = (struct range){at, bytes};
    pthread_mutex_unlock(&pages_mapped.lock);
}

bool pages_have(const void *address)
{
    bool found = false;
    pthread_mutex_lock(&pages_mapped.lock);
    for (unsigned i = 0; i < PAGES_RANGES && !found; i++) {
        const struct range *range = &pages_mapped.ranges[i];
        found = range->at != NULL && (const char *)address >= (const char *)range->at &&
                (size_t)((const char *)address - (const char *)range->at) < range->bytes;
    }
    pthread_mutex_unlock(&pages_mapped.lock);
    return found;
}

static size_t range_resident_bytes(const struct range *range, size_t page)
{
    unsigned char present[RESIDENT_STEP];
    size_t pages = (range->bytes + page - 1) / page, resident = 0;
    for (size_t at = 0; range->at != NULL && at < pages; at += RESIDENT_STEP) {
        size_t count = pages - at < RESIDENT_STEP ? pages - at : RESIDENT_STEP;
        if (mincore((char *)range->at + at * page, count * page, present) != 0) break;
        for (size_t i = 0; i < count; i++)
            resident += present[i] & 1;
    }
    return resident * page;
}

size_t pages_resident_bytes(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 0;
    pthread_mutex_lock(&pages_mapped.lock);
    for (unsigned i = 0; i < PAGES_RANGES; i++)
        bytes += range_resident_bytes(&pages_mapped.ranges[i], page);
    pthread_mutex_unlock(&pages_mapped.lock);
    return bytes;
}

/* ---- mapping ---- */

void *pages_map(size_t bytes)
{
    void *at = pages_result(syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L));
    if (at != NULL) pages_note(NULL, at, bytes);
    return at;
}

void *pages_map_shared(size_t bytes)
{
    return pages_result(syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L));
}

void *pages_grow(void *at, size_t bytes_old, size_t bytes_new)
{
    if (at == NULL) return pages_map(bytes_new);
    void *grown = pages_result(syscall(SYS_mremap, at, bytes_old, bytes_new, MREMAP_MAYMOVE, NULL));
    if (grown != NULL) pages_note(at, grown, bytes_new);
    return grown;
}

bool pages_reserve(void *at, uint64_t *capacity, uint64_t count, uint64_t least, size_t entry_bytes)
{
    uint64_t larger = *capacity == 0 ? least : *capacity;
    void *array;
    while (larger < count)
        larger *= 2;
    if (larger == *capacity) return true;
    memcpy(&array, at, sizeof array);
    array = pages_grow(array, *capacity * entry_bytes, larger * entry_bytes);
    if (array == NULL) return false;
    memcpy(at, &array, sizeof array);
    *capacity = larger;
    return true;
}

void pages_unmap(void *at, size_t bytes)
{
    if (at == NULL) return;
    pages_note(at, NULL, 0);
#ifdef __SANITIZE_THREAD__
    munmap(at, bytes); /* by its own function, so that it forgets who has used these addresses */
#else
    syscall(SYS_munmap, at, bytes);
#endif
}
