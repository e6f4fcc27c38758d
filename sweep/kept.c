#include "sweep/kept.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

/* Adds a line without its newline, and takes ownership of it. False: no memory. */
static bool kept_take_line(struct kept *kept, char *text)
{
    struct kept_group group = {.text = text};
    size_t room = 0;
    char *next = text, *word = strsep(&next, "\t");
    group.key = (uint32_t)strtoul(word, NULL, 16);
    group.id = strsep(&next, "\t");
    bool good = group.id != NULL &&
                array_reserve(&kept->groups, &kept->room, kept->count + 1, sizeof group);
    while (good && (word = strsep(&next, "\t")) != NULL) {
        good = array_reserve(&group.entries, &room, group.entries_count + 1, sizeof word);
        if (good) group.entries[group.entries_count++] = word;
    }
    if (good) {
        kept->groups[kept->count++] = group;
        return true;
    }
    good = group.id == NULL; /* no line of ours */
    free(group.entries);
    free(text);
    return good;
}

bool kept_read(struct kept *kept, const char *path)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t bytes = 0;
    ssize_t length;
    bool good = true;
    *kept = (struct kept){0};
    while (good && file != NULL && (length = getline(&line, &bytes, file)) > 0) {
        if (line[length - 1] == '\n') line[length - 1] = '\0';
        good = kept_take_line(kept, line);
        line = NULL;
        bytes = 0;
    }
    free(line);
    if (file != NULL) fclose(file);
    kept->read = kept->count;
    return good;
}

void kept_free(struct kept *kept)
{
    for (size_t i = 0; i < kept->count; i++) {
        free(kept->groups[i].text);
        free(kept->groups[i].entries);
    }
    free(kept->groups);
    *kept = (struct kept){0};
}

bool kept_add(struct kept *kept, uint32_t key, const char *id, const struct plan_row *row,
              const size_t *entries, size_t count)
{
    char *text = NULL;
    size_t bytes;
    for (size_t i = 0; i < kept->count; i++)
        if (strcmp(kept->groups[i].id, id) == 0) return true;
    FILE *to = open_memstream(&text, &bytes);
    if (to == NULL) return false;
    fprintf(to, "%08x\t%s", key, id);
    bool good = true;
    for (size_t i = 0; i < count; i++) {
        char *entry = plan_entry_text(&row->list.entries[entries[i]]);
        good = good && entry != NULL;
        fprintf(to, "\t%s", entry != NULL ? entry : "");
        free(entry);
    }
    good = fclose(to) == 0 && good;
    if (good) return kept_take_line(kept, text);
    free(text);
    return false;
}

bool kept_write(struct kept *kept, const char *path)
{
    FILE *file = fopen(path, "ae");
    for (; file != NULL && kept->read < kept->count; kept->read++) {
        const struct kept_group *group = &kept->groups[kept->read];
        fprintf(file, "%08x\t%s", group->key, group->id);
        for (size_t i = 0; i < group->entries_count; i++)
            fprintf(file, "\t%s", group->entries[i]);
        fputc('\n', file);
    }
    return file != NULL && fclose(file) == 0;
}

/* The index of the entry with this text; the row's count: there is none. */
static size_t kept_index_of(const struct plan_row *row, const char *text)
{
    size_t at = 0;
    for (; at < row->list.count; at++) {
        char *entry = plan_entry_text(&row->list.entries[at]);
        const bool found = entry != NULL && strcmp(entry, text) == 0;
        free(entry);
        if (found) break;
    }
    return at;
}

size_t *kept_indexes(const struct kept_group *group, const struct plan_row *row, const bool *taken)
{
    size_t *indexes = calloc(group->entries_count + 1, sizeof *indexes);
    bool good = indexes != NULL;
    for (size_t i = 0; good && i < group->entries_count; i++) {
        indexes[i] = kept_index_of(row, group->entries[i]);
        good = indexes[i] < row->list.count && !taken[indexes[i]];
    }
    if (good) return indexes;
    free(indexes);
    return NULL;
}

bool kept_has_recorded(const char *result)
{
    json_t *json = json_load_file(result, 0, NULL), *entry;
    size_t at;
    bool has = false;
    json_array_foreach(json_object_get(json, "allocators"), at, entry) has =
        has || json_is_true(json_object_get(entry, "recorded"));
    json_decref(json);
    return has;
}
