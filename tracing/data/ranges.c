#include "tracing/data/ranges.h"

#include "common/atomic.h"

#define GRANULES     ((uint32_t)(SHADOW_PAGE_BYTES / SHADOW_GRANULE_BYTES))
#define HALF_GRANULE (SHADOW_GRANULE_BYTES / 2)

/* ---- pages of a range ---- */

static uintptr_t first_page(uintptr_t address)
{
    return address >> SHADOW_PAGE_BITS;
}

static uintptr_t ranges_last_page(uintptr_t address, size_t bytes)
{
    uintptr_t pages = (address % SHADOW_PAGE_BYTES + (bytes ? bytes - 1 : 0)) >> SHADOW_PAGE_BITS;
    return first_page(address) + (pages < RANGES_PAGES_MAX ? pages : RANGES_PAGES_MAX);
}

static struct shadow_page *page_at(uintptr_t number)
{
    return shadow_page_of((const void *)(number << SHADOW_PAGE_BITS));
}

static bool has_entry(uintptr_t number)
{
    return shadow_covers((const void *)(number << SHADOW_PAGE_BITS));
}

static bool is_mixed(const struct shadow_page *page)
{
    return atomic_load_acquire(&page->owner) == SHADOW_MIXED;
}

void ranges_touch(uint16_t owner, uintptr_t address, size_t bytes)
{
    uintptr_t last = ranges_last_page(address, bytes);
    for (uintptr_t number = first_page(address); number <= last; number++)
        if (has_entry(number) || shadow_cover(number << SHADOW_PAGE_BITS, 1))
            shadow_touch(number, owner);
}

/* A page that no object has been seen to reach into may have bytes of a small one from the page
 * before. Nobody has a mixed page alone: it need not be touched, and neither do those behind it,
 * unless the object has all of it. Then it is blank, or all have been touched with it. */
bool ranges_may_reach(uint16_t owner, uintptr_t address)
{
    uintptr_t next = first_page(address) + 1;
    if (!has_entry(next)) return true;
    const struct shadow_page *page = page_at(next);
    uint16_t its = atomic_load_relaxed(&page->owner);
    const uint32_t marks = atomic_load_relaxed(&page->marks);
    if (its == SHADOW_MIXED) return marks & SHADOW_BLANK;
    return (marks & SHADOW_COVERED) || its != owner;
}

/* ---- granules ----
 *
 * A page has one row of them or two: objects at 8 modulo 16 are in the second. */

static uint32_t base_of(const struct shadow_page *page, bool odd)
{
    return atomic_load_acquire(odd ? &page->odd_base : &page->base);
}

static uint16_t owner_of(uint32_t place)
{
    return atomic_load_acquire(shadow_owner(place));
}

static uintptr_t address_at(uintptr_t number, bool odd, uint32_t index)
{
    return (number << SHADOW_PAGE_BITS) + index * SHADOW_GRANULE_BYTES + (odd ? HALF_GRANULE : 0);
}

/* The indexes of the row's granules whose beginnings lie between two addresses of the page. */
struct row {
    uint32_t first, end;
};

static struct row row_between(uintptr_t number, bool odd, uintptr_t from, uintptr_t end)
{
    uintptr_t start = address_at(number, odd, 0), page_end = (number + 1) << SHADOW_PAGE_BITS;
    uintptr_t last = end < page_end ? end : page_end;
    struct row row = {0, 0};
    if (from > start) row.first = (uint32_t)((from - start + SHADOW_GRANULE_BYTES - 1) / 16);
    if (last > start) row.end = (uint32_t)((last - start + SHADOW_GRANULE_BYTES - 1) / 16);
    return row;
}

/* The owners of four granules, loaded as one aligned word, while others may be storing any of
 * them. */
typedef uint64_t __attribute__((may_alias)) four_owners;

static inline uint64_t four_at(const uint16_t *owners)
{
    return atomic_load_relaxed((const four_owners *)(const void *)owners);
}

static inline uint64_t sixteen_at(const uint16_t *owners)
{
    return four_at(owners) | four_at(owners + 4) | four_at(owners + 8) | four_at(owners + 12);
}

static inline bool is_word(const uint16_t *owners)
{
    return (uintptr_t)owners % sizeof(four_owners) == 0;
}

/* The next granule of the row that has an owner; the end: there is none. */
static uint32_t next_owned(uint32_t base, uint32_t index, uint32_t end)
{
    const uint16_t *owners = shadow_owner(base);
    while (index < end && !is_word(owners + index)) {
        if (atomic_load_relaxed(&owners[index])) return index;
        index++;
    }
    while (index + 16 <= end && !sixteen_at(owners + index))
        index += 16;
    while (index + 4 <= end && !four_at(owners + index))
        index += 4;
    while (index < end && !atomic_load_relaxed(&owners[index]))
        index++;
    return index;
}

/* One past the last granule from `lowest` to below `index` that has an owner; `lowest`: there is
 * none. */
static uint32_t behind_owned(uint32_t base, uint32_t index, uint32_t lowest)
{
    const uint16_t *owners = shadow_owner(base);
    while (index > lowest && !is_word(owners + index)) {
        if (atomic_load_relaxed(&owners[index - 1])) return index;
        index--;
    }
    while (index >= lowest + 16 && !sixteen_at(owners + index - 16))
        index -= 16;
    while (index >= lowest + 4 && !four_at(owners + index - 4))
        index -= 4;
    while (index > lowest && !atomic_load_relaxed(&owners[index - 1]))
        index--;
    return index;
}

/* ---- who had the bytes ---- */

static void find_in_row(struct range *range, uintptr_t number, bool odd)
{
    uint32_t base = base_of(page_at(number), odd);
    struct row row = row_between(number, odd, range->address + 1, range->address + range->bytes);
    if (!base) return;
    while ((row.first = next_owned(base, row.first, row.end)) < row.end) {
        range->found(range, base + row.first, address_at(number, odd, row.first));
        range->is_clean = false;
        row.first++;
    }
}

void ranges_find_inside(struct range *range)
{
    uintptr_t last = ranges_last_page(range->address, range->bytes);
    range->is_clean = true;
    for (uintptr_t number = first_page(range->address); number <= last; number++) {
        if (!has_entry(number)) continue;
        struct shadow_page *page = page_at(number);
        bool is_whole = number > first_page(range->address) && number < last;
        if (!is_mixed(page)) {
            range->is_clean = false; /* it may be mixed by now */
            continue;
        }
        if (is_whole && (atomic_load_relaxed(&page->marks) & SHADOW_BLANK)) continue;
        find_in_row(range, number, false);
        find_in_row(range, number, true);
    }
}

/* Looks at a granule. True: it is sure. One that has been forgotten meanwhile, perhaps before its
 * owner was asked, is not: who has its bytes now is found further down. */
static bool ranges_look(struct range *range, uintptr_t number, bool odd, uint32_t index)
{
    uint32_t base = base_of(page_at(number), odd);
    if (!base || !owner_of(base + index)) return false;
    range->found(range, base + index, address_at(number, odd, index));
    return owner_of(base + index) & SHADOW_SURE;
}

/* Looks at the granules from `lowest` to below `index`, backwards. True: there was a sure one. */
static bool look_down(struct range *range, uintptr_t number, uint32_t index, uint32_t lowest)
{
    const struct shadow_page *page = page_at(number);
    bool has_even = base_of(page, false) != 0, has_odd = base_of(page, true) != 0;
    if (atomic_load_relaxed(&page->marks) & SHADOW_BLANK) return false;
    if (!has_even && !has_odd) return false;
    if (atomic_load_relaxed(&page->owner) == range->owner) return false;
    while (index > lowest) {
        if (!has_odd) index = behind_owned(base_of(page, false), index, lowest);
        if (index-- == lowest) break;
        if ((has_odd && ranges_look(range, number, true, index)) ||
            (has_even && ranges_look(range, number, false, index)))
            return true;
    }
    return false;
}

/* Looks for objects that began before this one and may have reached over its first granule. */
static void find_before(struct range *range)
{
    const uint32_t small = (uint32_t)(RANGES_SMALL / SHADOW_GRANULE_BYTES);
    uintptr_t number = first_page(range->address);
    uint32_t index = (uint32_t)(range->address % SHADOW_PAGE_BYTES / SHADOW_GRANULE_BYTES);
    bool odd = range->address & HALF_GRANULE;
    if (odd && ranges_look(range, number, false, index)) return;
    if (look_down(range, number, index, 0)) return;
    for (uintptr_t pages = 0; pages < RANGES_PAGES_MAX; pages++) {
        bool covered = atomic_load_relaxed(&page_at(number)->marks) & SHADOW_COVERED;
        if (number == 0 || !has_entry(--number)) return;
        if (look_down(range, number, GRANULES, covered ? 0 : GRANULES - small) || !covered) return;
    }
}

void ranges_find(struct range *range)
{
    const void *object = (const void *)range->address;
    if (is_mixed(shadow_page_of(object))) {
        uint32_t place = shadow_granule_place(shadow_page_of(object), object);
        uint16_t owner = owner_of(place);
        if (owner) range->found(range, place, range->address);
        if (!(owner & SHADOW_SURE)) find_before(range);
    }
    ranges_find_inside(range);
}

/* ---- it has begun ---- */

static void forget_in_row(const struct range *range, uintptr_t number, bool odd)
{
    uint32_t base = base_of(page_at(number), odd);
    struct row row = row_between(number, odd, range->address + 1, range->address + range->bytes);
    if (!base) return;
    while ((row.first = next_owned(base, row.first, row.end)) < row.end)
        atomic_store_release(shadow_owner(base + row.first++), 0);
}

static void forget_on(const struct range *range, uintptr_t number)
{
    if (range->is_clean) return;
    forget_in_row(range, number, false);
    forget_in_row(range, number, true);
}

static void mark(struct shadow_page *page, uint32_t marks)
{
    if ((atomic_load_relaxed(&page->marks) & marks) != marks)
        atomic_or_relaxed(&page->marks, marks);
}

/* Another page that the object reaches into. */
static void begin_on(const struct range *range, uintptr_t number, bool is_whole)
{
    struct shadow_page *page = page_at(number);
    bool is_blank = atomic_load_relaxed(&page->marks) & SHADOW_BLANK;
    mark(page, SHADOW_COVERED);
    if (!is_mixed(page) || (is_whole && is_blank)) return;
    forget_on(range, number);
    if (is_whole) mark(page, SHADOW_BLANK);
}

void ranges_begun(const struct range *range)
{
    const void *object = (const void *)range->address;
    struct shadow_page *page = shadow_page_of(object);
    uint32_t place = shadow_granule_place(page, object);
    const uint16_t owner = range->owner;
    uintptr_t first = first_page(range->address),
              last = ranges_last_page(range->address, range->bytes);
    if (atomic_load_relaxed(&page->marks) & SHADOW_BLANK)
        atomic_and_relaxed(&page->marks, ~SHADOW_BLANK);
    bool mixed = is_mixed(page);
    atomic_store_release(shadow_owner(place), (uint16_t)(mixed ? owner | SHADOW_SURE : owner));
    if (mixed) forget_on(range, first);
    for (uintptr_t number = first + 1; number <= last; number++)
        if (has_entry(number)) begin_on(range, number, number < last);
}
