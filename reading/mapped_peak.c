#include "reading/mapped_peak.h"

#include <stdlib.h>

#include "common/array.h"
#include "stream/metadata.h"

/* Of a trace that does not say it. */
#define MAPPED_PAGE_BYTES 4096u

static void mapped_put_part(void *of, const struct resident_part *part)
{
    struct mapped_peak *peak = of;
    peak->now_kib += part->resident;
    if ((part->owner != RESIDENT_MAPPED && part->owner != RESIDENT_SHARED) ||
        part->name_bytes > 0 || part->resident == 0)
        return;
    if (!array_reserve(&peak->now, &peak->now_room, peak->now_count + 1, sizeof *peak->now)) {
        peak->no_memory = true;
        return;
    }
    peak->now[peak->now_count++] =
        (struct mapped_part){.stack = part->stack, .bytes = part->resident * 1024};
}

static void mapped_take_mapping(void *of, const struct mapping_record *record)
{
    struct mapped_peak *peak = of;
    mapping_table_take(&peak->table, record);
    peak->no_memory |= peak->table.no_memory;
}

static void mapped_take_residency(void *of, const struct residency *residency, const uint8_t *at,
                                  const uint8_t *end)
{
    struct mapped_peak *peak = of;
    peak->now_count = 0;
    peak->now_kib = 0;
    resident_divide(&peak->dividing, &peak->table, residency, at, end);
    peak->no_memory |= peak->dividing.no_memory;
    if (peak->now_kib <= peak->kib) return;
    struct mapped_part *parts = peak->parts;
    const size_t room = peak->room;
    peak->parts = peak->now;
    peak->count = peak->now_count;
    peak->room = peak->now_room;
    peak->kib = peak->now_kib;
    peak->now = parts;
    peak->now_room = room;
}

void mapped_peak_follow(struct mapped_peak *peak, struct instruction_reader *reader)
{
    const struct instruction_header *header = &reader->header;
    const uint64_t page_bytes = metadata_page_bytes(header->metadata, header->metadata_bytes);
    *peak = (struct mapped_peak){.count = 0};
    peak->table.page_bytes = page_bytes > 0 ? page_bytes : MAPPED_PAGE_BYTES;
    peak->dividing.put = mapped_put_part;
    peak->dividing.of = peak;
    reader->mapping = mapped_take_mapping;
    reader->residency = mapped_take_residency;
    reader->mappings_context = peak;
}

void mapped_peak_free(struct mapped_peak *peak)
{
    mapping_table_free(&peak->table);
    free(peak->parts);
    free(peak->now);
    *peak = (struct mapped_peak){.count = 0};
}
