#include "inspect/mapping_text.h"

#include <inttypes.h>

#include "common/printable.h"
#include "stream/touched.h"

static void mapping_file_print(FILE *to, uint64_t offset, uint64_t device, uint64_t inode)
{
    fprintf(to, " file offset %" PRIu64 " device %" PRIu64 " inode %" PRIu64, offset, device,
            inode);
}

static void mapping_name_print(FILE *to, const char *name, uint32_t bytes)
{
    if (bytes > 0) putc(' ', to);
    printable_print(to, name, bytes);
    putc('\n', to);
}

/* False: it says nothing of the kind. */
static bool mapping_touched_print(FILE *to, const struct mapping_record *record)
{
    struct touched touched;
    if (record->what != MAPPING_TOUCHED || !record->has_file ||
        !touched_take((const uint8_t *)record->name, record->name_bytes, &touched))
        return false;
    fprintf(to, " pages %" PRIu64 " runs", record->offset);
    for (uint32_t i = 0; i < touched.count; i++)
        fprintf(to, " %" PRIu32 "+%" PRIu32, touched.runs[i].skipped, touched.runs[i].resident);
    putc('\n', to);
    return true;
}

void mapping_text_print(FILE *to, const struct mapping_record *record)
{
    fprintf(to,
            "mapping %s thread %" PRIu32 " at 0x%" PRIx64 " bytes %" PRIu64 " protection %" PRIu32
            " flags 0x%" PRIx32,
            mapping_what_name(record->what), record->thread_id, record->address, record->length,
            record->protection, record->flags);
    if (record->stack != 0) fprintf(to, " stack %" PRIu32, record->stack);
    if (record->has_lane)
        fprintf(to, " lane %" PRIu32 " calls %" PRIu64, raw_allocations_lane(record->calls),
                raw_allocations_count(record->calls));
    if (record->own) fputs(" own", to);
    if (record->failed) fputs(" failed", to);
    if (mapping_touched_print(to, record)) return;
    if (record->has_file) mapping_file_print(to, record->offset, record->device, record->inode);
    mapping_name_print(to, record->name, record->has_file ? record->name_bytes : 0);
}

void residency_text_print(FILE *to, const struct residency *residency)
{
    fprintf(to, "residency %s%s nanoseconds %" PRIu64 " page %" PRIu32 " areas %" PRIu64 "\n",
            residency_why_name(residency->why), residency->is_brief ? " brief" : "",
            residency->since_start_ns, residency->page_bytes, residency->areas);
}

void residency_area_print(FILE *to, const struct residency_area *area, uint32_t page_bytes)
{
    struct residency_area runs = *area;
    struct residency_run run;
    fprintf(to, "area 0x%" PRIx64 " to 0x%" PRIx64 " %c%c%c%c", area->start * page_bytes,
            area->end * page_bytes, area->protection & RESIDENCY_READ ? 'r' : '-',
            area->protection & RESIDENCY_WRITE ? 'w' : '-',
            area->protection & RESIDENCY_EXECUTE ? 'x' : '-',
            area->protection & RESIDENCY_SHARED ? 's' : 'p');
    fprintf(to,
            " resident %" PRIu64 " proportional %" PRIu64 " unshared %" PRIu64 " anonymous %" PRIu64
            " huge %" PRIu64 " swapped %" PRIu64 " locked %" PRIu64,
            area->resident, area->proportional, area->unshared, area->anonymous, area->huge,
            area->swapped, area->locked);
    if (area->is_recorder) fputs(" recorder", to);
    if (area->is_heap) fputs(" heap", to);
    if (area->has_runs) fputs(" runs", to);
    while (residency_run_take(&runs, &run))
        fprintf(to, " %" PRIu64 "+%" PRIu64, run.skipped, run.resident);
    if (area->has_file) mapping_file_print(to, area->offset, area->device, area->inode);
    mapping_name_print(to, area->name, area->name_bytes);
}
