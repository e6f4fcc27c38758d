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

/* How it is found what pages that are not resident have. */
struct question {
    bool is_asked;
    bool swaps;  /* they may have been swapped out: only `pagemap` says which */
    int pagemap; /* negative: it cannot be read */
};

static void ask_first(struct question *question)
{
    question->is_asked = true;
    question->swaps = os_memory_may_be_swapped();
    if (question->swaps) question->pagemap = os_file_open_read("/proc/self/pagemap");
}

static bool add_swapped(const struct question *question, uintptr_t at, size_t pages,
                        uint8_t *content)
{
    uint64_t entries[NEW_MEMORY_PAGES];
    const size_t bytes = pages * sizeof *entries;
    if (question->pagemap < 0 ||
        os_file_read_at(question->pagemap, at / os_page_bytes() * sizeof *entries, entries,
                        bytes) != (long)bytes)
        return false;
    for (size_t i = 0; i < pages; i++)
        content[i] |= (entries[i] & HAS_CONTENT) != 0;
    return true;
}

/* Which pages have a content: 1, else 0. False: it is not known. */
static bool find_content(struct question *question, uintptr_t at, size_t pages, uint8_t *content)
{
    size_t resident = 0;
    if (!os_memory_pages(at, pages, content)) return false;
    for (size_t i = 0; i < pages; i++)
        resident += content[i] &= 1;
    if (resident == pages) return true;
    if (!question->is_asked) ask_first(question);
    return !question->swaps || add_swapped(question, at, pages, content);
}

static void clear_pages(char *at, size_t pages, const uint8_t *content)
{
    const size_t page = os_page_bytes();
    for (size_t i = 0, end; i < pages; i = end) {
        for (end = i + 1; end < pages && content[end] == content[i];)
            end++;
        if (content[i]) memset(at + i * page, 0, (end - i) * page);
    }
}

void new_memory_clear(void *memory, size_t bytes)
{
    const int kept_errno = errno;
    const size_t page = os_page_bytes();
    const bool asks = (uintptr_t)memory % page == 0 && !os_is_confined() &&
                      !atomic_load_relaxed(&may_be_filled);
    struct question question = {.pagemap = -1};
    uint8_t content[NEW_MEMORY_PAGES];
    char *at = memory, *const end = at + bytes;
    while (asks && (size_t)(end - at) >= page) {
        const size_t left = (size_t)(end - at) / page;
        const size_t pages = left < NEW_MEMORY_PAGES ? left : NEW_MEMORY_PAGES;
        if (!find_content(&question, (uintptr_t)at, pages, content)) break;
        clear_pages(at, pages, content);
        at += pages * page;
    }
    memset(at, 0, (size_t)(end - at));
    if (question.pagemap >= 0) os_file_close(question.pagemap);
    errno = kept_errno;
}
