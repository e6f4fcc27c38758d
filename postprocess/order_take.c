#include <inttypes.h>

#include "common/call_table.h"
#include "common/check.h"
#include "postprocess/order_state.h"
#include "postprocess/touched_table.h"
#include "stream/raw_calls.h"

/* ---- objects ---- */

/* What became of the object of a record. */
enum object_state {
    OBJECT_KNOWN,
    OBJECT_UNKNOWN, /* its allocation is not known */
    OBJECT_FREED,   /* it has ended already: the program frees it twice */
    OBJECT_NOT_NOW  /* the record waits for it, or ordering has failed */
};

/* Whether allocations that are missing, or whose places are not known, explain that nobody lives at
 * the place. */
static bool order_misses_allocations(const struct order *order, uint64_t bound)
{
    const struct order_lane *lane = order->lanes[raw_allocations_lane(bound)];
    uint64_t count = raw_allocations_count(bound);
    return lane->first_lost - 1 < count || lane->decoder.unplaced - 1 < count ||
           (order->salvage && order->totals.lost_events > 0);
}

/* Nobody lives at the place of the object of the record at hand, though the bound has been reached.
 */
static enum object_state order_miss_object(struct order *order, const struct record *record)
{
    if (!order_misses_allocations(order, record->bound)) return OBJECT_FREED;
    order->totals.unknown_objects++;
    return OBJECT_UNKNOWN;
}

/* The object of a record that has to be waited for, or is unknown. */
static enum object_state order_reach_object(struct order *order, struct order_lane *lane,
                                            const struct record *record)
{
    if (record->bound != 0) {
        enum order_bound bound = order_bound(order, lane, record->bound);
        if (bound == BOUND_REACHED) return OBJECT_KNOWN;
        if (bound == BOUND_AHEAD) {
            lane_waits_for_allocations(order, lane, record->bound);
            return OBJECT_NOT_NOW;
        }
    }
    order->totals.unknown_objects++;
    return OBJECT_UNKNOWN;
}

/* Whether the lane that has the record at hand had its object last. */
static inline bool order_is_own(const struct order_lane *lane, const struct record *record)
{
    return record->bound == lane->allocated;
}

/* Ends the object of the record at hand. */
static inline enum object_state order_end_object(struct order *order, struct order_lane *lane,
                                                 const struct record *record, uint32_t *object)
{
    struct object_table *objects = &order->objects;
    if (__builtin_expect(order_is_own(lane, record), 1)) {
        if (object_table_end_own(objects, record->ends, record->bound, object)) return OBJECT_KNOWN;
    } else {
        enum object_state state = order_reach_object(order, lane, record);
        if (state != OBJECT_KNOWN || object_table_end(objects, record->ends, record->bound, object))
            return state;
    }
    return order_miss_object(order, record);
}

static void order_put_freed_twice(struct order *order)
{
    const struct instruction_writer *writer = order->writer;
    if (!order->freed_twice)
        order->totals.first_freed_twice = writer->totals.instructions + writer->count;
    order->freed_twice = true;
    instruction_put_freed_twice(order->writer);
}

/* In an opaque stream a free is one of the calls that bounds count. */
static inline void order_count_free(const struct order *order, struct order_lane *lane)
{
    if (order->opaque) lane->allocated = raw_allocations(lane->number, lane_allocations(lane) + 1);
}

/* Puts the stack of the call at hand, which brings, changes or frees an object, before the call. */
static inline void order_put_stack(struct order *order, const struct record *record)
{
    if (record->stack == STACK_END) return;
    instruction_put_stack(order->writer, record->stack);
    order->totals.stacks++;
}

/* Before a call that makes an object, or gives it another size: what of it was ever resident. */
static inline void order_put_touched(struct order *order, const struct order_lane *lane,
                                     const struct record *record)
{
    if (record->size < INSTRUCTION_TOUCHED_BYTES || order->touched == NULL) return;
    struct touched touched;
    if (touched_table_of(order->touched, raw_allocations(lane->number, record->serial),
                         record->size, &touched))
        instruction_put_touched(order->writer, &touched);
}

static bool order_take_free(struct order *order, struct order_lane *lane,
                            const struct record *record)
{
    uint32_t object;
    enum object_state state = order_end_object(order, lane, record, &object);
    if (state == OBJECT_NOT_NOW) return false;
    instruction_put_lane(order->writer, lane->number);
    if (state == OBJECT_FREED) order_put_freed_twice(order);
    if (state == OBJECT_KNOWN && order->attached) overlaps_end(&order->overlaps, object);
    order_put_stack(order, record);
    enum call_kind kind = (enum call_kind)record->number;
    if (state != OBJECT_KNOWN)
        instruction_put_free_unknown(order->writer, kind, record->size, record->operand);
    else if (record->shape == SHAPE_FREE)
        instruction_put_free(order->writer, kind, object);
    else
        instruction_put_free_with(order->writer, kind, object, record->size, record->operand);
    order_count_free(order, lane);
    return true;
}

/* What comes next in the lane is after as many calls of another one as the bound says. A step that
 * is relaxed does not wait for that. */
static bool order_take_after(struct order *order, struct order_lane *lane,
                             const struct record *record)
{
    uint64_t after = order_within_stream(order, record->bound);
    return lane->step == STEP_RELAXED || order_bound(order, lane, after) != BOUND_AHEAD ||
           lane_waits_for_allocations(order, lane, after);
}

/* An object of `bytes` is about to begin at the place. In an attached recording, those that still
 * live there, or on its bytes, have ended by frees that were missed: puts these. */
static void order_end_missed(struct order *order, uint32_t place, uint64_t bytes)
{
    const uint64_t address = placement_address(&order->placement, place);
    uint32_t object, its_place = place;
    if (object_table_end_plain(&order->objects, place, &object)) {
        overlaps_end(&order->overlaps, object);
        instruction_put_missed_free(order->writer, object);
    }
    while ((object = overlaps_find(&order->overlaps, address, bytes, &its_place)) !=
           OVERLAPS_NONE) {
        overlaps_end(&order->overlaps, object);
        if (object_table_end_plain(&order->objects, its_place, &object))
            instruction_put_missed_free(order->writer, object);
    }
}

/* An object begins, in the register. */
static inline void order_note_allocation(struct order *order, struct order_lane *lane,
                                         const struct record *record, uint32_t object)
{
    uint64_t allocated = raw_allocations(lane->number, record->serial);
    lane->allocated = allocated;
    object_table_allocation(&order->objects, allocated, record->place, object);
    if (order->opaque) placement_note_object(&order->placement, object, record->size);
    if (__builtin_expect(order->attached, 0))
        overlaps_begin(&order->overlaps, record->place,
                       placement_address(&order->placement, record->place), record->size, object);
}

static bool order_take_realloc(struct order *order, struct order_lane *lane,
                               const struct record *record)
{
    enum call_kind kind = (enum call_kind)record->number;
    uint32_t object;
    enum object_state state = order_end_object(order, lane, record, &object);
    if (state == OBJECT_NOT_NOW) return false;
    instruction_put_lane(order->writer, lane->number);
    if (state == OBJECT_KNOWN && order->attached) overlaps_end(&order->overlaps, object);
    if (order->attached) order_end_missed(order, record->place, record->size);
    if (state == OBJECT_FREED) order_put_freed_twice(order);
    order_put_stack(order, record);
    order_put_touched(order, lane, record);
    if (state == OBJECT_KNOWN)
        instruction_put_realloc(order->writer, kind, object, record->size, record->address);
    else
        object =
            instruction_put_realloc_unknown(order->writer, kind, record->size, record->address);
    order_note_allocation(order, lane, record, object);
    return true;
}

static bool order_take_failed(struct order *order, struct order_lane *lane,
                              const struct record *record)
{
    enum call_kind kind = (enum call_kind)record->kind;
    uint32_t object = 0;
    bool known = false;
    if (call_shapes[kind] == SHAPE_REALLOC) {
        enum object_state state = order_reach_object(order, lane, record);
        if (state == OBJECT_NOT_NOW) return false;
        known = state == OBJECT_KNOWN &&
                object_table_find(&order->objects, record->ends, record->bound, &object);
        /* Allocated and freed: nothing says that this came before another lane ended the object,
         * but so it was. */
        order->totals.unknown_objects += state == OBJECT_KNOWN && !known;
    }
    order->totals.failed++;
    instruction_put_lane(order->writer, lane->number);
    if (call_shapes[kind] != SHAPE_REALLOC)
        instruction_put_allocation_failed(order->writer, kind, record->size, record->operand);
    else if (known)
        instruction_put_realloc_failed(order->writer, object, record->size);
    else
        instruction_put_realloc_unknown_failed(order->writer, record->size);
    return true;
}

static void order_take_heap(struct order *order, struct order_lane *lane,
                            const struct record *record)
{
    const uint64_t numbers[RAW_HEAP_NUMBERS_MAX] = {record->size, record->operand};
    instruction_put_lane(order->writer, lane->number);
    instruction_put_heap(order->writer, (enum call_kind)record->number, record->count, numbers);
}

static void order_take_lost(struct order *order, struct order_lane *lane,
                            const struct record *record)
{
    uint64_t allocations = lane_allocations(lane);
    if (record->operand > 0) {
        if (lane->first_lost == 0) lane->first_lost = allocations + 1;
        lane->allocated = raw_allocations(lane->number, allocations + record->operand);
    }
    instruction_put_lost(order->writer, lane->number, record->size);
    order->totals.lost_events += record->size;
}

/* Records other than calls that succeeded. */
static bool order_take_other(struct order *order, struct order_lane *lane,
                             const struct record *record)
{
    struct instruction_writer *writer = order->writer;
    switch (record->number) {
    case RAW_LOST: order_take_lost(order, lane, record); return true;
    case RAW_FAILED: return order_take_failed(order, lane, record);
    case RAW_AFTER: return order_take_after(order, lane, record);
    default: break;
    }
    instruction_put_lane(writer, lane->number);
    switch (record->number) {
    case RAW_THREAD_BEGIN: instruction_put_thread_begin(writer, record->operand); break;
    case RAW_THREAD_END: instruction_put_thread_end(writer); break;
    default: instruction_put_thread_cache_deleted(writer); break;
    }
    return true;
}

static inline bool order_take_allocation(struct order *order, struct order_lane *lane,
                                         const struct record *record)
{
    struct instruction_writer *writer = order->writer;
    enum call_kind kind = (enum call_kind)record->number;
    instruction_put_lane(writer, lane->number);
    if (__builtin_expect(order->attached, 0)) order_end_missed(order, record->place, record->size);
    order_put_stack(order, record);
    order_put_touched(order, lane, record);
    order_note_allocation(
        order, lane, record,
        record->shape == SHAPE_ALLOCATION
            ? instruction_put_allocation(writer, kind, record->size, record->address)
            : instruction_put_allocation_with(writer, kind, record->size, record->operand,
                                              record->address));
    return true;
}

bool order_take_call(struct order *order, struct order_lane *lane, const struct record *record)
{
    switch (record->shape) {
    case SHAPE_ALLOCATION:
    case SHAPE_ALLOCATION_ALIGNED: return order_take_allocation(order, lane, record);
    case SHAPE_REALLOC: return order_take_realloc(order, lane, record);
    case SHAPE_HEAP: order_take_heap(order, lane, record); return true;
    case SHAPE_UNDEFINED: return order_take_other(order, lane, record);
    default: return order_take_free(order, lane, record);
    }
}

/* Takes a call about which nothing is special. False: something is. */
static inline __attribute__((always_inline)) bool order_take_plain_call(struct order *order,
                                                                        struct order_lane *lane,
                                                                        const struct raw_call *call)
{
    struct instruction_writer *writer = order->writer;
    enum call_kind kind = (enum call_kind)call->kind;
    uint32_t object;
    if (call->is_allocation) {
        struct object_entry *entry = object_table_entry(&order->objects, call->place);
        if (__builtin_expect(entry->lives != 0, 0)) return false;
        object = instruction_put_allocation(writer, kind, call->size, 0);
        *entry = (struct object_entry){++lane->allocated, object + 1};
        if (order->opaque) placement_note_object(&order->placement, object, call->size);
        return true;
    }
    if (!object_table_end_plain(&order->objects, call->place, &object)) return false;
    if (call->is_sized)
        instruction_put_free_sized(writer, kind, object, call->size);
    else
        instruction_put_free(writer, kind, object);
    return true;
}

static uint64_t order_take_opaque_calls(struct order *order, struct order_lane *lane, uint64_t most)
{
    struct raw_decoder *decoder = &lane->decoder;
    struct raw_call call;
    uint64_t taken = 0;
    if (order->attached || !raw_opaque_calls_begin(decoder)) return 0;
    instruction_put_lane(order->writer, lane->number);
    while (taken < most && raw_opaque_calls_look(decoder, &call) &&
           order_take_plain_call(order, lane, &call)) {
        if (!call.is_allocation) lane->allocated++;
        raw_opaque_calls_take(decoder, &call);
        taken++;
    }
    return taken;
}

/* Of the objects that calls a little further on may end. (Always in line: GCC takes a function that
 * only prefetches for one that does nothing.) */
static inline __attribute__((always_inline)) void order_fetch_ahead(const struct order *order,
                                                                    const struct units_call *codes,
                                                                    const uint8_t *at)
{
    enum { ENTRY_BYTES = 32, OBJECT_BYTES = 16 }; /* ahead */
    const struct object_entry *far =
        object_table_entry(&order->objects, raw_place_ahead(codes, at + ENTRY_BYTES));
    const struct object_entry *near =
        object_table_entry(&order->objects, raw_place_ahead(codes, at + OBJECT_BYTES));
    __builtin_prefetch(far);
    if ((int32_t)near->lives > 0) __builtin_prefetch(&order->writer->objects[near->lives - 1]);
}

static uint64_t order_take_cached_calls(struct order *order, struct order_lane *lane, uint64_t most)
{
    struct raw_calls calls;
    struct raw_call call;
    if (!raw_calls_begin(&calls, &lane->decoder)) return 0;
    instruction_put_lane(order->writer, lane->number);
    while (calls.taken < most && raw_calls_look(&calls, &call)) {
        order_fetch_ahead(order, calls.codes, calls.at);
        if (!order_take_plain_call(order, lane, &call)) break;
        raw_calls_take(&calls, &call);
    }
    raw_calls_end(&calls, &lane->decoder);
    return calls.taken;
}

/* Whether it is its turn, and nothing is special about the object. */
static bool order_may_take_remote(const struct order *order, const struct order_lane *lane,
                                  const struct raw_remote_step *step)
{
    const struct object_entry *entry = object_table_entry(&order->objects, step->free.place);
    return order_is_allocated(order, lane, step->free.bound) && (int32_t)entry->lives > 0 &&
           object_is_meant(entry->allocated, step->free.bound) &&
           (!step->has_sequence ||
            order->structures[step->sequence.index].next == step->sequence.number);
}

static uint64_t order_take_remote_frees(struct order *order, struct order_lane *lane, uint64_t most)
{
    struct raw_decoder *decoder = &lane->decoder;
    struct raw_remote_step step;
    uint64_t first = decoder->records;
    while (!order->attached && decoder->records - first + 1 < most &&
           raw_remote_step_look(decoder, &step) && order_may_take_remote(order, lane, &step)) {
        const struct raw_remote_free *call = &step.free;
        uint32_t object;
        object_table_end_plain(&order->objects, call->place, &object);
        instruction_put_lane(order->writer, lane->number);
        if (call->is_sized)
            instruction_put_free_sized(order->writer, (enum call_kind)call->kind, object,
                                       call->size);
        else
            instruction_put_free(order->writer, (enum call_kind)call->kind, object);
        order_count_free(order, lane);
        raw_remote_step_take(decoder, &step);
        MUST_HOLD(!step.has_sequence ||
                  order->structures[step.sequence.index].next == step.sequence.number);
        if (step.has_sequence) order_pass_sequence(order, step.sequence.index);
    }
    return decoder->records - first;
}

uint64_t order_take_calls(struct order *order, struct order_lane *lane, uint64_t most)
{
    uint64_t taken = 0, before;
    do {
        before = taken;
        if (lane->allocated == raw_allocations(lane->number, lane->decoder.allocations))
            taken += (order->opaque ? order_take_opaque_calls
                                    : order_take_cached_calls)(order, lane, most - taken);
        taken += order_take_remote_frees(order, lane, most - taken);
    } while (taken > before);
    return taken;
}
