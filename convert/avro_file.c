#include "convert/avro_file.h"

/* Bytes of a block, before compression. */
enum { BLOCK_BYTES = 256 * 1024 };

bool avro_file_fail(struct export *export)
{
    return error_set(&export->error, &error_system, ERROR_NO_OFFSET, "libavro: %.200s",
                     avro_strerror());
}

void avro_file_close(struct avro_file *file)
{
    if (file->class != NULL) {
        avro_value_decref(&file->row);
        avro_value_iface_decref(file->class);
    }
    if (file->to != NULL) avro_file_writer_close(file->to);
    if (file->schema != NULL) avro_schema_decref(file->schema);
    if (file->file != NULL) fclose(file->file);
    *file = (struct avro_file){.file = NULL};
}

/* `file->file` is open. */
bool avro_file_open(struct export *export, struct avro_file *file, const char *schema,
                    size_t schema_bytes)
{
    if (avro_schema_from_json_length(schema, schema_bytes, &file->schema) != 0 ||
        avro_file_writer_create_with_codec_fp(file->file, "", 0, file->schema, &file->to, "snappy",
                                              BLOCK_BYTES) != 0)
        return avro_file_fail(export);
    file->class = avro_generic_class_from_schema(file->schema);
    return (file->class != NULL && avro_generic_value_new(file->class, &file->row) == 0) ||
           avro_file_fail(export);
}

bool avro_file_append(struct export *export, struct avro_file *file)
{
    return avro_file_writer_append_value(file->to, &file->row) == 0 || avro_file_fail(export);
}

bool avro_file_finish(struct export *export, struct avro_file *file)
{
    return (avro_file_writer_flush(file->to) == 0 && fflush(file->file) == 0) ||
           avro_file_fail(export);
}

void avro_set_long(avro_value_t *row, unsigned field, uint64_t number)
{
    avro_value_t value;
    avro_value_get_by_index(row, field, &value, NULL);
    avro_value_set_long(&value, (int64_t)number);
}

void avro_set_string(avro_value_t *row, unsigned field, const char *text)
{
    avro_value_t value;
    avro_value_get_by_index(row, field, &value, NULL);
    avro_value_set_string(&value, text);
}

/* Chooses the branch of a union for a value that is there, or null. */
avro_value_t avro_branch(avro_value_t *row, unsigned field, bool there)
{
    avro_value_t value, chosen = {NULL, NULL};
    avro_value_get_by_index(row, field, &value, NULL);
    avro_value_set_branch(&value, there, &chosen);
    return chosen;
}
