#include "postprocess/order.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/call_table.h"
#include "postprocess/object_table.h"
#include "postprocess/wait_heap.h"
#include "tracing/raw_decoder.h"

const struct error_kind order_errors[] = {ORDER_ERROR_LIST(ERROR_LIST_KIND)};

/* ---- limits ---- */

/* Records a lane has decoded at once: small enough for a first-level cache, with those of a few other lanes. */
#define BATCH_RECORDS 128u

/* So many records are in sight from the one at hand, if there are that many: enough for the stamps before a call.
 * Looking further would be better only for a call that entered more structures than that. */
#define LOOKAHEAD 12u

/* A lane's turn is this part of what it has in the window, and not less than the minimum. */
#define TURNS_PER_WINDOW   16u
#define TURN_RECORDS_MIN   512u
#define TURN_RECORDS_MAX   (1u << 20)
#define TURN_RECORDS_AHEAD 64u /* for lanes that overtake the oldest window */

/* Windows that may be open at once before what does not go on is damage. A tick is taken in one go, so one more
 * than the oldest should do. A power of two. */
#define WINDOWS_MAX 8u

/* A window with more than this is begun before it has ended: a recording need not have ticks, and a busy one has
 * large windows. */
#define WINDOW_BYTES_EASY  (8u << 20)
/* With more than this that cannot be ordered, what is missing is not expected from the rest of the window. */
#define WINDOW_BYTES_STUCK (64u << 20)
/* With more than this that cannot be ordered, it never will be. */
#define WINDOW_BYTES_MAX   (UINT64_C(1) << 30)

/* What a lane that is this near to the end of its window waits for may be in the next one, because lanes are
 * not looked at all at the same time; farther away it is not. */
#define TICK_SKEW_RECORDS 1024u

#define STRUCTURES   RAW_STAMP_ENTRIES
#define SEGMENTS_MAX 16u

_Static_assert(SEGMENTS_MAX > LOOKAHEAD, "the records in sight lie in no more chunks");

/* ---- state ---- */

enum lane_state { LANE_IDLE, LANE_READY, LANE_WAITS };

/* Where the records of a chunk are, for messages. */
struct order_segment {
    uint64_t first_record, offset;
};

/* How far a lane goes in a window. */
struct order_mark {
    uint64_t window, end_record;
};

struct order_lane {
    uint32_t number;
    uint8_t state;           /* enum lane_state */
    uint32_t at, filled;     /* records[at .. filled) are decoded and not taken */
    struct record *records;  /* BATCH_RECORDS and two sentinels; NULL while idle */
    struct order_lane *next; /* in the ready queue, or in the list of unused... */
    uint32_t turn_records;   /* length of a turn */
    uint32_t marks_first, marks_count;
    struct order_mark marks[WINDOWS_MAX];
    struct raw_chunk *open;  /* being decoded */
    uint64_t decoded_window; /* of the latest record in the batch */
    bool holds_tail;         /* idle because of lane_tail() */
    struct raw_chunk *queue, *queue_last;
    struct wait_heap birth_waiters; /* by serial */
    uint32_t wait_structure;        /* what it waits for: an index, or STRUCTURES for a birth */
    uint64_t wait_number;           /* a stamp, or a token */
    bool in_unit;                   /* it could have entered something else of its unit */
    bool listed;                    /* in order->steppable */
    bool stepwise;                  /* the unit at hand is not taken as a whole */
    uint32_t segments_count;
    struct order_segment segments[SEGMENTS_MAX]; /* the latest chunks, a ring */
    struct raw_decoder decoder;
};

/* Numbers that no record will bring (lost_stamps). */
struct order_hole {
    uint64_t first, count;
};

struct order_structure {
    uint64_t next; /* the number whose turn it is */
    struct wait_heap waiters;
    struct order_hole *holes;
    uint32_t holes_count, holes_room;
    uint64_t unit;       /* the latest unit that was looked at and enters here */
    uint64_t unit_count; /* how often it does */
    bool skipped;        /* numbers were done without; they may come late */
};

struct order_window {
    uint32_t lanes_left; /* lanes with records that were not taken */
    uint32_t *lanes;
    uint32_t lanes_count, lanes_room;
    struct raw_tick tick;
};

struct order {
    struct instruction_writer *writer;
    struct raw_reader *reader;
    struct error error;
    struct order_totals totals;
    struct object_table objects;
    struct order_structure structures[STRUCTURES];
    struct order_lane **lanes; /* by number; NULL where none has been seen */
    uint32_t lanes_count;
    struct order_lane *ready, *ready_last;
    uint64_t units; /* that were looked at */
    /* Lanes that wait in the middle of a unit, or did so once: a ring of lanes_count entries. */
    uint32_t *steppable;
    uint32_t steppable_first, steppable_count;
    struct record *unused_records; /* batches, linked through their first bytes */

    /*   oldest <= admitted,  oldest <= open <= oldest + WINDOWS_MAX - 1
     * Windows below `oldest` have ended; chunks come into `open`; lanes may go into those up to `admitted`. */
    uint64_t oldest, admitted, open;
    struct order_window windows[WINDOWS_MAX];
    uint64_t queued_bytes, queued_bytes_limit;
    uint64_t last_tick_ns;
    bool ended;                           /* no more chunks will come */
    bool relaxed;                         /* units are not kept together just now */
    int64_t kind_differences[CALL_KINDS]; /* kinds as recorded, less as written */
};

static struct order_window *order_window(struct order *order, uint64_t window)
{
    return &order->windows[window & (WINDOWS_MAX - 1)];
}

const struct error *order_error(const struct order *order)
{
    return &order->error;
}

const struct order_totals *order_totals_of(const struct order *order)
{
    return &order->totals;
}

static bool order_no_memory(struct order *order)
{
    errno = ENOMEM;
    return error_set_system(&order->error, "no memory for ordering");
}

/* ---- making and freeing ---- */

struct order *order_new(struct raw_reader *reader, struct instruction_writer *writer)
{
    struct order *order = calloc(1, sizeof *order);
    if (order == NULL) return NULL;
    order->reader = reader;
    order->writer = writer;
    order->queued_bytes_limit = WINDOW_BYTES_EASY;
    object_table_init(&order->objects);
    for (uint32_t i = 0; i < STRUCTURES; i++) {
        order->structures[i].next = 1;
        wait_heap_init(&order->structures[i].waiters);
    }
    return order;
}

static void lane_free(struct order *order, struct order_lane *lane)
{
    if (lane == NULL) return;
    if (lane->open != NULL) raw_chunk_release(order->reader, lane->open);
    while (lane->queue != NULL) {
        struct raw_chunk *chunk = lane->queue;
        lane->queue = chunk->next;
        raw_chunk_release(order->reader, chunk);
    }
    raw_decoder_free(&lane->decoder);
    wait_heap_free(&lane->birth_waiters);
    free(lane->records);
    free(lane);
}

void order_free(struct order *order)
{
    if (order == NULL) return;
    for (uint32_t i = 0; i < order->lanes_count; i++)
        lane_free(order, order->lanes[i]);
    free(order->lanes);
    free(order->steppable);
    while (order->unused_records != NULL) {
        struct record *records = order->unused_records;
        memcpy(&order->unused_records, records, sizeof records);
        free(records);
    }
    for (uint32_t i = 0; i < STRUCTURES; i++) {
        wait_heap_free(&order->structures[i].waiters);
        free(order->structures[i].holes);
    }
    for (uint32_t i = 0; i < WINDOWS_MAX; i++)
        free(order->windows[i].lanes);
    object_table_free(&order->objects);
    free(order);
}

/* ---- lanes ---- */

static bool order_make_room_for_lane(struct order *order, uint32_t number)
{
    if (number < order->lanes_count) return true;
    uint32_t count = order->lanes_count == 0 ? 16 : order->lanes_count;
    while (count <= number)
        count *= 2;
    struct order_lane **lanes = realloc(order->lanes, count * sizeof(struct order_lane *));
    if (lanes == NULL) return order_no_memory(order);
    memset(lanes + order->lanes_count, 0,
           (count - order->lanes_count) * sizeof(struct order_lane *));
    order->lanes = lanes;
    order->lanes_count = count;
    return true;
}

/* The lane, made if it is mentioned for the first time. NULL: no memory. */
static struct order_lane *order_lane(struct order *order, uint32_t number)
{
    if (!order_make_room_for_lane(order, number)) return NULL;
    struct order_lane *lane = order->lanes[number];
    if (lane != NULL) return lane;
    lane = calloc(1, sizeof *lane);
    if (lane == NULL || !object_table_open_lane(&order->objects, number)) {
        free(lane);
        order_no_memory(order);
        return NULL;
    }
    lane->number = number;
    wait_heap_init(&lane->birth_waiters);
    raw_decoder_init(&lane->decoder, number,
                     (order->reader->header.features & RAW_FEATURE_ADDRESSES) != 0);
    order->lanes[number] = lane;
    return lane;
}

/* Whether the lane has nothing left that it could ever take. */
static bool lane_is_exhausted(const struct order_lane *lane)
{
    return lane == NULL || (lane->at == lane->filled && lane->open == NULL && lane->queue == NULL);
}

/* Number of the record at hand. */
static uint64_t lane_position(const struct order_lane *lane)
{
    return lane->decoder.records - (lane->filled - lane->at);
}

/* Where the record at hand is in the stream, as near as is known: each record of a chunk has one byte of
 * its first column. */
static uint64_t lane_offset(const struct order_lane *lane)
{
    uint64_t position = lane_position(lane), offset = ERROR_NO_OFFSET;
    uint32_t count = lane->segments_count < SEGMENTS_MAX ? lane->segments_count : SEGMENTS_MAX;
    for (uint32_t i = 1; i <= count; i++) {
        const struct order_segment *segment =
            &lane->segments[(lane->segments_count - i) % SEGMENTS_MAX];
        offset = segment->offset;
        if (segment->first_record <= position) break;
    }
    return offset;
}

#define ORDER_FAIL(order, lane, which, format, ...)                                            \
    error_set(&(order)->error, &order_errors[which], lane_offset(lane),                        \
              "lane %" PRIu32 ", record %" PRIu64 format, (lane)->number, lane_position(lane), \
              __VA_ARGS__)

/* ---- the ready queue ---- */

static void order_make_ready(struct order *order, struct order_lane *lane)
{
    lane->state = LANE_READY;
    lane->next = NULL;
    if (order->ready == NULL)
        order->ready = lane;
    else
        order->ready_last->next = lane;
    order->ready_last = lane;
}

static void order_make_ready_first(struct order *order, struct order_lane *lane)
{
    lane->state = LANE_READY;
    lane->next = order->ready;
    if (order->ready == NULL) order->ready_last = lane;
    order->ready = lane;
}

static struct order_lane *order_next_ready(struct order *order)
{
    struct order_lane *lane = order->ready;
    if (lane != NULL) order->ready = lane->next;
    return lane;
}

static bool lane_is_behind(const struct order *order, const struct order_lane *lane)
{
    return lane->marks_count > 0 &&
           lane->marks[lane->marks_first & (WINDOWS_MAX - 1)].window == order->oldest;
}

/* Something it waited for has come. Lanes that hold up the oldest window go before those that overtake it. */
static void order_wake(struct order *order, uint32_t number)
{
    struct order_lane *lane = order->lanes[number];
    if (order->admitted > order->oldest && lane_is_behind(order, lane))
        order_make_ready_first(order, lane);
    else
        order_make_ready(order, lane);
}

/* ---- waiting ---- */

static uint32_t structure_index(uint32_t structure)
{
    return structure == RAW_STRUCTURE_PAGE_HEAP ? STRUCTURES - 1 : structure;
}

static uint32_t structure_number(uint32_t index)
{
    return index == STRUCTURES - 1 ? RAW_STRUCTURE_PAGE_HEAP : index;
}

/* Always false, for `return lane_waits_...`: the record at hand cannot be taken now. */
static bool lane_waits_for_stamp(struct order *order, struct order_lane *lane, uint32_t index,
                                 uint64_t number)
{
    if (!wait_heap_add(&order->structures[index].waiters, number, lane->number))
        return order_no_memory(order);
    lane->state = LANE_WAITS;
    lane->wait_structure = index;
    lane->wait_number = number;
    return false;
}

static bool lane_waits_for_birth(struct order *order, struct order_lane *lane, uint64_t token)
{
    struct order_lane *other = order_lane(order, raw_token_lane(token));
    if (other == NULL) return false;
    if (!wait_heap_add(&other->birth_waiters, raw_token_serial(token), lane->number))
        return order_no_memory(order);
    lane->state = LANE_WAITS;
    lane->wait_structure = STRUCTURES;
    lane->wait_number = token;
    return false;
}

static void order_wake_for_births(struct order *order, struct order_lane *lane, uint64_t births)
{
    uint32_t number;
    while (wait_heap_take(&lane->birth_waiters, births, &number))
        order_wake(order, number);
}

/* Whether births of the token's lane have got as far as the token. */
static inline bool order_is_born(const struct order *order, const struct order_lane *lane,
                                 uint64_t token)
{
    uint32_t other = raw_token_lane(token);
    if (__builtin_expect(other == lane->number, 1)) return true;
    return other < order->objects.lanes_count &&
           raw_token_serial(token) <= order->objects.lanes[other].births;
}

/* Whether the birth, not there yet, never will be: the recording ended before it (FORMAT.md 4.4). */
static bool order_never_born(const struct order *order, uint64_t token)
{
    uint32_t other = raw_token_lane(token);
    if (!order->ended) return false;
    return other >= order->reader->lanes_count ||
           raw_token_serial(token) > order->reader->lanes[other].births;
}

/* ---- stamps ---- */

/* Moves on over holes, and wakes whoever's turn it is. */
static void structure_advance(struct order *order, struct order_structure *structure)
{
    for (uint32_t i = 0; i < structure->holes_count;) {
        const struct order_hole hole = structure->holes[i];
        if (hole.first > structure->next) {
            i++;
            continue;
        }
        if (hole.first + hole.count > structure->next) structure->next = hole.first + hole.count;
        structure->holes[i] = structure->holes[--structure->holes_count];
        i = 0;
    }
    uint32_t number;
    while (wait_heap_take(&structure->waiters, structure->next, &number))
        order_wake(order, number);
}

static bool order_take_stamp(struct order *order, struct order_lane *lane,
                             const struct record *record)
{
    uint32_t index = structure_index(record->structure);
    struct order_structure *structure = &order->structures[index];
    if (__builtin_expect(record->size != structure->next, 0)) {
        if (record->size > structure->next)
            return lane_waits_for_stamp(order, lane, index, record->size);
        if (structure->skipped) return true;
        return ORDER_FAIL(order, lane, ORDER_STAMP_REPEATED,
                          ": number %" PRIu64 " of structure %" PRIu32 ", after %" PRIu64,
                          record->size, record->structure, structure->next - 1);
    }
    structure->next++;
    order->totals.stamps++;
    if (structure->waiters.lowest <= structure->next || structure->holes_count > 0)
        structure_advance(order, structure);
    return true;
}

static bool order_add_hole(struct order *order, const struct record *record)
{
    struct order_structure *structure = &order->structures[structure_index(record->structure)];
    if (structure->holes_count == structure->holes_room) {
        uint32_t room = structure->holes_room == 0 ? 4 : structure->holes_room * 2;
        struct order_hole *holes = realloc(structure->holes, room * sizeof *holes);
        if (holes == NULL) return order_no_memory(order);
        structure->holes = holes;
        structure->holes_room = room;
    }
    structure->holes[structure->holes_count++] = (struct order_hole){record->size, record->operand};
    order->totals.stamps_missing += record->operand;
    structure_advance(order, structure);
    return true;
}

/* ---- units ---- */

/* Notes a lane that waits for a number in the middle of its unit: if nothing else goes on, it has to enter what it
 * can enter (order_step). */
static bool order_list_steppable(struct order *order, struct order_lane *lane)
{
    if (lane->listed) return true;
    if (order->steppable == NULL) {
        order->steppable = malloc(RAW_LANES_MAX * sizeof *order->steppable);
        if (order->steppable == NULL) return order_no_memory(order);
    }
    order->steppable[(order->steppable_first + order->steppable_count++) % RAW_LANES_MAX] =
        lane->number;
    lane->listed = true;
    return true;
}

/* Whether it is the unit's turn at one of its stamps, given that it takes those before it. */
static bool unit_may_take(struct order *order, const struct record *stamp, uint64_t unit)
{
    struct order_structure *structure = &order->structures[structure_index(stamp->structure)];
    if (structure->unit != unit) {
        structure->unit = unit;
        structure->unit_count = 0;
    }
    return stamp->size <= structure->next + structure->unit_count++;
}

/* Whether the unit that begins with the record at hand, a stamp before a call or a call, can be taken as a whole:
 * its object is there, and it is its turn in every structure. The stamps that are not in sight do not count. False:
 * the lane waits for what is not so. */
static bool order_unit_is_free(struct order *order, struct order_lane *lane,
                               const struct record *record)
{
    const struct record *end = lane->records + lane->filled, *call = record;
    uint64_t unit = ++order->units;
    bool first = true;
    while (call < end && call->number == RAW_STAMP_BEFORE)
        call++;
    if (call < end && !order_is_born(order, lane, call->token) &&
        !order_never_born(order, call->token))
        return lane_waits_for_birth(order, lane, call->token);
    for (const struct record *at = record; at < end; at++) {
        if (at == call) continue;
        if (at > call && at->number != RAW_STAMP_AFTER) break;
        if (!unit_may_take(order, at, unit)) {
            lane->in_unit = !first;
            if (!first && !order_list_steppable(order, lane)) return false;
            return lane_waits_for_stamp(order, lane, structure_index(at->structure), at->size);
        }
        first = false;
    }
    return true;
}

/* A stamp that belongs to the next call. */
static bool order_take_stamp_before(struct order *order, struct order_lane *lane,
                                    const struct record *record)
{
    if (!lane->stepwise && !order->relaxed && !order_unit_is_free(order, lane, record))
        return false;
    if (!order_take_stamp(order, lane, record)) return false;
    /* The unit's last stamp: the next one is taken as a whole again. */
    if (record[1].number != RAW_STAMP_BEFORE && record[2].number != RAW_STAMP_AFTER)
        lane->stepwise = false;
    return true;
}

/* Whether a call with stamps after it may be emitted: not before its turn, at least in the first structure. */
static bool order_may_enter(struct order *order, struct order_lane *lane, const struct record *call)
{
    if (order->relaxed) return true;
    if (!lane->stepwise) return order_unit_is_free(order, lane, call);
    uint32_t index = structure_index(call[1].structure);
    if (call[1].size > order->structures[index].next)
        return lane_waits_for_stamp(order, lane, index, call[1].size);
    lane->stepwise = false;
    return true;
}

/* ---- calls ---- */

/* The object of the record at hand is not among the living. True: it is one whose birth is not known. False: the
 * record waits for the birth, or the stream is damaged. */
static bool order_object_is_unknown(struct order *order, struct order_lane *lane, uint64_t token)
{
    bool unknown = token == RAW_TOKEN_UNKNOWN;
    if (!unknown && !order_is_born(order, lane, token)) {
        if (!order_never_born(order, token)) return lane_waits_for_birth(order, lane, token);
        unknown = true;
    }
    if (!unknown && !object_table_was_lost(&order->objects, token))
        return ORDER_FAIL(order, lane, ORDER_OBJECT_DEAD, ": object %" PRIu64 " of lane %" PRIu32,
                          raw_token_serial(token), raw_token_lane(token));
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
        known = order_is_born(order, lane, record->token) &&
                object_table_find(&order->objects, record->token, &object);
        if (!known && !order_object_is_unknown(order, lane, record->token)) return false;
        order->kind_differences[kind]++;
        order->kind_differences[CALL_REALLOC_MOVED]--;
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
    case RAW_LOST_STAMPS: return order_add_hole(order, record);
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

/* ---- a lane's turn ---- */

/* Takes records up to number `end` of the batch. False: the one at lane->at waits, or is damage. */
static bool order_take_records(struct order *order, struct order_lane *lane, uint32_t end)
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

static bool lane_take_batch(struct order *order, struct order_lane *lane)
{
    lane->records = order->unused_records;
    if (lane->records != NULL) {
        memcpy(&order->unused_records, lane->records, sizeof lane->records);
        return true;
    }
    lane->records = malloc((BATCH_RECORDS + 2) * sizeof *lane->records);
    return lane->records != NULL || order_no_memory(order);
}

static void lane_give_batch(struct order *order, struct order_lane *lane)
{
    if (lane->records == NULL) return;
    memcpy(lane->records, &order->unused_records, sizeof lane->records);
    order->unused_records = lane->records;
    lane->records = NULL;
    lane->at = lane->filled = 0;
}

/* Makes the next chunk the open one, if there is one and its window has been admitted. */
static bool lane_open_chunk(struct order *order, struct order_lane *lane)
{
    struct raw_chunk *chunk = lane->queue;
    if (chunk == NULL || chunk->window > order->admitted || error_is_set(&lane->decoder.error))
        return false;
    lane->queue = chunk->next;
    lane->open = chunk;
    lane->decoded_window = chunk->window;
    lane->segments[lane->segments_count++ % SEGMENTS_MAX] =
        (struct order_segment){chunk->first_record, chunk->offset};
    raw_decoder_open(&lane->decoder, chunk);
    return true;
}

static void lane_close_chunk(struct order *order, struct order_lane *lane)
{
    order->queued_bytes -= lane->open->payload_bytes;
    raw_chunk_release(order->reader, lane->open);
    lane->open = NULL;
}

/* Decodes more records behind those that are left. Returns whether there may be even more. */
static bool lane_refill(struct order *order, struct order_lane *lane)
{
    if (lane->records == NULL && !lane_take_batch(order, lane)) return false;
    uint32_t left = lane->filled - lane->at;
    memmove(lane->records, lane->records + lane->at, left * sizeof *lane->records);
    lane->at = 0;
    lane->filled = left;
    while (lane->filled < LOOKAHEAD && (lane->open != NULL || lane_open_chunk(order, lane))) {
        lane->filled += raw_decoder_next(&lane->decoder, lane->records + lane->filled,
                                         BATCH_RECORDS - lane->filled);
        if (!raw_decoder_has_more(&lane->decoder)) lane_close_chunk(order, lane);
    }
    lane->records[lane->filled].number = lane->records[lane->filled + 1].number = 0;
    return lane->open != NULL || (lane->queue != NULL && lane->queue->window <= order->admitted &&
                                  !error_is_set(&lane->decoder.error));
}

/* Whether stamps may come after the record. */
static bool may_have_stamps_after(const struct record *record)
{
    return record->shape >= SHAPE_REALLOC || record->number == RAW_THREAD_CACHE_DELETED;
}

/* How many of the last records in sight are a unit that may go on in the next window: there a lane was looked at while
 * its thread was in the middle of a call. They wait until that window has been let in, not longer: a thread need not
 * do anything more. */
static uint32_t lane_tail(const struct order *order, const struct order_lane *lane)
{
    if (order->ended && lane->queue == NULL) return 0;
    if (lane->decoded_window < order->admitted || error_is_set(&lane->decoder.error)) return 0;
    uint32_t first = lane->filled;
    if (may_have_stamps_after(&lane->records[first - 1])) first--;
    while (first > lane->at && lane->records[first - 1].number == RAW_STAMP_BEFORE)
        first--;
    return lane->filled - first;
}

/* Whether a unit goes on at number `at` of the batch, the records before it having been taken. */
static bool splits_unit(const struct order_lane *lane, uint32_t at)
{
    return at > 0 && at <= lane->filled &&
           (lane->records[at - 1].number == RAW_STAMP_BEFORE ||
            lane->records[at].number == RAW_STAMP_AFTER);
}

/* Lets the lane go on for at most `turn` records, and to the end of the unit it is then in. It has
 * then run out of records, or waits, or the turn is over. */
static void lane_run(struct order *order, struct order_lane *lane, uint64_t turn)
{
    bool more = true, in_middle = false;
    while (turn > 0 || in_middle) {
        if (more && lane->filled - lane->at < LOOKAHEAD) more = lane_refill(order, lane);
        uint32_t in_sight = lane->filled - lane->at;
        if (in_sight == 0) break;
        /* The last ones wait until more are in sight, unless there are no more. */
        uint32_t available = in_sight - (more ? LOOKAHEAD - 1 : lane_tail(order, lane));
        lane->holds_tail = available == 0;
        if (available == 0) return;
        uint32_t count = available < turn ? available : (uint32_t)turn;
        if (count == 0) count = 1;
        while (count < available && splits_unit(lane, lane->at + count))
            count++;
        turn -= count < turn ? count : turn;
        if (!order_take_records(order, lane, lane->at + count)) return;
        in_middle = splits_unit(lane, lane->at);
    }
    if (lane->at < lane->filled) return;
    if (error_is_set(&lane->decoder.error) && !error_is_set(&order->error))
        order->error = lane->decoder.error;
}

/* ---- windows ---- */

static struct order_mark *lane_mark_at(struct order_lane *lane, uint32_t index)
{
    return &lane->marks[(lane->marks_first + index) & (WINDOWS_MAX - 1)];
}

static void lane_pass_mark(struct order *order, struct order_lane *lane)
{
    order_window(order, lane_mark_at(lane, 0)->window)->lanes_left--;
    lane->marks_first++;
    lane->marks_count--;
}

static void lane_pass_marks(struct order *order, struct order_lane *lane)
{
    uint64_t position = lane_position(lane);
    while (lane->marks_count > 0 && position >= lane_mark_at(lane, 0)->end_record)
        lane_pass_mark(order, lane);
}

/* Adds the lane to those that have records in the window. */
static bool window_add_lane(struct order *order, uint64_t number, uint32_t lane)
{
    struct order_window *window = order_window(order, number);
    if (window->lanes_count == window->lanes_room) {
        uint32_t room = window->lanes_room == 0 ? 16 : window->lanes_room * 2;
        uint32_t *lanes = realloc(window->lanes, room * sizeof *lanes);
        if (lanes == NULL) return order_no_memory(order);
        window->lanes = lanes;
        window->lanes_room = room;
    }
    window->lanes[window->lanes_count++] = lane;
    window->lanes_left++;
    return true;
}

/* The records that the lane holds back go over into the window after theirs, once that is open: it will be run when that
 * is let in. */
static bool lane_move_tail(struct order *order, struct order_lane *lane)
{
    uint64_t target = lane->decoded_window + 1, end_record = 0;
    bool passed = false;
    if (target > order->open) return true;
    while (lane->marks_count > 0 && lane_mark_at(lane, 0)->window < target) {
        end_record = lane_mark_at(lane, 0)->end_record;
        lane_pass_mark(order, lane);
        passed = true;
    }
    if (!passed || (lane->marks_count > 0 && lane_mark_at(lane, 0)->window == target)) return true;
    lane->marks_first--;
    lane->marks_count++;
    *lane_mark_at(lane, 0) = (struct order_mark){target, end_record};
    return window_add_lane(order, target, lane->number);
}

/* Records that the lane has left in the window it is in. */
static uint64_t lane_records_left(const struct order_lane *lane)
{
    if (lane->marks_count == 0) return 0;
    return lane->marks[lane->marks_first & (WINDOWS_MAX - 1)].end_record - lane_position(lane);
}

static uint64_t lane_turn(const struct order *order, const struct order_lane *lane)
{
    if (order->admitted > order->oldest && !lane_is_behind(order, lane)) return TURN_RECORDS_AHEAD;
    return lane->turn_records;
}

/* One turn of one lane, and what follows from it. */
static void order_run_lane(struct order *order, struct order_lane *lane)
{
    uint64_t position = lane_position(lane);
    lane->state = LANE_IDLE;
    lane->in_unit = lane->holds_tail = false;
    lane_run(order, lane, lane_turn(order, lane));
    order->totals.records += lane_position(lane) - position;
    lane_pass_marks(order, lane);
    const struct object_lane *objects = &order->objects.lanes[lane->number];
    if (lane->birth_waiters.lowest <= objects->births)
        order_wake_for_births(order, lane, objects->births);
    if (lane->state == LANE_WAITS) return;
    if (lane->holds_tail) {
        lane_move_tail(order, lane);
        return;
    }
    if (lane->at < lane->filled || lane->open != NULL ||
        (lane->queue != NULL && lane->queue->window <= order->admitted)) {
        order_make_ready(order, lane);
        return;
    }
    lane_give_batch(order, lane);
}

static bool order_failed(struct order *order)
{
    if (order->objects.failed) order_no_memory(order);
    return error_is_set(&order->error) || instruction_writer_failed(order->writer);
}

/* Gives lanes their turns until none can go on, or the oldest window has ended. */
static bool order_run_ready(struct order *order)
{
    struct order_lane *lane;
    while ((lane = order_next_ready(order)) != NULL) {
        order_run_lane(order, lane);
        if (order_failed(order)) return false;
        if (order_window(order, order->oldest)->lanes_left == 0) break;
    }
    return true;
}

/* Lets lanes into the next window. */
static void order_admit(struct order *order, uint64_t window)
{
    struct order_window *admitted = order_window(order, window);
    order->admitted = window;
    for (uint32_t i = 0; i < admitted->lanes_count; i++) {
        struct order_lane *lane = order->lanes[admitted->lanes[i]];
        uint64_t records = lane_records_left(lane) / TURNS_PER_WINDOW;
        lane->turn_records = records < TURN_RECORDS_MIN   ? TURN_RECORDS_MIN
                             : records > TURN_RECORDS_MAX ? TURN_RECORDS_MAX
                                                          : (uint32_t)records;
        if (lane->state == LANE_IDLE) order_make_ready(order, lane);
    }
}

static void order_end_window(struct order *order)
{
    struct order_window *window = order_window(order, order->oldest);
    bool last = order->ended && order->oldest + 1 == order->open;
    if (!last) {
        uint64_t now = window->tick.since_start_ns;
        instruction_put_tick(order->writer, now - order->last_tick_ns, window->tick.rss_bytes,
                             window->tick.heap_bytes);
        order->last_tick_ns = now;
    }
    window->lanes_count = 0;
    order->totals.windows++;
    order->totals.windows_overtaken += order->admitted > order->oldest;
    order->oldest++;
}

/* ---- when nothing goes on ---- */

static void heap_empty(struct wait_heap *heap)
{
    heap->count = 0;
    heap->lowest = UINT64_MAX;
}

/* Lets every waiting lane look again. */
static void order_wake_all(struct order *order)
{
    for (uint32_t i = 0; i < STRUCTURES; i++)
        heap_empty(&order->structures[i].waiters);
    for (uint32_t i = 0; i < order->lanes_count; i++) {
        struct order_lane *lane = order->lanes[i];
        if (lane == NULL) continue;
        heap_empty(&lane->birth_waiters);
        if (lane->state == LANE_WAITS) order_make_ready(order, lane);
    }
}

/* Lets one lane that waits in the middle of its unit, and has at least so many records left in its window, enter what
 * it can enter: its thread has dropped one lock to take another, and others came between. False: there is none. */
static bool order_step(struct order *order, uint64_t records_left)
{
    for (uint32_t count = order->steppable_count; count > 0; count--) {
        struct order_lane *lane = order->lanes[order->steppable[order->steppable_first]];
        order->steppable_first = (order->steppable_first + 1) % RAW_LANES_MAX;
        order->steppable_count--;
        lane->listed = false;
        if (lane->state != LANE_WAITS || !lane->in_unit) continue;
        if (lane_records_left(lane) < records_left) {
            order_list_steppable(order, lane);
            continue;
        }
        wait_heap_remove(&order->structures[lane->wait_structure].waiters, lane->number);
        lane->stepwise = true;
        order_make_ready(order, lane);
        order->totals.units_stepped++;
        return true;
    }
    return false;
}

/* Units are what is wanted, not what is known: let calls go without them. */
static bool order_relax(struct order *order)
{
    uint64_t records = order->totals.records;
    order->relaxed = true;
    order_wake_all(order);
    order_run_ready(order);
    order->relaxed = false;
    if (order->totals.records == records) return false;
    order->totals.relaxed++;
    return true;
}

/* Lowers lowest[] to the numbers that are among the records. */
static void lower_to_stamps(uint64_t *lowest, const struct record *records, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (records[i].number != RAW_STAMP_BEFORE && records[i].number != RAW_STAMP_AFTER) continue;
        uint32_t index = structure_index(records[i].structure);
        if (records[i].size < lowest[index]) lowest[index] = records[i].size;
    }
}

/* Looks at everything the lane has not taken yet: lowers lowest[] to its stamps, and counts its births. Decoding it
 * again later is cheap: this is rare. */
static bool lane_look_ahead(struct order *order, struct order_lane *lane, uint64_t *lowest,
                            uint64_t *births)
{
    struct raw_decoder decoder;
    struct record records[64];
    if (!raw_decoder_copy(&decoder, &lane->decoder)) return order_no_memory(order);
    lower_to_stamps(lowest, lane->records + lane->at, lane->filled - lane->at);
    const struct raw_chunk *next = lane->queue;
    for (;;) {
        uint32_t count = raw_decoder_next(&decoder, records, sizeof records / sizeof *records);
        lower_to_stamps(lowest, records, count);
        if (count > 0) continue;
        if (next == NULL || !raw_decoder_open(&decoder, next)) break;
        next = next->next;
    }
    *births = decoder.births;
    raw_decoder_free(&decoder);
    return true;
}

/* Where numbers are missing and may be: goes on with the lowest that is there. */
static bool order_skip_missing(struct order *order)
{
    uint64_t lowest[STRUCTURES], births;
    bool skipped = false;
    for (uint32_t i = 0; i < STRUCTURES; i++)
        lowest[i] = UINT64_MAX;
    for (uint32_t i = 0; i < order->lanes_count; i++)
        if (order->lanes[i] != NULL && !lane_is_exhausted(order->lanes[i]) &&
            !lane_look_ahead(order, order->lanes[i], lowest, &births))
            return false;
    for (uint32_t i = 0; i < STRUCTURES; i++) {
        struct order_structure *structure = &order->structures[i];
        if (lowest[i] == UINT64_MAX || lowest[i] <= structure->next) continue;
        order->totals.stamps_missing += lowest[i] - structure->next;
        structure->next = lowest[i];
        structure->skipped = skipped = true;
        structure_advance(order, structure);
    }
    return skipped;
}

static bool order_report_stuck(struct order *order)
{
    const struct order_lane *stuck = NULL;
    for (uint32_t i = 0; i < order->lanes_count && stuck == NULL; i++)
        if (order->lanes[i] != NULL && order->lanes[i]->state == LANE_WAITS &&
            (lane_is_behind(order, order->lanes[i]) || order->ended))
            stuck = order->lanes[i];
    if (stuck == NULL)
        return error_set(&order->error, &order_errors[ORDER_STUCK], ERROR_NO_OFFSET, NULL);
    if (stuck->wait_structure == STRUCTURES)
        return ORDER_FAIL(order, stuck, ORDER_STUCK,
                          ": waits for object %" PRIu64 " of lane %" PRIu32,
                          raw_token_serial(stuck->wait_number), raw_token_lane(stuck->wait_number));
    return ORDER_FAIL(order, stuck, ORDER_STUCK,
                      ": waits for its turn with number %" PRIu64 " of structure %" PRIu32
                      ", which is at %" PRIu64,
                      stuck->wait_number, structure_number(stuck->wait_structure),
                      order->structures[stuck->wait_structure].next);
}

/* Whether numbers may be missing: at the end (FORMAT.md 4.4), or because records were lost. */
static bool order_may_skip(const struct order *order)
{
    return order->ended || order->totals.lost_events > 0;
}

/* Nothing goes on, though all there is has been let in. */
static bool order_unstick(struct order *order)
{
    if (order_may_skip(order) && order_skip_missing(order)) return true;
    if (order_failed(order)) return false;
    return order_relax(order) || order_report_stuck(order);
}

/* ---- what the caller sees ---- */

/* Ends the windows that can be ended. */
static bool order_run(struct order *order)
{
    for (;;) {
        if (!order_run_ready(order) || order_failed(order)) return false;
        bool closed = order->oldest < order->open;
        if (closed && order_window(order, order->oldest)->lanes_left == 0) {
            order_end_window(order);
            if (order->oldest < order->open && order->admitted < order->oldest)
                order_admit(order, order->oldest);
            continue;
        }
        if (order->ready != NULL) continue;
        if (!closed && order->queued_bytes < WINDOW_BYTES_STUCK) return true;
        if (order_step(order, TICK_SKEW_RECORDS)) continue;
        if (!closed) return true;
        /* One window ahead is what a tick's skew explains; more only when no step helps. */
        if (order->admitted > order->oldest && order_step(order, 0)) continue;
        if (order->admitted + 1 < order->open) {
            order_admit(order, order->admitted + 1);
            continue;
        }
        if (!order->ended && order->open - order->oldest < WINDOWS_MAX - 1) return true;
        if (!order_step(order, 0) && !order_unstick(order)) return false;
    }
}

/* Notes that the lane goes up to `end_record` in the open window. */
static bool lane_mark(struct order *order, struct order_lane *lane, uint64_t end_record)
{
    if (lane->marks_count > 0) {
        struct order_mark *last = lane_mark_at(lane, lane->marks_count - 1);
        if (last->window == order->open) {
            last->end_record = end_record;
            return true;
        }
    }
    if (!window_add_lane(order, order->open, lane->number)) return false;
    *lane_mark_at(lane, lane->marks_count++) = (struct order_mark){order->open, end_record};
    return true;
}

/* So much has been queued that the window is begun before its end is known. */
static bool order_run_early(struct order *order)
{
    order_admit(order, order->open);
    if (!order_run(order)) return false;
    if (order->queued_bytes > WINDOW_BYTES_MAX) return order_report_stuck(order);
    order->queued_bytes_limit = order->queued_bytes + WINDOW_BYTES_EASY;
    return true;
}

bool order_chunk(struct order *order, struct raw_chunk *chunk)
{
    struct order_lane *lane = order_lane(order, chunk->lane);
    if (lane == NULL || !lane_mark(order, lane, chunk->first_record + chunk->records)) {
        raw_chunk_release(order->reader, chunk);
        return false;
    }
    if (lane->segments_count == 0 && lane->queue == NULL) order->totals.lanes++;
    chunk->window = order->open;
    chunk->next = NULL;
    if (lane->queue == NULL)
        lane->queue = chunk;
    else
        lane->queue_last->next = chunk;
    lane->queue_last = chunk;
    order->queued_bytes += chunk->payload_bytes;
    return order->queued_bytes <= order->queued_bytes_limit || order_run_early(order);
}

/* Closes the open window and runs. */
static bool order_close_window(struct order *order, const struct raw_tick *tick)
{
    order_window(order, order->open)->tick = *tick;
    order->open++;
    order->queued_bytes_limit = order->queued_bytes + WINDOW_BYTES_EASY;
    if (order->admitted + 1 == order->open) order_admit(order, order->admitted);
    return order_run(order);
}

bool order_tick(struct order *order, const struct raw_tick *tick)
{
    return order_close_window(order, tick);
}

bool order_settle_births(struct order *order)
{
    uint64_t lowest[STRUCTURES];
    memset(lowest, 0, sizeof lowest);
    for (uint32_t i = 0; i < order->lanes_count && i < order->reader->lanes_count; i++) {
        struct raw_lane_position *end = &order->reader->lanes[i];
        if (order->lanes[i] == NULL || !end->births_unknown) continue;
        if (!lane_look_ahead(order, order->lanes[i], lowest, &end->births)) return false;
        end->births_unknown = false;
    }
    return true;
}

bool order_end(struct order *order)
{
    const struct raw_tick none = {0};
    if (!order_settle_births(order)) return false;
    order->ended = true;
    for (uint32_t i = 0; i < order->lanes_count; i++)
        if (order->lanes[i] != NULL) order_wake_for_births(order, order->lanes[i], UINT64_MAX);
    return order_close_window(order, &none);
}

bool order_check_totals(struct order *order, const struct raw_end *end)
{
    for (uint32_t i = 0; i < end->lanes; i++) {
        uint64_t births = i < order->objects.lanes_count ? order->objects.lanes[i].births : 0;
        if (births != end->lane_totals[i].births)
            return error_set(&order->error, &order_errors[ORDER_TOTALS], ERROR_NO_OFFSET,
                             "%" PRIu64 " births in lane %" PRIu32 ", read %" PRIu64,
                             end->lane_totals[i].births, i, births);
    }
    const struct instruction_totals *totals = instruction_writer_totals(order->writer);
    for (uint32_t kind = 0; kind < CALL_KINDS; kind++) {
        uint64_t count = totals->by_kind[kind] + (uint64_t)order->kind_differences[kind];
        if (count != end->kind_counts[kind])
            return error_set(&order->error, &order_errors[ORDER_TOTALS], ERROR_NO_OFFSET,
                             "%" PRIu64 " calls of kind %" PRIu32 ", read %" PRIu64,
                             end->kind_counts[kind], kind, count);
    }
    return true;
}
