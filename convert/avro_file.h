/* avro_file - rows of one schema into an Avro file, through libavro. A false result: see
 * export->error. */
#ifndef MALLOCTAPE_CONVERT_AVRO_FILE_H
#define MALLOCTAPE_CONVERT_AVRO_FILE_H

#include <avro.h>
#include <stdio.h>

#include "convert/export_writer.h"

struct avro_file {
    FILE *file;
    avro_schema_t schema;
    avro_file_writer_t to;
    avro_value_iface_t *class;
    avro_value_t row;
};

bool avro_file_fail(struct export *export);

/* `file->file` is open. */
bool avro_file_open(struct export *export, struct avro_file *file, const char *schema,
                    size_t schema_bytes);
bool avro_file_append(struct export *export, struct avro_file *file);
bool avro_file_finish(struct export *export, struct avro_file *file);
void avro_file_close(struct avro_file *file);

/* Fields of a row, by their numbers in the schema. */
void avro_set_long(avro_value_t *row, unsigned field, uint64_t number);
void avro_set_string(avro_value_t *row, unsigned field, const char *text);

/* Of write_avro.c: the stack goes into the file of --stacks. */
bool avro_use_stack(struct export *export, uint32_t node);

/* Chooses the branch of a union for a value that is there, or null. */
avro_value_t avro_branch(avro_value_t *row, unsigned field, bool there);

#endif
