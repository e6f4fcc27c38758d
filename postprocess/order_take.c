#include <inttypes.h>

#include "common/call_table.h"
#include "postprocess/order_state.h"

/* ---- objects ---- */

/* The object of the record at hand is not among the living. True: it is one whose birth is not known. False: the
 * record waits for the birth, or the stream is damaged. */
static bool order_object_is_unknown(struct order *order, struct order_lane *lane, uint64_t token)
{
    bool unknown = token == RAW_TOKEN_UNKNOWN;
    if (!unknown && !order_is_born(order, lane, token)) {
        if (!order_never_born(order, lane, token)) return lane_waits_for_birth(order, lane, token);
        unknown = true;
    }
    if (!unknown && !object_table_was_lost(&order->objects, token) &&
        !ORDER_DAMAGE(order, lane, ORDER_OBJECT_DEAD, ": object %" PRIu64 " of lane %" PRIu32,
                      raw_token_serial(token), raw_token_lane(token)))
        return false;
    order->totals.unknown_objects++;
    return true;
}

static inline void order_put_death(struct order *order, const struct record *record,
                                   uint32_t object)
{
    struct instruction_writer *writer = order->writer;
    enum call_kind kind = (enum call_kind)record->number;
    switch (record->shape) {
    case SHAPE_DEATH_SIZED: instruction_put_death_sized(writer, kind, object, record->size); break;
    case SHAPE_DEATH_ALIGNED:
        instruction_put_death_aligned(writer, kind, object, record->operand);
        break;
    case SHAPE_DEATH_SIZED_ALIGNED:
        instruction_put_death_sized_aligned(writer, kind, object, record->size, record->operand);
        break;
    default: instruction_put_death(writer, kind, object); break;
    }
}

static inline bool order_take_death(struct order *order, struct order_lane *lane,
                                    const struct record *record)
{
    uint32_t object;
    if (__builtin_expect(order_is_born(order, lane, record->token) &&
                             object_table_death(&order->objects, record->token, &object),
                         1)) {
        instruction_put_lane(order->writer, lane->number);
        order_put_death(order, record, object);
        return true;
    }
    if (!order_object_is_unknown(order, lane, record->token)) return false;
    instruction_put_lane(order->writer, lane->number);
    instruction_put_death_unknown(order->writer, (enum call_kind)record->number, record->size,
                                  record->operand);
    return true;
}

static bool order_take_realloc(struct order *order, struct order_lane *lane,
                               const struct record *record)
{
    enum call_kind kind = (enum call_kind)record->number;
    uint32_t object;
    if (order_is_born(order, lane, record->token) &&
        object_table_death(&order->objects, record->token, &object)) {
        instruction_put_lane(order->writer, lane->number);
        instruction_put_realloc(order->writer, kind, object, record->size, record->address);
    } else {
        if (!order_object_is_unknown(order, lane, record->token)) return false;
        instruction_put_lane(order->writer, lane->number);
        object =
            instruction_put_realloc_unknown(order->writer, kind, record->size, record->address);
    }
    object_table_birth(&order->objects, lane->number, object);
    return true;
}

static bool order_take_failed(struct order *order, struct order_lane *lane,
                              const struct record *record)
{
    enum call_kind kind = (enum call_kind)record->kind;
    uint32_t object = 0;
    bool known = false;
    if (call_shapes[kind] == SHAPE_REALLOC) {
        bool born = order_is_born(order, lane, record->token);
        known = born && object_table_find(&order->objects, record->token, &object);
        /* Born and dead: nothing says that this came before another lane ended the object, but so it was. */
        if (!known && !born && !order_object_is_unknown(order, lane, record->token)) return false;
        order->totals.unknown_objects += born && !known;
    }
    order->totals.failed++;
    instruction_put_lane(order->writer, lane->number);
    if (call_shapes[kind] != SHAPE_REALLOC)
        instruction_put_birth_failed(order->writer, kind, record->size, record->operand);
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
    object_table_lose(&order->objects, lane->number, record->operand);
    instruction_put_lost(order->writer, lane->number, record->size);
    order->totals.lost_events += record->size;
}

/* Records that are not calls that did what they should. */
static bool order_take_other(struct order *order, struct order_lane *lane,
                             const struct record *record)
{
    struct instruction_writer *writer = order->writer;
    switch (record->number) {
    case RAW_STAMP_BEFORE: return order_take_stamp_before(order, lane, record);
    case RAW_STAMP_AFTER: return order_take_stamp(order, lane, record);
    case RAW_LOST_STAMPS: return lane_was_scouted(lane) || order_add_hole(order, record);
    case RAW_LOST: order_take_lost(order, lane, record); return true;
    default: break;
    }
    if (record[1].number == RAW_STAMP_AFTER && !order_may_enter(order, lane, record)) return false;
    if (record->number == RAW_FAILED) return order_take_failed(order, lane, record);
    instruction_put_lane(writer, lane->number);
    switch (record->number) {
    case RAW_THREAD_BEGIN: instruction_put_thread_begin(writer, record->operand); break;
    case RAW_THREAD_END: instruction_put_thread_end(writer); break;
    default: instruction_put_thread_cache_deleted(writer); break;
    }
    return true;
}

static inline bool order_take_call(struct order *order, struct order_lane *lane,
                                   const struct record *record)
{
    enum call_kind kind = (enum call_kind)record->number;
    uint32_t object;
    switch (record->shape) {
    case SHAPE_BIRTH:
        instruction_put_lane(order->writer, lane->number);
        object = instruction_put_birth(order->writer, kind, record->size, record->address);
        object_table_birth(&order->objects, lane->number, object);
        return true;
    case SHAPE_BIRTH_ALIGNED:
        instruction_put_lane(order->writer, lane->number);
        object = instruction_put_birth_aligned(order->writer, kind, record->size, record->operand,
                                               record->address);
        object_table_birth(&order->objects, lane->number, object);
        return true;
    case SHAPE_REALLOC: return order_take_realloc(order, lane, record);
    case SHAPE_HEAP: order_take_heap(order, lane, record); return true;
    default: return order_take_death(order, lane, record);
    }
}

/* Takes records up to number `end` of the batch. False: the one at lane->at waits, or is damage. */
bool order_take_records(struct order *order, struct order_lane *lane, uint32_t end)
{
    const struct record *records = lane->records;
    for (uint32_t at = lane->at; at < end; at++) {
        const struct record *record = &records[at];
        lane->at = at; /* for messages */
        if (__builtin_expect(record->shape == SHAPE_UNDEFINED, 0)) {
            if (!order_take_other(order, lane, record)) return false;
            continue;
        }
        if (__builtin_expect(record[1].number == RAW_STAMP_AFTER, 0) &&
            !order_may_enter(order, lane, record))
            return false;
        if (!order_take_call(order, lane, record)) return false;
    }
    lane->at = end;
    return true;
}
