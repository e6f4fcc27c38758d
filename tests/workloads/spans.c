/* spans - calls of which is known what the page heap of tcmalloc does with its spans.
 *
 *   spans   without memory given back by itself (TCMALLOC_RELEASE_RATE=0). Prints the bytes of a
 *           PIECE. Ends with status 77 without tcmalloc */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/workloads/allocate.h"

/* A piece has more pages than any span that nobody wants has before the first one is made, and all
 * pieces fit into what is freed first. */
enum { PIECES = 4, PIECE = 200 * 8192, ALL = 6 * PIECE };

int main(void)
{
    void (*release_free_memory)(void);
    *(void **)&release_free_memory = dlsym(RTLD_DEFAULT, "MallocExtension_ReleaseFreeMemory");
    if (!release_free_memory) return 77;
    printf("%d\n", PIECE);
    fflush(stdout);
    free(malloc(ALL));
    void *pieces[PIECES];
    for (int i = 0; i < PIECES; i++)
        pieces[i] = malloc(PIECE); /* split off */
    for (int i = 1; i < PIECES; i++)
        free(pieces[i]);     /* beside no free span, one, two */
    free(malloc(3 * PIECE)); /* what they were: split off, merged with the rest */
    release_free_memory();
    free(malloc(PIECE)); /* used again; not merged with what is given back */
    free(malloc(PIECE)); /* as it is */
    return 0;
}
