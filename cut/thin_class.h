/* thin_class - what `cut --thin` takes for one kind of objects, and how often one of it is to be there;
 * thin*.c only. */
#ifndef MALLOCTAPE_CUT_THIN_CLASS_H
#define MALLOCTAPE_CUT_THIN_CLASS_H

#include "cut/small_trace.h"

#define THIN_CLASSES    520u /* of sizes */
#define THIN_WEIGHT_MAX 1e6

/* The class of a size: sizes of a class are alike, to one eighth. */
static inline unsigned thin_class_of_size(uint64_t size)
{
    if (size < 16) return (unsigned)size;
    const unsigned bits = 63u - (unsigned)__builtin_clzll(size);
    return bits * 8 + (unsigned)(size >> (bits - 3) & 7);
}

/* The largest size of an object that does not shrink in between. */
static inline uint64_t thin_size_of(const struct small_object *made)
{
    return made->last_size > made->first_size ? made->last_size : made->first_size;
}

/* That of an object: of those that grow alike, as many are as large as ought to be. */
static inline unsigned thin_class_of(const struct small_object *made)
{
    return thin_class_of_size(thin_size_of(made));
}

#define THIN_LIVES  65u /* alike to a factor of two; the last one: to the end */
#define THIN_LANES  16u /* lanes with the same remainder count as one */
#define THIN_STRATA (THIN_CLASSES * THIN_LIVES * THIN_LANES)

/* Objects of a class that live alike, of a lane: by when they were born and died on a clock of bytes
 * allocated; UINT64_MAX: never. */
static inline uint32_t thin_stratum(const struct small_object *made, uint64_t born, uint64_t died)
{
    const uint64_t lived = died - born;
    const unsigned life = died == UINT64_MAX ? THIN_LIVES - 1
                          : lived == 0       ? 0
                                             : 63u - (unsigned)__builtin_clzll(lived);
    return (thin_class_of(made) * THIN_LIVES + life) * THIN_LANES + made->lane % THIN_LANES;
}

#endif
