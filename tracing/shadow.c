#include "shadow.h"

#include "os.h"

#include <string.h>

#define REGION_BYTES      (SHADOW_REGION_PAGES * sizeof(struct shadow_page))
/* Tokens come from the system in pieces of this size. */
#define ARENA_BYTES       ((size_t)1 << 20)
#define END_LOCK_TRIES    100
/* A page of 8-byte objects has 2^10 tokens. */
#define CAPACITY_BITS_MAX 10

struct shadow_page *shadow_regions[SHADOW_REGIONS];

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
    uint32_t state;  /* enum shadow_state; changes under the lock */
    bool incomplete; /* there was no memory for a region */
    bool kept;       /* has been on, so threads that are late may look */
    uint8_t *next;   /* in the first of `arenas` */
    size_t left;
    struct arena *arenas;
    struct arena *spare; /* from before the end */
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

static uint32_t state(void)
{
    return shadow.memory ? atomic_load_acquire(&shadow.memory->state) : SHADOW_OFF;
}

bool shadow_has_begun(void)
{
    return state() == SHADOW_ON;
}

/* --- begin and end --- */

/* False: something may be there already. */
static bool reserve(void)
{
    if (!shadow.memory) shadow.memory = os_memory_reserve_per_process(sizeof *shadow.memory);
    if (!shadow.memory) return false;
    if (!shadow.empty) shadow.empty = os_zeros_reserve(REGION_BYTES);
    if (!shadow.empty) return false;
    for (uint32_t region = 0; region < SHADOW_REGIONS; region++)
        if (!shadow_regions[region]) shadow_regions[region] = shadow.empty;
    return true;
}

static void release_regions(void)
{
    for (uint32_t region = 0; region < SHADOW_REGIONS; region++) {
        if (shadow_regions[region] && shadow_regions[region] != shadow.empty)
            os_memory_release(shadow_regions[region], REGION_BYTES);
        shadow_regions[region] = NULL;
    }
    if (shadow.empty) os_memory_release(shadow.empty, REGION_BYTES);
    shadow.empty = NULL;
}

static void clear_regions(void)
{
    for (uint32_t region = 0; region < SHADOW_REGIONS; region++)
        if (shadow_regions[region] != shadow.empty)
            os_memory_clear(shadow_regions[region], REGION_BYTES);
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

static void clear_tokens(struct token_memory *memory)
{
    memory->left = 0;
    memset(memory->free, 0, sizeof memory->free);
    memory->spare = clear_arenas(memory->arenas, clear_arenas(memory->spare, NULL));
    memory->arenas = NULL;
}

bool shadow_prepare(void (*cover)(void))
{
    if (!reserve()) {
        shadow_cancel();
        return false;
    }
    /* A thread that was late may have stored since the end. */
    if (shadow.memory->kept) shadow_end();
    shadow.memory->incomplete = false;
    atomic_store_release(&shadow.memory->state, SHADOW_COVERING);
    cover();
    if (!shadow.memory->incomplete) return true;
    shadow_cancel();
    return false;
}

void shadow_cancel(void)
{
    if (!shadow.memory) return;
    lock();
    atomic_store_release(&shadow.memory->state, SHADOW_OFF);
    if (!shadow.memory->kept) release_regions();
    unlock();
}

void shadow_begin(void)
{
    atomic_store_release(&shadow.memory->state, SHADOW_ON);
    shadow.memory->kept = true;
}

/* A thread that has the lock may be stopped, even for good, and the caller be the one it waits for. */
void shadow_end(void)
{
    if (!shadow.memory) return;
    atomic_store_release(&shadow.memory->state, SHADOW_OFF);
    for (unsigned i = 0; atomic_exchange_acquire(&shadow.memory->lock, 1); i++) {
        if (i == END_LOCK_TRIES) return;
        os_wait(&shadow.memory->lock, 1, 1000000);
    }
    clear_regions();
    clear_tokens(shadow.memory);
    unlock();
}

/* --- pages --- */

void shadow_cover(uintptr_t address, size_t bytes)
{
    if (state() == SHADOW_OFF || bytes == 0) return;
    uintptr_t last = (address + bytes - 1) >> SHADOW_REGION_BITS;
    lock();
    for (uintptr_t region = address >> SHADOW_REGION_BITS; region <= last && state() != SHADOW_OFF;
         region++) {
        if (shadow_regions[region] != shadow.empty) continue;
        struct shadow_page *pages = os_memory_reserve_per_process(REGION_BYTES);
        if (pages)
            atomic_store_release(&shadow_regions[region], pages);
        else
            shadow.memory->incomplete = true;
    }
    unlock();
}

static bool take_arena(struct token_memory *memory)
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
    void *tokens = shadow.memory->free[bits];
    if (tokens) {
        memcpy(&shadow.memory->free[bits], tokens, sizeof tokens);
        memset(tokens, 0, bytes);
        return tokens;
    }
    if (shadow.memory->left < bytes && !take_arena(shadow.memory)) return NULL;
    tokens = shadow.memory->next;
    shadow.memory->next += bytes;
    shadow.memory->left -= bytes;
    return tokens;
}

static void give_tokens(uint64_t *tokens, unsigned bits)
{
    memcpy(tokens, &shadow.memory->free[bits], sizeof shadow.memory->free[bits]);
    shadow.memory->free[bits] = tokens;
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
    if (shadow_regions[(uintptr_t)object >> SHADOW_REGION_BITS] == shadow.empty) return false;
    lock();
    if (!page->tokens && shadow_has_begun()) {
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
    if (!shadow_has_begun()) return;
    uintptr_t end = first + (size_class ? pages : 1);
    lock();
    if (!shadow_has_begun()) end = first;
    for (uintptr_t number = first; number < end; number++) {
        struct shadow_page *page = shadow_page_of((const void *)(number << SHADOW_PAGE_BITS));
        if (!page->tokens) continue;
        give_tokens(page->tokens, page->capacity_bits);
        page->tokens = NULL;
    }
    unlock();
}
