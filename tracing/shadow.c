#include "shadow.h"

#include "os.h"

#include <string.h>

#define REGION_BYTES      (SHADOW_REGION_PAGES * sizeof(struct shadow_page))
/* Tokens come from the system in pieces of this size. */
#define ARENA_BYTES       ((size_t)1 << 20)
#define END_LOCK_TRIES    100
/* A page of 8-byte objects has 2^10 tokens. */
#define CAPACITY_BITS_MAX 10

/* Where Linux does not map anything of its own accord; the last is for tools that leave a program less. */
static const uintptr_t windows[] = {0x240000000000, 0x3c0000000000, 0x0a0000000000};

uintptr_t shadow_window;
static bool covered[SHADOW_REGIONS];

/* Where the tokens of pages go that are not open. */
static uint64_t nowhere;

/* Tokens are cut from the rest of it. */
struct arena {
    struct arena *next;
    uint64_t unused[7]; /* tokens begin with a cache line */
};

enum shadow_state { SHADOW_OFF = 0, SHADOW_COVERING, SHADOW_ON };

/* Lies where a forked child finds it zeroed: a thread that does not exist in the child may have been in
 * the middle of it, with the lock taken. */
struct token_memory {
    uint32_t lock;
    uint32_t state; /* enum shadow_state; changes under the lock */
    bool kept;      /* has been on, so threads that are late may look */
    uint8_t *next;  /* in the first of `arenas` */
    size_t left;
    struct arena *arenas;
    struct arena *spare; /* from before the end */
    void
        *free[CAPACITY_BITS_MAX + 1]; /* lists of unused token arrays, linked by their first word */
};

static struct token_memory *memory;

static void lock(void)
{
    while (atomic_exchange_acquire(&memory->lock, 1))
        os_wait(&memory->lock, 1, 1000000);
}

/* A thread that has the lock may be stopped, even for good, and the caller be the one it waits for.
 * False: it is not to be had. */
static bool lock_at_last(void)
{
    for (unsigned i = 0; atomic_exchange_acquire(&memory->lock, 1); i++) {
        if (i == END_LOCK_TRIES) return false;
        os_wait(&memory->lock, 1, 1000000);
    }
    return true;
}

/* Held for a few instructions, so nobody is woken: whoever waits looks again soon. */
static void unlock(void)
{
    atomic_store_release(&memory->lock, 0);
}

static uint32_t state(void)
{
    return memory ? atomic_load_acquire(&memory->state) : SHADOW_OFF;
}

bool shadow_has_begun(void)
{
    return state() == SHADOW_ON;
}

/* --- begin and end --- */

static uintptr_t region_entries(uintptr_t region)
{
    return shadow_window + region * REGION_BYTES;
}

static bool cover_region(uintptr_t region)
{
    if (region >= SHADOW_REGIONS) return false;
    if (!covered[region] && os_memory_reserve_per_process_at(region_entries(region), REGION_BYTES))
        atomic_store_release(&covered[region], true);
    return covered[region];
}

/* The window, with an entry for NULL in it. */
static bool choose_window(void)
{
    for (size_t i = 0; i < sizeof windows / sizeof *windows && !covered[0]; i++) {
        shadow_window = windows[i];
        cover_region(0);
    }
    return covered[0];
}

/* What is mapped or pushed later comes below. */
static bool cover_neighbourhood(uintptr_t address)
{
    uintptr_t region = address >> SHADOW_REGION_BITS;
    return cover_region(region) && (region == 0 || cover_region(region - 1));
}

/* False: something may be there already. */
static bool reserve(void)
{
    if (!memory) memory = os_memory_reserve_per_process(sizeof *memory);
    return memory && choose_window() && cover_neighbourhood((uintptr_t)&memory) &&
           cover_neighbourhood((uintptr_t)__builtin_frame_address(0));
}

static void release_regions(void)
{
    for (uintptr_t region = 0; region < SHADOW_REGIONS; region++) {
        if (covered[region]) os_memory_release((void *)region_entries(region), REGION_BYTES);
        covered[region] = false;
    }
}

static void clear_regions(void)
{
    for (uintptr_t region = 0; region < SHADOW_REGIONS; region++)
        if (covered[region]) os_memory_clear((void *)region_entries(region), REGION_BYTES);
}

static struct arena *clear_arenas(struct arena *arenas, struct arena *behind)
{
    while (arenas) {
        struct arena *next = arenas->next;
        os_memory_clear(arenas, ARENA_BYTES);
        arenas->next = behind;
        behind = arenas;
        arenas = next;
    }
    return behind;
}

static void clear_tokens(void)
{
    memory->left = 0;
    memset(memory->free, 0, sizeof memory->free);
    memory->spare = clear_arenas(memory->arenas, clear_arenas(memory->spare, NULL));
    memory->arenas = NULL;
}

bool shadow_prepare(bool (*cover)(void))
{
    if (!reserve()) {
        shadow_cancel();
        return false;
    }
    if (memory->kept) {
        if (!lock_at_last()) return false;
        clear_regions();
        clear_tokens();
        unlock();
    }
    atomic_store_release(&memory->state, SHADOW_COVERING);
    if (cover()) return true;
    shadow_cancel();
    return false;
}

void shadow_cancel(void)
{
    if (!memory) return;
    atomic_store_release(&memory->state, SHADOW_OFF);
    if (memory->kept || !lock_at_last()) return;
    release_regions();
    unlock();
}

void shadow_begin(void)
{
    atomic_store_release(&memory->state, SHADOW_ON);
    memory->kept = true;
}

/* The pages stay as they are: a thread that is late may be about to store a token there. */
void shadow_end(void)
{
    if (!memory) return;
    atomic_store_release(&memory->state, SHADOW_OFF);
    if (!lock_at_last()) return;
    for (struct arena *arena = memory->arenas; arena; arena = arena->next) {
        struct arena *next = arena->next;
        os_memory_clear(arena, ARENA_BYTES);
        arena->next = next;
    }
    unlock();
}

/* --- pages --- */

bool shadow_cover(uintptr_t address, size_t bytes)
{
    if (state() == SHADOW_OFF || bytes == 0) return true;
    bool complete = true;
    uintptr_t first = address >> SHADOW_REGION_BITS;
    uintptr_t last = (address + bytes - 1) >> SHADOW_REGION_BITS;
    lock();
    for (uintptr_t region = first; region <= last && state() != SHADOW_OFF; region++)
        if (!cover_region(region)) complete = false;
    if (first && state() != SHADOW_OFF) cover_region(first - 1);
    unlock();
    return complete;
}

static bool take_arena(void)
{
    struct arena *arena = memory->spare;
    if (arena) {
        memory->spare = arena->next;
    } else {
        arena = os_memory_reserve_unshared(ARENA_BYTES);
        if (!arena) return false;
    }
    arena->next = memory->arenas;
    memory->arenas = arena;
    memory->next = (uint8_t *)(arena + 1);
    memory->left = ARENA_BYTES - sizeof *arena;
    return true;
}

/* Zeroed room for 2^bits tokens; NULL if there is no memory. Under the lock. */
static uint64_t *take_tokens(unsigned bits)
{
    size_t bytes = sizeof(uint64_t) << bits;
    void *tokens = memory->free[bits];
    if (tokens) {
        memcpy(&memory->free[bits], tokens, sizeof tokens);
        memset(tokens, 0, bytes);
        return tokens;
    }
    if (memory->left < bytes && !take_arena()) return NULL;
    tokens = memory->next;
    memory->next += bytes;
    memory->left -= bytes;
    return tokens;
}

static void give_tokens(uint64_t *tokens, unsigned bits)
{
    memcpy(tokens, &memory->free[bits], sizeof memory->free[bits]);
    memory->free[bits] = tokens;
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
static bool open_page(uintptr_t number, size_t size, uint32_t size_class)
{
    struct shadow_page *page = shadow_page_of(page_start(number));
    if (shadow_is_open(page)) return true;
    uint32_t inverse = size ? (uint32_t)((UINT64_C(1) << 32) / size + 1) : 1;
    uint64_t *tokens = take_tokens(capacity_bits_for(number, inverse));
    page->tokens = tokens ? tokens - shadow_index(inverse, page_start(number)) : &nowhere;
    atomic_store_release(&page->inverse, tokens ? inverse : 0);
    atomic_store_release(&page->size_class, tokens ? size_class : 0);
    return tokens != NULL;
}

bool shadow_covers(const void *object)
{
    uintptr_t region = (uintptr_t)object >> SHADOW_REGION_BITS;
    return region < SHADOW_REGIONS && atomic_load_acquire(&covered[region]);
}

bool shadow_open(const void *object, size_t size, uint32_t size_class)
{
    uintptr_t number = (uintptr_t)object >> SHADOW_PAGE_BITS;
    if (state() == SHADOW_OFF || !shadow_covers(object)) return false;
    lock();
    bool opened = state() != SHADOW_OFF && open_page(number, size, size_class);
    unlock();
    return opened;
}

void shadow_open_pages(uintptr_t first, uintptr_t pages, size_t size, uint32_t size_class)
{
    if (state() == SHADOW_OFF) return;
    lock();
    for (uintptr_t number = first; number < first + pages && state() != SHADOW_OFF; number++)
        if (shadow_covers(page_start(number))) open_page(number, size, size_class);
    unlock();
}

void shadow_close(uintptr_t first, uintptr_t pages, uint32_t size_class)
{
    if (state() == SHADOW_OFF) return;
    uintptr_t end = first + (size_class ? pages : 1);
    lock();
    if (state() == SHADOW_OFF) end = first;
    for (uintptr_t number = first; number < end; number++) {
        if (!shadow_covers(page_start(number))) continue;
        struct shadow_page *page = shadow_page_of(page_start(number));
        if (!shadow_is_open(page)) continue;
        unsigned bits = capacity_bits_for(number, page->inverse);
        uint64_t *tokens = page->tokens + shadow_index(page->inverse, page_start(number));
        atomic_store_release(&page->size_class, 0);
        page->inverse = 0;
        page->tokens = &nowhere;
        give_tokens(tokens, bits);
    }
    unlock();
}
