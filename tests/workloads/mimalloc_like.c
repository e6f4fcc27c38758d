/* mimalloc_like - a library with glibc's malloc() that answers as a later mimalloc does: with
 * MIMALLOC_LIKE=3 as version 3, which has no segments, else as 2.2. Like that, it makes a system
 * call to say what it has committed: 4 MiB. */
#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>

void *__libc_malloc(size_t size);
void __libc_free(void *object);
void *__libc_realloc(void *object, size_t size);
void *__libc_calloc(size_t count, size_t size);

void *malloc(size_t size)
{
    return __libc_malloc(size);
}

void free(void *object)
{
    __libc_free(object);
}

void *realloc(void *object, size_t size)
{
    return __libc_realloc(object, size);
}

void *calloc(size_t count, size_t size)
{
    return __libc_calloc(count, size);
}

static int is_3(void)
{
    const char *like = getenv("MIMALLOC_LIKE");
    return like && *like == '3';
}

int mi_version(void);
int mi_version(void)
{
    return is_3() ? 315 : 224;
}

void mi_process_info(size_t *elapsed_ms, size_t *user_ms, size_t *system_ms, size_t *rss,
                     size_t *peak_rss, size_t *commit, size_t *peak_commit, size_t *faults);
void mi_process_info(size_t *elapsed_ms, size_t *user_ms, size_t *system_ms, size_t *rss,
                     size_t *peak_rss, size_t *commit, size_t *peak_commit, size_t *faults)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    *elapsed_ms = *user_ms = *system_ms = *rss = *peak_rss = *faults = 0;
    *commit = *peak_commit = 4 << 20;
}

void mi_stats_print_out(void (*line)(const char *text, void *of), void *of);
void mi_stats_print_out(void (*line)(const char *text, void *of), void *of)
{
    line("heap stats:       peak       total     current       block      total#   \n", of);
    if (is_3())
        line("     pages:         4           9           2    not all freed\n", of);
    else
        line("  segments:         4           9           2    not all freed\n", of);
    line("-abandoned:         3           3           1    not all freed\n", of);
    line("-abandoned:        40          50          60    not all freed\n", of);
}
