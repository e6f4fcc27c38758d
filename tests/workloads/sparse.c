/* sparse WAY - a large object of which little is touched: 3 GiB, of which every 512th part has a page,
 * 2 MiB in all.
 *
 *   freed     by the thread that made it
 *   passed    by another one
 *   moved     realloc() makes it larger
 *   zeroed    it comes from calloc()
 *   kept      it is alive at the end
 *   waits     the same of an eighth, of which a look takes little, and the program waits to be killed
 *   often     20 000 of 1 MiB, one after another, each with one page
 *   again     of four sizes, freed and made again at one place, by threads in turns
 *   shared    threads make large objects where others have just shrunk or freed theirs
 *   even      100 of 256 KiB exactly, one after another, each with one page */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES ((size_t)3 << 30)
#define PARTS 512
#define SMALL 2000

static void touch(volatile char *object, size_t bytes)
{
    for (size_t i = 0; i < PARTS; i++)
        object[bytes / PARTS * i + 5000] = 1;
}

static void *free_it(void *object)
{
    free(object);
    return NULL;
}

static void free_elsewhere(void *object)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, free_it, object) != 0) exit(2);
    pthread_join(thread, NULL);
}

static void make_small(char **small)
{
    for (int i = 0; i < SMALL; i++) {
        small[i] = malloc(1000);
        memset(small[i], 1, 1000);
    }
}

static void make_often(void)
{
    for (int i = 0; i < 20000; i++) {
        volatile char *object = malloc((size_t)1 << 20);
        object[5000] = 1;
        free((void *)object);
    }
}

static void make_again(void)
{
    for (int i = 0; i < 400; i++) {
        const size_t bytes = (size_t)(i % 4 + 1) << 20;
        volatile char *object = malloc(bytes);
        for (size_t k = 0; k < bytes / 2; k += 4096)
            object[k] = 1;
        if (i % 3)
            free_elsewhere((void *)object);
        else
            free((void *)object);
    }
}

static void *share(void *unused)
{
    for (size_t i = 0; i < 1000; i++) {
        char *object = malloc(1000000 + i % 7 * 50000);
        if (object == NULL || (object = realloc(object, 270000 + i % 5 * 20000)) == NULL) exit(3);
        char *behind = malloc(270000 + i % 3 * 100000);
        free(object);
        free(behind);
    }
    return unused;
}

static void make_shared(void)
{
    pthread_t thread[4];
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 1 << 25);
    for (int i = 0; i < 4; i++)
        if (pthread_create(&thread[i], NULL, share, NULL) != 0) exit(2);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
}

static void make_even(void)
{
    for (int i = 0; i < 100; i++) {
        volatile char *object = malloc((size_t)1 << 18);
        object[5000] = 1;
        free((void *)object);
    }
}

static const struct {
    const char *way;
    void (*make)(void);
} many[] = {
    {"often", make_often}, {"again", make_again}, {"shared", make_shared}, {"even", make_even}};

int main(int argc, char **argv)
{
    static char *small[SMALL];
    const char *way = argc > 1 ? argv[1] : "";
    make_small(small);
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        if (!strcmp(way, many[i].way)) return many[i].make(), 0;
    const size_t bytes = !strcmp(way, "waits") ? BYTES / 8 : BYTES;
    char *object = !strcmp(way, "zeroed") ? calloc(1, bytes) : malloc(bytes);
    if (object == NULL) return 3;
    touch(object, bytes);
    if (!strcmp(way, "moved")) object = realloc(object, BYTES + BYTES / 4);
    if (object == NULL) return 3;
    if (!strcmp(way, "passed")) free_elsewhere(object);
    if (!strcmp(way, "waits")) {
        /* Long enough for a look. */
        for (int i = 0; i < 5; i++) {
            make_small(small);
            usleep(50000);
        }
        puts("ready");
        fflush(stdout);
        pause();
    }
    if (!strcmp(way, "freed") || !strcmp(way, "moved") || !strcmp(way, "zeroed")) free(object);
    return 0;
}
