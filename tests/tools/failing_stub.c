/* failing_stub.so - to be preloaded: the C library's malloc, which after a while does what
 * FAILING_STUB says.
 *
 *   refuse   returns NULL, once
 *   exhaust  returns NULL, from then on
 *   hang     does not return
 *   crash    writes to address 0
 *   abort    prints a line and aborts
 *
 * Anything else, or nothing: it never fails. For one thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t size);

/* Calls before that: the start of a program, and some of what it does. */
enum { GOOD_CALLS = 5000 };

static unsigned calls;

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
