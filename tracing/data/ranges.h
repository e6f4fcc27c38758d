/* ranges - who had the bytes of an object before, of an opaque allocator that splits and merges.
 *
 *   granules   [....][A.....][....][C..][....][....]
 *                       [B (begins here) ........]       A and C had some of them, and have ended
 *
 * An object that begins comes after the ends of all objects that had any of its bytes. It is enough
 * to look at those that began inside it, at its own granule, and, if that is not sure, at the one
 * that began before it: they in turn came after whoever had had those bytes before them. A granule
 * is "sure" if the latest object that had its bytes began there. So an object that begins makes its
 * granule sure, and those inside it forget their owners. From a granule that is not sure, the
 * search goes on downwards to a sure one.
 *
 * Pages on which one lane alone has begun and ended objects need none of that: the lane's own calls
 * are in order. Nothing is sure there, and nothing is forgotten. When another lane comes, the page
 * becomes mixed for good (shadow_touch()). A page on which nobody has done anything becomes mixed at
 * once if another lane has the page before: an object may reach over from there.
 *
 * Objects of RANGES_SMALL bytes and more mark the pages into which they reach.
 *
 * Order     Whoever looks for owners below an address reads them while other threads begin and end
 *           objects there. So an owner is stored after the call has been counted, and granules
 *           inside are forgotten after that. */
#ifndef MALLOCTAPE_RANGES_H
#define MALLOCTAPE_RANGES_H

#include "stream/raw_format.h"
#include "tracing/data/shadow.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(hidden)

/* Objects that begin on a page that their lane has alone are smaller than this, if nothing was done
 * here when they began. */
#define RANGES_SMALL     RAW_ALLOCATION_1_SHORT_LIMIT
/* Pages farther from the beginning of an object are not looked at. */
#define RANGES_PAGES_MAX ((uintptr_t)8192)

/* An object that begins. */
struct range {
    uint16_t owner;
    uintptr_t address;
    size_t bytes;
    /* Called with each granule at which somebody had bytes of the object, or may have had. */
    void (*found)(struct range *range, uint32_t place, uintptr_t address);
    bool is_clean; /* nothing had an owner inside: ranges_find_inside() */
};

/* The owner begins, or is about to end, an object here, of `bytes` as far as is known: no other
 * owner has one of its pages alone any more. */
void ranges_touch(uint16_t owner, uintptr_t address, size_t bytes);

/* Whether an object that begins here may reach into a page that has to be touched, too, when the
 * owner is about to end it. False: to touch its first page is enough. */
bool ranges_may_reach(uint16_t owner, uintptr_t address);

/* Looks for those that had bytes of the object, which has been touched. */
void ranges_find(struct range *range);

/* The same without its first granule, for an object that stays where it was. */
void ranges_find_inside(struct range *range);

/* The object has begun: its call has been counted. */
void ranges_begun(const struct range *range);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
