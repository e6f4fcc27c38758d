#include "watch.h"

#include "../common/atomic.h"
#include "../stream/units.h"

static enum watch_path path_of(const struct units_record *coded)
{
    return coded->structure == RAW_STRUCTURE_PAGE_HEAP ? WATCH_PAGE_HEAP : WATCH_CENTRAL;
}

void watch_units(struct watch *watch, const uint8_t *profile, uint32_t features,
                 const uint16_t *units, size_t count)
{
    struct watch_counts *counts = &watch->counts;
    const uint16_t *at = units, *end = units + count;
    const uint16_t *limit = units + (count < WATCH_UNITS ? count : WATCH_UNITS);
    enum watch_path coming = WATCH_CACHE, latest = WATCH_CACHE;
    bool any = false; /* call */
    struct units_record coded;
    while (at < limit && (at = units_next(profile, features, at, end, &coded)) != NULL) {
        if (units_is_event(&coded)) {
            counts->calls[coded.kind]++;
            counts->paths[latest = coming]++;
            if (coded.begins) counts->sizes[histogram_bucket(coded.size)]++;
            coming = WATCH_CACHE;
            any = true;
        } else if (coded.number == RAW_SEQUENCE_BEFORE) {
            if (path_of(&coded) > coming) coming = path_of(&coded);
        } else if (coded.number == RAW_SEQUENCE_AFTER && any && path_of(&coded) > latest) {
            counts->paths[latest]--;
            counts->paths[latest = path_of(&coded)]++;
        }
    }
}

void watch_wait(struct watch *watch, uint64_t waited_ns)
{
    atomic_add_relaxed(&watch->counts.waits, 1);
    atomic_add_relaxed(&watch->counts.waited_ns, waited_ns);
}
