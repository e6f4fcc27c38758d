/* Which of the dead stay: those that some moment has seen. */
#include "base/base_own.h"

#define EVERY_LEAST   (UINT64_C(64) << 10)
#define PEAK_PART     256             /* by so much more there is another peak */
#define DEAD_AT_LEAST UINT64_C(65536) /* before it is worth looking for some that may go */

static void base_find_newest(struct base *base)
{
    uint64_t newest = base->moments_count > 0 ? base->moments[base->moments_count - 1] : 0;
    if (base->peak_at > newest) newest = base->peak_at;
    if (base->moved_at > newest) newest = base->moved_at;
    if (base->local_at > newest) newest = base->local_at;
    base->newest = newest;
}

/* Every second moment goes, and the smaller ones of what is large. */
static void base_halve(struct base *base)
{
    unsigned kept = 0;
    for (unsigned i = 1; i < base->moments_count; i += 2)
        base->moments[kept++] = base->moments[i];
    base->moments_count = kept;
    base->every = base->every < EVERY_LEAST ? EVERY_LEAST : 2 * base->every;
    base_find_newest(base);
    base_prune(base);
}

void base_add_moment(struct base *base)
{
    if (base->every < EVERY_LEAST) base->every = EVERY_LEAST;
    base->next = base->moments_max == 0 ? UINT64_MAX : base->allocated + base->every;
    if (base->moments_max == 0) return;
    if (base->moments_count >= base->moments_max) base_halve(base);
    base->moments[base->moments_count++] = base->local_at > 0 ? base->local_at : base->at;
    base->local_at = base->local_bytes = 0;
    base_find_newest(base);
}

void base_begin_moments(struct base *base)
{
    if (base->moments_max == 0) return;
    base->every = base->live_bytes / (BASE_MOMENTS_MAX / 2);
    base->next = base->allocated;
}

void base_note_peak(struct base *base)
{
    base->local_bytes = base->live_bytes + base->live_bytes / PEAK_PART;
    if (base->moments_max == 0) return;
    base->local_at = base->newest = base->at + 1;
    if (base->live_bytes <= base->peak_bytes) return;
    base->peak_bytes = base->local_bytes;
    base->peak_at = base->at + 1;
}

void base_note_class_peak(struct base *base, struct base_class *of)
{
    of->most = of->bytes + of->bytes / PEAK_PART;
    if (base->moments_max > 0) of->at = base->at + 1;
}

void base_note_rss(struct base *base, uint64_t rss_bytes)
{
    const uint64_t before = base->rss_bytes;
    const uint64_t moved = rss_bytes > before ? rss_bytes - before : before - rss_bytes;
    base->rss_bytes = rss_bytes;
    if (before == 0 || rss_bytes == 0 || moved <= base->moved_most || base->moments_max == 0)
        return;
    base->moved_most = moved;
    base->moved_at = base->at;
    base->newest = base->at;
}

/* The first moment after `at`, of those that are spaced; BASE_ALIVE: none. */
static uint64_t base_first_after(const struct base *base, uint64_t at)
{
    unsigned low = 0, high = base->moments_count;
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        if (base->moments[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low < base->moments_count ? base->moments[low] : BASE_ALIVE;
}

static bool base_lived_at(const struct base_life *life, uint64_t at)
{
    return life->born < at && at <= life->died;
}

static bool base_was_seen(const struct base *base, const struct base_life *life)
{
    return base_first_after(base, life->born) <= life->died || base_is_large(base, life->size) ||
           base_lived_at(life, base->classes[base_class_of(life->size)].at) ||
           base_lived_at(life, base->peak_at) || base_lived_at(life, base->local_at) ||
           base_lived_at(life, base->moved_at);
}

void base_prune(struct base *base)
{
    for (uint32_t i = 0; i < base->lives_end; i++) {
        const struct base_life *life = &base->lives[i];
        if (life->died != 0 && life->died != BASE_ALIVE && !base_was_seen(base, life))
            base_drop_life(base, i);
    }
    base->dead_pruned = base->dead;
}

void base_limit_dead(struct base *base)
{
    if (base->dead < DEAD_AT_LEAST &&
        (base->limits.dead_max == 0 || base->dead <= base->limits.dead_max))
        return;
    if (base->dead >= 2 * base->dead_pruned + DEAD_AT_LEAST ||
        (base->limits.dead_max > 0 && base->dead > base->limits.dead_max))
        base_prune(base);
    while (base->limits.dead_max > 0 && base->dead > base->limits.dead_max &&
           base->moments_count > 0)
        base_halve(base);
    if (base->limits.dead_max == 0 || base->dead <= base->limits.dead_max) return;
    base->peak_at = base->moved_at = base->local_at = 0;
    for (unsigned i = 0; i < BASE_CLASSES; i++)
        base->classes[i].at = 0;
    base_find_newest(base);
    base_prune(base);
    while (base->dead > base->limits.dead_max && base->every < UINT64_MAX / 2)
        base_halve(base); /* only large ones are left */
}
