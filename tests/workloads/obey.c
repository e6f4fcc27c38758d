/* obey - a program that runs until its input ends, to be attached to.
 *
 *     obey [THREADS [kept|pieces|leaks]]
 *
 * Each line of its input is a number: so many objects are made, reallocated and freed, then
 * "made NUMBER" is printed. No other call of the allocator is made meanwhile by this thread. THREADS
 * (none) more threads make and free objects, a quarter of the time, or with MALLOCTAPE_LONG in the
 * environment all the time, and look whether an object is still what it was. With "kept" objects of the lines are freed by a pointer to free() that was taken at the
 * start. With "pieces" so many times some objects of other sizes are made, freed by such a pointer, and
 * one that lies on the bytes of all. With "leaks" a thousand objects are held and replaced all the
 * time, and of what is made beside that nothing is freed. At the end "done". */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MAX = 64, OBJECTS = 256, SIZE_MAX_BYTES = 700, TURN = 5000, PAUSE_US = 1000 };

static atomic_bool is_over;
static void (*volatile kept_free)(void *); /* or NULL */
static int has_pauses;

static void fail(const char *what)
{
    fprintf(stderr, "obey: %s\n", what);
    _exit(1);
}

static void *run(void *of)
{
    unsigned char *objects[OBJECTS] = {NULL};
    size_t sizes[OBJECTS];
    unsigned random = *(unsigned *)of, turn = 0;
    while (!is_over) {
        if (has_pauses && ++turn % TURN == 0) usleep(PAUSE_US);
        random = random * 1103515245 + 12345;
        const unsigned at = random / 65536 % OBJECTS;
        const unsigned char mark = (unsigned char)at;
        if (objects[at] && (objects[at][0] != mark || objects[at][sizes[at] - 1] != mark))
            fail("an object has changed");
        free(objects[at]);
        sizes[at] = random / 256 % SIZE_MAX_BYTES + 1;
        objects[at] = malloc(sizes[at]);
        if (!objects[at]) fail("no memory");
        objects[at][0] = objects[at][sizes[at] - 1] = mark;
    }
    for (unsigned i = 0; i < OBJECTS; i++)
        free(objects[i]);
    return NULL;
}

static void make(unsigned long count)
{
    for (unsigned long i = 0; i < count; i++) {
        void *object = malloc(777);
        void *longer = realloc(object, 888);
        if (!object || !longer) fail("no memory");
        if (kept_free)
            kept_free(longer);
        else
            free(longer);
    }
}

static void make_pieces(unsigned long count)
{
    enum { PIECES = 10 };
    void *pieces[PIECES];
    unsigned random = 1;
    for (unsigned long i = 0; i < count; i++) {
        for (unsigned j = 0; j < PIECES; j++) {
            random = random * 1103515245 + 12345;
            if (!(pieces[j] = malloc(2000 + random / 65536 % 2000))) fail("no memory");
        }
        for (unsigned j = 0; j < PIECES; j++)
            kept_free(pieces[j]);
        free(malloc(60000));
    }
}

static __attribute__((noinline)) char *leaks(void)
{
    char *object = malloc(321);
    if (object) *object = 1;
    return object;
}

static __attribute__((noinline)) char *holds(void)
{
    char *object = malloc(123);
    if (object) *object = 1;
    return object;
}

/* What is held is replaced all the time, and never more than so much. */
static void make_leaks(unsigned long count)
{
    enum { HELD = 1000 };
    static void *held[HELD], *volatile leaked;
    for (unsigned long i = 0; i < count; i++) {
        free(held[i % HELD]);
        if (!(held[i % HELD] = holds())) fail("no memory");
        if (i % 10 == 0) leaked = leaks();
    }
    (void)leaked;
}

/* Without the streams of the C library, which allocate. False: the input has ended. */
static int read_number(unsigned long *number)
{
    char digit;
    *number = 0;
    while (read(STDIN_FILENO, &digit, 1) == 1) {
        if (digit == '\n') return 1;
        *number = *number * 10 + (unsigned long)(digit - '0');
    }
    return 0;
}

int main(int count, char **words)
{
    static pthread_t threads[THREADS_MAX];
    static unsigned seeds[THREADS_MAX];
    const unsigned more = count > 1 ? (unsigned)atoi(words[1]) : 0;
    unsigned long number;
    char text[64];
    const int has_pieces = count > 2 && strcmp(words[2], "pieces") == 0;
    const int has_leaks = count > 2 && strcmp(words[2], "leaks") == 0;
    if (count > 2) kept_free = free;
    has_pauses = getenv("MALLOCTAPE_LONG") == NULL;
    if (more > THREADS_MAX) fail("too many threads");
    for (unsigned i = 0; i < more; i++) {
        seeds[i] = i + 1;
        if (pthread_create(&threads[i], NULL, run, &seeds[i]) != 0) fail("cannot create a thread");
    }
    while (read_number(&number)) {
        (has_leaks ? make_leaks : has_pieces ? make_pieces : make)(number);
        const int bytes = snprintf(text, sizeof text, "made %lu\n", number);
        if (write(STDOUT_FILENO, text, (size_t)bytes) != bytes) fail("cannot write");
    }
    is_over = 1;
    for (unsigned i = 0; i < more; i++)
        pthread_join(threads[i], NULL);
    return write(STDOUT_FILENO, "done\n", 5) == 5 ? 0 : 1;
}
