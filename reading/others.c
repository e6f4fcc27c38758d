#include "reading/others.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "reading/resident.h"
#include "stream/instruction_reader.h"
#include "stream/metadata.h"

/* Of a trace that does not say it. */
#define OTHERS_PAGE_BYTES 4096u

struct others_reading {
    struct others *others;
    struct mapping_table table;
    struct resident_dividing dividing;
    double kib, heap_kib; /* in the present look */
    bool no_memory;
};

static void others_put_file(struct others_reading *reading, const struct resident_part *part)
{
    struct others *others = reading->others;
    const size_t bytes = part->name_bytes;
    for (size_t at = 0; at < others->files_bytes; at += strlen(others->files + at) + 1)
        if (strlen(others->files + at) == bytes &&
            memcmp(others->files + at, part->name, bytes) == 0)
            return;
    if (memchr(part->name, '\0', bytes) != NULL) return;
    if (!array_reserve(&others->files, &others->files_room, others->files_bytes + bytes + 1, 1)) {
        reading->no_memory = true;
        return;
    }
    memcpy(others->files + others->files_bytes, part->name, bytes);
    others->files_bytes += bytes + 1;
}

static void others_put_part(void *of, const struct resident_part *part)
{
    struct others_reading *reading = of;
    if (part->owner == RESIDENT_FILE && reading->others->count == 0) others_put_file(reading, part);
    if (part->owner == RESIDENT_HEAP)
        reading->heap_kib += (double)part->resident;
    else if (part->owner != RESIDENT_RECORDER)
        reading->kib += (double)part->resident;
}

static void others_take_mapping(void *of, const struct mapping_record *record)
{
    struct others_reading *reading = of;
    reading->dividing.moves_break |= record->what == MAPPING_BREAK && record->own;
    mapping_table_take(&reading->table, record);
}

static void others_take_break(struct others *others, const struct residency *residency,
                              const uint8_t *at, const uint8_t *end)
{
    static const char name[] = "[heap]";
    struct residency_area area = {.name = NULL};
    uint64_t latest = 0;
    while (at < end && residency_take_area(&at, end, &latest, &area) == NULL) {
        if (area.name_bytes != sizeof name - 1 || memcmp(area.name, name, sizeof name - 1) != 0)
            continue;
        const uint64_t from = area.start * residency->page_bytes,
                       to = area.end * residency->page_bytes;
        if (others->break_from == 0 || from < others->break_from) others->break_from = from;
        if (to > others->break_to) others->break_to = to;
    }
}

/* Of large chunks it is not asked how many there can be. */
static void others_take_residency(void *of, const struct residency *residency, const uint8_t *at,
                                  const uint8_t *end)
{
    struct others_reading *reading = of;
    struct others *others = reading->others;
    struct resident_dividing dividing = reading->dividing;
    dividing.large_bytes = UINT64_MAX;
    reading->kib = reading->heap_kib = 0;
    others_take_break(others, residency, at, end);
    resident_divide(&dividing, &reading->table, residency, at, end);
    if (dividing.no_memory ||
        !array_reserve(&others->seconds, &others->seconds_room, others->count + 1,
                       sizeof *others->seconds) ||
        !array_reserve(&others->bytes, &others->bytes_room, others->count + 1,
                       sizeof *others->bytes) ||
        !array_reserve(&others->heap, &others->heap_room, others->count + 1,
                       sizeof *others->heap)) {
        reading->no_memory = true;
        return;
    }
    others->seconds[others->count] = (double)residency->since_start_ns / 1e9;
    others->heap[others->count] = reading->heap_kib * 1024;
    others->bytes[others->count++] = reading->kib * 1024;
}

struct others_reading *others_begin(struct others *others, struct instruction_reader *reader,
                                    const char *allocator)
{
    struct others_reading *reading = calloc(1, sizeof *reading);
    *others = (struct others){.count = 0};
    if (reading == NULL) return NULL;
    reading->others = others;
    reading->table.page_bytes = OTHERS_PAGE_BYTES;
    if (reader->state == INSTRUCTIONS_MORE) {
        const char *const metadata = reader->header.metadata;
        const size_t bytes = reader->header.metadata_bytes;
        const uint64_t page_bytes = metadata_page_bytes(metadata, bytes);
        if (page_bytes > 0) reading->table.page_bytes = page_bytes;
        others->has = metadata_copy(metadata, bytes, "program.has");
    }
    resident_allocator(&reading->dividing, allocator, strlen(allocator));
    reading->dividing.put = others_put_part;
    reading->dividing.of = reading;
    reader->mapping = others_take_mapping;
    reader->residency = others_take_residency;
    reader->mappings_context = reading;
    return reading;
}

bool others_end(struct others_reading *reading)
{
    const bool good = !reading->no_memory && !reading->table.no_memory;
    mapping_table_free(&reading->table);
    free(reading);
    return good;
}

bool others_read(struct others *others, const char *path, const char *allocator)
{
    struct instruction_reader reader;
    struct instruction_batch batch;
    struct input input;
    *others = (struct others){.count = 0};
    if (!input_open(&input, path)) return false;
    instruction_reader_open(&reader, &input);
    struct others_reading *const reading = others_begin(others, &reader, allocator);
    instruction_reader_use_indices(&reader);
    while (reading != NULL && instruction_reader_next(&reader, &batch))
        ;
    const bool good = reading != NULL && others_end(reading);
    const bool is_read = reader.state != INSTRUCTIONS_FAILED;
    instruction_reader_close(&reader);
    input_close(&input);
    return good && is_read;
}

void others_free(struct others *others)
{
    free(others->seconds);
    free(others->bytes);
    free(others->heap);
    free(others->files);
    free(others->has);
    *others = (struct others){.count = 0};
}

const char *others_file(const struct others *others, const char *name)
{
    for (size_t at = 0; at < others->files_bytes; at += strlen(others->files + at) + 1) {
        const char *const slash = strrchr(others->files + at, '/');
        if (slash != NULL && strncmp(slash + 1, name, strlen(name)) == 0) return others->files + at;
    }
    return NULL;
}
