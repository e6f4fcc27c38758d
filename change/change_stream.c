#include "change/change_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "change/change_growth.h"
#include "common/call_table.h"
#include "common/numbers.h"
#include "common/pages.h"
#include "stream/instruction_writer.h"

#define CHANGE_LANES_BYTES INSTRUCTION_LANES_MAX

/* An object of the trace that is alive. */
struct changed_object {
    uint64_t size; /* in the trace */
    uint64_t due, alignment;
    uint32_t name;          /* its register in the new stream; NO_REGISTER: it is not there */
    uint32_t change;        /* or CHANGE_NONE */
    uint32_t before, after; /* those to be freed before and after it, by register */
    uint16_t lane;
    uint8_t kind;
    bool is_due;   /* it is in the list of those to be freed */
    bool is_ended; /* the change has freed it */
};

/* Objects in the order in which they are to be freed. */
struct changed_queue {
    uint32_t first, last;
};

struct changing {
    const struct change_trace *trace;
    const struct change_list *list;
    struct change_result *result;
    struct change_match match;
    struct change_growth growth;
    size_t grown; /* the next entry of growth */
    struct instruction_writer writer;
    struct changed_object *objects; /* by register of the trace */
    uint64_t capacity;
    struct changed_queue queues[CHANGES_MAX];
    uint64_t live_objects[CHANGES_MAX], live_bytes[CHANGES_MAX]; /* that match */
    uint64_t live, peak;                                         /* bytes of all */
    uint64_t made, calls, ns;
    uint8_t *ended;      /* by lane: its thread has ended */
    uint32_t *continued; /* by lane: the copy that its latest call made; or NO_REGISTER */
    uint32_t lane;
    bool free_missed; /* the next free was */
    bool has_ways;    /* of the next call, */
    uint64_t ways;
    struct original_statistics statistics;
};

/* The instruction at hand. */
struct changing_call {
    const struct instruction *one;
    const struct instruction_batch *batch;
    const uint64_t *operands;
    uint32_t stack;
    unsigned kind;
};

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
    changing_count(changing, change)->calls++;
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

/* Frees an object that is due: in the thread that made it, unless that has ended. */
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

/* Frees all that are due, before the next call. */
static void changing_free_all_due(struct changing *changing)
{
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
static uint64_t changing_size(struct changing *changing, const struct changed_object *object,
                              uint64_t size)
{
    bool is_clamped = false;
    if (object->change == CHANGE_NONE) return size;
    const struct change *change = changing_of(changing, object->change);
    if (change->action == CHANGE_SIZE) size = change_size(change, size, &is_clamped);
    changing_count(changing, object->change)->clamped += is_clamped;
    return size;
}

static void changing_put_object(struct changing *changing, const struct changing_call *call,
                                struct changed_object *object, uint64_t size)
{
    struct instruction_writer *writer = &changing->writer;
    changing_put_call(changing, call->stack);
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

/* Does with a new object what its change says. Whether it is to be put. */
static bool changing_apply(struct changing *changing, struct changed_object *object, uint32_t at)
{
    const struct change *change = changing_of(changing, object->change);
    struct change_count *count = changing_count(changing, object->change);
    count->objects++;
    count->bytes += object->size;
    if (change->action == CHANGE_REMOVE && changing_chance(count->objects) < change->share) {
        count->removed++;
        return false;
    }
    if (change->action != CHANGE_UNTIL) return true;
    object->due = changing_now(changing, object->change) + change->limit;
    queue_append(changing, &changing->queues[object->change], at);
    return true;
}

static void changing_begin(struct changing *changing, const struct changing_call *call)
{
    const uint32_t at = call->one->object;
    const struct change_grown *grown = changing_grown(changing);
    struct changed_object *object = &changing->objects[at];
    *object = (struct changed_object){.size = call->one->size,
                                      .name = INSTRUCTION_NO_REGISTER,
                                      .change = changing_find(changing, call, grown),
                                      .lane = (uint16_t)changing->lane,
                                      .kind = (uint8_t)call->kind};
    if (call_shapes[call->kind] == SHAPE_ALLOCATION_ALIGNED) object->alignment = call->operands[0];
    changing->made++;
    if (grown != NULL && grown->continues) {
        changing->continued[changing->lane] = at; /* the next call of the lane frees the other */
        changing_add_live(changing, object);
        return;
    }
    const bool stays = object->change == CHANGE_NONE || changing_apply(changing, object, at);
    if (stays)
        changing_put_object(changing, call, object,
                            grown != NULL ? grown->size
                                          : changing_size(changing, object, object->size));
    else
        changing_leave_out(changing, object->change);
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
    changing_take_live(changing, object);
    object->size = call->one->size;
    changing_add_live(changing, object);
    if (here != CHANGE_NONE && object->change == CHANGE_NONE)
        changing_count(changing, here)->elsewhere++;
    const bool is_reserved = object->change != CHANGE_NONE &&
                             changing_of(changing, object->change)->action == CHANGE_RESERVE;
    if (changing_is_gone(changing, object) || is_reserved) {
        changing_leave_out(changing, object->change);
        return;
    }
    changing_put_call(changing, call->stack);
    instruction_put_realloc(&changing->writer, call->kind, object->name,
                            changing_size(changing, object, object->size), 0);
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
    if (changing_is_gone(changing, object)) {
        changing_leave_out(changing, object->change);
        return;
    }
    const uint64_t given = call->one->size;
    const uint64_t size = given == object->size ? changing_size(changing, object, given) : given;
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

static void changing_tick(struct changing *changing, const struct changing_call *call,
                          const struct instruction_tick *tick)
{
    struct original_usage usage;
    const bool has_usage = instruction_batch_usage(call->batch, tick, &usage);
    changing->ns += call->operands[0];
    changing_free_all_due(changing);
    instruction_batch_statistics(call->batch, tick, &changing->statistics);
    if (has_usage)
        instruction_put_tick_with_usage(&changing->writer, call->operands[0], call->operands[1],
                                        call->operands[2], &usage, &changing->statistics);
    else
        instruction_put_tick(&changing->writer, call->operands[0], call->operands[1],
                             call->operands[2]);
}

static void changing_pass_other(struct changing *changing, const struct changing_call *call)
{
    struct instruction_writer *writer = &changing->writer;
    const unsigned number = instruction_number(call->one);
    if (number == INSTRUCTION_LANE) changing->lane = (uint32_t)call->operands[0];
    if (number == INSTRUCTION_FREE_MISSED) changing->free_missed = true;
    if (number == INSTRUCTION_LOST)
        instruction_put_lost(writer, call->operands[0], call->operands[1]);
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
    changing->ended[changing->lane] = number == INSTRUCTION_THREAD_END;
}

static void changing_take(struct changing *changing, const struct changing_call *call)
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

/* ---- the whole stream ---- */

/* False: no memory. */
static bool changing_take_batch(struct changing *changing, const struct instruction_batch *batch)
{
    struct instruction_walk walk = instruction_walk_over(batch, batch->count);
    struct instruction one;
    const struct instruction_tick *tick = batch->ticks;
    if (!pages_reserve(&changing->objects, &changing->capacity, batch->registers,
                       INSTRUCTION_BLOCK_MAX, sizeof *changing->objects))
        return false;
    while (instruction_walk_next(&walk, &one)) {
        const struct changing_call call = {&one, batch, batch->operands + one.operand_at,
                                           instruction_walk_stack(&walk), instruction_number(&one)};
        changing_take(changing, &call);
        if (call.kind == INSTRUCTION_TICK) changing_tick(changing, &call, tick++);
    }
    return true;
}

static const char *changing_define(void *of, const struct stack_definition *definition)
{
    struct changing *changing = of;
    instruction_put_definition(&changing->writer, definition);
    return NULL;
}

/* The header of the new stream, whose metadata the caller frees: that of the trace, and the change.
 * False: no memory. */
static bool changing_header(struct instruction_header *header, const struct change_list *list)
{
    const size_t bytes = header->metadata_bytes + strlen(list->text) + sizeof "what_if=\n";
    char *metadata = malloc(bytes);
    if (metadata == NULL) return false;
    if (header->metadata_bytes > 0) memcpy(metadata, header->metadata, header->metadata_bytes);
    snprintf(metadata + header->metadata_bytes, bytes - header->metadata_bytes, "what_if=%s\n",
             list->text);
    header->metadata = metadata;
    header->metadata_bytes = bytes - 1;
    header->features &= INSTRUCTION_FEATURE_STACKS | INSTRUCTION_FEATURE_FREE_STACKS;
    return true;
}

static bool changing_copy(struct changing *changing, struct instruction_reader *reader, char *why,
                          size_t why_bytes)
{
    struct instruction_batch batch;
    while (instruction_reader_next(reader, &batch) && !instruction_writer_failed(&changing->writer))
        if (!changing_take_batch(changing, &batch))
            return error_explain(why, why_bytes, "no memory for objects");
    if (reader->state == INSTRUCTIONS_FAILED) {
        error_text(&reader->error, why, why_bytes);
        return false;
    }
    changing->result->peak_live_bytes = changing->peak;
    changing->result->is_cut = reader->state == INSTRUCTIONS_CUT;
    const enum instruction_status status =
        reader->state == INSTRUCTIONS_CUT ? INSTRUCTION_STATUS_CUT : reader->end_status;
    if (instruction_writer_finish(&changing->writer, status)) return true;
    error_text(&changing->writer.error, why, why_bytes);
    return false;
}

static bool changing_write(struct changing *changing, struct instruction_reader *reader,
                           const char *path, char *why, size_t why_bytes)
{
    struct instruction_header header = reader->header;
    struct output output;
    if (!output_open(&output, path)) {
        error_text(&output.error, why, why_bytes);
        return false;
    }
    if (output_is_lz4(path)) output_compress(&output);
    bool good = changing_header(&header, changing->list);
    if (!good) error_explain(why, why_bytes, "no memory");
    if (good && !(good = instruction_writer_open(&changing->writer, &output, &header)))
        error_text(&changing->writer.error, why, why_bytes);
    if (header.metadata != reader->header.metadata) free((char *)header.metadata);
    good = good && changing_copy(changing, reader, why, why_bytes);
    instruction_writer_close(&changing->writer);
    output.discards = !good;
    if (output_close(&output)) return good;
    if (good) error_text(&output.error, why, why_bytes);
    return false;
}

static bool changing_open(struct changing *changing)
{
    for (size_t i = 0; i < CHANGES_MAX; i++)
        changing->queues[i] =
            (struct changed_queue){INSTRUCTION_NO_REGISTER, INSTRUCTION_NO_REGISTER};
    changing->ended = pages_map(CHANGE_LANES_BYTES);
    changing->continued = pages_map(CHANGE_LANES_BYTES * sizeof *changing->continued);
    for (size_t i = 0; changing->continued != NULL && i < INSTRUCTION_LANES_MAX; i++)
        changing->continued[i] = INSTRUCTION_NO_REGISTER;
    return changing->ended != NULL && changing->continued != NULL &&
           change_match_open(&changing->match, changing->list,
                             changing->trace->has_stacks ? &changing->trace->names : NULL,
                             changing->trace->stacks.nodes_end);
}

static void changing_close(struct changing *changing)
{
    change_match_close(&changing->match);
    change_growth_free(&changing->growth);
    pages_unmap(changing->ended, CHANGE_LANES_BYTES);
    pages_unmap(changing->continued, CHANGE_LANES_BYTES * sizeof *changing->continued);
    pages_unmap(changing->objects, changing->capacity * sizeof *changing->objects);
}

/* Whether the call stacks are enough for the patterns. */
static bool change_has_stacks(const struct change_trace *trace, const struct change_list *list,
                              char *why, size_t why_bytes)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->at[i].pattern.names_count == 0) continue;
        if (!trace->has_stacks)
            return error_explain(why, why_bytes,
                                 "'%s' needs call stacks, which the trace does not have: "
                                 "malloctape record --stacks=all",
                                 list->at[i].text);
        if (trace->is_sampled)
            return error_explain(why, why_bytes,
                                 "'%s' needs the call stacks of all calls, and the trace has those "
                                 "of samples: malloctape record --stacks=all",
                                 list->at[i].text);
    }
    return true;
}

static bool change_wants_growth(const struct change_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->at[i].action == CHANGE_RESERVE) return true;
    return false;
}

/* Whether each change has found something. */
static bool change_has_found(const struct changing *changing, char *why, size_t why_bytes)
{
    for (size_t i = 0; i < changing->list->count; i++) {
        if (changing->result->of[i].objects > 0) continue;
        change_match_explain(&changing->match, &changing->list->at[i], why, why_bytes);
        return false;
    }
    return true;
}

bool change_stream_write(const struct change_trace *trace, const struct change_list *list,
                         const char *path, struct change_result *result, char *why,
                         size_t why_bytes)
{
    struct changing changing = {.trace = trace, .list = list, .result = result};
    struct instruction_reader reader = {.state = INSTRUCTIONS_FAILED};
    struct input input = {.fd = -1};
    *result = (struct change_result){.peak_live_bytes = 0};
    if (!change_has_stacks(trace, list, why, why_bytes)) return false;
    bool good = changing_open(&changing) || error_explain(why, why_bytes, "no memory");
    if (good && change_wants_growth(list))
        good = change_growth_read(&changing.growth, trace, &changing.match, why, why_bytes);
    if (good && !(good = change_trace_read(trace, &reader, &input, changing_define, &changing)))
        error_text(&reader.error, why, why_bytes);
    good = good && changing_write(&changing, &reader, path, why, why_bytes);
    if (good && !(good = change_has_found(&changing, why, why_bytes))) output_remove(path);
    instruction_reader_close(&reader);
    input_close(&input);
    changing_close(&changing);
    return good;
}
