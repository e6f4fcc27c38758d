#include "tracing/data/large.h"

#include "common/atomic.h"
#include "tracing/os/os.h"

/* What all looks may take: this at first, and at most, and one part in so many of the time. */
#define LARGE_ALLOWANCE_NS INT64_C(20000000)
#define LARGE_ONE_IN       200

/* What looks at an object take: this, and so much a page. */
#define LARGE_LOOK_NS 2000
#define LARGE_PAGE_NS 3

/* An object is in one of so many entries from that of its address on. */
#define LARGE_TRIES 8u

/* The address of an entry that is being filled. */
#define LARGE_FILLED 1u

/* Pages that one system call looks at. */
#define LARGE_PAGES_A_LOOK 512u

static struct large_object large_objects[LARGE_OBJECTS];
static int64_t large_allowance = LARGE_ALLOWANCE_NS;

void large_reset(void)
{
    for (uint32_t i = 0; i < LARGE_OBJECTS; i++)
        atomic_store_relaxed(&large_objects[i].address, (uintptr_t)0);
    atomic_store_relaxed(&large_allowance, LARGE_ALLOWANCE_NS);
}

void large_allow(uint64_t ns)
{
    const int64_t more = (int64_t)(ns / LARGE_ONE_IN);
    const int64_t room = LARGE_ALLOWANCE_NS - atomic_load_relaxed(&large_allowance);
    atomic_add_relaxed(&large_allowance, more < room ? more : room);
}

static bool large_is_allowed(uint64_t bytes)
{
    const int64_t cost = LARGE_LOOK_NS + (int64_t)(bytes / os_page_bytes() * LARGE_PAGE_NS);
    if (os_is_confined() || atomic_load_relaxed(&large_allowance) < cost) return false;
    atomic_add_relaxed(&large_allowance, -cost);
    return true;
}

static struct large_object *large_entry(uintptr_t address, uint32_t i)
{
    const uint64_t hash = (uint64_t)(address >> 4) * UINT64_C(0x9e3779b97f4a7c15);
    return &large_objects[((uint32_t)(hash >> 40) + i) % LARGE_OBJECTS];
}

static struct large_object *large_find(uintptr_t address)
{
    for (uint32_t i = 0; i < LARGE_TRIES; i++)
        if (atomic_load_acquire(&large_entry(address, i)->address) == address)
            return large_entry(address, i);
    return NULL;
}

bool large_put(uintptr_t address, uint64_t bytes, uint64_t id)
{
    /* One that was freed without a record. */
    struct large_object *entry = large_find(address);
    if (entry != NULL) atomic_store_release(&entry->address, (uintptr_t)0);
    if (!large_is_allowed(bytes)) return false;
    for (uint32_t i = 0; i < LARGE_TRIES; i++) {
        uintptr_t none = 0;
        entry = large_entry(address, i);
        if (atomic_load_relaxed(&entry->address) ||
            !atomic_swap_once(&entry->address, &none, (uintptr_t)LARGE_FILLED))
            continue;
        atomic_store_release(&entry->bytes, bytes);
        atomic_store_release(&entry->id, id);
        atomic_store_relaxed(&entry->looked, 0);
        atomic_store_release(&entry->address, address);
        return true;
    }
    return false;
}

static struct large_object large_copy(const struct large_object *entry)
{
    struct large_object copy = {.address = atomic_load_acquire(&entry->address)};
    if (copy.address <= LARGE_FILLED) return (struct large_object){.id = 0};
    copy.bytes = atomic_load_acquire(&entry->bytes);
    copy.id = atomic_load_acquire(&entry->id);
    return copy;
}

struct large_object large_at(uintptr_t address)
{
    const struct large_object *entry = large_find(address);
    return entry != NULL ? large_copy(entry) : (struct large_object){.id = 0};
}

struct large_object large_take(uintptr_t address)
{
    struct large_object *entry = large_find(address);
    if (entry == NULL) return (struct large_object){.id = 0};
    const struct large_object object = large_copy(entry);
    atomic_store_release(&entry->address, (uintptr_t)0);
    return object;
}

struct large_object large_of(uint32_t index)
{
    return large_copy(&large_objects[index]);
}

bool large_is_there(uint32_t index, const struct large_object *object)
{
    const struct large_object now = large_of(index);
    return now.id == object->id && now.address == object->address && now.bytes == object->bytes;
}

bool large_is_said(uint32_t index, uint64_t resident)
{
    struct large_object *entry = &large_objects[index];
    if (atomic_load_relaxed(&entry->looked) > resident) return true;
    atomic_store_relaxed(&entry->looked, resident + 1);
    return false;
}

bool large_look(const struct large_object *object, struct touched *touched)
{
    const size_t page = os_page_bytes();
    uint8_t resident[LARGE_PAGES_A_LOOK];
    uintptr_t at = object->address / page * page;
    const uintptr_t end = object->address + object->bytes;
    *touched = (struct touched){.count = 0};
    while (at < end) {
        const size_t left = (size_t)((end - at + page - 1) / page);
        const size_t pages = left < LARGE_PAGES_A_LOOK ? left : LARGE_PAGES_A_LOOK;
        if (!os_memory_pages(at, pages, resident)) return false;
        touched_add(touched, pages, resident);
        at += pages * page;
    }
    return true;
}

struct mapping_record large_record(const struct large_object *object, const struct touched *touched,
                                   uint8_t *text)
{
    return (struct mapping_record){.what = MAPPING_TOUCHED,
                                   .has_file = true,
                                   .has_lane = true,
                                   .address = object->address,
                                   .length = object->bytes,
                                   .calls = object->id,
                                   .offset = touched->resident,
                                   .name = (const char *)text,
                                   .name_bytes = touched_put(touched, text)};
}
