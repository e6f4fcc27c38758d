/* change_text - what a change did: "846999 objects, 747000 of them (17.1 MiB) alive at the peak". */
#ifndef MALLOCTAPE_CHANGE_CHANGE_TEXT_H
#define MALLOCTAPE_CHANGE_CHANGE_TEXT_H

#include <jansson.h>

#include "change/change_stream.h"

void change_count_text(const struct change *change, const struct change_count *count, char *text,
                       size_t bytes);

/* A new list, an object for each change. */
json_t *change_result_json(const struct change_list *list, const struct change_result *result);

#endif
