/* fragments - fragments its heap: of many objects of 64 bytes, it keeps every 64th, and then makes
 * others that do not fit between them.
 *
 *   fragments KEPT */
#include <stdlib.h>
#include <string.h>

enum { EVERY = 64, SIZE = 64, OTHERS = 100, OTHERS_SIZE = 40000 };

int main(int count, char **words)
{
    const size_t kept = count > 1 ? strtoul(words[1], NULL, 10) : 100;
    void **objects = malloc(kept * EVERY * sizeof *objects);
    if (objects == NULL) return 1;
    for (size_t i = 0; i < kept * EVERY; i++) {
        objects[i] = malloc(SIZE);
        if (objects[i] == NULL) return 1;
        memset(objects[i], 1, SIZE);
    }
    for (size_t i = 0; i < kept * EVERY; i++)
        if (i % EVERY != 0) free(objects[i]);
    for (size_t i = 0; i < OTHERS; i++) {
        void *other = malloc(OTHERS_SIZE);
        if (other == NULL) return 1;
        memset(other, 1, OTHERS_SIZE);
    }
    return 0;
}
