#include "compare/list.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

struct parser {
    const char *next;
    char *why;
    size_t why_bytes;
};

/* Takes the characters before one of `ends`, or up to the end of the text, as a new string. NULL:
 * see parser->why. */
static char *take_word(struct parser *parser, const char *ends)
{
    char *word = malloc(strlen(parser->next) + 1);
    size_t length = 0;
    if (word == NULL) {
        error_explain(parser->why, parser->why_bytes, "no memory");
        return NULL;
    }
    while (*parser->next != '\0' && strchr(ends, *parser->next) == NULL) {
        if (*parser->next == '\\' && *++parser->next == '\0') {
            error_explain(parser->why, parser->why_bytes, "nothing follows the last backslash");
            free(word);
            return NULL;
        }
        word[length++] = *parser->next++;
    }
    word[length] = '\0';
    return word;
}

static bool is_variable_name(const char *name)
{
    if (!isalpha((unsigned char)*name) && *name != '_') return false;
    while (isalnum((unsigned char)*name) || *name == '_')
        name++;
    return *name == '\0';
}

static bool parse_setting(struct parser *parser, struct compare_entry *entry)
{
    struct compare_setting *grown =
        realloc(entry->settings, (entry->settings_count + 1) * sizeof *grown);
    if (grown == NULL) return error_explain(parser->why, parser->why_bytes, "no memory");
    entry->settings = grown;
    struct compare_setting *setting = &grown[entry->settings_count++];
    *setting = (struct compare_setting){.name = take_word(parser, "=;,")};
    if (setting->name == NULL) return false;
    if (!is_variable_name(setting->name))
        return error_explain(parser->why, parser->why_bytes,
                             "%s: '%s' is not the name of a variable", entry->allocator,
                             setting->name);
    if (strcmp(setting->name, "LD_PRELOAD") == 0)
        return error_explain(parser->why, parser->why_bytes,
                             "%s: LD_PRELOAD cannot be set; name the library as the allocator",
                             entry->allocator);
    if (*parser->next != '=')
        return error_explain(parser->why, parser->why_bytes, "%s: %s has no value",
                             entry->allocator, setting->name);
    parser->next++;
    setting->value = take_word(parser, ";,");
    return setting->value != NULL;
}

/* glibc:/DIR/libc.so.6 is one name. */
static bool parse_path(struct parser *parser, struct compare_entry *entry)
{
    parser->next++;
    char *path = take_word(parser, ":,");
    if (path == NULL) return false;
    const size_t bytes = strlen(entry->allocator) + 1 + strlen(path) + 1;
    char *name = malloc(bytes);
    if (name != NULL) snprintf(name, bytes, "%s:%s", entry->allocator, path);
    free(path);
    if (name == NULL) return error_explain(parser->why, parser->why_bytes, "no memory");
    free(entry->allocator);
    entry->allocator = name;
    return true;
}

static bool parse_entry(struct parser *parser, struct compare_entry *entry)
{
    entry->allocator = take_word(parser, ":,");
    if (entry->allocator == NULL) return false;
    const bool has_path = parser->next[0] == ':' && strchr("/.", parser->next[1]) != NULL &&
                          parser->next[1] != '\0' && strcmp(entry->allocator, "glibc") == 0;
    if (has_path && !parse_path(parser, entry)) return false;
    if (*entry->allocator == '\0')
        return error_explain(parser->why, parser->why_bytes, "an allocator without a name");
    if (*parser->next != ':') return true;
    do {
        parser->next++;
        if (!parse_setting(parser, entry)) return false;
    } while (*parser->next == ';');
    return true;
}

bool compare_list_add(struct compare_list *list, const char *text, char *why, size_t why_bytes)
{
    struct parser parser = {text, why, why_bytes};
    for (;;) {
        struct compare_entry *grown = realloc(list->entries, (list->count + 1) * sizeof *grown);
        if (grown == NULL) return error_explain(why, why_bytes, "no memory");
        list->entries = grown;
        grown[list->count] = (struct compare_entry){0};
        if (!parse_entry(&parser, &grown[list->count++])) return false;
        if (*parser.next == '\0') return true;
        parser.next++;
    }
}

static bool entry_set(struct compare_entry *entry, const char *name, const char *value)
{
    struct compare_setting *setting = &entry->settings[entry->settings_count];
    *setting = (struct compare_setting){strdup(name), strdup(value)};
    entry->settings_count++;
    return setting->name != NULL && setting->value != NULL;
}

bool compare_list_vary(struct compare_list *list, size_t index, const char *name, const char *value)
{
    struct compare_entry *grown = realloc(list->entries, (list->count + 1) * sizeof *grown);
    if (grown == NULL) return false;
    list->entries = grown;
    const struct compare_entry *from = &grown[index];
    struct compare_entry *entry = &grown[list->count++];
    *entry = (struct compare_entry){.allocator = strdup(from->allocator),
                                    .settings =
                                        calloc(from->settings_count + 1, sizeof *from->settings)};
    if (entry->allocator == NULL || entry->settings == NULL) return false;
    for (size_t i = 0; i < from->settings_count; i++)
        if (!entry_set(entry, from->settings[i].name, from->settings[i].value)) return false;
    return entry_set(entry, name, value);
}

static void entry_free(struct compare_entry *entry)
{
    for (size_t at = 0; at < entry->settings_count; at++) {
        free(entry->settings[at].name);
        free(entry->settings[at].value);
    }
    free(entry->settings);
    free(entry->allocator);
}

void compare_list_drop(struct compare_list *list, size_t index)
{
    entry_free(&list->entries[index]);
    list->count--;
    memmove(&list->entries[index], &list->entries[index + 1],
            (list->count - index) * sizeof *list->entries);
}

void compare_list_free(struct compare_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        entry_free(&list->entries[i]);
    free(list->entries);
    *list = (struct compare_list){0};
}
