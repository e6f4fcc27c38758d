#include "change/change_shared.h"

#include <stdlib.h>

#include "common/array.h"

uint32_t change_shared_join(struct change_shared *shared, struct change_key key)
{
    const uint32_t *latest = change_index_of(&shared->latest, key);
    if (latest == NULL || *latest == CHANGE_NOWHERE) return CHANGE_NOWHERE;
    shared->ones[*latest].references++;
    return *latest;
}

static uint32_t shared_take(struct change_shared *shared)
{
    if (shared->unused != 0) {
        const uint32_t at = shared->unused - 1;
        shared->unused = shared->ones[at].after;
        return at;
    }
    if (!array_reserve(&shared->ones, &shared->room, shared->count + 1, sizeof *shared->ones))
        return CHANGE_NOWHERE;
    return (uint32_t)shared->count++;
}

uint32_t change_shared_make(struct change_shared *shared, struct change_key key, uint32_t name)
{
    uint32_t *latest = change_index_of(&shared->latest, key);
    const uint32_t at = latest != NULL ? shared_take(shared) : CHANGE_NOWHERE;
    if (at == CHANGE_NOWHERE) return at;
    if (*latest != CHANGE_NOWHERE) shared->ones[*latest].is_latest = false;
    *latest = at;
    shared->ones[at] = (struct change_one){.name = name, .references = 1, .is_latest = true};
    return at;
}

bool change_shared_leave(struct change_shared *shared, struct change_key key, uint32_t at)
{
    struct change_one *one = &shared->ones[at];
    if (--one->references > 0) return false;
    uint32_t *latest = one->is_latest ? change_index_of(&shared->latest, key) : NULL;
    if (latest != NULL) *latest = CHANGE_NOWHERE;
    one->after = shared->unused;
    shared->unused = at + 1;
    return true;
}

void change_shared_free(struct change_shared *shared)
{
    change_index_free(&shared->latest);
    free(shared->ones);
    *shared = (struct change_shared){.ones = NULL};
}
