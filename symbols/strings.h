/* strings - texts, each stored once, with a number. Number 0 is the empty text. Texts are made
 * printable (common/printable.h), because names come from untrusted files.
 *
 * Memory: from malloc(), all of it until strings_free(). One thread. */
#ifndef MALLOCTAPE_SYMBOLS_STRINGS_H
#define MALLOCTAPE_SYMBOLS_STRINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct strings {
    char **at; /* by number */
    uint32_t count;
    bool no_memory; /* there was none at some time; texts that did not fit have number 0 */

    /* From here on: strings.c only. */
    size_t room;
    uint32_t *slots; /* numbers; 0: free */
    size_t slots_count;
};

/* False: no memory. */
bool strings_open(struct strings *strings);
void strings_free(struct strings *strings);

/* The number of the text. */
uint32_t strings_put(struct strings *strings, const char *text);

#endif
