/* array - arrays of the offline tools, which grow by doubling. From malloc(). */
#ifndef MALLOCTAPE_ARRAY_H
#define MALLOCTAPE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { ARRAY_ROOM_LEAST = 16 };

/* Makes room for `count` entries of `entry_bytes` each in an array. `at` points to the pointer to
 * it; *room is its size in entries. New entries are zero. False: no memory, and nothing has
 * changed. */
static inline bool array_reserve(void *at, size_t *room, size_t count, size_t entry_bytes)
{
    size_t larger = *room < ARRAY_ROOM_LEAST ? ARRAY_ROOM_LEAST : *room;
    void *array;
    if (count <= *room) return true;
    while (larger < count)
        larger *= 2;
    memcpy(&array, at, sizeof array);
    array = realloc(array, larger * entry_bytes);
    if (array == NULL) return false;
    memset((char *)array + *room * entry_bytes, 0, (larger - *room) * entry_bytes);
    memcpy(at, &array, sizeof array);
    *room = larger;
    return true;
}

#endif
