/* failing_stub.so - to be preloaded: the C library's malloc, which after a while does what
 * FAILING_STUB says.
 *
 *   refuse   returns NULL, once
 *   exhaust  returns NULL, from then on
 *   hang     does not return
 *   crash    writes to address 0
 *   abort    prints a line and aborts
 *   overlap  returns memory of which the next object gets the second half
 *   shift    returns objects that are aligned to 8 only
 *   kill=FILE  kills itself, as often as FILE has bytes
 *
 * Anything else, or nothing: it never fails. For one thread. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void __libc_free(void *object);

/* Calls before that: the start of a program, and some of what it does. */
enum { GOOD_CALLS = 5000 };

static unsigned calls;
static _Alignas(16) char arena[1 << 24]; /* of what is wrong; never given back */

/* Takes one byte away from the file, and kills this process. */
static void die_of(const char *file)
{
    struct stat status;
    if (stat(file, &status) != 0 || status.st_size == 0) return;
    if (truncate(file, status.st_size - 1) == 0) kill(getpid(), SIGKILL);
}

/* An object in the arena, `shift` bytes off; the next one begins after `share` of it. */
static void *take(size_t size, size_t shift, size_t share)
{
    static size_t used;
    char *object = arena + used + shift;
    used = (used + size * share / 100 + 15) / 16 * 16 % (sizeof arena / 2);
    return object;
}

static void *fail(size_t size)
{
    static const char last_words[] = "failing_stub: out of patience\n";
    const char *how = getenv("FAILING_STUB");
    if (how == NULL) how = "";
    if (strcmp(how, "refuse") == 0 && calls == GOOD_CALLS + 1) {
        errno = ENOMEM;
        return NULL;
    }
    if (strcmp(how, "exhaust") == 0) {
        errno = ENOMEM;
        return NULL;
    }
    while (strcmp(how, "hang") == 0)
        pause();
    if (strcmp(how, "overlap") == 0) return take(size, 0, 50);
    if (strcmp(how, "shift") == 0) return take(size, 8, 100);
    if (strncmp(how, "kill=", 5) == 0) die_of(how + 5);
    if (strcmp(how, "crash") == 0) *(volatile char *)0 = 1;
    if (strcmp(how, "abort") == 0) {
        if (write(STDERR_FILENO, last_words, sizeof last_words - 1) >= 0) abort();
    }
    return __libc_malloc(size);
}

void *malloc(size_t size)
{
    return ++calls > GOOD_CALLS ? fail(size) : __libc_malloc(size);
}

void free(void *object)
{
    const char *at = object;
    if (at < arena || at >= arena + sizeof arena) __libc_free(object);
}
