#include "postprocess/passed.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

void passed_add(struct passed *passed, struct raw_chunk *chunk)
{
    chunk->next = NULL;
    if (passed->first == NULL)
        passed->first = chunk;
    else
        passed->last->next = chunk;
    passed->last = chunk;
}

void passed_free(struct passed *passed)
{
    while (passed->first != NULL) {
        struct raw_chunk *chunk = passed->first;
        passed->first = chunk->next;
        free(chunk);
    }
}

/* Records that are yet to be put, whose names lie in the chunks. */
struct passed_records {
    struct mapping_record *at;
    size_t count, room;
    /* By what it gives up, the latest unmap that did not fail: its index, plus 1; 0: none. */
    uint32_t *unmaps;
    size_t unmaps_size; /* a power of two, greater than `count`, or 0 */
    /* For each record, in the same way, the unmap before it. */
    uint32_t *before;
    size_t before_room;
};

static size_t passed_place(const struct passed_records *records,
                           const struct mapping_record *record)
{
    uint64_t hash = record->address * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ record->length ^ record->thread_id) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash >> 32) & (records->unmaps_size - 1);
}

/* The entry of unmaps of the same thread and pages, or an empty one. */
static uint32_t *passed_unmap(const struct passed_records *records,
                              const struct mapping_record *record)
{
    size_t at = passed_place(records, record);
    for (;; at = (at + 1) & (records->unmaps_size - 1)) {
        uint32_t *entry = &records->unmaps[at];
        const struct mapping_record *other = *entry ? &records->at[*entry - 1] : NULL;
        if (other == NULL || (other->thread_id == record->thread_id &&
                              other->address == record->address && other->length == record->length))
            return entry;
    }
}

/* False: no memory. */
static bool passed_grow(struct passed_records *records)
{
    if (records->count < records->unmaps_size / 2) return true;
    records->unmaps_size = records->unmaps_size ? 2 * records->unmaps_size : 1024;
    free(records->unmaps);
    records->unmaps = calloc(records->unmaps_size, sizeof *records->unmaps);
    for (size_t i = 0; i < records->count && records->unmaps != NULL; i++)
        if (records->at[i].what == MAPPING_UNMAP && !records->at[i].failed)
            *passed_unmap(records, &records->at[i]) = (uint32_t)i + 1;
    return records->unmaps != NULL;
}

/* An unmap, the last of the records: if it failed, the earlier one of its thread was in vain, and is
 * left out (0 of `what`). */
static void passed_note_unmap(struct passed_records *records)
{
    const struct mapping_record *record = &records->at[records->count - 1];
    uint32_t *entry = passed_unmap(records, record);
    struct mapping_record *earlier = *entry ? &records->at[*entry - 1] : NULL;
    if (!record->failed) {
        records->before[records->count - 1] = *entry;
        *entry = (uint32_t)records->count;
    } else if (earlier != NULL && mapping_voids(record, earlier)) {
        /* An entry never becomes empty: others may lie behind it. */
        const uint32_t before = records->before[*entry - 1];
        if (before != 0) *entry = before;
        earlier->what = 0;
    }
}

static bool passed_take(struct passed_records *records, const struct raw_chunk *chunk)
{
    const uint8_t *at = chunk->payload, *end = at + chunk->payload_bytes;
    struct mapping_record record;
    uint64_t latest = 0;
    while (at < end && mapping_record_take(&at, end, &latest, &record) == NULL) {
        if (!array_reserve(&records->at, &records->room, records->count + 1, sizeof *records->at) ||
            !array_reserve(&records->before, &records->before_room, records->count + 1,
                           sizeof *records->before) ||
            !passed_grow(records))
            return false;
        if (record.what == MAPPING_TOUCHED) continue; /* said where its object begins */
        records->at[records->count++] = record;
        if (record.what == MAPPING_UNMAP) passed_note_unmap(records);
    }
    return true;
}

static void passed_put_records(struct passed_records *records, struct instruction_writer *writer)
{
    size_t kept = 0;
    for (size_t i = 0; i < records->count; i++)
        if (records->at[i].what != 0) records->at[kept++] = records->at[i];
    if (kept > 0) instruction_put_mappings(writer, records->at, kept);
    records->count = 0;
    if (records->unmaps != NULL)
        memset(records->unmaps, 0, records->unmaps_size * sizeof *records->unmaps);
}

bool passed_put(struct passed *passed, struct instruction_writer *writer)
{
    struct passed_records records = {0};
    bool good = true;
    for (const struct raw_chunk *chunk = passed->first; chunk != NULL && good;
         chunk = chunk->next) {
        if (chunk->type == RAW_CHUNK_MAPPINGS) {
            good = passed_take(&records, chunk);
        } else {
            passed_put_records(&records, writer);
            instruction_put_residency(writer, chunk->payload, chunk->payload_bytes);
        }
    }
    passed_put_records(&records, writer);
    free(records.at);
    free(records.unmaps);
    free(records.before);
    passed_free(passed);
    return good;
}
