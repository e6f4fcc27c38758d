#include "convert/avro_mappings.h"

#include <stdlib.h>
#include <string.h>

/* Without a file, and without a stack, those are null. */
static const char mappings_schema_text[] =
    "{\"type\":\"record\",\"name\":\"mapping\",\"namespace\":\"malloctape\",\"fields\":["
    "{\"name\":\"what\",\"type\":\"string\"},"
    "{\"name\":\"failed\",\"type\":\"long\"},"
    "{\"name\":\"own\",\"type\":\"long\"},"
    "{\"name\":\"thread\",\"type\":\"long\"},"
    "{\"name\":\"ns\",\"type\":\"long\"},"
    "{\"name\":\"address\",\"type\":\"long\"},"
    "{\"name\":\"bytes\",\"type\":\"long\"},"
    "{\"name\":\"protection\",\"type\":\"long\"},"
    "{\"name\":\"flags\",\"type\":\"long\"},"
    "{\"name\":\"stack\",\"type\":[\"null\",\"long\"]},"
    "{\"name\":\"file\",\"type\":[\"null\",\"string\"]},"
    "{\"name\":\"offset\",\"type\":[\"null\",\"long\"]},"
    "{\"name\":\"device\",\"type\":[\"null\",\"long\"]},"
    "{\"name\":\"inode\",\"type\":[\"null\",\"long\"]}]}";

enum mappings_field {
    MAPPINGS_WHAT,
    MAPPINGS_FAILED,
    MAPPINGS_OWN,
    MAPPINGS_THREAD,
    MAPPINGS_NS,
    MAPPINGS_ADDRESS,
    MAPPINGS_BYTES,
    MAPPINGS_PROTECTION,
    MAPPINGS_FLAGS,
    MAPPINGS_STACK,
    MAPPINGS_FILE,
    MAPPINGS_OFFSET
};

static void mappings_set_file(avro_value_t *row, const struct mapping_record *record)
{
    const uint64_t numbers[] = {record->offset, record->device, record->inode};
    avro_value_t value = avro_branch(row, MAPPINGS_FILE, record->has_file);
    if (record->has_file) {
        char *name = strndup(record->name_bytes > 0 ? record->name : "", record->name_bytes);
        avro_value_set_string(&value, name != NULL ? name : "");
        free(name);
    }
    for (unsigned i = 0; i < 3; i++) {
        value = avro_branch(row, MAPPINGS_OFFSET + i, record->has_file);
        if (record->has_file) avro_value_set_long(&value, (int64_t)numbers[i]);
    }
}

static void avro_mappings_take(void *of, const struct mapping_record *record)
{
    struct avro_mappings *mappings = of;
    avro_value_t *row = &mappings->file.row;
    const uint64_t numbers[] = {record->failed,  record->own,    record->thread_id,  *mappings->ns,
                                record->address, record->length, record->protection, record->flags};
    if (mappings->failed) return;
    avro_set_string(row, MAPPINGS_WHAT, mapping_what_name(record->what));
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++)
        avro_set_long(row, MAPPINGS_FAILED + i, numbers[i]);
    avro_value_t stack = avro_branch(row, MAPPINGS_STACK, record->stack != 0);
    if (record->stack != 0) avro_value_set_long(&stack, record->stack);
    mappings_set_file(row, record);
    mappings->failed = !avro_file_append(mappings->export, &mappings->file) ||
                       (record->stack != 0 && !avro_use_stack(mappings->export, record->stack));
}

bool avro_mappings_open(struct avro_mappings *mappings, struct export *export, const char *path,
                        struct instruction_reader *reader, const uint64_t *ns)
{
    *mappings =
        (struct avro_mappings){.file = {.file = fopen(path, "we")}, .export = export, .ns = ns};
    if (mappings->file.file == NULL)
        return error_set_system(&export->error, "cannot write %.100s", path);
    reader->mapping = avro_mappings_take;
    reader->mappings_context = mappings;
    return avro_file_open(export, &mappings->file, mappings_schema_text,
                          sizeof mappings_schema_text - 1);
}

bool avro_mappings_end(struct avro_mappings *mappings)
{
    const bool good = !mappings->failed && mappings->file.to != NULL &&
                      avro_file_finish(mappings->export, &mappings->file);
    avro_file_close(&mappings->file);
    return good;
}
