#include "trace/objects.h"

#include "common/pages.h"
#include "stream/instruction_walk.h"

#define THREADS_BYTES (INSTRUCTION_LANES_MAX * sizeof(uint64_t))

/* What is known of an object that is alive. */
struct object_made {
    uint64_t size, alignment, thread, ns;
    uint64_t call : 48, lane : 16;
    uint64_t kind;
};

/* ---- opening and closing ---- */

bool objects_open(struct objects *objects, object_put put, void *of)
{
    *objects = (struct objects){.put = put, .of = of, .threads = pages_map(THREADS_BYTES)};
    return objects->threads != NULL;
}

void objects_close(struct objects *objects)
{
    pages_unmap(objects->threads, THREADS_BYTES);
    pages_unmap(objects->row, objects->capacity * sizeof *objects->row);
    *objects = (struct objects){.put = NULL};
}

/* ---- one object ---- */

static void begin(const struct objects *objects, struct object_made *made,
                  const struct instruction_step *step)
{
    *made = (struct object_made){.size = step->size,
                                 .alignment = step->alignment,
                                 .thread = objects->threads[objects->lane],
                                 .ns = objects->ns,
                                 .call = objects->call,
                                 .lane = objects->lane,
                                 .kind = step->number};
}

/* `kind` 0: it is alive at the end. */
static bool end(const struct objects *objects, const struct object_made *made, unsigned kind)
{
    struct object object = {
        .size = made->size,
        .alignment = made->alignment,
        .made = {(unsigned)made->kind, made->lane, made->thread, made->call, made->ns}};
    if (kind != 0)
        object.ended = (struct object_call){kind, objects->lane, objects->threads[objects->lane],
                                            objects->call, objects->ns};
    return objects->put(objects->of, &object);
}

static bool end_at(struct objects *objects, uint64_t index, unsigned kind)
{
    const bool good = end(objects, &objects->row[index], kind);
    objects->row[index] = objects->row[--objects->live];
    return good;
}

/* ---- instructions ---- */

static void take_other(struct objects *objects, const struct instruction_step *step)
{
    switch (step->number) {
    case INSTRUCTION_LANE: objects->lane = (uint32_t)step->operands[0]; break;
    case INSTRUCTION_THREAD_BEGIN: objects->threads[objects->lane] = step->operands[0]; break;
    case INSTRUCTION_TICK: objects->ns += step->operands[0]; break;
    default: break;
    }
}

bool objects_add(struct objects *objects, const struct instruction_batch *batch)
{
    struct instruction_walk walk = instruction_walk_over(batch, batch->count);
    struct instruction_step step;
    bool good = pages_reserve(&objects->row, &objects->capacity, objects->live + batch->count,
                              INSTRUCTION_BLOCK_MAX, sizeof *objects->row);
    while (good && instruction_walk_next(&walk, objects->live, &step)) {
        objects->call += step.does != STEP_OTHER;
        switch (step.does) {
        case STEP_BEGINS: begin(objects, &objects->row[objects->live++], &step); break;
        case STEP_ENDS: good = end_at(objects, step.index, step.number); break;
        case STEP_RESIZES:
            good = end(objects, &objects->row[step.index], step.number);
            begin(objects, &objects->row[step.index], &step);
            break;
        case STEP_OTHER: take_other(objects, &step); break;
        default: break;
        }
    }
    return good;
}

bool objects_end(struct objects *objects)
{
    bool good = true;
    for (uint64_t i = 0; good && i < objects->live; i++)
        good = end(objects, &objects->row[i], 0);
    return good;
}
