/* units_profile - which kinds of calls have codes of their own in a segment (FORMAT.md 5.1). */
#ifndef MALLOCTAPE_UNITS_PROFILE_H
#define MALLOCTAPE_UNITS_PROFILE_H

#include "units.h"

/* Chooses the profile of a segment now and then, from the units of the one before it; and what the
 * fast path of the lane needs of it. As units_begin_segment(). */
void units_choose_profile(struct units_lane *lane, const uint16_t *units, size_t count,
                          uint64_t segments);

#endif
