#include "report/depths.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "common/call_table.h"
#include "common/json_file.h"
#include "inspect/raw_source.h"
#include "inspect/stream.h"
#include "report/words.h"

/* Records are decoded so many at a time. */
enum { BATCH = 256 };

/* Lines of the text. */
enum { CLASSES_SHOWN = 8 };

/* Of a lane. */
struct depths_lane {
    uint64_t *counts;   /* where its latest call is counted; NULL: nowhere */
    enum depth depth;   /* of that call */
    enum depth entered; /* before the call that is to come */
};

struct reading {
    struct depths *depths;
    struct raw_source source;
    struct depths_lane *lanes; /* RAW_LANES_MAX entries */
};

/* ---- records ---- */

static void take_call(struct depths *depths, struct depths_lane *lane, unsigned shape)
{
    const bool frees = shape >= SHAPE_FREE && shape <= SHAPE_FREE_SIZED_ALIGNED;
    lane->counts = shape == SHAPE_HEAP ? NULL : frees ? depths->frees : depths->allocations;
    lane->depth = lane->entered;
    lane->entered = DEPTH_CACHE;
    if (lane->counts != NULL) lane->counts[lane->depth]++;
}

static enum depth structure_depth(struct depths *depths, uint32_t structure)
{
    if (structure == RAW_STRUCTURE_PAGE_HEAP) {
        depths->page_heap_entries++;
        return DEPTH_PAGE_HEAP;
    }
    depths->class_entries[structure % RAW_STRUCTURES]++;
    return DEPTH_CENTRAL;
}

/* A number before a call is of the call that comes, one after it of the call that was. */
static void take_record(struct depths *depths, struct depths_lane *lane,
                        const struct record *record)
{
    if (record->number < CALL_KINDS) {
        take_call(depths, lane, record->shape);
    } else if (record->number == RAW_SEQUENCE_BEFORE) {
        const enum depth depth = structure_depth(depths, record->structure);
        if (depth > lane->entered) lane->entered = depth;
    } else if (record->number == RAW_SEQUENCE_AFTER) {
        const enum depth depth = structure_depth(depths, record->structure);
        if (lane->counts == NULL || depth <= lane->depth) return;
        lane->counts[lane->depth]--;
        lane->counts[depth]++;
        lane->depth = depth;
    } else if (record->number == RAW_CLASS) {
        depths->class_bytes[record->structure % RAW_STRUCTURES] = record->size;
    } else if (record->number == RAW_FAILED) {
        lane->counts = NULL;
        lane->entered = DEPTH_CACHE;
    }
}

static bool take_records(struct reading *reading, const struct raw_chunk *chunk)
{
    struct record records[BATCH];
    struct raw_decoder *decoder = raw_source_lane(&reading->source, chunk->lane);
    uint32_t count;
    if (decoder == NULL) return false;
    decoder->tells_caches = true;
    raw_decoder_open(decoder, chunk);
    while ((count = raw_decoder_next(decoder, records, BATCH)) > 0)
        for (uint32_t i = 0; i < count; i++)
            take_record(reading->depths, &reading->lanes[chunk->lane], &records[i]);
    if (error_is_set(&decoder->error)) reading->source.error = decoder->error;
    return !error_is_set(&decoder->error);
}

/* ---- the file ---- */

static int read_chunks(struct reading *reading, int fd, const char *path)
{
    struct raw_source *source = &reading->source;
    struct raw_chunk *chunk;
    struct error error = {0};
    bool good = true;
    raw_source_open(source, fd, path);
    reading->depths->known = !raw_source_is_opaque(source);
    while (good && reading->depths->known && (chunk = raw_source_next(source)) != NULL) {
        if (chunk->type != RAW_CHUNK_TICK) good = take_records(reading, chunk);
        free(chunk);
    }
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
    *depths = (struct depths){.known = false};
    if (reading.lanes == NULL) return cli_fail(&cli_report, "no memory for lanes");
    if (!stream_open(&stream, path, &error)) {
        status = cli_data_error(&cli_report, path, &error);
    } else {
        if (stream.format == STREAM_RAW) status = read_chunks(&reading, stream.fd, path);
        stream_close(&stream);
    }
    free(reading.lanes);
    return status;
}

/* ---- telling ---- */

static void print_depths(const char *what, const uint64_t *counts, FILE *to)
{
    const uint64_t all = counts[DEPTH_CACHE] + counts[DEPTH_CENTRAL] + counts[DEPTH_PAGE_HEAP];
    fprintf(to, "  %-12s %15s %18s %8s %15s %8s %15s %8s\n", what, words_count(all),
            words_count(counts[DEPTH_CACHE]), words_share(counts[DEPTH_CACHE], all),
            words_count(counts[DEPTH_CENTRAL]), words_share(counts[DEPTH_CENTRAL], all),
            words_count(counts[DEPTH_PAGE_HEAP]), words_share(counts[DEPTH_PAGE_HEAP], all));
}

void depths_print(const struct depths *depths, FILE *to)
{
    uint64_t left[RAW_STRUCTURES], all = 0;
    if (!depths->known) {
        fputs("\nhow far calls went: only a recording that was made on our tcmalloc has that\n",
              to);
        return;
    }
    fprintf(to, "\n%-14s %15s %18s %8s %15s %8s %15s %8s\n", "served by", "calls",
            "the thread's cache", "", "a central list", "", "the page heap", "");
    print_depths("allocations", depths->allocations, to);
    print_depths("frees", depths->frees, to);
    memcpy(left, depths->class_entries, sizeof left);
    for (unsigned i = 0; i < RAW_STRUCTURES; i++)
        all += left[i];
    if (all > 0) fputs("  entries into central lists, by size class:", to);
    for (unsigned shown = 0; shown < CLASSES_SHOWN && all > 0; shown++) {
        unsigned most = 0;
        for (unsigned i = 1; i < RAW_STRUCTURES; i++)
            if (left[i] > left[most]) most = i;
        if (left[most] == 0) break;
        fprintf(to, "%s %" PRIu64 " (%s)", shown > 0 ? "," : "", depths->class_bytes[most],
                words_share(left[most], all));
        left[most] = 0;
    }
    if (all > 0) fputc('\n', to);
}

static json_t *counts_json(const uint64_t *counts)
{
    json_t *object = json_object();
    json_put_number(object, "cache", counts[DEPTH_CACHE]);
    json_put_number(object, "central", counts[DEPTH_CENTRAL]);
    json_put_number(object, "page_heap", counts[DEPTH_PAGE_HEAP]);
    return object;
}

json_t *depths_json(const struct depths *depths)
{
    if (!depths->known) return json_null();
    json_t *object = json_object(), *classes = json_array();
    json_object_set_new(object, "allocations", counts_json(depths->allocations));
    json_object_set_new(object, "frees", counts_json(depths->frees));
    json_put_number(object, "page_heap_entries", depths->page_heap_entries);
    json_object_set_new(object, "central_lists", classes);
    for (unsigned i = 0; i < RAW_STRUCTURES; i++) {
        json_t *one;
        if (depths->class_entries[i] == 0) continue;
        json_array_append_new(classes, one = json_object());
        json_put_number(one, "class", i);
        json_put_number(one, "bytes", depths->class_bytes[i]);
        json_put_number(one, "entries", depths->class_entries[i]);
    }
    return object;
}
