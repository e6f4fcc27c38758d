#include "watch.h"

#include "../common/atomic.h"
#include "../stream/raw_units.h"

static enum watch_path path_of(const struct raw_said *said)
{
    return said->structure == RAW_STRUCTURE_PAGE_HEAP ? WATCH_PAGE_HEAP : WATCH_CENTRAL;
}

void watch_units(struct watch *watch, const uint8_t *profile, uint32_t features,
                 const uint16_t *units, size_t count)
{
    struct watch_counts *counts = &watch->counts;
    struct raw_units walk = raw_units_over(profile, features, units, count);
    const uint8_t *limit = walk.at + 2 * (count < WATCH_UNITS ? count : WATCH_UNITS);
    enum watch_path coming = WATCH_CACHE, latest = WATCH_CACHE;
    bool any = false; /* call */
    struct raw_said said;
    while (walk.at < limit && raw_units_take(&walk, &said)) {
        if (said.number < CALL_KINDS || said.number == RAW_FAILED) {
            counts->calls[said.kind]++;
            counts->paths[latest = coming]++;
            if (said.begins) counts->sizes[histogram_bucket(said.size)]++;
            coming = WATCH_CACHE;
            any = true;
        } else if (said.number == RAW_SEQUENCE_BEFORE) {
            if (path_of(&said) > coming) coming = path_of(&said);
        } else if (said.number == RAW_SEQUENCE_AFTER && any && path_of(&said) > latest) {
            counts->paths[latest]--;
            counts->paths[latest = path_of(&said)]++;
        }
    }
}

void watch_wait(struct watch *watch, uint64_t waited_ns)
{
    atomic_add_relaxed(&watch->counts.waits, 1);
    atomic_add_relaxed(&watch->counts.waited_ns, waited_ns);
}
