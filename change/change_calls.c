#include "change/changing.h"

#include "change/change_stream.h"
#include "common/call_table.h"

static struct change_count *changing_count(struct changing *changing, uint32_t change)
{
    return &changing->result->of[change];
}

static const struct change *changing_of(const struct changing *changing, uint32_t change)
{
    return &changing->list->at[change];
}

/* ---- what is written ---- */

/* Before a call of the current lane is put. */
static void changing_put_call(struct changing *changing, uint32_t stack)
{
    instruction_put_lane(&changing->writer, changing->lane);
    if (changing->has_ways) instruction_put_path(&changing->writer, changing->ways);
    changing->has_ways = false;
    instruction_put_stack(&changing->writer, stack);
}

/* Instead of a call that the changed program does not make. */
static void changing_leave_out(struct changing *changing, uint32_t change)
{
    changing->has_ways = false;
    changing->free_missed = false;
    if (change != CHANGE_NONE) changing_count(changing, change)->calls++;
}

/* ---- objects that the change frees ---- */

static void queue_append(struct changing *changing, struct changed_queue *queue, uint32_t at)
{
    struct changed_object *object = &changing->objects[at];
    object->before = queue->last;
    object->after = INSTRUCTION_NO_REGISTER;
    object->is_due = true;
    if (queue->last != INSTRUCTION_NO_REGISTER)
        changing->objects[queue->last].after = at;
    else
        queue->first = at;
    queue->last = at;
}

static void queue_remove(struct changing *changing, struct changed_queue *queue, uint32_t at)
{
    struct changed_object *object = &changing->objects[at];
    if (object->before != INSTRUCTION_NO_REGISTER)
        changing->objects[object->before].after = object->after;
    else
        queue->first = object->after;
    if (object->after != INSTRUCTION_NO_REGISTER)
        changing->objects[object->after].before = object->before;
    else
        queue->last = object->before;
    object->is_due = false;
}

static bool kind_is_in(unsigned kind, unsigned first, unsigned last)
{
    return kind >= first && kind <= last;
}

/* The call that frees what a kind of call makes. */
static enum call_kind kind_that_frees(unsigned kind)
{
    if (kind_is_in(kind, CALL_NEW, CALL_NEW_NOTHROW)) return CALL_DELETE;
    if (kind_is_in(kind, CALL_NEW_ARRAY, CALL_NEW_ARRAY_NOTHROW)) return CALL_DELETE_ARRAY;
    if (kind_is_in(kind, CALL_NEW_ALIGNED, CALL_NEW_ALIGNED_NOTHROW)) return CALL_DELETE_ALIGNED;
    if (kind_is_in(kind, CALL_NEW_ARRAY_ALIGNED, CALL_NEW_ARRAY_ALIGNED_NOTHROW))
        return CALL_DELETE_ARRAY_ALIGNED;
    return CALL_FREE;
}

/* Frees an object that is due: in the thread that made it, or if that has ended, in the current one,
 * which has not. */
static void changing_free_due(struct changing *changing, uint32_t change, uint32_t at)
{
    struct changed_object *object = &changing->objects[at];
    const uint32_t lane = changing->ended[object->lane] ? changing->lane : object->lane;
    queue_remove(changing, &changing->queues[change], at);
    instruction_put_lane(&changing->writer, lane);
    instruction_put_stack(&changing->writer, STACK_END);
    instruction_put_free_with(&changing->writer, kind_that_frees(object->kind), object->name, 0,
                              object->alignment);
    object->name = INSTRUCTION_NO_REGISTER;
    object->is_ended = true;
    changing_count(changing, change)->ended++;
}

/* What `until` counts, so far. */
static uint64_t changing_now(struct changing *changing, uint32_t change)
{
    const struct change_count *count = changing_count(changing, change);
    switch (changing_of(changing, change)->unit) {
    case CHANGE_NS: return changing->ns;
    case CHANGE_CALLS: return changing->calls;
    case CHANGE_OBJECTS: return count->objects;
    default: return count->bytes;
    }
}

/* Frees all that are due, before the next call; later, if the current thread has ended. */
static void changing_free_all_due(struct changing *changing)
{
    if (changing->ended[changing->lane]) return;
    for (uint32_t i = 0; i < changing->list->count; i++) {
        struct changed_queue *queue = &changing->queues[i];
        if (queue->first == INSTRUCTION_NO_REGISTER) continue;
        const uint64_t now = changing_now(changing, i);
        while (queue->first != INSTRUCTION_NO_REGISTER &&
               changing->objects[queue->first].due <= now)
            changing_free_due(changing, i, queue->first);
    }
}

/* ---- live bytes ---- */

static void changing_add_live(struct changing *changing, const struct changed_object *object)
{
    changing->live += object->size;
    if (object->change != CHANGE_NONE) {
        changing->live_objects[object->change]++;
        changing->live_bytes[object->change] += object->size;
    }
    if (changing->live <= changing->peak) return;
    changing->peak = changing->live;
    for (uint32_t i = 0; i < changing->list->count; i++) {
        changing_count(changing, i)->peak_objects = changing->live_objects[i];
        changing_count(changing, i)->peak_bytes = changing->live_bytes[i];
    }
}

static void changing_take_live(struct changing *changing, const struct changed_object *object)
{
    changing->live -= object->size;
    if (object->change == CHANGE_NONE) return;
    changing->live_objects[object->change]--;
    changing->live_bytes[object->change] -= object->size;
}

/* ---- calls that make an object ---- */

/* A random number in [0, 1) for each object, the same each time. */
static double changing_chance(uint64_t number)
{
    number = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    number = (number ^ number >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    number = (number ^ number >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((number ^ number >> 31) >> 11) * 0x1p-53;
}

/* The size in the new stream. */
static uint64_t changing_size(const struct changing *changing, const struct changed_object *object,
                              uint64_t size, bool *is_clamped)
{
    *is_clamped = false;
    if (object->change == CHANGE_NONE) return size;
    const struct change *change = changing_of(changing, object->change);
    return change->action == CHANGE_SIZE ? change_size(change, size, is_clamped) : size;
}

/* The same for one that the program asks for. */
static uint64_t changing_new_size(struct changing *changing, const struct changed_object *object)
{
    bool is_clamped;
    const uint64_t size = changing_size(changing, object, object->size, &is_clamped);
    if (is_clamped) changing_count(changing, object->change)->clamped++;
    return size;
}

/* Before a call that makes an object, or resizes it. Of one that is larger now nothing further is taken to
 * be touched. */
static void changing_put_touched(struct changing *changing, const struct changing_call *call,
                                 uint64_t size)
{
    if (size >= INSTRUCTION_TOUCHED_BYTES)
        instruction_put_touched_runs(&changing->writer, call->touched, call->touched_count);
}

static void changing_put_object(struct changing *changing, const struct changing_call *call,
                                struct changed_object *object, uint64_t size)
{
    struct instruction_writer *writer = &changing->writer;
    changing_put_call(changing, call->stack);
    changing_put_touched(changing, call, size);
    if (call->one->opcode & INSTRUCTION_UNKNOWN)
        object->name = instruction_put_realloc_unknown(writer, call->kind, size, 0);
    else
        object->name =
            instruction_put_allocation_with(writer, call->kind, size, object->alignment, 0);
}

/* What is known of the object's growth, if it is to be reserved; NULL: nothing. */
static const struct change_grown *changing_grown(struct changing *changing)
{
    const struct change_growth *growth = &changing->growth;
    if (changing->grown == growth->count || growth->at[changing->grown].made != changing->made)
        return NULL;
    return &growth->at[changing->grown++];
}

/* The change that concerns a new object. Those to be reserved are known already. */
static uint32_t changing_find(struct changing *changing, const struct changing_call *call,
                              const struct change_grown *grown)
{
    if (grown != NULL) return grown->continues ? CHANGE_NONE : grown->change;
    const uint32_t change = change_match_of(&changing->match, call->stack, call->one->size);
    if (change == CHANGE_NONE) return change;
    return changing_of(changing, change)->action == CHANGE_RESERVE ? CHANGE_NONE : change;
}

/* The call that makes or ends an object in a chunk. */
static struct change_chunk_call chunk_call(const struct changing *changing,
                                           const struct changed_object *object, uint32_t stack)
{
    return (struct change_chunk_call){.change = changing_of(changing, object->change),
                                      .index = object->change,
                                      .lane = changing->lane,
                                      .of = object->lane,
                                      .stack = stack,
                                      .size = object->size};
}

static bool changing_is_in_chunk(const struct changing *changing,
                                 const struct changed_object *object)
{
    return object->change != CHANGE_NONE &&
           changing_of(changing, object->change)->action >= CHANGE_POOL;
}

static void changing_make_in_chunk(struct changing *changing, struct changed_object *object,
                                   const struct changing_call *made)
{
    struct change_chunk_call call = chunk_call(changing, object, made->stack);
    call.touched = made->touched;
    call.touched_count = made->touched_count;
    if (!change_chunks_take(&changing->chunks, &call, &object->place)) changing->lacks = true;
}

/* Before the size of the object changes, or when it ends. */
static void changing_end_in_chunk(struct changing *changing, const struct changed_object *object)
{
    const struct change_chunk_call call = chunk_call(changing, object, STACK_END);
    if (!change_chunks_give(&changing->chunks, &call, object->place)) changing->lacks = true;
}

/* A call that makes an object says in which functions its thread is. */
static void changing_leave_calls(struct changing *changing, uint32_t stack)
{
    if (changing->by_call == 0 || stack == STACK_END) return;
    uint32_t left = changing->by_call & ~change_match_names(&changing->match, stack);
    for (; left != 0; left &= left - 1)
        change_chunks_leave(&changing->chunks, (uint32_t)__builtin_ctz(left), changing->lane);
}

/* ---- objects that are shared ---- */

static bool changing_is_shared(const struct changing *changing, const struct changed_object *object)
{
    return object->change != CHANGE_NONE &&
           changing_of(changing, object->change)->action == CHANGE_SHARED;
}

static struct change_key shared_key(const struct changed_object *object)
{
    return (struct change_key){object->size, object->change, object->node};
}

/* Whether the object is equal to one that is there, and becomes that. */
static bool changing_join(struct changing *changing, struct changed_object *object)
{
    struct change_count *count = changing_count(changing, object->change);
    if (changing_chance(count->objects) >= changing_of(changing, object->change)->share)
        return false;
    const uint32_t at = change_shared_join(&changing->shared, shared_key(object));
    if (at == CHANGE_NOWHERE) return false;
    object->part = at;
    object->name = changing->shared.ones[at].name;
    count->removed++;
    return true;
}

/* Others may join it from now on. */
static void changing_share(struct changing *changing, struct changed_object *object)
{
    object->part = change_shared_make(&changing->shared, shared_key(object), object->name);
    changing->lacks = changing->lacks || object->part == CHANGE_NOWHERE;
}

/* The object leaves what it shares. Whether that ends: nobody else needs it. */
static bool changing_leave(struct changing *changing, const struct changed_object *object)
{
    return change_shared_leave(&changing->shared, shared_key(object), object->part);
}

/* ---- calls that make an object: the whole ---- */

/* Does with a new object what its change says. Whether it is to be put. */
static bool changing_apply(struct changing *changing, struct changed_object *object,
                           const struct changing_call *call)
{
    const struct change *change = changing_of(changing, object->change);
    struct change_count *count = changing_count(changing, object->change);
    count->objects++;
    count->bytes += object->size;
    if (change->action == CHANGE_REMOVE && changing_chance(count->objects) < change->share) {
        count->removed++;
        return false;
    }
    if (changing_is_in_chunk(changing, object)) {
        changing_make_in_chunk(changing, object, call);
        return false;
    }
    if (change->action == CHANGE_SHARED) return !changing_join(changing, object);
    if (change->action != CHANGE_UNTIL) return true;
    object->due = changing_now(changing, object->change) + change->limit;
    queue_append(changing, &changing->queues[object->change], call->one->object);
    return true;
}

static void changing_begin(struct changing *changing, const struct changing_call *call)
{
    const uint32_t at = call->one->object;
    const struct change_grown *grown = changing_grown(changing);
    changing_leave_calls(changing, call->stack);
    struct changed_object *object = &changing->objects[at];
    *object = (struct changed_object){.size = call->one->size,
                                      .name = INSTRUCTION_NO_REGISTER,
                                      .change = changing_find(changing, call, grown),
                                      .lane = (uint16_t)changing->lane,
                                      .node = call->stack,
                                      .kind = (uint8_t)call->kind};
    if (call_shapes[call->kind] == SHAPE_ALLOCATION_ALIGNED) object->alignment = call->operands[0];
    changing->made++;
    if (grown != NULL && grown->continues) {
        changing->has_ways = false;
        changing->continued[changing->lane] = at; /* the next call of the lane frees the other */
        changing_add_live(changing, object);
        return;
    }
    const bool stays =
        object->change == CHANGE_NONE || changing_apply(changing, object, call);
    if (stays)
        changing_put_object(changing, call, object,
                            grown != NULL ? grown->size : changing_new_size(changing, object));
    else
        changing_leave_out(changing, object->change);
    if (stays && changing_is_shared(changing, object)) changing_share(changing, object);
    if (grown != NULL) changing_count(changing, object->change)->shrunk += grown->has_shrunk;
    changing_add_live(changing, object);
}

/* ---- calls that change or end one ---- */

/* The program frees or reallocates what a change has freed: it may have used it until now. */
static bool changing_is_gone(struct changing *changing, struct changed_object *object)
{
    if (object->is_ended) changing_count(changing, object->change)->outlived++;
    object->is_ended = false;
    return object->name == INSTRUCTION_NO_REGISTER;
}

static void changing_resize(struct changing *changing, const struct changing_call *call)
{
    struct changed_object *object = &changing->objects[call->one->object];
    const uint32_t here = change_match_of(&changing->match, call->stack, object->size);
    changing_leave_calls(changing, call->stack);
    const struct changed_object before = *object;
    changing_take_live(changing, object);
    object->size = call->one->size;
    changing_add_live(changing, object);
    if (changing_is_in_chunk(changing, object)) { /* a copy of it, then it itself */
        changing_make_in_chunk(changing, object, call);
        changing_end_in_chunk(changing, &before);
    }
    if (here != CHANGE_NONE && object->change == CHANGE_NONE)
        changing_count(changing, here)->elsewhere++;
    const bool is_reserved = object->change != CHANGE_NONE &&
                             changing_of(changing, object->change)->action == CHANGE_RESERVE;
    if (changing_is_gone(changing, object) || is_reserved) {
        changing_leave_out(changing, object->change);
        return;
    }
    const bool copies = changing_is_shared(changing, object) && !changing_leave(changing, &before);
    const uint64_t size = copies ? object->size : changing_new_size(changing, object);
    changing_put_call(changing, call->stack);
    changing_put_touched(changing, call, size);
    if (copies) /* others still need the one that it was */
        object->name = instruction_put_allocation(&changing->writer, CALL_MALLOC, size, 0);
    else
        instruction_put_realloc(&changing->writer, call->kind, object->name, size, 0);
    if (changing_is_shared(changing, object)) changing_share(changing, object);
}

/* Passes what an object is in the new stream to its copy, if the latest call of the lane made one. */
static bool changing_continue(struct changing *changing, struct changed_object *freed)
{
    const uint32_t at = changing->continued[changing->lane];
    if (at == INSTRUCTION_NO_REGISTER) return false;
    struct changed_object *copy = &changing->objects[at];
    changing->continued[changing->lane] = INSTRUCTION_NO_REGISTER;
    changing_take_live(changing, copy);
    copy->name = freed->name;
    copy->change = freed->change;
    changing_take_live(changing, freed);
    changing_add_live(changing, copy);
    changing_leave_out(changing, copy->change);
    changing_leave_out(changing, copy->change);
    return true;
}

static void changing_end(struct changing *changing, const struct changing_call *call)
{
    struct changed_object *object = &changing->objects[call->one->object];
    struct instruction_writer *writer = &changing->writer;
    if (changing_continue(changing, object)) return;
    changing_take_live(changing, object);
    if (object->is_due)
        queue_remove(changing, &changing->queues[object->change], call->one->object);
    if (changing_is_gone(changing, object) ||
        (changing_is_shared(changing, object) && !changing_leave(changing, object))) {
        if (changing_is_in_chunk(changing, object)) changing_end_in_chunk(changing, object);
        changing_leave_out(changing, object->change);
        return;
    }
    const uint64_t given = call->one->size;
    bool is_clamped;
    const uint64_t size =
        given == object->size ? changing_size(changing, object, given, &is_clamped) : given;
    changing_put_call(changing, call->stack);
    if (changing->free_missed)
        instruction_put_missed_free(writer, object->name);
    else
        instruction_put_free_with(writer, call->kind, object->name, size,
                                  shape_has_alignment(call_shapes[call->kind]) ? call->operands[0]
                                                                               : 0);
    changing->free_missed = false;
}

/* ---- calls that do neither, and other instructions ---- */

static void changing_pass_failed(struct changing *changing, const struct changing_call *call)
{
    const struct instruction *one = call->one;
    struct instruction_writer *writer = &changing->writer;
    const uint64_t alignment =
        call_shapes[call->kind] == SHAPE_ALLOCATION_ALIGNED ? call->operands[0] : 0;
    if (shape_is_allocation(call_shapes[call->kind])) {
        changing_put_call(changing, STACK_END);
        instruction_put_allocation_failed(writer, call->kind, one->size, alignment);
    } else if (one->opcode & INSTRUCTION_UNKNOWN) {
        changing_put_call(changing, STACK_END);
        instruction_put_realloc_unknown_failed(writer, one->size);
    } else if (!changing_is_gone(changing, &changing->objects[one->object])) {
        changing_put_call(changing, STACK_END);
        instruction_put_realloc_failed(writer, changing->objects[one->object].name, one->size);
    } else {
        changing_leave_out(changing, changing->objects[one->object].change);
    }
}

static void changing_pass(struct changing *changing, const struct changing_call *call)
{
    const uint64_t alignment = shape_has_alignment(call_shapes[call->kind]) ? call->operands[0] : 0;
    if (call->one->opcode & INSTRUCTION_FAILED) {
        changing_pass_failed(changing, call);
        return;
    }
    changing_put_call(changing, call->stack);
    if (call_shapes[call->kind] == SHAPE_HEAP)
        instruction_put_heap(&changing->writer, call->kind, call->one->operands, call->operands);
    else
        instruction_put_free_unknown(&changing->writer, call->kind, call->one->size, alignment);
}

void changing_tick(struct changing *changing, const struct changing_call *call)
{
    changing->ns += call->operands[0];
    changing_free_all_due(changing);
    instruction_put_tick(&changing->writer, call->operands[0], 0, 0);
}

static void changing_pass_other(struct changing *changing, const struct changing_call *call)
{
    struct instruction_writer *writer = &changing->writer;
    const unsigned number = instruction_number(call->one);
    if (number == INSTRUCTION_LANE) changing->lane = (uint32_t)call->operands[0];
    if (number == INSTRUCTION_FREE_MISSED) changing->free_missed = true;
    if (number == INSTRUCTION_LOST)
        instruction_put_lost(writer, call->operands[0], call->operands[1]);
    if (number == INSTRUCTION_BASE_END) instruction_put_base_end(writer);
    if (number == INSTRUCTION_PATH) changing->ways = call->operands[0];
    if (number == INSTRUCTION_PATH) changing->has_ways = true;
    if (number < INSTRUCTION_THREAD_BEGIN || number > INSTRUCTION_FREED_TWICE ||
        number == INSTRUCTION_TICK || number == INSTRUCTION_LOST)
        return;
    instruction_put_lane(writer, changing->lane);
    switch (number) {
    case INSTRUCTION_THREAD_BEGIN: instruction_put_thread_begin(writer, call->operands[0]); break;
    case INSTRUCTION_THREAD_END: instruction_put_thread_end(writer); break;
    case INSTRUCTION_THREAD_CACHE_DELETED: instruction_put_thread_cache_deleted(writer); break;
    default: instruction_put_freed_twice(writer); break;
    }
    if (number == INSTRUCTION_THREAD_BEGIN || number == INSTRUCTION_THREAD_END)
        changing->ended[changing->lane] = number == INSTRUCTION_THREAD_END;
}

void changing_take(struct changing *changing, const struct changing_call *call)
{
    const unsigned does = instruction_does[call->one->opcode];
    if (does == INSTRUCTION_OTHER) {
        changing_pass_other(changing, call);
        return;
    }
    changing->ended[changing->lane] = false;
    changing_free_all_due(changing);
    changing->calls++;
    switch (does) {
    case INSTRUCTION_BEGINS: changing_begin(changing, call); break;
    case INSTRUCTION_RESIZES: changing_resize(changing, call); break;
    case INSTRUCTION_ENDS: changing_end(changing, call); break;
    default: changing_pass(changing, call); break;
    }
}
