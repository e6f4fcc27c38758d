#include "inspect/together.h"

#include <stdlib.h>
#include <string.h>

struct together_look {
    uint64_t ns;
    uint64_t rss_bytes, shared_bytes;
    uint32_t process;
};

struct together_divided {
    uint64_t ns, proportional_bytes;
    uint32_t process;
};

void together_begin(struct together *together)
{
    together->processes++;
}

/* Room for one more. */
static bool together_room(struct together *together, void **all, size_t count, size_t *capacity,
                          size_t bytes_each)
{
    if (count < *capacity) return true;
    const size_t more_capacity = 2 * *capacity + 256;
    void *more = realloc(*all, more_capacity * bytes_each);
    together->failed |= more == NULL;
    if (more == NULL) return false;
    *all = more;
    *capacity = more_capacity;
    return true;
}

void together_look(struct together *together, uint64_t ns, uint64_t rss_bytes,
                   uint64_t shared_bytes)
{
    const struct together_look look = {
        ns, rss_bytes, shared_bytes < rss_bytes ? shared_bytes : rss_bytes, together->processes};
    if (together->count > 0) {
        const struct together_look *last = &together->looks[together->count - 1];
        if (last->process == look.process && last->rss_bytes == look.rss_bytes &&
            last->shared_bytes == look.shared_bytes)
            return;
    }
    if (together_room(together, (void **)&together->looks, together->count, &together->capacity,
                      sizeof look))
        together->looks[together->count++] = look;
}

void together_divided(struct together *together, uint64_t ns, uint64_t proportional_bytes)
{
    const struct together_divided one = {ns, proportional_bytes, together->processes};
    if (together_room(together, (void **)&together->divided, together->divided_count,
                      &together->divided_capacity, sizeof one))
        together->divided[together->divided_count++] = one;
}

/* Of one moment: the end of a process before the beginning of another one. */
static int by_time(const void *one, const void *other)
{
    const struct together_look *a = one, *b = other;
    if (a->ns != b->ns) return a->ns > b->ns ? 1 : -1;
    return (a->rss_bytes > 0) - (b->rss_bytes > 0);
}

/* The latest look of each process that has memory, close together. */
struct running {
    struct together_look *now;
    uint32_t count;
    uint32_t *at; /* by process: its index plus 1; 0: it has none */
};

static void running_take(struct running *running, const struct together_look *look)
{
    uint32_t *at = &running->at[look->process];
    if (*at == 0 && look->rss_bytes > 0) *at = ++running->count;
    if (*at == 0) return;
    running->now[*at - 1] = *look;
    if (look->rss_bytes > 0) return;
    const struct together_look last = running->now[--running->count];
    running->now[*at - 1] = last;
    running->at[last.process] = *at;
    *at = 0;
}

static struct together_most running_sum(const struct running *running)
{
    struct together_most sum = {.processes = running->count};
    for (uint32_t i = 0; i < running->count; i++) {
        const struct together_look *one = &running->now[i];
        sum.rss_bytes += one->rss_bytes;
        sum.own_bytes += one->rss_bytes - one->shared_bytes;
        if (one->shared_bytes > sum.shared_bytes) sum.shared_bytes = one->shared_bytes;
    }
    return sum;
}

/* Of a process, what was divided nearest to a moment; NULL: nothing. */
static const struct together_divided *divided_near(const struct together *together,
                                                   uint32_t process, uint64_t ns, uint64_t *away)
{
    const struct together_divided *nearest = NULL;
    for (size_t i = 0; i < together->divided_count; i++) {
        const struct together_divided *one = &together->divided[i];
        const uint64_t distance = one->ns > ns ? one->ns - ns : ns - one->ns;
        if (one->process != process || (nearest != NULL && distance >= *away)) continue;
        nearest = one;
        *away = distance;
    }
    return nearest;
}

static void divide_most(struct together_most *most, const struct together *together,
                        const struct running *running, uint64_t ns)
{
    for (uint32_t i = 0; i < running->count; i++) {
        uint64_t away = 0;
        const struct together_divided *one =
            divided_near(together, running->now[i].process, ns, &away);
        if (one == NULL) continue;
        most->divided++;
        most->proportional_bytes += one->proportional_bytes;
        if (away > most->away_ns) most->away_ns = away;
    }
}

/* The running processes, after so many of the looks, which are in order. */
static void running_until(struct running *running, const struct together *together, size_t looks)
{
    running->count = 0;
    memset(running->at, 0, ((size_t)together->processes + 1) * sizeof *running->at);
    for (size_t i = 0; i < looks; i++)
        running_take(running, &together->looks[i]);
}

/* The most of all looks. */
static struct together_most find_most(const struct together *together, struct running *running)
{
    struct together_most most = {.processes = 0};
    size_t latest = 0;
    for (size_t i = 0; i < together->count; i++) {
        running_take(running, &together->looks[i]);
        struct together_most sum = running_sum(running);
        sum.since_ns = together->looks[i].ns - together->looks[0].ns;
        if (sum.own_bytes + sum.shared_bytes <= most.own_bytes + most.shared_bytes) continue;
        most = sum;
        latest = i;
    }
    running_until(running, together, latest + 1);
    divide_most(&most, together, running, together->looks[latest].ns);
    return most;
}

struct together_most together_find(struct together *together)
{
    struct together_most most = {.processes = 0};
    struct running running = {.now = calloc((size_t)together->processes + 1, sizeof *running.now),
                              .at = calloc((size_t)together->processes + 1, sizeof *running.at)};
    if (running.now != NULL && running.at != NULL && !together->failed && together->count > 0) {
        qsort(together->looks, together->count, sizeof *together->looks, by_time);
        most = find_most(together, &running);
    }
    free(running.now);
    free(running.at);
    return most;
}

void together_free(struct together *together)
{
    free(together->looks);
    free(together->divided);
}
