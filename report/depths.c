#include "report/depths.h"

#include <stdlib.h>

#include "cli/cli.h"
#include "reading/raw_source.h"
#include "reading/stream.h"

_Static_assert(PATH_CENTRAL == 1 << TIMELINE_CENTRAL && PATH_PAGE_HEAP == 1 << TIMELINE_PAGE_HEAP &&
                   PATH_SYSTEM == 1 << TIMELINE_SYSTEM && PATH_WAITED == 1 << TIMELINE_WAITED,
               "bits of a path");

/* What is kept for a lane while reading. */
struct depths_lane {
    uint64_t *counts;     /* the counters of its latest call, by path; NULL: none */
    unsigned path;        /* of that call, */
    unsigned kind;        /* and its kind; CALL_KINDS: none */
    unsigned coming_path; /* path records seen so far for the next call, */
    uint64_t coming;      /* and bytes from the system */
    uint8_t class_of_list[RAW_SIZE_CLASSES_MAX + 2];
};

struct reading {
    struct depths *depths;
    struct raw_source source;
    struct depths_lane *lanes; /* RAW_LANES_MAX entries */
    struct timeline_row row;   /* since the latest tick */

    /* The lane of the current records. */
    struct depths_lane *lane;
    struct depths_of_lane *sums;
    const struct raw_cache *cache;
};

/* ---- records ---- */

/* Updates the counts of a call whose path was `before` and is now `after`. */
static void take_reached(struct timeline_row *row, unsigned before, unsigned after)
{
    const unsigned news = after & ~before;
    for (unsigned i = 0; i < TIMELINE_BEYOND_CACHE; i++)
        row->reached[i] += news >> i & 1;
    row->reached[TIMELINE_BEYOND_CACHE] +=
        path_depth(before) == DEPTH_CACHE && path_depth(after) != DEPTH_CACHE;
}

static void depths_take_call(struct reading *reading, const struct record *record)
{
    struct depths_lane *lane = reading->lane;
    const bool frees = shape_is_free(record->shape);
    const uint32_t place = record->place != RAW_PLACE_NONE ? record->place : record->ends;
    const uint32_t list = raw_cache_list_of_place(reading->cache, place);
    struct depths_class *class = &reading->depths->classes[lane->class_of_list[list]];
    lane->kind = record->number;
    lane->path = lane->coming_path;
    lane->counts = record->shape == SHAPE_HEAP ? NULL : frees ? class->frees : class->allocations;
    if (lane->counts != NULL) {
        lane->counts[lane->path]++;
        reading->row.calls++;
        take_reached(&reading->row, 0, lane->path);
    }
    reading->depths->taken_for[record->number] += lane->coming;
    lane->coming_path = 0;
    lane->coming = 0;
}

static void take_path(struct reading *reading, const struct record *record)
{
    struct depths_lane *lane = reading->lane;
    const unsigned path = path_of_record(record);
    if (!path_is_of_latest(record)) {
        lane->coming_path |= path;
    } else if (lane->counts != NULL) {
        take_reached(&reading->row, lane->path, lane->path | path);
        lane->counts[lane->path]--;
        lane->counts[lane->path |= path]++;
    }
}

static void add_wait(struct depths_waits *waits, uint64_t ns)
{
    waits->waits++;
    waits->waited_ns += ns;
}

static void take_taken(struct reading *reading, const struct record *record)
{
    reading->sums->taken_bytes += record->size;
    reading->row.taken_bytes += record->size;
    if (record->operand == 0)
        reading->lane->coming += record->size;
    else if (reading->lane->kind < CALL_KINDS)
        reading->depths->taken_for[reading->lane->kind] += record->size;
}

static void take_wait(struct reading *reading, const struct record *record)
{
    add_wait(&reading->depths->classes[record->structure].waits, record->size);
    add_wait(&reading->sums->waits, record->size);
    reading->row.waits++;
    reading->row.waited_ns += record->size;
}

static void depths_take_inside(struct reading *reading, const struct record *record)
{
    if (record->structure < RAW_STRUCTURES) return take_wait(reading, record);
    const unsigned what = record->structure - RAW_INSIDE_SBRK;
    reading->depths->inside[what].times++;
    reading->depths->inside[what].bytes += record->size;
    if (record->structure == RAW_INSIDE_RELEASE) {
        reading->sums->released_bytes += record->size;
        reading->row.released_bytes += record->size;
    } else if (record->structure < RAW_INSIDE_RELEASE) {
        take_taken(reading, record);
    }
}

static void take_class(struct reading *reading, const struct record *record)
{
    const unsigned class = record->structure % RAW_SIZE_CLASSES_MAX;
    reading->depths->classes[class].bytes = record->size;
    reading->lane->class_of_list[reading->cache->list_of_class[class]] = (uint8_t) class;
}

static void depths_take_record(struct reading *reading, const struct record *record)
{
    if (record->number < CALL_KINDS) return depths_take_call(reading, record);
    take_path(reading, record);
    switch (record->number) {
    case RAW_SEQUENCE_BEFORE:
    case RAW_SEQUENCE_AFTER:
        reading->depths->classes[record->structure % RAW_STRUCTURES].entries++;
        break;
    case RAW_INSIDE: depths_take_inside(reading, record); break;
    case RAW_CLASS: take_class(reading, record); break;
    case RAW_FAILED:
    case RAW_THREAD_CACHE_DELETED: /* what follows belongs to this, not to a call */
        reading->lane->counts = NULL;
        reading->lane->kind = CALL_KINDS;
        reading->lane->coming_path = 0;
        reading->lane->coming = 0;
        break;
    }
}

static void depths_take_records(void *of, const struct raw_batch *batch)
{
    struct reading *reading = of;
    const uint32_t lane = batch->chunk->lane;
    reading->lane = &reading->lanes[lane];
    reading->sums = &reading->depths->lanes[lane];
    reading->cache = &batch->decoder->cache;
    for (uint32_t i = 0; i < batch->count; i++)
        depths_take_record(reading, &batch->records[i]);
}

static void depths_take_tick(void *of, const struct raw_chunk *chunk)
{
    struct reading *reading = of;
    (void)chunk;
    reading->row.end_ns = reading->source.reader.tick.since_start_ns;
    timeline_add(&reading->depths->timeline, &reading->row);
    reading->row = (struct timeline_row){0};
}

/* ---- the file ---- */

static int read_chunks(struct reading *reading, int fd, const char *path)
{
    struct raw_source *source = &reading->source;
    static const struct raw_visitor visitor = {
        .records = depths_take_records, .tick = depths_take_tick, .cache_records = true};
    struct error error = {0};
    raw_source_open(source, fd, path);
    reading->depths->known = !raw_source_is_opaque(source);
    if (reading->depths->known) raw_source_visit(source, &visitor, reading);
    if (reading->row.calls + reading->row.waits + reading->row.taken_bytes > 0)
        depths_take_tick(reading, NULL); /* what follows the last tick, if the process was killed */
    timeline_end(&reading->depths->timeline);
    int status = reading->depths->known ? raw_source_state(source, &error) : PROGRAM_OK;
    if (status == PROGRAM_FAILED) cli_data_error(&cli_report, path, &error);
    raw_source_close(source);
    return status;
}

int depths_read(struct depths *depths, const char *path)
{
    struct reading reading = {.depths = depths,
                              .lanes = calloc(RAW_LANES_MAX, sizeof *reading.lanes)};
    struct stream stream;
    struct error error = {0};
    int status = PROGRAM_OK;
    if (reading.lanes == NULL) return cli_fail(&cli_report, "no memory for lanes");
    if (!stream_open(&stream, path, &error)) {
        status = cli_data_error(&cli_report, path, &error);
    } else {
        if (stream.format == STREAM_RAW) status = read_chunks(&reading, stream.fd, path);
        if (!stream_close(&stream)) status = PROGRAM_FAILED;
    }
    free(reading.lanes);
    return status;
}
