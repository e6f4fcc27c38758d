/* compare/list - the list of what to compare, as a user writes it: allocators, each with its own
 * settings.
 *
 *   LIST     ENTRY,ENTRY,...
 *   ENTRY    ALLOCATOR  or  ALLOCATOR:NAME=VALUE;NAME=VALUE;...
 *   glibc may be glibc:/DIR/libc.so.6, a C library of one's own
 *
 *   jemalloc,glibc,'jemalloc:MALLOC_CONF=background_thread:true\,narenas:1'
 *
 * A backslash makes the next character an ordinary one, so a value may contain commas and
 * semicolons. Only the first colon of an entry, or the one after the path, and the first equals
 * sign of a setting are separators. The same allocator may occur any number of times. */
#ifndef MALLOCTAPE_COMPARE_LIST_H
#define MALLOCTAPE_COMPARE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct compare_setting {
    char *name, *value; /* of an environment variable */
};

struct compare_entry {
    char *allocator;
    struct compare_setting *settings; /* in their order */
    size_t settings_count;
};

/* All zero: empty. */
struct compare_list {
    struct compare_entry *entries;
    size_t count;
};

/* Appends the entries of `text`. False: `why` says which entry is wrong and how, or that there is
 * no memory. */
bool compare_list_add(struct compare_list *list, const char *text, char *why, size_t why_bytes);

/* Appends a copy of the entry at `index` with one more setting. False: no memory. */
bool compare_list_vary(struct compare_list *list, size_t index, const char *name,
                       const char *value);

/* Removes the entry at `index`. */
void compare_list_drop(struct compare_list *list, size_t index);

void compare_list_free(struct compare_list *list);

#ifdef __cplusplus
}
#endif
#endif
