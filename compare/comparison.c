#include "compare/comparison.h"

#include <stdio.h>
#include <string.h>

const char *compare_row_name(const struct compare_row *row)
{
    const char *allocator = row->entry->allocator;
    return strncmp(allocator, "glibc:", 6) == 0 ? allocator : basename(allocator);
}

bool compare_is_missing_any(const struct compare *compare)
{
    for (size_t i = 0; i < compare->rows_count; i++)
        if (compare_row_is_missing(&compare->rows[i])) return true;
    return false;
}

const json_t *compare_any_report(const struct compare *compare)
{
    for (size_t i = 0; i < compare->rows_count; i++) {
        const struct compare_row *row = &compare->rows[i];
        if (*row->why == '\0' && !compare_row_is_nothing(row))
            return json_array_get(row->reports, 0);
    }
    return NULL;
}

/* The bytes of the first character of the text; 0: it is not UTF-8. */
static size_t utf8_bytes(const char *text)
{
    for (size_t bytes = 1; bytes <= strnlen(text, 4); bytes++) {
        json_t *string = json_stringn(text, bytes);
        json_decref(string);
        if (string != NULL) return bytes;
    }
    return 0;
}

/* Makes a name valid UTF-8, for JSON and pages: it may not be, or may end within a character. */
static void make_utf8(char *text)
{
    while (*text != '\0') {
        size_t bytes = utf8_bytes(text);
        if (bytes == 0) *text = '?';
        text += bytes > 0 ? bytes : 1;
    }
}

static void row_label(struct compare_row *row)
{
    size_t length = (size_t)snprintf(row->label, sizeof row->label, "%s", compare_row_name(row));
    for (size_t i = 0; i < row->entry->settings_count && length < sizeof row->label; i++)
        length += (size_t)snprintf(row->label + length, sizeof row->label - length, "%c%s=%s",
                                   i == 0 ? ':' : ';', row->entry->settings[i].name,
                                   row->entry->settings[i].value);
    if (row->changed != NULL && length < sizeof row->label)
        snprintf(row->label + length, sizeof row->label - length, ", %s", row->changed->list->text);
    make_utf8(row->label);
}

void compare_row_open(struct compare_row *row, const struct compare_entry *entry)
{
    compare_row_open_changed(row, entry, NULL);
}

void compare_row_open_changed(struct compare_row *row, const struct compare_entry *entry,
                              const struct compare_changed *changed)
{
    *row = (struct compare_row){
        .entry = entry, .changed = changed, .reports = json_array(), .timed = json_array()};
    row_label(row);
    if (!allocators_find(&row->found, entry->allocator))
        memcpy(row->why, row->found.why, sizeof row->found.why);
}

bool compare_is_whole(const struct compare *compare)
{
    const char *recording = json_string_value(json_object_get(compare->null_report, "recording"));
    const char *status = json_string_value(json_object_get(compare->null_report, "status"));
    return status != NULL && strcmp(status, "complete") == 0 &&
           (recording == NULL || strcmp(recording, "complete") == 0);
}
