/* units_profile - which kinds of calls have codes of their own in a segment (FORMAT.md 5.1). */
#ifndef MALLOCTAPE_UNITS_PROFILE_H
#define MALLOCTAPE_UNITS_PROFILE_H

#include "stream/units.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Begins a segment: forgets what the one before it remembered. Now and then chooses the profile
 * anew, from the `count` units of that one at `units`. `segments`: how many the lane has had; 0:
 * this is the first. `key`: sequence numbers start from 0 again. */
void units_begin_segment(struct units_lane *lane, const uint16_t *units, size_t count,
                         uint64_t segments, bool key);

#ifdef __cplusplus
}
#endif

#endif
