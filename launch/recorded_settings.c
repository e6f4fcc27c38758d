#include "launch/recorded_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/known.h"
#include "common/printable.h"

/* Of what is ignored, so much is shown. */
enum { IGNORED_BYTES_MAX = 240 };

/* ---- what may be set ---- */

/* Whether the word is in a list of words, each between spaces. */
static bool is_listed(const char *list, const char *word, size_t bytes)
{
    if (bytes == 0 || memchr(word, ' ', bytes) != NULL) return false;
    for (const char *at = list; (at = strchr(at, ' ')) != NULL && at[1] != '\0'; at++)
        if (strncmp(at + 1, word, bytes) == 0 && at[1 + bytes] == ' ') return true;
    return false;
}

/* Whether some allocator has a variable of that name that holds one number or switch. */
static bool holds_number(const char *name)
{
    for (unsigned i = 0; i < ALLOCATORS; i++)
        if (allocator_facts[i]->numbers != NULL &&
            is_listed(allocator_facts[i]->numbers, name, strlen(name)))
            return true;
    return false;
}

/* NULL: no allocator has one of that name with several settings. */
static const struct allocator_variable *variable_with_several(const char *name)
{
    enum { VARIABLES = sizeof allocator_facts[0]->several / sizeof *allocator_facts[0]->several };
    for (unsigned i = 0; i < ALLOCATORS * VARIABLES; i++) {
        const struct allocator_variable *one =
            &allocator_facts[i / VARIABLES]->several[i % VARIABLES];
        if (one->name != NULL && strcmp(one->name, name) == 0) return one;
    }
    return NULL;
}

/* Whether a value is a number or a word, or, as for jemalloc's bin_shards, ranges of them. */
static bool recorded_settings_is_plain(const char *value, size_t bytes)
{
    static const char characters[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.:|+-";
    size_t at = 0;
    while (at < bytes && value[at] != '\0' && strchr(characters, value[at]) != NULL)
        at++;
    return bytes > 0 && at == bytes;
}

static bool is_allowed_part(const struct allocator_variable *several, const char *part,
                            size_t bytes)
{
    const char *assigns = memchr(part, several->assigns, bytes);
    if (assigns == NULL) return false;
    const size_t key = (size_t)(assigns - part);
    return is_listed(several->keys, part, key) &&
           recorded_settings_is_plain(assigns + 1, bytes - key - 1);
}

static void append(char *to, const char *part, size_t bytes, char separates)
{
    const size_t used = strlen(to);
    if (used > 0) to[used] = separates;
    memcpy(to + used + (used > 0), part, bytes);
    to[used + (used > 0) + bytes] = '\0';
}

/* Splits the value into settings that are allowed and those that are not; either may become empty.
 * Both buffers have room for all of it. */
static void divide(const char *name, const char *value, char *allowed, char *refused)
{
    const struct allocator_variable *several = variable_with_several(name);
    *allowed = *refused = '\0';
    if (several == NULL) {
        const bool fits = holds_number(name) && recorded_settings_is_plain(value, strlen(value));
        strcpy(fits ? allowed : refused, value);
        return;
    }
    for (const char *part = value; *part != '\0';) {
        const size_t bytes = strcspn(part, (char[]){several->separates, '\0'});
        if (bytes > 0)
            append(is_allowed_part(several, part, bytes) ? allowed : refused, part, bytes,
                   several->separates);
        part += bytes + (part[bytes] != '\0');
    }
}

/* ---- all of them ---- */

static bool recorded_settings_set(struct recorded_settings *settings, const char *name,
                                  const char *value)
{
    struct recorded_setting *grown =
        realloc(settings->set, (settings->count + 1) * sizeof *settings->set);
    if (grown == NULL) return false;
    settings->set = grown;
    grown[settings->count] = (struct recorded_setting){strdup(name), strdup(value)};
    const struct recorded_setting *new = &grown[settings->count++];
    return new->name != NULL &&new->value != NULL;
}

static bool ignore(struct recorded_settings *settings, const char *name, const char *value)
{
    const char *before = settings->ignored != NULL ? settings->ignored : "";
    char *text = NULL;
    if (strlen(before) >= IGNORED_BYTES_MAX) return true;
    if (asprintf(&text, "%s=%s", name, value) < 0) return false;
    char *printable = printable_copy(text, strlen(text));
    free(text);
    text = NULL;
    if (printable == NULL) return false;
    size_t shown = strlen(printable);
    const bool cut = shown > IGNORED_BYTES_MAX - strlen(before);
    if (cut) shown = IGNORED_BYTES_MAX - strlen(before);
    while (cut && ((unsigned char)printable[shown] & 0xc0) == 0x80)
        shown--; /* not within a character */
    bool good = asprintf(&text, "%s%s%.*s%s", before, *before != '\0' ? ", " : "", (int)shown,
                         printable, cut ? "..." : "") >= 0;
    free(printable);
    if (!good) return false;
    free(settings->ignored);
    settings->ignored = text;
    return true;
}

bool recorded_settings_add(struct recorded_settings *settings, const char *name, const char *value)
{
    const size_t bytes = strlen(value) + 1;
    char *allowed = malloc(2 * bytes), *refused = allowed + bytes;
    if (allowed == NULL) return false;
    divide(name, value, allowed, refused);
    bool good = *allowed == '\0' || recorded_settings_set(settings, name, allowed);
    if (*refused != '\0' || *allowed == '\0') good = ignore(settings, name, refused) && good;
    free(allowed);
    return good;
}

bool recorded_settings_take(struct recorded_settings *settings, const char *metadata)
{
    static const char before[] = "env.";
    char *text = strdup(metadata), *rest = text;
    bool good = text != NULL;
    for (char *line; good && (line = strsep(&rest, "\n")) != NULL;) {
        char *equals = strchr(line, '=');
        if (equals == NULL || strncmp(line, before, sizeof before - 1) != 0) continue;
        *equals = '\0';
        good = recorded_settings_add(settings, line + sizeof before - 1, equals + 1);
    }
    free(text);
    return good;
}

void recorded_settings_free(struct recorded_settings *settings)
{
    for (size_t i = 0; i < settings->count; i++) {
        free(settings->set[i].name);
        free(settings->set[i].value);
    }
    free(settings->set);
    free(settings->ignored);
    *settings = (struct recorded_settings){0};
}
