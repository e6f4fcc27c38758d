#include "postprocess/passed.h"

#include <stdlib.h>

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
};

/* The record says that an earlier one of its thread was in vain: that one is left out. It is among
 * the latest. */
enum { PASSED_LOOKED_BACK = 4096 };

static void passed_void(struct passed_records *records, const struct mapping_record *record)
{
    if (!record->failed) return;
    for (size_t i = 1; i <= records->count && i <= PASSED_LOOKED_BACK; i++) {
        struct mapping_record *earlier = &records->at[records->count - i];
        if (earlier->thread_id != record->thread_id || !mapping_voids(record, earlier)) continue;
        for (; i > 1; i--, earlier++)
            *earlier = earlier[1];
        records->count--;
        return;
    }
}

static bool passed_take(struct passed_records *records, const struct raw_chunk *chunk)
{
    const uint8_t *at = chunk->payload, *end = at + chunk->payload_bytes;
    struct mapping_record record;
    uint64_t latest = 0;
    while (at < end && mapping_record_take(&at, end, &latest, &record) == NULL) {
        passed_void(records, &record);
        if (!array_reserve(&records->at, &records->room, records->count + 1, sizeof *records->at))
            return false;
        records->at[records->count++] = record;
    }
    return true;
}

static void passed_put_records(struct passed_records *records, struct instruction_writer *writer)
{
    if (records->count > 0) instruction_put_mappings(writer, records->at, records->count);
    records->count = 0;
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
    passed_free(passed);
    return good;
}
