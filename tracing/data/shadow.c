#include "tracing/data/shadow.h"

#include "stream/raw_format.h"
#include "tracing/os/os.h"

#include <string.h>

#define REGION_BYTES   (SHADOW_REGION_PAGES * sizeof(struct shadow_page))
/* For how many places memory for owners is mapped at a time; the classes of their blocks then fill
 * whole pages. */
#define PIECE_PLACES   ((uint32_t)1 << 21)
#define PIECES_MAX     ((uint32_t)(RAW_PLACE_LIMIT / PIECE_PLACES))
#define OWNERS_BYTES   (PIECE_PLACES * sizeof(uint16_t))
#define CLASSES_BYTES  ((size_t)(PIECE_PLACES / RAW_PLACE_BLOCK))
#define END_LOCK_TRIES 100
/* Looks at the lock before the thread sleeps, and for how long it does. */
#define LOCK_SPINS     200
#define LOCK_WAIT_NS   UINT64_C(50000)
/* What a class gets at a time: several pages of medium-sized objects share it. */
#define PLACES_AT_ONCE (2 * RAW_PLACE_BLOCK)

/* Where Linux does not map anything of its own accord. */
static const uintptr_t windows[] = {ARCH_SHADOW_WINDOWS};

uintptr_t shadow_window;
bool shadow_covered[SHADOW_REGIONS];

enum shadow_state { SHADOW_OFF = 0, SHADOW_COVERING, SHADOW_ON };

/* Places of a size class: all its pages have the same number of them. */
struct places {
    /* First place of a closed page; 0: none. Its owners' memory holds that of the next one. */
    uint32_t free;
    uint32_t next; /* `left` more that nobody has had */
    uint32_t left;
};

/* Lies where a forked child finds it zeroed: a thread that does not exist in the child may have
 * been in the middle of it, with the lock taken. */
struct shadow_memory {
    uint32_t lock;
    uint32_t state;  /* enum shadow_state; changes under the lock */
    bool kept;       /* has been on, so threads that are late may look */
    uint32_t blocks; /* that have been given to classes; block 0 is nobody's */
    struct places classes[RAW_SIZE_CLASSES_MAX];
};

/* Set once (release). */
static struct shadow_memory *memory;
/* How many pieces of PIECE_PLACES places are mapped: they stay mapped, also in a child. */
static uint32_t pieces;

/* The lock is held for a few instructions, often by threads that hold the page heap's lock, so a
 * thread that slept at once would hold up all others. It sleeps after a while, as the holder may
 * have lost the processor. */
static void lock(void)
{
    for (unsigned tries = 0; atomic_exchange_acquire(&memory->lock, 1); tries++) {
        if (tries % LOCK_SPINS == LOCK_SPINS - 1) os_wait(&memory->lock, 1, LOCK_WAIT_NS);
        while (atomic_load_relaxed(&memory->lock) && tries % LOCK_SPINS < LOCK_SPINS - 2) {
            atomic_pause();
            tries++;
        }
    }
}

/* A thread that has the lock may be stopped, even for good: it may wait for the caller. False: the
 * lock cannot be had. */
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
    const struct shadow_memory *its = atomic_load_acquire(&memory);
    return its != NULL ? atomic_load_acquire(&its->state) : SHADOW_OFF;
}

bool shadow_has_begun(void)
{
    return state() == SHADOW_ON;
}

/* ---- begin and end ---- */

static uintptr_t region_entries(uintptr_t region)
{
    return shadow_window + region * REGION_BYTES;
}

static bool cover_region(uintptr_t region)
{
    if (region >= SHADOW_REGIONS) return false;
    if (!shadow_covered[region] &&
        os_memory_reserve_per_process_at(region_entries(region), REGION_BYTES) != NULL)
        atomic_store_release(&shadow_covered[region], true);
    return shadow_covered[region];
}

/* Chooses a window that is free, and maps the entry of NULL in it. */
static bool choose_window(void)
{
    for (size_t i = 0; i < sizeof windows / sizeof *windows && !shadow_covered[0]; i++) {
        shadow_window = windows[i];
        cover_region(0);
    }
    return shadow_covered[0];
}

/* Also covers the region below, where later mappings and the growing stack come. */
static bool cover_neighbourhood(uintptr_t address)
{
    uintptr_t region = address >> SHADOW_REGION_BITS;
    return cover_region(region) && (region == 0 || cover_region(region - 1));
}

/* False: something may be there already. */
static bool shadow_reserve(void)
{
    if (memory == NULL)
        atomic_store_release(&memory, os_memory_reserve_per_process(sizeof *memory));
    return memory != NULL && choose_window() && cover_neighbourhood((uintptr_t)&memory) &&
           cover_neighbourhood((uintptr_t)__builtin_frame_address(0));
}

static void *owners_of(uint32_t piece)
{
    return shadow_owner(piece * PIECE_PLACES);
}

static void *classes_of(uint32_t piece)
{
    return shadow_block_class(piece * (PIECE_PLACES / RAW_PLACE_BLOCK));
}

static void release_piece(uint32_t piece)
{
    os_memory_release(owners_of(piece), OWNERS_BYTES);
    os_memory_release(classes_of(piece), CLASSES_BYTES);
}

static void release_regions(void)
{
    for (uintptr_t region = 0; region < SHADOW_REGIONS; region++) {
        if (shadow_covered[region]) os_memory_release((void *)region_entries(region), REGION_BYTES);
        shadow_covered[region] = false;
    }
    while (pieces > 0)
        release_piece(--pieces);
}

static void clear_regions(void)
{
    for (uintptr_t region = 0; region < SHADOW_REGIONS; region++)
        if (shadow_covered[region]) os_memory_clear((void *)region_entries(region), REGION_BYTES);
}

static void shadow_clear_places(void)
{
    memory->blocks = 1;
    memset(memory->classes, 0, sizeof memory->classes);
    for (uint32_t i = 0; i < pieces; i++)
        os_memory_clear(owners_of(i), OWNERS_BYTES);
}

bool shadow_prepare(bool (*cover)(void))
{
    if (!shadow_reserve()) {
        shadow_cancel();
        return false;
    }
    if (memory->kept) {
        if (!lock_at_last()) return false;
        clear_regions();
        unlock();
    }
    shadow_clear_places();
    atomic_store_release(&memory->state, SHADOW_COVERING);
    if (cover()) return true;
    shadow_cancel();
    return false;
}

void shadow_cancel(void)
{
    if (memory == NULL) return;
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

/* The pages stay as they are: a thread that is late may be about to look there. */
void shadow_end(void)
{
    if (memory == NULL) return;
    atomic_store_release(&memory->state, SHADOW_OFF);
    if (!lock_at_last()) return;
    shadow_clear_places();
    unlock();
}

/* ---- pages ---- */

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

/* Maps memory for the next piece of places. */
static bool map_piece(void)
{
    void *owners = owners_of(pieces);
    if (pieces == PIECES_MAX ||
        os_memory_reserve_per_process_at((uintptr_t)owners, OWNERS_BYTES) == NULL)
        return false;
    if (os_memory_reserve_per_process_at((uintptr_t)classes_of(pieces), CLASSES_BYTES) == NULL) {
        os_memory_release(owners, OWNERS_BYTES);
        return false;
    }
    pieces++;
    return true;
}

/* Whether places below `end` can be given out now. */
static bool map_places(uint64_t end)
{
    while ((uint64_t)pieces * PIECE_PLACES < end)
        if (!map_piece()) return false;
    return true;
}

/* The most places that a page of objects of `size` bytes (0: one object) can have. At least two, as
 * the memory of their owners links free places. */
static uint32_t places_of_page(size_t size)
{
    return size ? (uint32_t)(SHADOW_PAGE_BYTES / size) + 2 : 2;
}

/* Gives the class new blocks. */
static bool add_blocks(struct places *places, uint32_t size_class, uint32_t count)
{
    uint32_t blocks =
        ((count > PLACES_AT_ONCE ? count : PLACES_AT_ONCE) + RAW_PLACE_BLOCK - 1) / RAW_PLACE_BLOCK;
    if (!map_places((uint64_t)(memory->blocks + blocks) * RAW_PLACE_BLOCK)) return false;
    memset(shadow_block_class(memory->blocks), (int)size_class, blocks);
    places->next = memory->blocks * RAW_PLACE_BLOCK;
    places->left = blocks * RAW_PLACE_BLOCK;
    memory->blocks += blocks;
    return true;
}

/* The first of `count` places of the class that nobody has; 0 if there is no memory, or there are
 * no more numbers. Under the lock. */
static uint32_t take_places(uint32_t size_class, uint32_t count)
{
    struct places *places = &memory->classes[size_class];
    uint32_t first = places->free;
    if (first) {
        memcpy(&places->free, shadow_owner(first), sizeof places->free);
        memset(shadow_owner(first), 0, count * sizeof(uint16_t));
        return first;
    }
    if (places->left < count && !add_blocks(places, size_class, count)) return 0;
    first = places->next;
    places->next += count;
    places->left -= count;
    return first;
}

static void give_places(uint32_t size_class, uint32_t first)
{
    struct places *places = &memory->classes[size_class];
    memcpy(shadow_owner(first), &places->free, sizeof places->free);
    places->free = first;
}

static const void *page_start(uintptr_t number)
{
    return (const void *)(number << SHADOW_PAGE_BITS);
}

/* Under the lock. */
static bool shadow_open_page(uintptr_t number, size_t size, uint32_t size_class, bool is_new)
{
    struct shadow_page *page = shadow_page_of(page_start(number));
    if (shadow_is_open(page)) return true;
    uint32_t first = take_places(size_class, places_of_page(size));
    if (!first) return false;
    uint32_t inverse = size ? (uint32_t)((UINT64_C(1) << 32) / size + 1) : 1;
    const struct shadow_page from_0 = {.inverse = inverse};
    page->base = first - shadow_place(&from_0, page_start(number));
    page->size_class = size_class;
    atomic_store_release(&page->inverse, inverse);
    atomic_store_release(&page->owner, size_class == 0 || is_new ? 0 : SHADOW_MIXED);
    return true;
}

bool shadow_open(const void *object, size_t size, uint32_t size_class)
{
    uintptr_t number = (uintptr_t)object >> SHADOW_PAGE_BITS;
    if (state() == SHADOW_OFF || !shadow_covers(object)) return false;
    lock();
    bool opened = state() != SHADOW_OFF && shadow_open_page(number, size, size_class, false);
    unlock();
    return opened;
}

/* Under the lock. The base of a row is stored last. */
static bool open_granules(struct shadow_page *page, bool odd, uint32_t *first)
{
    uint32_t *base = odd ? &page->odd_base : &page->base;
    if (*base) return true;
    *first = take_places(0, SHADOW_PAGE_BYTES / SHADOW_GRANULE_BYTES);
    if (!*first) return false;
    atomic_or_relaxed(&page->marks, SHADOW_OPEN);
    atomic_store_release(base, *first);
    return true;
}

bool shadow_open_granule(const void *object, uint32_t *first)
{
    *first = 0;
    if (!shadow_covers(object) && !shadow_cover((uintptr_t)object, 1)) return false;
    if (state() == SHADOW_OFF) return false;
    lock();
    bool opened = state() != SHADOW_OFF &&
                  open_granules(shadow_page_of(object),
                                (uintptr_t)object & (SHADOW_GRANULE_BYTES / 2), first);
    unlock();
    return opened;
}

/* The owner of a page, 0 where there is no entry. */
static uint16_t owner_of_page(uintptr_t number)
{
    if (!shadow_covers(page_start(number))) return 0;
    return atomic_load_relaxed(&shadow_page_of(page_start(number))->owner);
}

/* Under the lock. A lane that has a page alone begins objects there without looking at the next
 * page, into which they may reach. So it must have that alone, too; and whoever touches a page that
 * nobody had does not have it alone if another one has the page before. */
static void touch_page(uintptr_t number, struct shadow_page *page, uint16_t owner)
{
    const uint16_t previous = owner_of_page(number - 1), next = owner_of_page(number + 1);
    const uint16_t before = page->owner != 0 ? page->owner : previous;
    if (before != 0 && before != owner) owner = SHADOW_MIXED;
    const bool is_alone = owner != SHADOW_MIXED && (next == 0 || next == owner);
    atomic_store_relaxed(&page->alone, is_alone ? owner : 0);
    atomic_store_release(&page->owner, owner);
    if (previous != owner && previous != 0)
        atomic_store_relaxed(&shadow_page_of(page_start(number - 1))->alone, 0);
}

void shadow_touch(uintptr_t number, uint16_t owner)
{
    struct shadow_page *page = shadow_page_of(page_start(number));
    uint16_t before = atomic_load_relaxed(&page->owner);
    if (before == owner || before == SHADOW_MIXED) return;
    lock();
    if (state() != SHADOW_OFF && page->owner != SHADOW_MIXED) touch_page(number, page, owner);
    unlock();
}

bool shadow_open_pages(uintptr_t first, uintptr_t pages, size_t size, uint32_t size_class)
{
    if (state() == SHADOW_OFF) return true;
    bool opened = true;
    lock();
    for (uintptr_t number = first; number < first + pages && state() != SHADOW_OFF; number++)
        if (shadow_covers(page_start(number)) &&
            !shadow_open_page(number, size, size_class, state() == SHADOW_ON))
            opened = false;
    unlock();
    return opened;
}

static bool has_open_page(uintptr_t first, uintptr_t end)
{
    while (first < end &&
           !(shadow_covers(page_start(first)) && shadow_is_open(shadow_page_of(page_start(first)))))
        first++;
    return first < end;
}

void shadow_close(uintptr_t first, uintptr_t pages, uint32_t size_class)
{
    uintptr_t end = first + (size_class ? pages : 1);
    if (state() == SHADOW_OFF || !has_open_page(first, end)) return;
    lock();
    if (state() == SHADOW_OFF) end = first;
    for (uintptr_t number = first; number < end; number++) {
        if (!shadow_covers(page_start(number))) continue;
        struct shadow_page *page = shadow_page_of(page_start(number));
        if (!shadow_is_open(page)) continue;
        uint32_t place = shadow_place(page, page_start(number));
        atomic_store_release(&page->owner, 0);
        atomic_store_release(&page->inverse, 0);
        give_places(page->size_class, place);
        page->size_class = 0;
    }
    unlock();
}
