/* raw_shorts - the births and deaths of one lane that need nothing but their first units, one at a time and without a
 * record: what nearly all of a stream is.
 *
 *     struct raw_shorts shorts;
 *     struct raw_short call;
 *     if (raw_shorts_begin(&shorts, decoder)) {
 *         while (raw_shorts_look(&shorts, &call) && the caller can do something with it)
 *             raw_shorts_take(&shorts, &call);
 *         raw_shorts_end(&shorts, decoder);
 *     }
 *
 * The decoder is then where it would be, had it returned records for the calls that were taken. A call is shown only if
 * another one of the same kind, or at least no stamp, is behind it in the same chunk: so its last stamp has been read. Everything
 * else, and all that may be wrong, is left to raw_decoder_next().
 *
 * Cost     about 50 instructions for a call, and a branch on whether it is a birth.
 * Threads  as the decoder. */
#ifndef MALLOCTAPE_RAW_SHORTS_H
#define MALLOCTAPE_RAW_SHORTS_H

#include "common/bytes.h"
#include "tracing/raw_decoder.h"

struct raw_short {
    uint8_t kind;
    bool is_birth;
    uint8_t bytes;  /* of its units */
    uint32_t size;  /* of a birth */
    uint32_t place; /* of the object that begins or ends; not 0 */
    struct raw_list *list;
};

/* Where the decoder is, in the caller's registers. */
struct raw_shorts {
    const uint8_t *at,
        *last; /* a call and a unit behind it are in the chunk if the call begins before `last` */
    uint64_t births, first_birth;
    const struct raw_code *codes;
    const uint8_t *code_of, *numbers;
    const uint32_t *leaves;
    uint32_t leaves_count;
    struct raw_list *lists;
    uint32_t *recent;
    uint64_t taken;
};

/* False: there can be none now. */
static inline bool raw_shorts_begin(struct raw_shorts *shorts, const struct raw_decoder *decoder)
{
    const struct raw_cache *cache = &decoder->cache;
    if (!cache->known || cache->lists_count == 0 || decoder->births == 0 || decoder->addresses ||
        decoder->births > RAW_SERIAL_MAX - RAW_CHUNK_UNITS_MAX || decoder->tells_caches ||
        decoder->scout || error_is_set(&decoder->error))
        return false;
    *shorts = (struct raw_shorts){.at = decoder->at,
                                  .last = decoder->end - 4,
                                  .births = decoder->births,
                                  .codes = decoder->codes,
                                  .code_of = decoder->code_of,
                                  .numbers = cache->numbers,
                                  .leaves = cache->leaves,
                                  .leaves_count = cache->leaves_count,
                                  .lists = cache->lists,
                                  .recent = cache->recent};
    return decoder->end - decoder->at > 4;
}

/* Whether a unit begins a record that is no stamp and changes nothing else about the call before it; nor is the end of an
 * open-ended chunk, which is 0. */
static inline bool raw_unit_begins_call(uint32_t unit)
{
    return unit - 1 < RAW_UNIT_GENERAL - 1u || unit >= RAW_UNIT_DEATH_2_AGED;
}

/* Whether nothing more follows that belongs to the last record of the decoder, if that is a call. */
static inline bool raw_decoder_is_behind_call(const struct raw_decoder *decoder)
{
    return decoder->end - decoder->at >= 2 && raw_unit_begins_call(bytes_get16(decoder->at));
}

/* The call at hand. False: none that can be taken so. */
static inline bool raw_shorts_look(const struct raw_shorts *shorts, struct raw_short *call)
{
    if (__builtin_expect(shorts->at >= shorts->last, 0)) return false;
    const uint32_t unit = bytes_get16(shorts->at), next = bytes_get16(shorts->at + 2);
    const struct raw_code *code = &shorts->codes[shorts->code_of[unit >> RAW_CODE_SHIFT]];
    uint32_t operand = unit - code->base;
    call->kind = (uint8_t)code->head;
    if (code->birth) {
        if (__builtin_expect(
                code->more_units != 0 || code->scale == 0 || !raw_unit_begins_call(next), 0))
            return false;
        call->is_birth = true;
        call->bytes = 2;
        call->size = operand;
        call->list = &shorts->lists[shorts->numbers[RAW_NUMBERS_SIZES + (operand + 7) / 8]];
        const uint32_t top = call->list->top - 1;
        if (__builtin_expect(top - call->list->bottom > call->list->mask, 0)) return false;
        call->place = call->list->places[top & call->list->mask];
        return true;
    }
    call->is_birth = false;
    call->bytes = 2;
    if (code->main) {
        call->bytes = 4;
        operand = operand << 16 | next;
        if (__builtin_expect(!raw_unit_begins_call(bytes_get16(shorts->at + 4)), 0)) return false;
    } else if (__builtin_expect(
                   code->more_units != 0 || code->scale == 0 || !raw_unit_begins_call(next), 0)) {
        return false;
    }
    if (code->aged)
        operand = shorts->recent[raw_recent_entry((uint32_t)shorts->births + 1 - operand)];
    const uint32_t leaf = operand >> RAW_LEAF_BITS;
    if (__builtin_expect(leaf >= shorts->leaves_count, 0)) return false;
    call->place = operand;
    call->list = &shorts->lists[shorts->numbers[RAW_NUMBERS_BLOCKS + operand / RAW_PLACE_BLOCK +
                                                shorts->leaves[leaf]]];
    return __builtin_expect(call->list->top - call->list->bottom <= call->list->mask, 1);
}

static inline void raw_shorts_take(struct raw_shorts *shorts, const struct raw_short *call)
{
    struct raw_list *list = call->list;
    if (call->is_birth) {
        list->top--;
        shorts->births++;
        shorts->recent[raw_recent_entry((uint32_t)shorts->births)] = call->place;
    } else {
        list->places[list->top++ & list->mask] = call->place;
    }
    shorts->at += call->bytes;
    shorts->taken++;
}

static inline void raw_shorts_end(const struct raw_shorts *shorts, struct raw_decoder *decoder)
{
    decoder->at = shorts->at;
    decoder->births = shorts->births;
    decoder->records += shorts->taken;
}

#endif
