/* maps FILE SEED MOMENTS [kill|reserves|files] - threads that map, remap and unmap at random, some of it what others
 * have mapped, some of it in vain.
 *
 * At MOMENTS random moments they hold still, and FILE gets a line with what /proc/self/maps says of
 * their mappings: these alone can be read, written and executed. The moment is marked in a recording
 * by a call that fails: madvise() of the address 1, whose length is the number of the moment. `kill`:
 * then the process is killed while the threads go on.
 *
 * `reserves`: each thread reserves much without access, as allocators and runtimes do, and maps parts
 * of that over it, with and without access. `files`: private mappings of a file, from any of its pages
 * on, beside memory without one; the file is cut, and grows, meanwhile. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { THREADS = 4, PAGE = 4096, SHARED = 64, OWN = 16, PAGES_MAX = 32 };
enum { RWX = PROT_READ | PROT_WRITE | PROT_EXEC };

struct range {
    char *start;
    size_t pages;
};

static pthread_rwlock_t holds_still = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static atomic_bool ends;
static struct range shared[SHARED];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t seed;

static unsigned below(uint64_t *state, unsigned limit)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)((*state >> 33) % limit);
}

static struct range map(size_t pages, void *at, int flags)
{
    void *made = mmap(at, pages * PAGE, RWX, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (made == MAP_FAILED) return (struct range){0};
    if (flags == 0) *(char *)made = 1;
    return (struct range){made, pages};
}

static void unmap(const struct range *range, size_t first, size_t pages)
{
    if (munmap(range->start + first * PAGE, pages * PAGE) != 0) abort();
}

/* Gives up a part at one of the ends, or in the middle. What lies behind a hole goes to nobody. */
static void cut(struct range *range, uint64_t *state)
{
    if (range->pages < 3) return;
    const size_t first = below(state, 2) ? 0 : 1 + below(state, (unsigned)range->pages - 2);
    const size_t pages =
        first ? range->pages - first : 1 + below(state, (unsigned)range->pages - 1);
    if (first && pages > 1 && below(state, 2)) {
        unmap(range, first, 1);
        unmap(range, first + 1, pages - 1);
    } else {
        unmap(range, first, pages);
    }
    if (!first) range->start += pages * PAGE;
    range->pages -= pages;
}

/* Moves it, makes it grow where it is, which may fail, or moves it onto new pages. */
static void move(struct range *range, uint64_t *state)
{
    const size_t pages = 1 + below(state, PAGES_MAX);
    const unsigned how = below(state, 3);
    void *made;
    if (how == 2) {
        const struct range to = map(pages, NULL, 0);
        if (!to.pages) return;
        made = mremap(range->start, range->pages * PAGE, pages * PAGE,
                      MREMAP_MAYMOVE | MREMAP_FIXED, to.start);
    } else {
        made = mremap(range->start, range->pages * PAGE, pages * PAGE, how ? MREMAP_MAYMOVE : 0);
    }
    if (made != MAP_FAILED) *range = (struct range){made, pages};
}

/* Changes hands with a range that any thread has put there. */
static void exchange(struct range *range, uint64_t *state)
{
    struct range *other = &shared[below(state, SHARED)], kept = *range;
    pthread_mutex_lock(&shared_lock);
    *range = *other;
    *other = kept;
    pthread_mutex_unlock(&shared_lock);
}

static void step(struct range *range, uint64_t *state)
{
    const unsigned what = below(state, 8);
    if (!range->pages) {
        *range = map(1 + below(state, PAGES_MAX), NULL, 0);
    } else if (what < 2) {
        unmap(range, 0, range->pages);
        *range = (struct range){0};
    } else if (what == 2) {
        cut(range, state);
    } else if (what == 3) {
        move(range, state);
    } else if (what == 4) {
        map(1 + below(state, (unsigned)range->pages), range->start, MAP_FIXED);
    } else if (what == 5) {
        munmap((char *)1 + PAGE, PAGE);
    } else {
        exchange(range, state);
    }
}

/* ---- reserves ---- */

enum { RESERVED = 512 };

static void step_reserved(struct range *range, uint64_t *state)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    const unsigned what = below(state, 16);
    if (!range->pages) {
        range->start = mmap(NULL, RESERVED * PAGE, PROT_NONE, flags, -1, 0);
        if (range->start == MAP_FAILED) abort();
        range->pages = RESERVED;
        return;
    }
    const size_t first = below(state, RESERVED), most = RESERVED - first;
    const size_t pages = 1 + below(state, (unsigned)(most < PAGES_MAX ? most : PAGES_MAX));
    char *at = range->start + first * PAGE;
    if (what == 0) {
        unmap(range, 0, RESERVED);
        *range = (struct range){0};
    } else if (what < 8) {
        if (mmap(at, pages * PAGE, RWX, flags | MAP_FIXED, -1, 0) != at) abort();
        *at = 1;
    } else if (what < 14) {
        if (mmap(at, pages * PAGE, PROT_NONE, flags | MAP_FIXED, -1, 0) != at) abort();
    } else {
        madvise(at, pages * PAGE, MADV_DONTNEED);
    }
}

/* ---- files ---- */

static int mapped_file = -1;

static void step_file(struct range *range, uint64_t *state)
{
    if (range->pages || below(state, 3) == 0) {
        if (below(state, 16) == 0 && ftruncate(mapped_file, PAGE * (1 + below(state, 64))) != 0)
            abort();
        step(range, state);
        return;
    }
    const size_t pages = 1 + below(state, PAGES_MAX);
    void *made =
        mmap(NULL, pages * PAGE, RWX, MAP_PRIVATE, mapped_file, PAGE * (off_t)below(state, 64));
    if (made != MAP_FAILED) *range = (struct range){made, pages};
}

static void (*step_of_mode)(struct range *range, uint64_t *state) = step;

static void *run(void *number)
{
    struct range own[OWN] = {{0}};
    uint64_t state = seed * 31 + (uint64_t)(uintptr_t)number;
    while (!ends) {
        pthread_rwlock_rdlock(&holds_still);
        for (unsigned i = 0; i < 20; i++)
            step_of_mode(&own[below(&state, OWN)], &state);
        pthread_rwlock_unlock(&holds_still);
        free(malloc(below(&state, 5000)));
    }
    return NULL;
}

/* Writes the areas "rwxp" of /proc/self/maps: START-END for each. */
static void tell(FILE *file, unsigned moment)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096], area[64];
    fprintf(file, "%u", moment);
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%60s", area) == 1 && strstr(line, " rwxp ")) fprintf(file, " %s", area);
    fputc('\n', file);
    fclose(maps);
    fflush(file);
    if (madvise((void *)1, moment, MADV_NORMAL) == 0) abort();
}

int main(int count, char **words)
{
    pthread_t threads[THREADS];
    FILE *file = count > 3 ? fopen(words[1], "w") : NULL;
    const char *mode = count > 4 ? words[4] : "";
    if (!file) return 2;
    if (strcmp(mode, "reserves") == 0) step_of_mode = step_reserved;
    if (strcmp(mode, "files") == 0) {
        FILE *temporary = tmpfile();
        if (!temporary) return 2;
        mapped_file = fileno(temporary);
        step_of_mode = step_file;
    }
    seed = strtoull(words[2], NULL, 10);
    const unsigned moments = (unsigned)strtoul(words[3], NULL, 10);
    uint64_t state = seed;
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, (void *)(i + 1));
    for (unsigned moment = 1; moment <= moments; moment++) {
        usleep(below(&state, 4000));
        pthread_rwlock_wrlock(&holds_still);
        tell(file, moment);
        pthread_rwlock_unlock(&holds_still);
    }
    if (strcmp(mode, "kill") == 0) kill(getpid(), SIGKILL);
    ends = true;
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return fclose(file) != 0;
}
