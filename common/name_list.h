/* name_list - names with commas between them, as an option has them. */
#ifndef MALLOCTAPE_NAME_LIST_H
#define MALLOCTAPE_NAME_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Whether a list, or NULL, has this name. */
static inline bool name_list_has(const char *list, const char *name)
{
    const size_t bytes = strlen(name);
    for (size_t length; list != NULL && *list != '\0'; list += length + (list[length] == ',')) {
        length = strcspn(list, ",");
        if (length == bytes && memcmp(list, name, bytes) == 0) return true;
    }
    return false;
}

#endif
