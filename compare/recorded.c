#include "compare/recorded.h"

#include <stdlib.h>
#include <string.h>

#include "compare/compare.h"

/* Whether the row has the allocator with this name, as the recording had it. */
static bool is_recorded(const struct compare_row *row, const char *name, json_t *settings)
{
    const struct compare_entry *entry = row->entry;
    if (row->found.known == NULL || strcmp(row->found.known->name, name) != 0 ||
        entry->settings_count != json_object_size(settings))
        return false;
    for (size_t i = 0; i < entry->settings_count; i++) {
        const char *value = json_string_value(json_object_get(settings, entry->settings[i].name));
        if (value == NULL || strcmp(value, entry->settings[i].value) != 0) return false;
    }
    return true;
}

/* Its texts are those of the facts. */
static bool entry_make(struct compare_entry *entry, const char *name, json_t *settings)
{
    const char *key;
    json_t *value;
    *entry = (struct compare_entry){.allocator = (char *)name};
    entry->settings = calloc(json_object_size(settings) + 1, sizeof *entry->settings);
    if (entry->settings == NULL) return false;
    json_object_foreach(settings, key, value)
    {
        if (!json_is_string(value)) continue;
        entry->settings[entry->settings_count++] =
            (struct compare_setting){(char *)key, (char *)json_string_value(value)};
    }
    return true;
}

bool compare_recorded_find(struct compare *compare)
{
    const json_t *allocator = json_object_get(compare->facts, "recorded_allocator");
    json_t *settings = json_object_get(compare->facts, "recorded_settings");
    const char *name = allocators_name_recorded(json_string_value(allocator));
    if (name == NULL) return true;
    for (size_t i = 0; i < compare->rows_count; i++)
        if (is_recorded(&compare->rows[i], name, settings)) {
            compare->recorded = &compare->rows[i];
            return true;
        }
    if (!entry_make(&compare->recorded_entry, name, settings)) return false;
    struct compare_row *row = &compare->rows[compare->rows_count];
    compare_row_open(row, &compare->recorded_entry);
    compare->rows_count++;
    compare->recorded_is_added = true;
    compare->recorded = row;
    return true;
}

void compare_recorded_hide(struct compare *compare)
{
    if (!compare->recorded_is_added || *compare->recorded->why == '\0') return;
    compare->rows_count--;
    compare->rows_hidden = 1;
}

void compare_recorded_close(struct compare *compare)
{
    free(compare->recorded_entry.settings);
}
