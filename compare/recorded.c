#include "compare/recorded.h"

#include <stdlib.h>
#include <string.h>

/* Whether the row has the recorded allocator with exactly the recorded settings. A row's settings
 * come from the user, so all of the recording's count, even those that replays ignore. */
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

static bool settings_take(struct recorded_settings *settings, json_t *recorded)
{
    const char *key;
    json_t *value;
    json_object_foreach(recorded, key, value)
    {
        if (!json_is_string(value)) continue;
        if (!recorded_settings_add(settings, key, json_string_value(value))) return false;
    }
    return true;
}

/* The entry refers to the texts of `settings`. */
static bool recorded_entry_make(struct compare_entry *entry, const char *name,
                                const struct recorded_settings *settings)
{
    *entry = (struct compare_entry){.allocator = (char *)name, .settings_count = settings->count};
    entry->settings = calloc(settings->count + 1, sizeof *entry->settings);
    for (size_t i = 0; entry->settings != NULL && i < settings->count; i++)
        entry->settings[i] =
            (struct compare_setting){settings->set[i].name, settings->set[i].value};
    return entry->settings != NULL;
}

bool compare_recorded_find(struct compare *compare)
{
    const json_t *allocator = json_object_get(compare->null_report, "recorded_allocator");
    json_t *recorded = json_object_get(compare->null_report, "recorded_settings");
    struct recorded_settings *settings = &compare->recorded_settings;
    const char *name = allocators_name_recorded(json_string_value(allocator));
    if (!settings_take(settings, recorded)) return false;
    if (name == NULL) return true;
    for (size_t i = 0; i < compare->rows_count; i++)
        if (is_recorded(&compare->rows[i], name, recorded)) {
            compare->recorded = &compare->rows[i];
            return true;
        }
    if (!recorded_entry_make(&compare->recorded_entry, name, settings)) return false;
    struct compare_row *row = &compare->rows[compare->rows_count];
    compare_row_open(row, &compare->recorded_entry);
    compare->rows_count++;
    compare->recorded_is_added = true;
    compare->recorded = row;
    return true;
}

void compare_recorded_hide(struct compare *compare)
{
    const struct compare_row *recorded = compare->recorded;
    if (!compare->recorded_is_added || compare->options.what_ifs_count > 0 ||
        *recorded->why == '\0' || compare_row_is_missing(recorded))
        return;
    compare->rows_count--;
    compare->rows_hidden = 1;
}

void compare_recorded_close(struct compare *compare)
{
    free(compare->recorded_entry.settings);
    recorded_settings_free(&compare->recorded_settings);
}
