/* Collected results as rows of an Avro file, through libavro: a row for each run of each entry of
 * each result, for DuckDB, Spark and others that group and plot. docs/sweep.md says what the
 * columns are. Every value may be null. */
#include "sweep/collection.h"

#include <avro.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/output.h"

/* Bytes of a block, before compression. */
enum { BLOCK_BYTES = 256 * 1024 };

enum type { TEXT, WHOLE, REAL, TRUTH };

static const char *const type_names[] = {
    [TEXT] = "string", [WHOLE] = "long", [REAL] = "double", [TRUTH] = "boolean"};

/* ---- columns ---- */

/* Columns that are copied from the file of the result. */
static const struct copied {
    const char *name; /* of the column */
    enum of { OF_RESULT, OF_TRACE, OF_MACHINE, OF_ORIGINAL, OF_ENTRY, OF_EXPECTED } of;
    const char *key;
    enum type type;
} copied[] = {
    {"file", OF_TRACE, "file", TEXT},
    {"program", OF_TRACE, "program", TEXT},
    {"events", OF_TRACE, "events", WHOLE},
    {"threads", OF_TRACE, "threads", WHOLE},
    {"version", OF_RESULT, "version", TEXT},
    {"ended", OF_RESULT, "ended", TEXT},
    {"engine", OF_RESULT, "engine", TEXT},
    {"touch", OF_RESULT, "touch", TEXT},
    {"host", OF_MACHINE, "host", TEXT},
    {"processor", OF_MACHINE, "processor", TEXT},
    {"processors", OF_MACHINE, "processors", WHOLE},
    {"system", OF_MACHINE, "system", TEXT},
    {"governor", OF_MACHINE, "governor", TEXT},
    {"load", OF_MACHINE, "load", REAL},
    {"numa_nodes", OF_MACHINE, "numa_nodes", WHOLE},
    {"transparent_hugepages", OF_MACHINE, "transparent_hugepages", TEXT},
    {"transparent_hugepages_defrag", OF_MACHINE, "transparent_hugepages_defrag", TEXT},
    {"process_peak_rss_bytes", OF_ORIGINAL, "peak_rss_bytes", REAL},
    {"process_cpu_seconds", OF_ORIGINAL, "cpu_seconds", REAL},
    {"entry", OF_ENTRY, "entry", TEXT},
    {"name", OF_ENTRY, "name", TEXT},
    {"settings", OF_ENTRY, "settings", TEXT},
    {"allocator", OF_ENTRY, "allocator", TEXT},
    {"library", OF_ENTRY, "library", TEXT},
    {"library_file", OF_ENTRY, "library_file", TEXT},
    {"library_build_id", OF_ENTRY, "library_build_id", TEXT},
    {"recorded", OF_ENTRY, "recorded", TRUTH},
    {"expected_peak_rss_bytes", OF_EXPECTED, "peak_rss_bytes", REAL},
    {"expected_cpu_change_seconds", OF_EXPECTED, "cpu_change_seconds", REAL},
};
enum { COPIED = sizeof copied / sizeof *copied };

/* Columns that are made here, which come first. Last come the numbers of compare, by their keys. */
static const struct made {
    const char *name;
    enum type type;
} made[] = {
    {"result", TEXT},
    {"trace", TEXT},
    {"machine", WHOLE},
    {"run", WHOLE},
    {"memory_ratio", REAL},
    {"time_ratio", REAL},
    {"recorded_peak_net_rss_bytes", REAL},
    {"recorded_cpu_seconds", REAL},
};
enum { MADE = sizeof made / sizeof *made };

static void put_field(FILE *to, const char *name, enum type type, bool first)
{
    fprintf(to, "%s{\"name\":\"%s\",\"type\":[\"null\",\"%s\"]}", first ? "" : ",", name,
            type_names[type]);
}

/* The schema; the caller frees it. NULL: no memory. */
static char *schema_make(size_t *bytes)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, bytes);
    if (to == NULL) return NULL;
    fputs("{\"type\":\"record\",\"name\":\"run\",\"namespace\":\"malloctape\",\"fields\":[", to);
    for (size_t i = 0; i < MADE; i++)
        put_field(to, made[i].name, made[i].type, i == 0);
    for (size_t i = 0; i < COPIED; i++)
        put_field(to, copied[i].name, copied[i].type, false);
    for (const struct compare_number *number = compare_numbers; number->key != NULL; number++)
        put_field(to, number->key, REAL, false);
    fputs("]}", to);
    if (fclose(to) == 0) return text;
    free(text);
    return NULL;
}

/* ---- the file ---- */

struct writer {
    const struct collection *collection;
    char *schema_text;
    FILE *file;
    avro_schema_t schema;
    avro_file_writer_t to;
    avro_value_iface_t *class;
    avro_value_t row;
    size_t column; /* the next one of the row */
};

static void writer_close(struct writer *writer)
{
    if (writer->class != NULL) {
        avro_value_decref(&writer->row);
        avro_value_iface_decref(writer->class);
    }
    if (writer->to != NULL) avro_file_writer_close(writer->to);
    if (writer->schema != NULL) avro_schema_decref(writer->schema);
    if (writer->file != NULL) fclose(writer->file);
    free(writer->schema_text);
}

/* False: libavro says why. */
static bool writer_open(struct writer *writer)
{
    size_t bytes;
    writer->schema_text = schema_make(&bytes);
    if (writer->schema_text == NULL ||
        avro_schema_from_json_length(writer->schema_text, bytes, &writer->schema) != 0 ||
        avro_file_writer_create_with_codec_fp(writer->file, "", 0, writer->schema, &writer->to,
                                              "snappy", BLOCK_BYTES) != 0)
        return false;
    writer->class = avro_generic_class_from_schema(writer->schema);
    return writer->class != NULL && avro_generic_value_new(writer->class, &writer->row) == 0;
}

/* ---- one row ---- */

/* Chooses the branch of the row's next value, which is there, or null. */
static avro_value_t collect_avro_next(struct writer *writer, bool there)
{
    avro_value_t value, chosen;
    avro_value_get_by_index(&writer->row, writer->column++, &value, NULL);
    avro_value_set_branch(&value, there, &chosen);
    if (!there) avro_value_set_null(&chosen);
    return chosen;
}

static void collect_avro_put_text(struct writer *writer, const char *text)
{
    avro_value_t value = collect_avro_next(writer, text != NULL);
    if (text != NULL) avro_value_set_string(&value, text);
}

static void put_whole(struct writer *writer, int64_t number)
{
    avro_value_t value = collect_avro_next(writer, true);
    avro_value_set_long(&value, number);
}

static void put_real(struct writer *writer, double number)
{
    avro_value_t value = collect_avro_next(writer, isfinite(number));
    if (isfinite(number)) avro_value_set_double(&value, number);
}

/* Puts an object (settings) as its text. */
static void collect_avro_put_object(struct writer *writer, const json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    collect_avro_put_text(writer, text);
    free(text);
}

static void put_json(struct writer *writer, const json_t *json, enum type type)
{
    if (json_is_object(json) && type == TEXT)
        collect_avro_put_object(writer, json);
    else if (type == TEXT)
        collect_avro_put_text(writer, json_string_value(json));
    else if (!(type == TRUTH ? json_is_boolean(json) : json_is_number(json)))
        collect_avro_next(writer, false);
    else if (type == WHOLE)
        put_whole(writer, json_integer_value(json));
    else if (type == REAL)
        put_real(writer, json_number_value(json));
    else {
        avro_value_t value = collect_avro_next(writer, true);
        avro_value_set_boolean(&value, json_is_true(json));
    }
}

static const json_t *copied_of(const struct copied *column, const struct result *result,
                               const struct result_entry *entry)
{
    static const char *const objects[] = {
        [OF_TRACE] = "trace", [OF_MACHINE] = "machine", [OF_ORIGINAL] = "original"};
    const json_t *object = result->json;
    switch (column->of) {
    case OF_RESULT: break;
    case OF_TRACE:
    case OF_MACHINE:
    case OF_ORIGINAL: object = json_object_get(object, objects[column->of]); break;
    case OF_ENTRY: object = entry->json; break;
    case OF_EXPECTED: object = json_object_get(entry->json, "expected");
    }
    return json_object_get(object, column->key);
}

/* Puts a row for one run of an entry; `numbers`: those of compare, each for all runs. */
static bool put_run(struct writer *writer, const struct collection_result *result,
                    const struct result_entry *entry, size_t run, const double *numbers)
{
    const struct result *of = &result->of;
    const json_t *recorded =
        json_object_get(of->recorded != NULL ? of->recorded->json : NULL, "reports");
    writer->column = 0;
    collect_avro_put_text(writer, result->id);
    collect_avro_put_text(writer, writer->collection->traces[result->trace].name);
    put_whole(writer, (int64_t)result->machine);
    put_whole(writer, (int64_t)run + 1);
    for (unsigned measure = 0; measure < COMPARE_MEASURES; measure++)
        put_real(writer, entry->of_run[measure] != NULL ? entry->of_run[measure][run] : NAN);
    put_real(writer, recorded != NULL ? compare_median("peak_net_rss_bytes", recorded) : NAN);
    put_real(writer, recorded != NULL ? compare_median("cpu_seconds", recorded) : NAN);
    for (size_t i = 0; i < COPIED; i++)
        put_json(writer, copied_of(&copied[i], of, entry), copied[i].type);
    for (const struct compare_number *number = compare_numbers; number->key != NULL; number++)
        put_real(writer, numbers[(size_t)(number - compare_numbers) * entry->runs + run]);
    return avro_file_writer_append_value(writer->to, &writer->row) == 0;
}

static bool put_entry(struct writer *writer, const struct collection_result *result,
                      const struct result_entry *entry)
{
    const json_t *reports = json_object_get(entry->json, "reports");
    const struct compare_number *number = compare_numbers;
    bool good = true;
    while (number->key != NULL)
        number++;
    double *numbers = calloc((size_t)(number - compare_numbers) * entry->runs + 1, sizeof *numbers);
    if (numbers == NULL) return false;
    for (number = compare_numbers; number->key != NULL; number++)
        compare_values_of(number, reports,
                          &numbers[(size_t)(number - compare_numbers) * entry->runs], entry->runs);
    for (size_t run = 0; run < entry->runs && good; run++)
        good = put_run(writer, result, entry, run, numbers);
    free(numbers);
    return good;
}

static bool put_all(struct writer *writer)
{
    const struct collection *collection = writer->collection;
    for (size_t i = 0; i < collection->results_count; i++) {
        const struct collection_result *result = &collection->results[i];
        if (!collection_is_read(result)) continue;
        for (size_t at = 0; at < result->of.entries_count; at++)
            if (result->of.entries[at].why == NULL &&
                !put_entry(writer, result, &result->of.entries[at]))
                return false;
    }
    return avro_file_writer_flush(writer->to) == 0;
}

bool collection_avro_write(const struct collection *collection, const char *path, char *why,
                           size_t why_bytes)
{
    struct writer writer = {.collection = collection, .file = fopen(path, "we")};
    if (writer.file == NULL) return error_explain(why, why_bytes, "%s", strerror(errno));
    bool good = writer_open(&writer) && put_all(&writer);
    if (!good) error_explain(why, why_bytes, "libavro: %.200s", avro_strerror());
    if (good && fflush(writer.file) != 0)
        good = error_explain(why, why_bytes, "%s", strerror(errno));
    writer_close(&writer);
    if (!good) output_remove(path);
    return good;
}
