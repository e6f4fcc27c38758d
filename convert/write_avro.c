/* write_avro - objects as rows of an Avro file, through libavro: for Spark, DuckDB, pandas and
 * others that read it. */
#include <avro.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/array.h"
#include "common/call_table.h"
#include "convert/avro_file.h"

/* Fields about the end of an object that is still alive are null, and so is a missing stack. */
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
    "{\"name\":\"ended_ns\",\"type\":[\"null\",\"long\"]},"
    "{\"name\":\"stack\",\"type\":[\"null\",\"long\"]}]}";

/* For --stacks: frames, innermost first. */
static const char stacks_schema_text[] =
    "{\"type\":\"record\",\"name\":\"stack\",\"namespace\":\"malloctape\",\"fields\":["
    "{\"name\":\"stack\",\"type\":\"long\"},"
    "{\"name\":\"frames\",\"type\":{\"type\":\"array\",\"items\":"
    "{\"type\":\"record\",\"name\":\"frame\",\"fields\":["
    "{\"name\":\"function\",\"type\":\"string\"},"
    "{\"name\":\"file\",\"type\":\"string\"},"
    "{\"name\":\"line\",\"type\":\"long\"},"
    "{\"name\":\"module\",\"type\":\"string\"}]}}}]}";

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
    ENDED_NS,
    STACK
};

struct writer {
    struct avro_file objects;
    uint8_t *is_used; /* by node: whether an object has that stack */
    size_t nodes_room;
};

static void avro_close(struct export *export)
{
    struct writer *writer = export->state;
    if (writer == NULL) return;
    avro_file_close(&writer->objects);
    free(writer->is_used);
    free(writer);
    export->state = NULL;
}

static bool avro_open(struct export *export)
{
    struct writer *writer = export->state = calloc(1, sizeof *writer);
    const int fd = dup(export->output.fd);
    if (writer != NULL && fd >= 0) writer->objects.file = fdopen(fd, "w");
    if (writer == NULL || writer->objects.file == NULL)
        return error_set_system(&export->error, "cannot open it for libavro");
    return avro_file_open(export, &writer->objects, schema_text, sizeof schema_text - 1);
}

/* ---- one row ---- */

static void avro_set_end(avro_value_t *row, const struct object_call *ended)
{
    const uint64_t numbers[] = {ended->thread, ended->call, ended->ns};
    const bool there = ended->kind != 0;
    avro_value_t value = avro_branch(row, ENDED_BY, there);
    if (there) avro_value_set_string(&value, call_names[ended->kind]);
    for (unsigned i = 0; i < 3; i++) {
        value = avro_branch(row, (unsigned)ENDED_THREAD + i, there);
        if (there) avro_value_set_long(&value, (int64_t)numbers[i]);
    }
}

bool avro_use_stack(struct export *export, uint32_t node)
{
    struct writer *writer = export->state;
    if (!array_reserve(&writer->is_used, &writer->nodes_room, (size_t)node + 1, 1))
        return error_set_system(&export->error, "no memory for call stacks");
    writer->is_used[node] = 1;
    return true;
}

static bool avro_object(struct export *export, const struct object *object)
{
    struct writer *writer = export->state;
    avro_value_t *row = &writer->objects.row;
    avro_set_string(row, KIND, call_names[object->made.kind]);
    avro_set_long(row, SIZE, object->size);
    avro_set_long(row, ALIGNMENT, object->alignment);
    avro_set_long(row, THREAD, object->made.thread);
    avro_set_long(row, CALL, object->made.call);
    avro_set_long(row, NS, object->made.ns);
    avro_set_end(row, &object->ended);
    avro_value_t stack = avro_branch(row, STACK, object->stack != 0);
    if (object->stack != 0) {
        avro_value_set_long(&stack, object->stack);
        if (!avro_use_stack(export, object->stack)) return false;
    }
    export->calls++;
    return avro_file_append(export, &writer->objects);
}

/* ---- the stacks ---- */

static void set_frame(avro_value_t *frame, const struct code_frame *of,
                      const struct code_names *names)
{
    avro_value_t value;
    const uint32_t texts[] = {of->function, of->file, of->module};
    static const unsigned fields[] = {0, 1, 3};
    for (unsigned i = 0; i < 3; i++) {
        avro_value_get_by_index(frame, fields[i], &value, NULL);
        avro_value_set_string(&value, code_names_text(names, texts[i]));
    }
    avro_value_get_by_index(frame, 2, &value, NULL);
    avro_value_set_long(&value, of->line);
}

static bool put_stack(struct export *export, struct avro_file *file, const struct export_code *code,
                      uint32_t node)
{
    static struct code_frame frames[CODE_FRAMES_MAX];
    const unsigned count = code_names_of(code->names, node, frames);
    avro_value_t list, frame;
    avro_value_reset(&file->row);
    avro_value_get_by_index(&file->row, 0, &list, NULL);
    avro_value_set_long(&list, node);
    avro_value_get_by_index(&file->row, 1, &list, NULL);
    for (unsigned i = 0; i < count; i++) {
        avro_value_append(&list, &frame, NULL);
        set_frame(&frame, &frames[i], code->names);
    }
    return avro_file_append(export, file);
}

/* Into the file of --stacks. */
static bool avro_code(struct export *export, const struct export_code *code)
{
    struct writer *writer = export->state;
    struct avro_file file = {.file = fopen(code->stacks_path, "we")};
    bool good = file.file != NULL ||
                error_set_system(&export->error, "cannot write %.100s", code->stacks_path);
    good = good && avro_file_open(export, &file, stacks_schema_text, sizeof stacks_schema_text - 1);
    for (size_t node = STACK_NODE_FIRST; node < writer->nodes_room && good; node++)
        if (writer->is_used[node]) good = put_stack(export, &file, code, (uint32_t)node);
    good = good && avro_file_finish(export, &file);
    avro_file_close(&file);
    if (!good) output_remove(code->stacks_path);
    return good;
}

static bool avro_finish(struct export *export)
{
    struct writer *writer = export->state;
    return avro_file_finish(export, &writer->objects);
}

const struct export_writer export_avro = {
    .name = "avro",
    .title = "Avro, a row for each object",
    .unit = "objects",
    .loses = "failed calls, calls about the heap, memory of the original",
    .packed = true,
    .open = avro_open,
    .object = avro_object,
    .code = avro_code,
    .finish = avro_finish,
    .close = avro_close,
};
