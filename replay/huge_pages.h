/* huge_pages - transparent huge pages as another system would have them, for the memory of the
 * allocator under test:
 *
 *   never     the kernel gives this process none
 *   madvise   only where the allocator asks for them
 *   always    the allocator's mappings are advised to have them, as soon as they are made: those that
 *             it maps by functions of libc, and those that are there at the beginning. libc's own
 *             allocator maps inside libc; it does the same with GLIBC_TUNABLES=glibc.malloc.hugetlb=1.
 *
 * The memory of the replay itself stays as it is, but for `never` and `madvise`. */
#ifndef MALLOCTAPE_REPLAY_HUGE_PAGES_H
#define MALLOCTAPE_REPLAY_HUGE_PAGES_H

#include <stdbool.h>

enum huge_pages { HUGE_PAGES_SYSTEM, HUGE_PAGES_ALWAYS, HUGE_PAGES_MADVISE, HUGE_PAGES_NEVER };
extern const char *const huge_pages_names[]; /* end with NULL */

/* With `always`: whether memory of the allocator's has been advised, or need not be. False: it maps by
 * bare system calls, or inside libc. */
bool huge_pages_reach_allocator(void);

/* To be called at the beginning, by the only thread. NULL, or why that cannot be. */
const char *huge_pages_begin(enum huge_pages wanted);

#endif
