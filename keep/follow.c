#include "keep/follow.h"

#include <stdlib.h>

/* Dead lives that may be kept beside those that are alive: 96 bytes each. */
enum { FOLLOW_DEAD = 300000 };

static const char *follow_define(void *of, const struct stack_definition *definition)
{
    struct follow *follow = of;
    copy_take_definition(&follow->copy, definition);
    return base_take_definition(&follow->base, definition);
}

static void follow_map(void *of, const struct mapping_record *record)
{
    struct follow *follow = of;
    copy_take_mapping(&follow->copy, record);
    owned_take_mapping(&follow->owned, record);
    base_take_mapping(&follow->base, record);
}

static void follow_reside(void *of, const struct residency *residency, const uint8_t *at,
                          const uint8_t *end)
{
    struct follow *follow = of;
    copy_take_residency(&follow->copy, residency, at, end);
    owned_take_residency(&follow->owned, &follow->base, follow->header, residency, at, end);
}

bool follow_open(struct follow *follow, struct instruction_reader *reader)
{
    static const struct base_limits limits = {.dead_max = FOLLOW_DEAD};
    instruction_reader_use_indices(reader);
    reader->define = follow_define;
    reader->define_context = follow;
    reader->mapping = follow_map;
    reader->residency = follow_reside;
    reader->mappings_context = follow;
    follow->header = &reader->header;
    return base_open(&follow->base, &limits, 0);
}

void follow_close(struct follow *follow)
{
    copy_free(&follow->copy);
    base_close(&follow->base);
}

bool follow_take(struct follow *follow, const struct instruction_batch *batch)
{
    return base_take(&follow->base, batch, 0, batch->count) && copy_take(&follow->copy, batch);
}

bool follow_turn(struct follow *follow, struct instruction_writer *to, uint32_t **rows,
                 uint64_t *live)
{
    struct copy *copy = &follow->copy;
    const struct instruction_writer *before = copy->writer;
    *live = copy->live;
    *rows = malloc((copy->live + 1) * sizeof **rows);
    uint32_t *names = malloc((copy->live + 1) * sizeof *names);
    const bool good = *rows != NULL && names != NULL && base_write(&follow->base, to, names);
    for (uint64_t i = 0; good && i < copy->live; i++) {
        if (before != NULL)
            (*rows)[to->objects[names[i]].index] = before->objects[copy->names[i]].index;
        copy->names[i] = names[i];
    }
    free(names);
    if (!good) free(*rows);
    if (good) copy->writer = to;
    return good;
}
