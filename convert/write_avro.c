/* write_avro - objects as rows of an Avro file, through libavro: for Spark, DuckDB, pandas and
 * others that read it. */
#include <avro.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/call_table.h"
#include "convert/export.h"

/* Bytes of a block, before compression. */
enum { BLOCK_BYTES = 256 * 1024 };

/* An object that is alive at the end has nulls. */
static const char schema_text[] =
    "{\"type\":\"record\",\"name\":\"object\",\"namespace\":\"malloctape\",\"fields\":["
    "{\"name\":\"kind\",\"type\":\"string\"},"
    "{\"name\":\"size\",\"type\":\"long\"},"
    "{\"name\":\"alignment\",\"type\":\"long\"},"
    "{\"name\":\"thread\",\"type\":\"long\"},"
    "{\"name\":\"call\",\"type\":\"long\"},"
    "{\"name\":\"ns\",\"type\":\"long\"},"
    "{\"name\":\"ended_by\",\"type\":[\"null\",\"string\"]},"
    "{\"name\":\"ended_thread\",\"type\":[\"null\",\"long\"]},"
    "{\"name\":\"ended_call\",\"type\":[\"null\",\"long\"]},"
    "{\"name\":\"ended_ns\",\"type\":[\"null\",\"long\"]}]}";

enum field {
    KIND,
    SIZE,
    ALIGNMENT,
    THREAD,
    CALL,
    NS,
    ENDED_BY,
    ENDED_THREAD,
    ENDED_CALL,
    ENDED_NS
};

struct writer {
    FILE *file;
    avro_schema_t schema;
    avro_file_writer_t to;
    avro_value_iface_t *class;
    avro_value_t row;
};

static bool fail(struct export *export)
{
    return error_set(&export->error, &error_system, ERROR_NO_OFFSET, "libavro: %.200s",
                     avro_strerror());
}

static void avro_close(struct export *export)
{
    struct writer *writer = export->state;
    if (writer == NULL) return;
    if (writer->class != NULL) {
        avro_value_decref(&writer->row);
        avro_value_iface_decref(writer->class);
    }
    if (writer->to != NULL) avro_file_writer_close(writer->to);
    if (writer->schema != NULL) avro_schema_decref(writer->schema);
    if (writer->file != NULL) fclose(writer->file);
    free(writer);
    export->state = NULL;
}

static bool avro_open(struct export *export)
{
    struct writer *writer = export->state = calloc(1, sizeof *writer);
    const int fd = dup(export->output.fd);
    if (writer != NULL && fd >= 0) writer->file = fdopen(fd, "w");
    if (writer == NULL || writer->file == NULL)
        return error_set_system(&export->error, "cannot open it for libavro");
    if (avro_schema_from_json_length(schema_text, sizeof schema_text - 1, &writer->schema) != 0 ||
        avro_file_writer_create_with_codec_fp(writer->file, "", 0, writer->schema, &writer->to,
                                              "snappy", BLOCK_BYTES) != 0)
        return fail(export);
    writer->class = avro_generic_class_from_schema(writer->schema);
    if (writer->class == NULL || avro_generic_value_new(writer->class, &writer->row) != 0)
        return fail(export);
    return true;
}

/* ---- one row ---- */

static void set_long(avro_value_t *row, enum field field, uint64_t number)
{
    avro_value_t value;
    avro_value_get_by_index(row, field, &value, NULL);
    avro_value_set_long(&value, (int64_t)number);
}

static void set_string(avro_value_t *row, enum field field, const char *text)
{
    avro_value_t value;
    avro_value_get_by_index(row, field, &value, NULL);
    avro_value_set_string(&value, text);
}

/* The branch of a union that is there, or null. */
static avro_value_t branch(avro_value_t *row, enum field field, bool there)
{
    avro_value_t value, chosen;
    avro_value_get_by_index(row, field, &value, NULL);
    avro_value_set_branch(&value, there, &chosen);
    return chosen;
}

static void set_end(avro_value_t *row, const struct object_call *ended)
{
    const uint64_t numbers[] = {ended->thread, ended->call, ended->ns};
    const bool there = ended->kind != 0;
    avro_value_t value = branch(row, ENDED_BY, there);
    if (there) avro_value_set_string(&value, call_names[ended->kind]);
    for (unsigned i = 0; i < 3; i++) {
        value = branch(row, (enum field)(ENDED_THREAD + i), there);
        if (there) avro_value_set_long(&value, (int64_t)numbers[i]);
    }
}

static bool avro_object(struct export *export, const struct object *object)
{
    struct writer *writer = export->state;
    avro_value_t *row = &writer->row;
    set_string(row, KIND, call_names[object->made.kind]);
    set_long(row, SIZE, object->size);
    set_long(row, ALIGNMENT, object->alignment);
    set_long(row, THREAD, object->made.thread);
    set_long(row, CALL, object->made.call);
    set_long(row, NS, object->made.ns);
    set_end(row, &object->ended);
    export->calls++;
    return avro_file_writer_append_value(writer->to, row) == 0 || fail(export);
}

static bool avro_finish(struct export *export)
{
    struct writer *writer = export->state;
    if (avro_file_writer_flush(writer->to) != 0 || fflush(writer->file) != 0) return fail(export);
    return true;
}

const struct export_writer export_avro = {
    .name = "avro",
    .title = "Avro, a row for each object",
    .loses = "failed calls, calls about the heap, memory of the original",
    .packed = true,
    .open = avro_open,
    .object = avro_object,
    .finish = avro_finish,
    .close = avro_close,
};
