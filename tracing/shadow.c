#include "shadow.h"

#include "os.h"

#include <string.h>

/* The table is opened in parts of this many bytes: 1 GiB of heap each. */
#define PART_BYTES        ((uintptr_t)2 << 20)
#define PARTS             (SHADOW_PAGES * sizeof(struct shadow_page) / PART_BYTES)
/* Tokens come from the system in pieces of this size. */
#define ARENA_BYTES       ((size_t)4 << 20)
/* A page of 8-byte objects has 2^10 tokens. */
#define CAPACITY_BITS_MAX 10

struct shadow_page *shadow_pages;

static struct {
    uint32_t lock;
    uint8_t *arena;
    size_t arena_left;
    void
        *free[CAPACITY_BITS_MAX + 1]; /* lists of unused token arrays, linked by their first word */
    uint8_t parts_open[PARTS];
} shadow;

static void lock(void)
{
    while (atomic_exchange_acquire(&shadow.lock, 1))
        os_wait(&shadow.lock, 1, 1000000);
}

/* Held for a few instructions, so nobody is woken: whoever waits looks again soon. */
static void unlock(void)
{
    atomic_store_release(&shadow.lock, 0);
}

bool shadow_reserve(void)
{
    shadow_pages = os_address_space_reserve(SHADOW_PAGES * sizeof *shadow_pages);
    return shadow_pages != NULL;
}

void shadow_cover(uintptr_t address, size_t bytes)
{
    if (!shadow_pages || bytes == 0) return;
    uintptr_t first = (address >> SHADOW_PAGE_BITS) * sizeof *shadow_pages / PART_BYTES;
    uintptr_t last =
        ((address + bytes - 1) >> SHADOW_PAGE_BITS) * sizeof *shadow_pages / PART_BYTES;
    for (uintptr_t part = first; part <= last && part < PARTS; part++) {
        if (shadow.parts_open[part]) continue;
        os_address_space_open((uint8_t *)shadow_pages + part * PART_BYTES, PART_BYTES);
        shadow.parts_open[part] = 1;
    }
}

/* Zeroed room for 2^bits tokens; NULL if there is no memory. Under the lock. */
static uint64_t *take_tokens(unsigned bits)
{
    size_t bytes = sizeof(uint64_t) << bits;
    void *tokens = shadow.free[bits];
    if (tokens) {
        memcpy(&shadow.free[bits], tokens, sizeof tokens);
        memset(tokens, 0, bytes);
        return tokens;
    }
    if (shadow.arena_left < bytes) {
        shadow.arena = os_memory_reserve(ARENA_BYTES);
        shadow.arena_left = shadow.arena ? ARENA_BYTES : 0;
        if (!shadow.arena) return NULL;
    }
    tokens = shadow.arena;
    shadow.arena += bytes;
    shadow.arena_left -= bytes;
    return tokens;
}

static void give_tokens(uint64_t *tokens, unsigned bits)
{
    memcpy(tokens, &shadow.free[bits], sizeof shadow.free[bits]);
    shadow.free[bits] = tokens;
}

/* How many bits an index of a page of such objects has. */
static unsigned capacity_bits_for(size_t size)
{
    unsigned bits = 0;
    if (size != 0)
        while (((size_t)1 << bits) * size < SHADOW_PAGE_BYTES)
            bits++;
    return bits;
}

bool shadow_open(const void *object, size_t size, uint8_t size_class)
{
    struct shadow_page *page = shadow_page_of(object);
    lock();
    if (!page->tokens) {
        unsigned bits = capacity_bits_for(size);
        uint64_t *tokens = take_tokens(bits);
        page->inverse = size ? (uint32_t)((UINT64_C(1) << 32) / size + 1) : 0;
        page->size_class = size_class;
        page->capacity_bits = (uint8_t)bits;
        atomic_store_release(&page->tokens, tokens);
    }
    unlock();
    return page->tokens != NULL;
}

void shadow_close(uintptr_t first, uintptr_t pages, unsigned size_class)
{
    if (!shadow_pages) return;
    uintptr_t end = first + (size_class ? pages : 1);
    lock();
    for (struct shadow_page *page = shadow_pages + first; page < shadow_pages + end; page++) {
        if (page->tokens) give_tokens(page->tokens, page->capacity_bits);
        page->tokens = NULL;
    }
    unlock();
}
