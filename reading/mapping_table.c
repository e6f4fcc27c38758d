#include "reading/mapping_table.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

/* Flags of calls that may replace what is mapped. */
enum { FLAG_MAP_FIXED = 0x10, FLAG_MREMAP_FIXED = 2, FLAG_SHM_REMAP = 040000 };

#define MAKERS_AT_LEAST 4096u /* before it is worth looking for some that may go */

/* ---- pieces ---- */

/* The index of the first piece that ends after the address. */
static size_t table_first_behind(const struct mapping_table *table, uint64_t address)
{
    size_t low = 0, high = table->pieces_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (table->pieces[middle].end > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Puts `count` new entries in place of the `old` ones from `at` on. False: no memory. */
static bool table_replace(struct mapping_table *table, size_t at, size_t old,
                          const struct mapping_piece *pieces, size_t count)
{
    if (!array_reserve(&table->pieces, &table->pieces_room, table->pieces_count + count,
                       sizeof *table->pieces)) {
        table->no_memory = true;
        return false;
    }
    memmove(table->pieces + at + count, table->pieces + at + old,
            (table->pieces_count - at - old) * sizeof *table->pieces);
    memcpy(table->pieces + at, pieces, count * sizeof *pieces);
    table->pieces_count += count;
    table->pieces_count -= old;
    return true;
}

/* Takes away what is mapped between the addresses. Returns how many bytes of it calls had mapped. */
static uint64_t table_remove(struct mapping_table *table, uint64_t start, uint64_t end)
{
    const size_t first = table_first_behind(table, start);
    struct mapping_piece rest[2];
    size_t last = first, count = 0;
    uint64_t bytes = 0, found = 0;
    for (; last < table->pieces_count && table->pieces[last].start < end; last++) {
        const struct mapping_piece *piece = &table->pieces[last];
        const uint64_t from = piece->start > start ? piece->start : start;
        const uint64_t to = piece->end < end ? piece->end : end;
        bytes += to - from;
        if (table->makers[piece->maker].what == MAPPING_FOUND) found += to - from;
        if (piece->start < start)
            rest[count++] = (struct mapping_piece){piece->start, start, piece->maker};
        if (piece->end > end) rest[count++] = (struct mapping_piece){end, piece->end, piece->maker};
    }
    if (bytes > 0 && table_replace(table, first, last - first, rest, count)) table->bytes -= bytes;
    return bytes - found;
}

/* ---- records ---- */

/* The whole pages of a range; false: it has none. */
static bool table_pages(const struct mapping_table *table, const struct mapping_record *record,
                        uint64_t *start, uint64_t *end)
{
    const uint64_t mask = table->page_bytes - 1;
    *start = record->address & ~mask;
    *end = UINT64_MAX & ~mask;
    if (record->length == 0) return false;
    if (record->length <= *end - record->address)
        *end = (record->address + record->length + mask) & ~mask;
    return *end > *start;
}

/* Lets makers go of which nothing is left. Without memory for that they stay. */
static void table_drop_makers(struct mapping_table *table)
{
    uint32_t *numbers = calloc(table->makers_count, sizeof *numbers), left = 0;
    if (numbers == NULL) return;
    for (size_t i = 0; i < table->pieces_count; i++)
        numbers[table->pieces[i].maker] = 1;
    for (size_t i = 0; i < table->makers_count; i++) {
        if (numbers[i] == 0) {
            free(table->makers[i].name);
            continue;
        }
        table->makers[left] = table->makers[i];
        numbers[i] = left++;
    }
    for (size_t i = 0; i < table->pieces_count; i++)
        table->pieces[i].maker = numbers[table->pieces[i].maker];
    table->makers_count = table->makers_left = left;
    free(numbers);
}

/* A copy of the name, or NULL. */
static char *table_copy_name(struct mapping_table *table, const struct mapping_record *record)
{
    if (record->name_bytes == 0) return NULL;
    char *name = malloc(record->name_bytes);
    if (name == NULL)
        table->no_memory = true;
    else
        memcpy(name, record->name, record->name_bytes);
    return name;
}

static bool table_add_maker(struct mapping_table *table, const struct mapping_record *record,
                            uint64_t bytes)
{
    if (table->makers_count >= 2 * table->makers_left + MAKERS_AT_LEAST) table_drop_makers(table);
    if (table->makers_count == UINT32_MAX ||
        !array_reserve(&table->makers, &table->makers_room, table->makers_count + 1,
                       sizeof *table->makers)) {
        table->no_memory = true;
        return false;
    }
    table->makers[table->makers_count++] = (struct mapping_maker){.record = table->records - 1,
                                                                  .bytes = bytes,
                                                                  .stack = record->stack,
                                                                  .thread_id = record->thread_id,
                                                                  .protection = record->protection,
                                                                  .flags = record->flags,
                                                                  .what = record->what,
                                                                  .own = record->own,
                                                                  .has_file = record->has_file,
                                                                  .offset = record->offset,
                                                                  .device = record->device,
                                                                  .inode = record->inode};
    struct mapping_maker *maker = &table->makers[table->makers_count - 1];
    maker->name = table_copy_name(table, record);
    maker->name_bytes = maker->name != NULL ? record->name_bytes : 0;
    return !table->no_memory;
}

/* Whether the call had asked for these pages, whoever had them. */
static bool record_replaces(const struct mapping_record *record)
{
    const uint32_t flag = record->what == MAPPING_MAP       ? FLAG_MAP_FIXED
                          : record->what == MAPPING_MOVE_TO ? FLAG_MREMAP_FIXED
                                                            : FLAG_SHM_REMAP;
    return record->flags & flag;
}

/* A piece where there is none. */
static void table_put(struct mapping_table *table, const struct mapping_record *record,
                      uint64_t start, uint64_t end)
{
    if (!table_add_maker(table, record, end - start)) return;
    const struct mapping_piece piece = {start, end, (uint32_t)table->makers_count - 1};
    if (!table_replace(table, table_first_behind(table, start), 0, &piece, 1)) return;
    table->bytes += end - start;
    if (table->bytes > table->peak_bytes) table->peak_bytes = table->bytes;
}

static void table_add(struct mapping_table *table, const struct mapping_record *record)
{
    uint64_t start, end;
    if (!table_pages(table, record, &start, &end)) return;
    const uint64_t replaced = table_remove(table, start, end);
    if (replaced > 0 && !record_replaces(record) && table->overlaps++ == 0)
        table->first_overlap = table->records - 1;
    table_put(table, record, start, end);
}

/* Of what had been reserved without access, part becomes accessible: whoever does that has it now. */
static void table_grant(struct mapping_table *table, const struct mapping_record *record)
{
    uint64_t start, end;
    if (record->protection == 0 || !table_pages(table, record, &start, &end)) return;
    for (size_t i = table_first_behind(table, start);
         i < table->pieces_count && table->pieces[i].start < end && !table->no_memory; i++) {
        const struct mapping_piece piece = table->pieces[i];
        const struct mapping_maker *maker = &table->makers[piece.maker];
        const uint64_t from = piece.start > start ? piece.start : start;
        const uint64_t to = piece.end < end ? piece.end : end;
        struct mapping_record granted = *record;
        if (maker->protection != 0 || maker->has_file ||
            (maker->what != MAPPING_FOUND && (maker->what != MAPPING_MAP || record->stack == 0)))
            continue;
        granted.what = MAPPING_MAP;
        granted.own |= maker->own;
        granted.flags = maker->flags;
        granted.address = from;
        granted.length = to - from;
        table_remove(table, from, to);
        table_put(table, &granted, from, to);
        i = table_first_behind(table, from);
    }
}

/* The segment that was attached at this address. */
static void table_detach(struct mapping_table *table, const struct mapping_record *record)
{
    const struct mapping_piece *piece = mapping_table_find(table, record->address);
    if (piece != NULL && table->makers[piece->maker].what == MAPPING_ATTACH)
        table_remove(table, record->address, record->address + table->makers[piece->maker].bytes);
}

void mapping_table_take(struct mapping_table *table, const struct mapping_record *record)
{
    uint64_t start, end;
    if (table->no_memory) return;
    table->records++;
    table->failed += record->failed;
    if (record->failed) return;
    switch (record->what) {
    case MAPPING_FOUND: table->found++;
    /* fall through */
    case MAPPING_MAP:
    case MAPPING_MOVE_TO:
    case MAPPING_ATTACH: table_add(table, record); break;
    case MAPPING_UNMAP:
    case MAPPING_MOVE_FROM:
        if (table_pages(table, record, &start, &end)) table_remove(table, start, end);
        break;
    case MAPPING_PROTECT: table_grant(table, record); break;
    case MAPPING_DETACH: table_detach(table, record); break;
    case MAPPING_BREAK:
        if (record->own) table->own_break = record->address;
        break;
    case MAPPING_LOST: table->lost += record->length; break;
    default: break;
    }
}

void mapping_table_free(struct mapping_table *table)
{
    for (size_t i = 0; i < table->makers_count; i++)
        free(table->makers[i].name);
    free(table->pieces);
    free(table->makers);
    *table = (struct mapping_table){.page_bytes = table->page_bytes};
}

const struct mapping_piece *mapping_table_find(const struct mapping_table *table, uint64_t address)
{
    const size_t at = table_first_behind(table, address);
    if (at == table->pieces_count || table->pieces[at].start > address) return NULL;
    return &table->pieces[at];
}

/* ---- what is resident ---- */

/* Goes along the runs of an area: how many pages are resident up to a page. */
struct area_walk {
    struct residency_area area;
    struct residency_run run; /* what is left of the present one */
    uint64_t at;              /* page */
    bool has_run;
};

static uint64_t area_walk_to(struct area_walk *walk, uint64_t page)
{
    uint64_t resident = 0;
    while (walk->at < page) {
        if (!walk->has_run && !residency_run_take(&walk->area, &walk->run)) break;
        walk->has_run = true;
        uint64_t *left = walk->run.skipped > 0 ? &walk->run.skipped : &walk->run.resident;
        const uint64_t step = *left < page - walk->at ? *left : page - walk->at;
        if (left == &walk->run.resident) resident += step;
        *left -= step;
        walk->at += step;
        walk->has_run = walk->run.skipped + walk->run.resident > 0;
    }
    walk->at = page;
    return resident;
}

/* KiB that are resident of the part of an area up to `page`, from where the walk is. */
static uint64_t area_part(struct area_walk *walk, uint64_t page, uint64_t page_bytes)
{
    const struct residency_area *area = &walk->area;
    const uint64_t pages = page - walk->at, all = area->end - area->start;
    if (area->has_runs) return area_walk_to(walk, page) * (page_bytes / 1024);
    walk->at = page;
    if (area->resident >= all * (page_bytes / 1024)) return pages * (page_bytes / 1024);
    return (uint64_t)((double)area->resident * (double)pages / (double)all);
}

void mapping_table_divide(const struct mapping_table *table, const struct residency_area *area,
                          uint64_t page_bytes,
                          void (*took)(void *context, const struct mapping_piece *piece,
                                       uint64_t start, uint64_t end, uint64_t resident_kib),
                          void *context)
{
    struct area_walk walk = {.area = *area, .at = area->start};
    size_t i = table_first_behind(table, area->start * page_bytes);
    while (walk.at < area->end) {
        const struct mapping_piece *piece = i < table->pieces_count ? &table->pieces[i] : NULL;
        const uint64_t from = walk.at;
        const uint64_t start = piece != NULL ? piece->start / page_bytes : UINT64_MAX;
        const bool is_inside = start <= from;
        uint64_t to = is_inside ? piece->end / page_bytes : start;
        if (to > area->end) to = area->end;
        const uint64_t kib = area_part(&walk, to, page_bytes);
        took(context, is_inside ? piece : NULL, from * page_bytes, to * page_bytes, kib);
        i += is_inside;
    }
}
