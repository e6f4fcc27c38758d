/* raw_calls - the calls that make up nearly all of a stream, one at a time and without a record: a
 * part of the decoder for callers that can do without records.
 *
 * They are allocations from the cache and frees of objects that the lane has, without sequence
 * numbers:
 *
 *     struct raw_calls calls;
 *     struct raw_call call;
 *     if (raw_calls_begin(&calls, decoder)) {
 *         while (raw_calls_look(&calls, &call) && the caller can do something with it)
 *             raw_calls_take(&calls, &call);
 *         raw_calls_end(&calls, decoder);
 *     }
 *
 * The decoder is then where it would be, had it returned records for the calls that were taken. A
 * call is shown only if a record that is no sequence number follows it in the same chunk: so its
 * last sequence number has been read. Everything else, and all that may be wrong, is left to
 * raw_decoder_next().
 *
 * Cost     about 50 instructions for a call, and a branch on whether it is an allocation.
 * Threads  as the decoder. */
#ifndef MALLOCTAPE_RAW_CALLS_H
#define MALLOCTAPE_RAW_CALLS_H

#include "common/bytes.h"
#include "stream/raw_decoder.h"

struct raw_call {
    uint8_t kind;
    bool is_allocation;
    bool is_sized;
    uint8_t bytes;  /* of its units */
    uint32_t size;  /* of an allocation; or given to a free */
    uint32_t place; /* of the object that begins or ends; not 0 */
    struct raw_list *list;
};

/* The position of the decoder, and what it needs, in the caller's registers. */
struct raw_calls {
    const uint8_t *at,
        *last; /* a call and a unit after it are in the chunk if the call begins before `last` */
    uint64_t allocations;
    const struct units_call *codes;
    const uint8_t *numbers;
    const uint32_t *leaves;
    uint32_t leaves_count;
    struct raw_list *lists;
    uint32_t *recent;
    uint64_t taken;
};

/* Bytes of the longest of these calls. */
#define RAW_CALL_BYTES_MAX 6

/* False: there can be none now. */
static inline bool raw_calls_begin(struct raw_calls *calls, const struct raw_decoder *decoder)
{
    const struct raw_cache *cache = &decoder->cache;
    if (!cache->known || cache->lists_count == 0 || decoder->allocations == 0 ||
        decoder->allocations > RAW_SERIAL_MAX - RAW_CHUNK_UNITS_MAX || decoder->lookahead ||
        error_is_set(&decoder->error) || decoder->stack != 0 ||
        decoder->end - decoder->at <= RAW_CALL_BYTES_MAX)
        return false;
    *calls = (struct raw_calls){.at = decoder->at,
                                .last = decoder->end - RAW_CALL_BYTES_MAX,
                                .allocations = decoder->allocations,
                                .codes = decoder->codes,
                                .numbers = cache->numbers,
                                .leaves = cache->leaves,
                                .leaves_count = cache->leaves_count,
                                .lists = cache->lists,
                                .recent = cache->recent};
    return true;
}

/* Whether a unit begins a record that is no sequence number and changes nothing else about the
 * call before it; nor is the end of an open-ended chunk, which is 0. */
static inline bool raw_unit_begins_call(uint32_t unit)
{
    return unit - 1 < RAW_UNIT_GENERAL - 1u || unit >= RAW_UNIT_STACK;
}

/* Whether nothing more follows that belongs to the last record of the decoder, if that is a
 * call. */
static inline bool raw_decoder_is_behind_call(const struct raw_decoder *decoder)
{
    return decoder->end - decoder->at >= 2 && raw_unit_begins_call(bytes_get16(decoder->at));
}

/* The place of the object that a free of this form names; 0: none that can be looked up here. */
static inline uint32_t raw_calls_ends(const struct raw_calls *calls, unsigned form,
                                      uint32_t operand)
{
    if (form == UNITS_CALL_BY_AGE)
        return calls->recent[raw_recent_entry((uint32_t)calls->allocations + 1 - operand)];
    if (form == UNITS_CALL_LONG) return operand << 16 | bytes_get16(calls->at + 2);
    return operand;
}

/* The place that a free at `at` names, if one is there: for prefetching what is known of it. May be a
 * little further on than the call at hand, within the slack after a payload. */
static inline uint32_t raw_place_ahead(const struct units_call *codes, const uint8_t *at)
{
    const uint32_t unit = bytes_get16(at);
    const struct units_call *code = &codes[unit >> UNITS_CALL_SHIFT];
    const uint32_t operand = unit - code->base;
    return code->form == UNITS_CALL_LONG ? operand << 16 | bytes_get16(at + 2) : operand;
}

/* The call at hand. False: none that can be taken in this way. */
static inline bool raw_calls_look(const struct raw_calls *calls, struct raw_call *call)
{
    if (__builtin_expect(calls->at >= calls->last, 0)) return false;
    const uint32_t unit = bytes_get16(calls->at);
    const struct units_call *code = &calls->codes[unit >> UNITS_CALL_SHIFT];
    const uint32_t operand = unit - code->base;
    struct raw_list *list;
    uint32_t top;
    if (__builtin_expect(code->form == UNITS_CALL_OTHER, 0)) return false;
    call->place = RAW_PLACE_NONE;
    call->kind = code->kind;
    call->is_allocation = code->form == UNITS_CALL_ALLOCATION;
    call->is_sized = code->is_sized;
    call->bytes = 2;
    if (call->is_allocation) {
        call->size = operand;
        list = &calls->lists[calls->numbers[RAW_NUMBERS_SIZES + (operand + 7) / 8]];
        top = list->top - 1;
    } else {
        const uint32_t place = raw_calls_ends(calls, code->form, operand);
        const uint32_t leaf = place >> RAW_LEAF_BITS;
        if (code->form == UNITS_CALL_LONG) call->bytes += 2;
        call->size = 0;
        if (code->is_sized) {
            call->size = bytes_get16(calls->at + call->bytes);
            call->bytes += 2;
        }
        if (__builtin_expect(leaf >= calls->leaves_count || call->size >= RAW_NUMBER_MORE, 0))
            return false;
        list = &calls->lists[calls->numbers[RAW_NUMBERS_BLOCKS + place / RAW_PLACE_BLOCK +
                                            calls->leaves[leaf]]];
        top = list->top;
        call->place = place;
    }
    if (__builtin_expect(top - list->bottom > list->mask, 0) ||
        __builtin_expect(!raw_unit_begins_call(bytes_get16(calls->at + call->bytes)), 0))
        return false;
    if (call->is_allocation) call->place = list->places[top & list->mask];
    call->list = list;
    return true;
}

static inline void raw_calls_take(struct raw_calls *calls, const struct raw_call *call)
{
    struct raw_list *list = call->list;
    if (call->is_allocation) {
        list->top--;
        calls->allocations++;
        calls->recent[raw_recent_entry((uint32_t)calls->allocations)] = call->place;
    } else {
        list->places[list->top++ & list->mask] = call->place;
    }
    calls->at += call->bytes;
    calls->taken++;
}

static inline void raw_calls_end(const struct raw_calls *calls, struct raw_decoder *decoder)
{
    decoder->at = calls->at;
    decoder->allocations = calls->allocations;
    decoder->records += calls->taken;
}

/* ---- frees of other lanes' objects, and sequence numbers ----
 *
 * Programs whose threads free what others have allocated have little else. Any number of both may
 * follow a call; here each is looked at and taken by itself. */

struct raw_remote_free {
    uint8_t kind;
    bool is_sized;
    uint8_t bytes;  /* of its units */
    uint32_t size;  /* given */
    uint32_t place; /* not 0 */
    uint64_t bound; /* raw_allocations() */
    struct raw_remote_entry *entry;
    struct raw_list *list; /* that the place goes into; NULL: none is followed */
};

/* Bytes of the longest of these frees, and of a sequence number. */
#define RAW_REMOTE_BYTES_MAX 8
#define RAW_SEQUENCE_BYTES   4

/* Whether a unit begins such a free. */
static inline bool raw_unit_is_remote(unsigned unit)
{
    return unit - RAW_UNIT_REMOTE < RAW_UNIT_GENERAL - RAW_UNIT_REMOTE;
}

/* Finds the list into which a place of the class goes. False: that needs a closer look. */
static inline bool raw_remote_find_list(struct raw_cache *cache, unsigned size_class,
                                        struct raw_remote_free *call)
{
    uint32_t number = cache->list_of_class[size_class];
    if (number == RAW_LIST_UNKNOWN || raw_cache_list_of_place(cache, call->place) != number)
        return false;
    if (!cache->known || number == RAW_LIST_UNCACHED) return true;
    call->list = &cache->lists[number];
    return raw_list_has_room(call->list);
}

/* The free at hand, with RAW_REMOTE_BYTES_MAX in the chunk. False: none that can be taken so. */
static inline bool raw_remote_look(struct raw_decoder *decoder, struct raw_remote_free *call)
{
    const bool opaque = decoder->features & RAW_FEATURE_OPAQUE;
    const unsigned unit = bytes_get16(decoder->at), more = bytes_get16(decoder->at + 4);
    if (!raw_unit_is_remote(unit)) return false;
    call->entry = &decoder->remote[unit >> RAW_REMOTE_ENTRY_SHIFT & (RAW_REMOTE_ENTRIES - 1)];
    const uint64_t bound = call->entry->bound + (opaque ? more : more / RAW_REMOTE_CLASSES);
    call->kind = decoder->profile[RAW_FREE_1];
    call->is_sized = call_shapes[call->kind] == SHAPE_FREE_SIZED;
    call->bytes = call->is_sized ? 8 : 6;
    call->size = call->is_sized ? bytes_get16(decoder->at + 6) : 0;
    call->place = (unit & RAW_REMOTE_HIGH) << 16 | bytes_get16(decoder->at + 2);
    call->bound = raw_allocations(call->entry->lane, bound);
    call->list = NULL;
    return (call->is_sized || call_shapes[call->kind] == SHAPE_FREE) && more < RAW_NUMBER_MORE &&
           call->size < RAW_NUMBER_MORE && call->place != RAW_PLACE_NONE &&
           bound <= RAW_SERIAL_MAX && decoder->allocations < RAW_SERIAL_MAX &&
           (call->entry->bound != 0 || call->entry->lane != 0) && !decoder->lookahead &&
           !error_is_set(&decoder->error) &&
           (opaque || raw_remote_find_list(&decoder->cache, more % RAW_REMOTE_CLASSES, call));
}

static inline void raw_remote_take(struct raw_decoder *decoder, const struct raw_remote_free *call)
{
    struct raw_list *list = call->list;
    if (list != NULL) list->places[list->top++ & list->mask] = call->place;
    if (decoder->features & RAW_FEATURE_OPAQUE) decoder->allocations++;
    call->entry->bound = raw_allocations_count(call->bound);
    decoder->at += call->bytes;
    decoder->records++;
}

struct raw_sequence {
    bool after;         /* of the call before it */
    uint32_t structure; /* FORMAT.md 3 */
    uint32_t index;     /* in decoder->latest_sequence */
    uint64_t number;
};

/* f100..f2ff at `at`, with RAW_SEQUENCE_BYTES in the chunk. */
static inline bool raw_sequence_look(const struct raw_decoder *decoder, const uint8_t *at,
                                     struct raw_sequence *sequence)
{
    const unsigned unit = bytes_get16(at), structure = unit & 0xff, more = bytes_get16(at + 2);
    if (unit - RAW_UNIT_SEQUENCE_BEFORE >= RAW_UNIT_STACK - RAW_UNIT_SEQUENCE_BEFORE ||
        decoder->features & RAW_FEATURE_OPAQUE ||
        (structure >= RAW_SIZE_CLASSES_MAX && structure != RAW_STRUCTURE_PAGE_HEAP))
        return false;
    sequence->after = unit >= RAW_UNIT_SEQUENCE_AFTER;
    sequence->structure = structure;
    sequence->index = structure < RAW_SIZE_CLASSES_MAX ? structure : RAW_SEQUENCE_ENTRIES - 1;
    sequence->number = decoder->latest_sequence[sequence->index] + more;
    return more != 0 && more < RAW_NUMBER_MORE && sequence->number < RAW_SEQUENCE_LIMIT;
}

static inline void raw_sequence_take(struct raw_decoder *decoder,
                                     const struct raw_sequence *sequence)
{
    decoder->latest_sequence[sequence->index] = sequence->number;
    decoder->at += RAW_SEQUENCE_BYTES;
    decoder->records++;
}

/* A free of another lane's object with the sequence number after it, if there is one. */
struct raw_remote_step {
    struct raw_remote_free free;
    struct raw_sequence sequence;
    bool has_sequence;
};

/* False: what the decoder has next is none, or cannot be seen whole. */
static inline bool raw_remote_step_look(struct raw_decoder *decoder, struct raw_remote_step *step)
{
    if (decoder->end - decoder->at < RAW_REMOTE_BYTES_MAX + RAW_SEQUENCE_BYTES + 2 ||
        decoder->stack != 0 || !raw_remote_look(decoder, &step->free))
        return false;
    const uint8_t *behind = decoder->at + step->free.bytes;
    step->has_sequence =
        raw_sequence_look(decoder, behind, &step->sequence) && step->sequence.after;
    if (step->has_sequence) behind += RAW_SEQUENCE_BYTES;
    return decoder->features & RAW_FEATURE_OPAQUE || raw_unit_begins_call(bytes_get16(behind));
}

static inline void raw_remote_step_take(struct raw_decoder *decoder,
                                        const struct raw_remote_step *step)
{
    raw_remote_take(decoder, &step->free);
    if (step->has_sequence) raw_sequence_take(decoder, &step->sequence);
}

/* Whether one of the functions here may show the call that the decoder has next. */
static inline bool raw_decoder_is_at_call(const struct raw_decoder *decoder)
{
    if (decoder->end - decoder->at < 2) return false;
    const unsigned unit = bytes_get16(decoder->at);
    return decoder->codes[unit >> UNITS_CALL_SHIFT].form != UNITS_CALL_OTHER ||
           raw_unit_is_remote(unit);
}

/* ---- calls of an opaque stream ----
 *
 * These use the decoder itself; frees are counted, and there are no sequence numbers. */

/* False: there can be none now. */
static inline bool raw_opaque_calls_begin(const struct raw_decoder *decoder)
{
    return decoder->allocations <= RAW_SERIAL_MAX - RAW_CHUNK_UNITS_MAX &&
           !error_is_set(&decoder->error) && decoder->stack == 0 &&
           !(decoder->lookahead && decoder->packed);
}

/* The call at hand: an allocation at a place that the lane has, or a free of its own object. */
static inline bool raw_opaque_calls_look(const struct raw_decoder *decoder, struct raw_call *call)
{
    const uint8_t *at = decoder->at;
    if (decoder->end - at <= RAW_CALL_BYTES_MAX) return false;
    const uint32_t unit = bytes_get16(at), next = bytes_get16(at + 2);
    const struct units_call *code = &decoder->codes[unit >> UNITS_CALL_SHIFT];
    struct units_size_place both = {unit - code->base, RAW_PLACE_NONE};
    *call = (struct raw_call){.kind = code->kind,
                              .is_allocation = code->form <= UNITS_CALL_COMPACT,
                              .is_sized = code->is_sized,
                              .bytes = (uint8_t)(2 * code->units)};
    if (code->form == UNITS_CALL_COMPACT) {
        if (unit != 0) both = units_uncompact(unit, next);
    } else if (code->form == UNITS_CALL_LONG) {
        both = (struct units_size_place){0, both.size << 16 | next};
    } else if (code->form == UNITS_CALL_ALLOCATION && !decoder->packed) {
        both.place = bytes_get32(at + 2);
    } else if (code->form == UNITS_CALL_ALLOCATION) {
        struct raw_places_list *list = raw_places_list_of(decoder->places, both.size);
        if (list != NULL && list->count > 0) both.place = *raw_places_at(list, 0);
    } else if (code->form == UNITS_CALL_BY_AGE) {
        both = (struct units_size_place){0, raw_places_of_age(decoder->places, both.size)};
    }
    call->size = both.size;
    call->place = both.place;
    if (call->is_sized) {
        call->size = bytes_get16(at + call->bytes);
        call->bytes += 2;
    }
    return both.place != RAW_PLACE_NONE && (!call->is_sized || call->size < RAW_NUMBER_MORE);
}

static inline void raw_opaque_calls_take(struct raw_decoder *decoder, const struct raw_call *call)
{
    if (decoder->packed && call->is_allocation) {
        raw_places_take(decoder->places, call->size, 0);
        raw_places_began(decoder->places, call->place, call->size);
    } else if (decoder->packed) {
        raw_places_ended(decoder->places, call->place);
    }
    decoder->allocations++;
    decoder->records++;
    decoder->at += call->bytes;
}

#endif
