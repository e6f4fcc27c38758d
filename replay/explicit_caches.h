/* explicit_caches - thread caches that are apart from threads, made of jemalloc's explicit tcaches.
 *
 * jemalloc lets a call name the tcache that it uses: mallocx(), rallocx(), dallocx() and sdallocx()
 * take flags. Behind the functions here stands one current tcache, so that the executor need hardly
 * know:
 *
 *   lane 0      --> the automatic tcache of the executor, emptied --> malloc, free, ...
 *   other lanes --> release / set --> current tcache --> flags   --> mallocx, dallocx, ...
 *
 * The calls with flags are slower than malloc and free, which have a path of their own: so lane 0,
 * which is all there is of a program without threads, has the automatic tcache to itself, and a
 * replay of such a program is as fast as the program.
 *
 * As with tcmalloc, an allocation without a tcache makes one, and a free without one goes past all
 * tcaches. A tcache takes its objects from one arena: each gets the next one, as jemalloc spreads
 * threads that come one after another.
 *
 * Threads: one. The state belongs to the process, since calls have no argument to spare. */
#ifndef MALLOCTAPE_REPLAY_EXPLICIT_CACHES_H
#define MALLOCTAPE_REPLAY_EXPLICIT_CACHES_H

#include "replay/allocator.h"

/* What a report says when they are used. */
#define EXPLICIT_CACHES_MEANS \
    "explicit tcaches of jemalloc, with calls as mallocx, dallocx, ...; lane 0: the automatic one"

/* Whether the allocator under test is a jemalloc that has them. */
bool explicit_caches_exist(void);

/* Returns `allocator` with release_cache, set_cache and what belongs to them. Only when they exist;
 * once. */
const struct allocator *explicit_caches_use(const struct allocator *allocator);

#endif
