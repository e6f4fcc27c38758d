/* os_linux_own - how much of the process's memory is the recorder's.
 *
 * Each mapping of ours has an entry from when it is made to when it is given back; a forked child
 * has the entries of its parent (os_memory_forked()).
 *
 * Order       `bytes` is stored last and cleared first: while it is 0 the entry says nothing. */
#include "common/atomic.h"
#include "tracing/os/os.h"

#include "tracing/os/os_linux.h"

#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>

/* The shadow table has one for each GiB of the heap and two for each 2 million places, of which
 * there are at most 2^32. Over another allocator than ours that is two for 32 MiB of heap. */
#define ENTRIES_MAX  8192
/* How many one system call is asked about. */
#define PAGES_A_LOOK 4096

struct entry {
    uintptr_t start; /* 0: not in use */
    size_t bytes;
    bool inherited; /* by a forked child: all but files */
};

static struct entry os_linux_own_entries[ENTRIES_MAX];
static uint32_t entries_used; /* those from here on have never been in use */
static bool is_incomplete;    /* there were more than ENTRIES_MAX */

static void note_used(uint32_t count)
{
    uint32_t used = atomic_load_relaxed(&entries_used);
    while (used < count && !atomic_swap_release(&entries_used, &used, count))
        continue;
}

void os_linux_own_add(void *memory, size_t bytes, bool inherited)
{
    for (uint32_t i = 0; i < ENTRIES_MAX; i++) {
        struct entry *entry = &os_linux_own_entries[i];
        uintptr_t none = 0;
        if (atomic_load_relaxed(&entry->start) ||
            !atomic_swap_once(&entry->start, &none, (uintptr_t)memory))
            continue;
        entry->inherited = inherited;
        atomic_store_release(&entry->bytes, bytes);
        return note_used(i + 1);
    }
    atomic_store_relaxed(&is_incomplete, true);
}

static void remove_entry(struct entry *entry)
{
    atomic_store_relaxed(&entry->bytes, 0);
    atomic_store_release(&entry->start, 0);
}

void os_linux_own_remove(const void *memory)
{
    uint32_t used = atomic_load_acquire(&entries_used);
    for (uint32_t i = 0; i < used; i++)
        if (atomic_load_relaxed(&os_linux_own_entries[i].start) == (uintptr_t)memory)
            return remove_entry(&os_linux_own_entries[i]);
}

void os_memory_forked(void)
{
    for (uint32_t i = 0; i < entries_used; i++)
        if (os_linux_own_entries[i].start && !os_linux_own_entries[i].inherited)
            remove_entry(&os_linux_own_entries[i]);
}

bool os_memory_is_own(uintptr_t start, uintptr_t end)
{
    uint32_t used = atomic_load_acquire(&entries_used);
    for (uint32_t i = 0; i < used; i++) {
        size_t bytes = atomic_load_acquire(&os_linux_own_entries[i].bytes);
        const uintptr_t from = atomic_load_relaxed(&os_linux_own_entries[i].start);
        if (bytes && from < end && from + bytes > start) return true;
    }
    return false;
}

bool os_memory_pages(uintptr_t start, size_t pages, uint8_t *resident)
{
    return system_call(SYS_mincore, (long)start, (long)(pages * os_page_bytes()), (long)resident, 0,
                       0, 0) == 0;
}

bool os_memory_may_be_swapped(void)
{
    struct sysinfo info;
    return system_call(SYS_sysinfo, (long)&info, 0, 0, 0, 0, 0) != 0 || info.totalswap > 0;
}

size_t os_page_bytes(void)
{
    return getauxval(AT_PAGESZ);
}

/* What is not mapped any more counts as not resident. */
static uint64_t resident_pages(uintptr_t start, size_t bytes, size_t page_bytes)
{
    uint8_t resident[PAGES_A_LOOK];
    uint64_t pages = 0;
    size_t left = (bytes + page_bytes - 1) / page_bytes;
    for (; left > 0; start += PAGES_A_LOOK * page_bytes) {
        size_t count = left < PAGES_A_LOOK ? left : PAGES_A_LOOK;
        left -= count;
        if (system_call(SYS_mincore, (long)start, (long)(count * page_bytes), (long)resident, 0, 0,
                        0) != 0)
            continue;
        for (size_t i = 0; i < count; i++)
            pages += resident[i] & 1;
    }
    return pages;
}

uint64_t os_memory_resident_bytes(uint64_t *of_files)
{
    const size_t page_bytes = os_page_bytes();
    uint32_t used = atomic_load_acquire(&entries_used);
    uint64_t pages = 0, file_pages = 0;
    *of_files = 0;
    if (atomic_load_relaxed(&is_incomplete)) return 0;
    for (uint32_t i = 0; i < used; i++) {
        size_t bytes = atomic_load_acquire(&os_linux_own_entries[i].bytes);
        const uintptr_t start = atomic_load_relaxed(&os_linux_own_entries[i].start);
        if (bytes == 0) continue;
        const uint64_t found = resident_pages(start, bytes, page_bytes);
        pages += found;
        if (!os_linux_own_entries[i].inherited) file_pages += found;
    }
    *of_files = file_pages * page_bytes;
    return pages * page_bytes;
}
