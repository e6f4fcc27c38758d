#include "inspect/together.h"

#include <stdlib.h>

struct together_look {
    uint64_t ns;
    uint64_t rss_bytes, shared_bytes;
    uint32_t process;
};

void together_begin(struct together *together)
{
    together->processes++;
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
    if (together->count == together->capacity) {
        const size_t capacity = 2 * together->capacity + 256;
        struct together_look *more = realloc(together->looks, capacity * sizeof *more);
        together->failed |= more == NULL;
        if (more == NULL) return;
        together->looks = more;
        together->capacity = capacity;
    }
    together->looks[together->count++] = look;
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

struct together_most together_find(struct together *together)
{
    struct together_most most = {.processes = 0};
    struct running running = {.now = calloc((size_t)together->processes + 1, sizeof *running.now),
                              .at = calloc((size_t)together->processes + 1, sizeof *running.at)};
    if (running.now != NULL && running.at != NULL && !together->failed && together->count > 0) {
        qsort(together->looks, together->count, sizeof *together->looks, by_time);
        for (size_t i = 0; i < together->count; i++) {
            running_take(&running, &together->looks[i]);
            struct together_most sum = running_sum(&running);
            sum.since_ns = together->looks[i].ns - together->looks[0].ns;
            if (sum.own_bytes + sum.shared_bytes > most.own_bytes + most.shared_bytes) most = sum;
        }
    }
    free(running.now);
    free(running.at);
    return most;
}

void together_free(struct together *together)
{
    free(together->looks);
}
