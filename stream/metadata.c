#include "stream/metadata.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/printable.h"

const char *metadata_value(const char *metadata, size_t bytes, const char *key, size_t *value_bytes)
{
    const size_t key_bytes = strlen(key);
    const char *line = metadata;
    while (bytes > 0) {
        const char *newline = memchr(line, '\n', bytes);
        const size_t length = newline != NULL ? (size_t)(newline - line) : bytes;
        if (length > key_bytes && memcmp(line, key, key_bytes) == 0 && line[key_bytes] == '=') {
            *value_bytes = length - key_bytes - 1;
            return line + key_bytes + 1;
        }
        if (newline == NULL) break;
        bytes -= length + 1;
        line = newline + 1;
    }
    return NULL;
}

char *metadata_copy(const char *metadata, size_t bytes, const char *key)
{
    size_t value_bytes = 0;
    const char *value = metadata_value(metadata, bytes, key, &value_bytes);
    return printable_copy(value != NULL ? value : "", value_bytes);
}

unsigned long metadata_page_bytes(const char *metadata, size_t bytes)
{
    static const unsigned long least = 4096, most = 1 << 16;
    size_t value_bytes = 0;
    const char *value = metadata_value(metadata, bytes, "page.bytes", &value_bytes);
    unsigned long page = 0;
    for (size_t i = 0; value != NULL && i < value_bytes && page <= most; i++) {
        if (value[i] < '0' || value[i] > '9') return 0;
        page = page * 10 + (unsigned long)(value[i] - '0');
    }
    return page >= least && page <= most && (page & (page - 1)) == 0 ? page : 0;
}

static bool metadata_is_set(const char *metadata, size_t bytes, const char *key)
{
    size_t value_bytes = 0;
    const char *value = metadata_value(metadata, bytes, key, &value_bytes);
    return value != NULL && value_bytes == 1 && *value == '1';
}

bool metadata_is_attached(const char *metadata, size_t bytes)
{
    return metadata_is_set(metadata, bytes, "attached");
}

bool metadata_is_forked(const char *metadata, size_t bytes)
{
    return metadata_is_set(metadata, bytes, "forked");
}

double metadata_start_s(const char *metadata, size_t bytes)
{
    static const double most = 253402300799.0; /* the end of the year 9999 */
    char *text = metadata_copy(metadata, bytes, "start");
    const double seconds = text != NULL ? strtod(text, NULL) : 0;
    free(text);
    return seconds > 0 && seconds <= most ? seconds : 0;
}

double metadata_thin(const char *metadata, size_t bytes)
{
    static const double most = 1e12;
    size_t value_bytes = 0;
    char text[32]; /* a replay asks, whose calls of malloc are counted */
    const char *value = metadata_value(metadata, bytes, "thin", &value_bytes);
    snprintf(text, sizeof text, "%.*s", value != NULL ? (int)value_bytes : 0, value);
    const double thin = strtod(text, NULL);
    return thin >= 1 && thin <= most ? thin : 0;
}

void metadata_thin_text(double thin, char text[METADATA_THIN_TEXT])
{
    static const double told_from = 1.005; /* less is 1.00, when it is printed */
    const char *said = "cut --thin has left out short lives";
    if (thin >= told_from)
        snprintf(text, METADATA_THIN_TEXT, "%s, and all but one of %.*f other objects", said,
                 thin < 10 ? 2 : 1, thin);
    else
        snprintf(text, METADATA_THIN_TEXT, "%s%s", said, thin > 1 ? ", and a few others" : "");
}

/* ---- statistics ---- */

void statistics_split(struct statistics_names *statistics, char *text)
{
    char *rest;
    for (char *name = strtok_r(text, " ", &rest);
         name != NULL && statistics->count < ORIGINAL_STATISTICS_MAX;
         name = strtok_r(NULL, " ", &rest))
        statistics->names[statistics->count++] = name;
}

void statistics_take(struct statistics_names *statistics, const char *metadata, size_t bytes)
{
    statistics->text = metadata_copy(metadata, bytes, "statistics");
    if (statistics->text != NULL) statistics_split(statistics, statistics->text);
}

void statistics_free(struct statistics_names *statistics)
{
    free(statistics->text);
}

bool statistics_is_bytes(const char *name)
{
    const size_t length = strlen(name);
    return length > 6 && strcmp(name + length - 6, "_bytes") == 0;
}

bool statistics_is_of_process(const char *name)
{
    return strcmp(name, STATISTIC_RSS_SHARED) == 0 || strcmp(name, STATISTIC_VM_SIZE) == 0 ||
           strcmp(name, STATISTIC_NULL_FREES) == 0;
}

unsigned statistics_index(const char *metadata, size_t bytes, const char *name)
{
    size_t names_bytes = 0;
    const size_t name_bytes = strlen(name);
    const char *names = metadata_value(metadata, bytes, "statistics", &names_bytes);
    const char *end = names != NULL ? names + names_bytes : NULL;
    unsigned index = 0;
    for (const char *at = names; at < end && index < ORIGINAL_STATISTICS_MAX;) {
        const char *space = memchr(at, ' ', (size_t)(end - at));
        const char *name_end = space != NULL ? space : end;
        const size_t length = (size_t)(name_end - at);
        if (length == name_bytes && memcmp(at, name, length) == 0) return index;
        index += length > 0;
        at = space != NULL ? space + 1 : end;
    }
    return ORIGINAL_STATISTICS_MAX;
}

unsigned statistics_find(const struct statistics_names *statistics, const char *name)
{
    for (unsigned i = 0; i < statistics->count; i++)
        if (strcmp(statistics->names[i], name) == 0) return i;
    return ORIGINAL_STATISTICS_MAX;
}
