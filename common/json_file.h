/* json_file - writes a JSON value to a file, and builds the values that reports need. */
#ifndef MALLOCTAPE_JSON_FILE_H
#define MALLOCTAPE_JSON_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* Writes `value` and a newline to the file at `path`; "-" is the standard output. NULL means that
 * there was no memory for the value. False: see error. */
bool json_file_write(const json_t *value, const char *path, struct error *error);

/* Reads the report of a replay. NULL: `why` says what is wrong with it. */
json_t *json_report_read(const char *path, char *why, size_t why_bytes);

/* A whole number. jansson's integers have 63 bits and a sign: what does not fit becomes a real.
 * null if it is NAN or infinite. */
json_t *json_whole(long double number);

void json_put_number(json_t *object, const char *key, uint64_t number);

/* A new object as `key` of the object. */
json_t *json_put_object(json_t *object, const char *key);

/* null if it is NAN or infinite. */
void json_put_real(json_t *object, const char *key, double value);

/* Puts several numbers; `keys` are words separated by spaces, one for each number that follows. */
#define json_put_numbers(object, keys, ...) \
    json_put_list(object, keys, JSON_NUMBERS(__VA_ARGS__), JSON_NUMBERS_COUNT(__VA_ARGS__))

/* Puts a new table as `key` of the object, with an array for each column; and adds a row to it. */
json_t *json_put_table(json_t *object, const char *key, const char *columns);
#define json_put_row(table, columns, ...) \
    json_put_list(table, columns, JSON_NUMBERS(__VA_ARGS__), JSON_NUMBERS_COUNT(__VA_ARGS__))

#define JSON_NUMBERS(...)       ((const uint64_t[]){__VA_ARGS__})
#define JSON_NUMBERS_COUNT(...) (sizeof(JSON_NUMBERS(__VA_ARGS__)) / sizeof(uint64_t))

/* Each number becomes the value of its key, or the last element if the key has an array. */
void json_put_list(json_t *object, const char *keys, const uint64_t *numbers, size_t count);

/* An array of numbers as `key` of the object. */
void json_put_array(json_t *object, const char *key, const uint64_t *numbers, size_t count);

/* A text as JSON, null for NULL. It is made printable (common/printable.h) if it is not: a path may
 * have any bytes, but JSON is UTF-8. */
json_t *json_text(const char *text);
void json_put_text(json_t *object, const char *key, const char *text);

/* `by_kind`: CALL_KINDS counts. Those of 0 are left out. */
void json_put_kinds(json_t *object, const char *key, const uint64_t *by_kind);

#endif
