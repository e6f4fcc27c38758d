#include "replay/address_check.h"

#include "common/call_table.h"
#include "common/pages.h"

#define ENTRIES_FIRST   65536u
#define ADDRESSES_BYTES (INSTRUCTION_BLOCK_MAX * sizeof(uint64_t))

/* ---- tables ---- */

/* The entry of an address, or the free entry where it would go. */
static struct address_entry *address_check_table_find(const struct address_table *table,
                                                      uint64_t address)
{
    uint64_t at = (address >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 20;
    for (;; at++) {
        struct address_entry *entry = &table->entries[at & (table->capacity - 1)];
        if (entry->address == address || entry->address == 0) return entry;
    }
}

static bool table_grow(struct address_table *table)
{
    struct address_table larger = {
        .capacity = table->capacity ? table->capacity * 2 : ENTRIES_FIRST, .count = table->count};
    larger.entries = pages_map(larger.capacity * sizeof *larger.entries);
    if (larger.entries == NULL) return false;
    for (uint64_t i = 0; i < table->capacity; i++)
        if (table->entries[i].address != 0)
            *address_check_table_find(&larger, table->entries[i].address) = table->entries[i];
    pages_unmap(table->entries, table->capacity * sizeof *table->entries);
    *table = larger;
    return true;
}

/* Stores `user` as the latest at an address and returns the previous one; 0: none. The table has
 * room. */
static uint64_t table_exchange(struct address_table *table, uint64_t address, uint64_t user)
{
    struct address_entry *entry = address_check_table_find(table, address);
    uint64_t before = entry->used_by;
    table->count += entry->address == 0;
    *entry = (struct address_entry){address, user};
    return before;
}

static bool address_check_reserve(struct address_check *check, struct error *error)
{
    struct address_table *tables[] = {&check->original, &check->replayed};
    for (unsigned i = 0; i < 2; i++)
        if (2 * (tables[i]->count + 1) > tables[i]->capacity && !table_grow(tables[i]))
            return error_set_system(error, "no memory for addresses");
    return true;
}

/* ---- comparing ---- */

bool address_check_open(struct address_check *check, struct error *error)
{
    *check = (struct address_check){.addresses = pages_map(ADDRESSES_BYTES)};
    return check->addresses != NULL || error_set_system(error, "no memory for addresses");
}

static void note_mismatch(struct address_check *check, const struct address_mismatch *mismatch)
{
    uint64_t before = check->checked - check->matched;
    if (before < ADDRESS_MISMATCHES_MAX) check->mismatches[before] = *mismatch;
}

/* Compares `one`, the instruction at `index` of the batch, which returned an object. */
static void address_compare(struct address_check *check, const struct instruction_batch *batch,
                            size_t index, const struct instruction *one)
{
    const uint64_t number = batch->number + index;
    const uint64_t original = batch->addresses[index], replayed = check->addresses[index];
    struct address_mismatch mismatch = {
        .instruction = number,
        .size = one->size,
        .opcode = one->opcode,
        .original = original,
        .replayed = replayed,
        .original_last = table_exchange(&check->original, original, number + 1),
        .replayed_last = table_exchange(&check->replayed, replayed, number + 1),
    };
    if (mismatch.original_last != mismatch.replayed_last) note_mismatch(check, &mismatch);
    check->checked++;
    check->matched += mismatch.original_last == mismatch.replayed_last;
}

bool address_check_batch(struct address_check *check, const struct instruction_batch *batch,
                         size_t count, struct error *error)
{
    struct instruction_walk walk = instruction_walk_over(batch, count);
    struct instruction one;
    while (instruction_walk_next(&walk, &one)) {
        const size_t at = walk.at - 1;
        const unsigned does = instruction_does[one.opcode];
        if (does != INSTRUCTION_BEGINS && does != INSTRUCTION_RESIZES) continue;
        if (batch->addresses[at] == 0 || check->addresses[at] == 0) continue;
        if (!address_check_reserve(check, error)) return false;
        address_compare(check, batch, at, &one);
    }
    return true;
}
