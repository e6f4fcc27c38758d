#include "tracing/data/new_memory.h"

#include "common/atomic.h"
#include "tracing/os/os.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* Pages that one system call is asked about. */
#define NEW_MEMORY_PAGES 128u

/* An entry of /proc/self/pagemap: the page is there, or has been swapped out. */
#define HAS_CONTENT (UINT64_C(3) << 62)

static bool may_be_filled;

void new_memory_may_be_filled(void)
{
    atomic_store_relaxed(&may_be_filled, true);
}

static bool all_are_resident(uintptr_t at, size_t pages)
{
    uint8_t resident[NEW_MEMORY_PAGES];
    if (!os_memory_pages(at, pages, resident)) return true;
    for (size_t i = 0; i < pages; i++)
        if (!(resident[i] & 1)) return false;
    return true;
}

/* Clears the pages that have a content. False: it cannot be read which. */
static bool clear_pages(int pagemap, uintptr_t at, size_t pages)
{
    const size_t page = os_page_bytes(), entries_bytes = pages * sizeof(uint64_t);
    uint64_t entries[NEW_MEMORY_PAGES];
    if (os_file_read_at(pagemap, at / page * sizeof *entries, entries, entries_bytes) !=
        (long)entries_bytes)
        return false;
    for (size_t i = 0; i < pages; i++)
        if (entries[i] & HAS_CONTENT) memset((char *)at + i * page, 0, page);
    return true;
}

void new_memory_clear(void *memory, size_t bytes)
{
    const int kept_errno = errno;
    const size_t page = os_page_bytes();
    const bool asks = (uintptr_t)memory % page == 0 && !os_is_confined() &&
                      !atomic_load_relaxed(&may_be_filled);
    char *at = memory;
    int pagemap = -1;
    for (size_t left = bytes; left > 0;) {
        const size_t some = left < NEW_MEMORY_PAGES * page ? left : NEW_MEMORY_PAGES * page;
        const size_t pages = some / page; /* of the rest of a page nothing is asked */
        const bool all = !asks || all_are_resident((uintptr_t)at, pages);
        if (!all && pagemap < 0) pagemap = os_file_open_read("/proc/self/pagemap");
        const size_t done =
            !all && pagemap >= 0 && clear_pages(pagemap, (uintptr_t)at, pages) ? pages * page : 0;
        memset(at + done, 0, some - done);
        at += some;
        left -= some;
    }
    if (pagemap >= 0) os_file_close(pagemap);
    errno = kept_errno;
}
