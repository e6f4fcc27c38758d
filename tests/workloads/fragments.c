/* fragments - fragments its heap: of many objects of 64 bytes, it keeps every 64th, and then makes
 * others that do not fit between them.
 *
 *   fragments KEPT [freed]   freed: it then maps 64 MiB for a while, and frees those that it kept */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { EVERY = 64, SIZE = 64, OTHERS = 100, OTHERS_SIZE = 40000 };

static void map_for_a_while(void)
{
    enum { BYTES = 64 << 20 };
    char *mapped = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) exit(1);
    memset(mapped, 1, BYTES);
    usleep(100000);
    munmap(mapped, BYTES);
}

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
    if (count > 2) {
        map_for_a_while();
        for (size_t i = 0; i < kept; i++)
            free(objects[i * EVERY]);
    }
    return 0;
}
