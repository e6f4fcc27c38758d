#include "postprocess/touched_table.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "stream/mapping.h"
#include "stream/spool_reader.h"

/* ---- places ---- */

/* Sizes and objects have entries of their own. */
static uint32_t *touched_place(const struct touched_table *table, uint64_t key, bool is_size)
{
    uint64_t at = (key + is_size) * UINT64_C(0x9e3779b97f4a7c15) >> 24;
    for (;; at++) {
        uint32_t *place = &table->places[at & (table->size - 1)];
        const struct touched_entry *entry = *place ? &table->entries[*place / 2] : NULL;
        if (entry == NULL ||
            ((*place & 1) == is_size && (is_size ? entry->bytes : entry->object) == key))
            return place;
    }
}

static bool touched_table_grow(struct touched_table *table)
{
    if (2 * (table->used + 2) <= table->size) return true;
    uint32_t *const old = table->places;
    const size_t old_size = table->size;
    table->size = old_size ? 2 * old_size : 1024;
    table->places = calloc(table->size, sizeof *table->places);
    if (table->places == NULL) {
        table->places = old;
        table->size = old_size;
        return false;
    }
    for (size_t i = 0; i < old_size; i++) {
        const struct touched_entry *entry = &table->entries[old[i] / 2];
        const bool is_size = old[i] & 1;
        if (old[i]) *touched_place(table, is_size ? entry->bytes : entry->object, is_size) = old[i];
    }
    free(old);
    return true;
}

/* An entry is twice its index, which is not 0, and 1 more if it stands for a size. */
static void touched_table_set(struct touched_table *table, uint64_t key, bool is_size, size_t entry)
{
    uint32_t *const place = touched_place(table, key, is_size);
    table->used += *place == 0;
    *place = (uint32_t)(2 * entry + is_size);
}

/* Of several records of an object that counts which has most pages. */
static void touched_table_add(struct touched_table *table, const struct mapping_record *record)
{
    struct touched touched;
    if (!record->has_file || !record->has_lane || table->count >= UINT32_MAX / 2 ||
        !touched_take((const uint8_t *)record->name, record->name_bytes, &touched))
        return;
    const struct touched_entry entry = {record->calls, record->length, touched.resident,
                                        table->texts_bytes, record->name_bytes};
    if (table->count == 0) table->count = 1;
    if (!touched_table_grow(table) ||
        !array_reserve(&table->texts, &table->texts_room,
                       entry.text + entry.text_bytes + VARINT_SLACK, 1) ||
        !array_reserve(&table->entries, &table->room, table->count + 1, sizeof *table->entries))
        return;
    const uint32_t before = *touched_place(table, entry.object, false) / 2;
    if (before != 0 && table->entries[before].resident > entry.resident) return;
    const size_t at = before != 0 ? before : table->count++;
    memcpy(table->texts + entry.text, record->name, entry.text_bytes);
    table->texts_bytes += entry.text_bytes;
    table->entries[at] = entry;
    touched_table_set(table, entry.object, false, at);
    touched_table_set(table, entry.bytes, true, at);
}

/* ---- the file ---- */

static void touched_table_take(struct touched_table *table, struct raw_chunk *chunk)
{
    const uint8_t *at = chunk->payload, *end = at + chunk->payload_bytes;
    struct mapping_record record;
    uint64_t latest = 0;
    while (chunk->type == RAW_CHUNK_MAPPINGS && at < end &&
           mapping_record_take(&at, end, &latest, &record) == NULL)
        if (record.what == MAPPING_TOUCHED) touched_table_add(table, &record);
    free(chunk);
}

static void touched_table_read_spool(struct touched_table *table, const char *path,
                                     struct raw_reader *reader)
{
    struct spool_reader spool;
    struct raw_chunk *chunk;
    if (spool_reader_open(&spool, path, reader))
        while ((chunk = spool_reader_next(&spool, reader)) != NULL)
            touched_table_take(table, chunk);
    spool_reader_close(&spool);
}

void touched_table_read(struct touched_table *table, const char *path, const char *spool_path)
{
    struct raw_reader reader;
    struct raw_chunk *chunk;
    *table = (struct touched_table){.count = 0};
    if (path == NULL) return;
    raw_reader_open(&reader, path);
    if (reader.has_header && (reader.header.info & RAW_INFO_MAPPINGS)) {
        reader.salvage = true;
        while (reader.state == RAW_STREAM_MORE && (chunk = raw_reader_next(&reader)) != NULL)
            touched_table_take(table, chunk);
        if (reader.state == RAW_STREAM_CUT && spool_path != NULL)
            touched_table_read_spool(table, spool_path, &reader);
    }
    raw_reader_close(&reader);
}

void touched_table_free(struct touched_table *table)
{
    free(table->entries);
    free(table->texts);
    free(table->places);
}

bool touched_table_of(const struct touched_table *table, uint64_t object, uint64_t bytes,
                      struct touched *touched)
{
    if (table->size == 0) return false;
    uint32_t at = *touched_place(table, object, false) / 2;
    if (at == 0 || table->entries[at].bytes != bytes) at = *touched_place(table, bytes, true) / 2;
    const struct touched_entry *entry = &table->entries[at];
    return at != 0 && entry->bytes == bytes &&
           touched_take(table->texts + entry->text, entry->text_bytes, touched);
}
