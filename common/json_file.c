#include "common/json_file.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/call_table.h"
#include "common/output.h"
#include "common/printable.h"

enum { KEY_BYTES = 64 };

static int json_file_put(const char *text, size_t bytes, void *output)
{
    return output_write(output, text, bytes) ? 0 : -1;
}

bool json_file_write(const json_t *value, const char *path, struct error *error)
{
    struct output output;
    fflush(stdout); /* what stands before it there */
    bool opened = output_open(&output, path);
    bool dumped = opened && json_dump_callback(value, json_file_put, &output,
                                               JSON_INDENT(2) | JSON_ENSURE_ASCII |
                                                   JSON_REAL_PRECISION(12)) == 0;
    if (dumped) output_write(&output, "\n", 1);
    output.discards = !dumped;
    bool written = output_close(&output);
    if (dumped && written) return true;
    if (written) return error_set(error, &error_system, ERROR_NO_OFFSET, "no memory for the JSON");
    *error = output.error;
    return false;
}

json_t *json_report_read(const char *path, char *why, size_t why_bytes)
{
    json_error_t error;
    json_t *report = json_load_file(path, 0, &error);
    if (report == NULL) error_explain(why, why_bytes, "the report of replay: %s", error.text);
    return report;
}

json_t *json_whole(long double number)
{
    if (number >= -0x1p63L && number < 0x1p63L) return json_integer((json_int_t)number);
    json_t *real = json_real((double)number);
    return real != NULL ? real : json_null();
}

void json_put_number(json_t *object, const char *key, uint64_t number)
{
    json_object_set_new(object, key, json_whole(number));
}

json_t *json_put_object(json_t *object, const char *key)
{
    json_t *new = json_object();
    json_object_set_new(object, key, new);
    return new;
}

void json_put_real(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key, isfinite(value) ? json_real(value) : json_null());
}

/* Copies the next word to `key`, with a zero byte; false: there is none. */
static bool key_next(const char **words, char *key, size_t key_bytes)
{
    const size_t length = strcspn(*words, " ");
    if (length == 0) return false;
    snprintf(key, key_bytes, "%.*s", (int)length, *words);
    *words += length + ((*words)[length] != '\0');
    return true;
}

json_t *json_put_table(json_t *object, const char *key, const char *columns)
{
    json_t *table = json_object();
    char column[KEY_BYTES];
    json_object_set_new(object, key, table);
    while (key_next(&columns, column, sizeof column))
        json_object_set_new(table, column, json_array());
    return table;
}

void json_put_list(json_t *object, const char *keys, const uint64_t *numbers, size_t count)
{
    char key[KEY_BYTES];
    size_t at = 0;
    for (; at < count && key_next(&keys, key, sizeof key); at++) {
        json_t *number = json_whole(numbers[at]), *there = json_object_get(object, key);
        if (json_is_array(there))
            json_array_append_new(there, number);
        else
            json_object_set_new(object, key, number);
    }
    assert(at == count && *keys == '\0');
}

void json_put_array(json_t *object, const char *key, const uint64_t *numbers, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, json_whole(numbers[i]));
    json_object_set_new(object, key, array);
}

json_t *json_text(const char *text)
{
    json_t *string = json_string(text);
    if (string == NULL && text != NULL) {
        char *printable = printable_copy(text, strlen(text));
        string = json_string(printable);
        free(printable);
    }
    return string != NULL ? string : json_null();
}

void json_put_text(json_t *object, const char *key, const char *text)
{
    json_object_set_new(object, key, json_text(text));
}

void json_put_kinds(json_t *object, const char *key, const uint64_t *by_kind)
{
    json_t *kinds = json_object();
    for (unsigned kind = 0; kind < CALL_KINDS; kind++)
        if (by_kind[kind] > 0) json_put_number(kinds, call_names[kind], by_kind[kind]);
    json_object_set_new(object, key, kinds);
}
