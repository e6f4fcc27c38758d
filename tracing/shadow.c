#include "shadow.h"

#include "os.h"

#include <string.h>

#define REGION_BYTES      (SHADOW_REGION_PAGES * sizeof(struct shadow_page))
/* Tokens come from the system in pieces of this size. */
#define ARENA_BYTES       ((size_t)1 << 20)
/* A page of 8-byte objects has 2^10 tokens. */
#define CAPACITY_BITS_MAX 10

struct shadow_page *shadow_regions[SHADOW_REGIONS];

/* Where the tokens of pages go that are not open. */
static uint64_t nowhere;

/* Memory for tokens. It lies where a forked child finds it zeroed: a thread that does not exist in the
 * child may have been in the middle of it, with the lock taken. */
struct token_memory {
    uint32_t lock;
    uint8_t *arena;
    size_t arena_left;
    void
        *free[CAPACITY_BITS_MAX + 1]; /* lists of unused token arrays, linked by their first word */
};

static struct {
    struct token_memory *memory;
    struct shadow_page *empty; /* the region of addresses where the heap is not; read only */
} shadow;

static void lock(void)
{
    while (atomic_exchange_acquire(&shadow.memory->lock, 1))
        os_wait(&shadow.memory->lock, 1, 1000000);
}

/* Held for a few instructions, so nobody is woken: whoever waits looks again soon. */
static void unlock(void)
{
    atomic_store_release(&shadow.memory->lock, 0);
}

bool shadow_begin(void)
{
    shadow.empty = os_zeros_reserve(REGION_BYTES);
    shadow.memory = os_memory_reserve_per_process(sizeof *shadow.memory);
    if (!shadow.empty || !shadow.memory) return false;
    /* The first one last: it tells that all are there. */
    for (uint32_t region = SHADOW_REGIONS; region-- > 0;)
        atomic_store_release(&shadow_regions[region], shadow.empty);
    return true;
}

bool shadow_cover(uintptr_t address, size_t bytes)
{
    if (!shadow_has_begun() || bytes == 0) return true;
    uintptr_t last = (address + bytes - 1) >> SHADOW_REGION_BITS;
    for (uintptr_t region = address >> SHADOW_REGION_BITS; region <= last; region++) {
        if (shadow_regions[region] != shadow.empty) continue;
        struct shadow_page *pages = os_memory_reserve(REGION_BYTES);
        if (!pages) return false;
        atomic_store_release(&shadow_regions[region], pages);
    }
    return true;
}

/* Zeroed room for 2^bits tokens; NULL if there is no memory. Under the lock. */
static uint64_t *take_tokens(unsigned bits)
{
    size_t bytes = sizeof(uint64_t) << bits;
    void *tokens = shadow.memory->free[bits];
    if (tokens) {
        memcpy(&shadow.memory->free[bits], tokens, sizeof tokens);
        memset(tokens, 0, bytes);
        return tokens;
    }
    if (shadow.memory->arena_left < bytes) {
        shadow.memory->arena = os_memory_reserve(ARENA_BYTES);
        shadow.memory->arena_left = shadow.memory->arena ? ARENA_BYTES : 0;
        if (!shadow.memory->arena) return NULL;
    }
    tokens = shadow.memory->arena;
    shadow.memory->arena += bytes;
    shadow.memory->arena_left -= bytes;
    return tokens;
}

static void give_tokens(uint64_t *tokens, unsigned bits)
{
    memcpy(tokens, &shadow.memory->free[bits], sizeof shadow.memory->free[bits]);
    shadow.memory->free[bits] = tokens;
}

static const void *page_start(uintptr_t number)
{
    return (const void *)(number << SHADOW_PAGE_BITS);
}

/* Objects start at multiples of 8. */
static const void *page_last(uintptr_t number)
{
    return (const void *)(((number + 1) << SHADOW_PAGE_BITS) - 8);
}

/* Room for the indices of a page: their number, up to a power of two. */
static unsigned capacity_bits_for(uintptr_t number, uint32_t inverse)
{
    size_t first = shadow_index(inverse, page_start(number));
    size_t last = shadow_index(inverse, page_last(number));
    unsigned bits = 0;
    while (((size_t)1 << bits) <= last - first)
        bits++;
    return bits;
}

/* Under the lock. */
static bool open_page(uintptr_t number, size_t size, uint8_t size_class)
{
    struct shadow_page *page = shadow_page_of(page_start(number));
    if (page->open) return true;
    uint32_t inverse = size ? (uint32_t)((UINT64_C(1) << 32) / size + 1) : 0;
    unsigned bits = capacity_bits_for(number, inverse);
    uint64_t *tokens = take_tokens(bits);
    page->inverse = tokens ? inverse : 0;
    page->tokens = tokens ? tokens - shadow_index(inverse, page_start(number)) : &nowhere;
    page->capacity_bits = (uint8_t)bits;
    page->open = tokens != NULL;
    atomic_store_release(&page->size_class, tokens ? size_class : 0);
    return page->open;
}

static bool has_region(uintptr_t number)
{
    return shadow_regions[number >> (SHADOW_REGION_BITS - SHADOW_PAGE_BITS)] != shadow.empty;
}

bool shadow_open(const void *object, size_t size, uint8_t size_class)
{
    uintptr_t number = (uintptr_t)object >> SHADOW_PAGE_BITS;
    if (!shadow_has_begun() || !has_region(number)) return false;
    lock();
    bool opened = open_page(number, size, size_class);
    unlock();
    return opened;
}

void shadow_open_pages(uintptr_t first, uintptr_t pages, size_t size, uint8_t size_class)
{
    if (!shadow_has_begun()) return;
    lock();
    for (uintptr_t number = first; number < first + pages; number++)
        if (has_region(number)) open_page(number, size, size_class);
    unlock();
}

void shadow_close(uintptr_t first, uintptr_t pages, unsigned size_class)
{
    if (!shadow_has_begun()) return;
    uintptr_t end = first + (size_class ? pages : 1);
    lock();
    for (uintptr_t number = first; number < end; number++) {
        struct shadow_page *page = shadow_page_of(page_start(number));
        if (!page->open) continue;
        uint64_t *tokens = page->tokens + shadow_index(page->inverse, page_start(number));
        atomic_store_release(&page->size_class, 0);
        page->open = false;
        page->inverse = 0;
        page->tokens = &nowhere;
        give_tokens(tokens, page->capacity_bits);
    }
    unlock();
}
