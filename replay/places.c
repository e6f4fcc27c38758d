#include "replay/places.h"

#include "common/call_table.h"
#include "common/pages.h"

#define PLACES_FIRST    65536u
#define ADDRESSES_BYTES (INSTRUCTION_BLOCK_MAX * sizeof(uint64_t))

/* ---- tables ---- */

/* The entry of an address, or the free one where it belongs. */
static struct place *table_find(const struct place_table *table, uint64_t address)
{
    uint64_t at = (address >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 20;
    for (;; at++) {
        struct place *place = &table->places[at & (table->capacity - 1)];
        if (place->address == address || place->address == 0) return place;
    }
}

static bool table_grow(struct place_table *table)
{
    struct place_table larger = {.capacity = table->capacity ? table->capacity * 2 : PLACES_FIRST,
                                 .count = table->count};
    larger.places = pages_map(larger.capacity * sizeof *larger.places);
    if (larger.places == NULL) return false;
    for (uint64_t i = 0; i < table->capacity; i++)
        if (table->places[i].address != 0)
            *table_find(&larger, table->places[i].address) = table->places[i];
    pages_unmap(table->places, table->capacity * sizeof *table->places);
    *table = larger;
    return true;
}

/* Notes who is at an address now, and returns who was there before. There is room. */
static uint64_t table_exchange(struct place_table *table, uint64_t address, uint64_t user)
{
    struct place *place = table_find(table, address);
    uint64_t before = place->used_by;
    table->count += place->address == 0;
    *place = (struct place){address, user};
    return before;
}

static bool places_reserve(struct places *places, struct error *error)
{
    struct place_table *tables[] = {&places->original, &places->replayed};
    for (unsigned i = 0; i < 2; i++)
        if (2 * (tables[i]->count + 1) > tables[i]->capacity && !table_grow(tables[i]))
            return error_set_system(error, "no memory for addresses");
    return true;
}

/* ---- comparing ---- */

bool places_open(struct places *places, struct error *error)
{
    *places = (struct places){.addresses = pages_map(ADDRESSES_BYTES)};
    return places->addresses != NULL || error_set_system(error, "no memory for addresses");
}

void places_close(struct places *places)
{
    pages_unmap(places->addresses, ADDRESSES_BYTES);
    pages_unmap(places->original.places, places->original.capacity * sizeof(struct place));
    pages_unmap(places->replayed.places, places->replayed.capacity * sizeof(struct place));
    *places = (struct places){0};
}

static void places_note_mismatch(struct places *places, const struct instruction_batch *batch,
                                 size_t index, const struct place_mismatch *mismatch)
{
    uint64_t before = places->checked - places->matched;
    if (before >= PLACES_MISMATCHES_MAX) return;
    const struct instruction one = instruction_batch_find(batch, index);
    places->mismatches[before] = *mismatch;
    places->mismatches[before].size = one.size;
    places->mismatches[before].opcode = one.opcode;
}

static void places_take(struct places *places, const struct instruction_batch *batch, size_t index)
{
    const uint64_t number = batch->number + index;
    const uint64_t original = batch->addresses[index], replayed = places->addresses[index];
    struct place_mismatch mismatch = {
        .instruction = number,
        .original = original,
        .replayed = replayed,
        .original_last = table_exchange(&places->original, original, number + 1),
        .replayed_last = table_exchange(&places->replayed, replayed, number + 1),
    };
    if (mismatch.original_last != mismatch.replayed_last)
        places_note_mismatch(places, batch, index, &mismatch);
    places->checked++;
    places->matched += mismatch.original_last == mismatch.replayed_last;
}

/* Whether an object is there afterwards that this call brought or changed. */
static bool brings(uint8_t opcode)
{
    uint8_t shape = call_shapes[opcode & INSTRUCTION_NUMBER_MASK];
    bool allocation =
        shape == SHAPE_ALLOCATION || shape == SHAPE_ALLOCATION_ALIGNED || shape == SHAPE_REALLOC;
    return allocation && !(opcode & INSTRUCTION_FAILED);
}

bool places_compare(struct places *places, const struct instruction_batch *batch, size_t count,
                    struct error *error)
{
    for (size_t i = 0; i < count; i++) {
        bool brought = brings(instruction_batch_opcode(batch, i));
        if (!brought || batch->addresses[i] == 0 || places->addresses[i] == 0) continue;
        if (!places_reserve(places, error)) return false;
        places_take(places, batch, i);
    }
    return true;
}
