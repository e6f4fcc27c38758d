#include "reading/objects.h"

#include "common/call_table.h"
#include "common/pages.h"

#define THREADS_BYTES (INSTRUCTION_LANES_MAX * sizeof(uint64_t))

/* What is kept about a live object. */
struct object_made {
    uint64_t size, alignment, thread, ns;
    uint64_t call : 48, lane : 16;
    uint32_t kind, stack;
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

static void object_is_made(const struct objects *objects, struct object_made *made,
                           const struct instruction *one, const uint64_t *operands, uint32_t stack)
{
    const bool aligned = shape_has_alignment(call_shapes[instruction_number(one)]);
    *made = (struct object_made){.size = one->size,
                                 .alignment = aligned ? operands[0] : 0,
                                 .thread = objects->threads[objects->lane],
                                 .ns = objects->ns,
                                 .call = objects->call,
                                 .lane = objects->lane,
                                 .kind = instruction_number(one),
                                 .stack = stack};
}

/* `kind` 0: the object is alive at the end. */
static bool object_is_gone(const struct objects *objects, const struct object_made *made,
                           unsigned kind)
{
    if (kind != 0 && objects->in_base) return true;
    struct object object = {.size = made->size,
                            .alignment = made->alignment,
                            .stack = made->stack,
                            .made = {made->kind, made->lane, made->thread, made->call, made->ns}};
    if (kind != 0)
        object.ended = (struct object_call){kind, objects->lane, objects->threads[objects->lane],
                                            objects->call, objects->ns};
    return objects->put(objects->of, &object);
}

static bool objects_end_at(struct objects *objects, uint64_t index, unsigned kind)
{
    const bool good = object_is_gone(objects, &objects->row[index], kind);
    objects->row[index] = objects->row[--objects->live];
    return good;
}

/* ---- instructions ---- */

static void objects_take_other(struct objects *objects, unsigned number, const uint64_t *operands)
{
    switch (number) {
    case INSTRUCTION_LANE: objects->lane = (uint32_t)operands[0]; break;
    case INSTRUCTION_THREAD_BEGIN: objects->threads[objects->lane] = operands[0]; break;
    case INSTRUCTION_TICK: objects->ns += operands[0]; break;
    default: break;
    }
}

bool objects_add(struct objects *objects, const struct instruction_batch *batch)
{
    struct instruction_walk walk = instruction_walk_over(batch, batch->count);
    struct instruction one;
    bool good = pages_reserve(&objects->row, &objects->capacity, objects->live + batch->count,
                              INSTRUCTION_BLOCK_MAX, sizeof *objects->row);
    objects->in_base = batch->is_base;
    while (good && instruction_walk_next(&walk, &one)) {
        const unsigned number = instruction_number(&one), does = instruction_does[one.opcode];
        const uint64_t *const operands = batch->operands + one.operand_at;
        objects->call += does != INSTRUCTION_OTHER && !batch->is_base;
        switch (does) {
        case INSTRUCTION_BEGINS:
            object_is_made(objects, &objects->row[objects->live++], &one, operands,
                           instruction_walk_stack(&walk));
            break;
        case INSTRUCTION_ENDS: good = objects_end_at(objects, one.object, number); break;
        case INSTRUCTION_RESIZES:
            good = object_is_gone(objects, &objects->row[one.object], number);
            object_is_made(objects, &objects->row[one.object], &one, operands,
                           instruction_walk_stack(&walk));
            break;
        case INSTRUCTION_OTHER: objects_take_other(objects, number, operands); break;
        default: break;
        }
    }
    return good;
}

bool objects_end(struct objects *objects)
{
    bool good = true;
    for (uint64_t i = 0; good && i < objects->live; i++)
        good = object_is_gone(objects, &objects->row[i], 0);
    return good;
}
