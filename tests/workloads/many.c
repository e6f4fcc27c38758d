/* many - very many small objects that live at the same time.
 *
 *   many OBJECTS
 *
 * Allocates OBJECTS objects of 16 bytes, each of which points to the one before, and then frees
 * them, the latest first. Exactly so many allocations and frees. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct object {
    struct object *before;
    uint64_t unused;
};

int main(int count, char **words)
{
    struct object *latest = NULL;
    if (count != 2) {
        fputs("usage: many OBJECTS\n", stderr);
        return 2;
    }
    for (uint64_t left = strtoull(words[1], NULL, 10); left > 0; left--) {
        struct object *object = malloc(sizeof *object);
        if (!object) {
            fputs("many: out of memory\n", stderr);
            return 1;
        }
        object->before = latest;
        latest = object;
    }
    while (latest) {
        struct object *before = latest->before;
        free(latest);
        latest = before;
    }
    return 0;
}
