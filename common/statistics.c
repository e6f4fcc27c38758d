#include "common/statistics.h"

#include <stdlib.h>
#include <string.h>

#include "common/metadata.h"

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
