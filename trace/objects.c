#include "trace/objects.h"

#include "common/call_table.h"
#include "common/pages.h"

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

static void begin(const struct objects *objects, struct object_made *made, unsigned kind,
                  uint64_t size, uint64_t alignment)
{
    *made = (struct object_made){.size = size,
                                 .alignment = alignment,
                                 .thread = objects->threads[objects->lane],
                                 .ns = objects->ns,
                                 .call = objects->call,
                                 .lane = objects->lane,
                                 .kind = kind};
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

static bool add_call(struct objects *objects, const struct instruction *one,
                     const uint64_t *operands)
{
    const unsigned kind = instruction_number(one);
    const uint8_t shape = call_shapes[kind];
    if (one->object == INSTRUCTION_NO_REGISTER || (one->opcode & INSTRUCTION_FAILED)) return true;
    const bool aligned = shape == SHAPE_ALLOCATION_ALIGNED;
    if (one->object == objects->live) {
        begin(objects, &objects->row[objects->live++], kind, one->size, aligned ? operands[0] : 0);
        return true;
    }
    if (shape != SHAPE_REALLOC) return end_at(objects, one->object, kind);
    const bool good = end(objects, &objects->row[one->object], kind);
    begin(objects, &objects->row[one->object], kind, one->size, 0);
    return good;
}

/* What is not plain. */
static bool add_rare(struct objects *objects, const struct instruction *one,
                     const uint64_t *operands)
{
    switch (instruction_number(one)) {
    case INSTRUCTION_LANE: objects->lane = (uint32_t)operands[0]; return true;
    case INSTRUCTION_THREAD_BEGIN: objects->threads[objects->lane] = operands[0]; return true;
    case INSTRUCTION_TICK: objects->ns += operands[0]; return true;
    default: break;
    }
    if (instruction_number(one) >= CALL_KINDS) return true;
    objects->call++;
    return add_call(objects, one, operands);
}

bool objects_add(struct objects *objects, const struct instruction_batch *batch)
{
    const struct instruction *one = batch->at;
    bool good = pages_reserve(&objects->row, &objects->capacity, objects->live + batch->count,
                              INSTRUCTION_BLOCK_MAX, sizeof *objects->row);
    for (size_t i = 0; good && i < batch->count; i++) {
        const unsigned opcode = batch->opcodes[i];
        switch (instruction_effects[opcode]) {
        case INSTRUCTION_PLAIN_ALLOCATION:
            objects->call++;
            begin(objects, &objects->row[objects->live++], opcode, batch->values[i], 0);
            break;
        case INSTRUCTION_PLAIN_FREE:
            objects->call++;
            good = end_at(objects, objects->live - 1 - batch->values[i], opcode);
            break;
        default: good = add_rare(objects, one, batch->operands + one->operand_at); one++;
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
