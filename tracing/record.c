/* record - events off the hot path, and slots for them. See capture.h. */
#include "recording.h"

#include <string.h>

/* Stamps of an event may need more words than the event itself; beyond this margin they take a
 * new slot. */
#define LIMIT_MARGIN_WORDS 32

_Static_assert(LIMIT_MARGIN_WORDS > 2 * MALLOCTAPE_EVENT_WORDS_MAX,
               "an event always fits behind the limit");

static uint64_t stamps[RAW_STRUCTURES]; /* each under the lock of its structure */

void record_begin(void)
{
    memset(stamps, 0, sizeof stamps);
}

/* --- words and slots --- */

static void put_word(struct malloctape_lane *lane, uint64_t word)
{
    *lane->cursor = word;
    atomic_store_release(&lane->cursor, lane->cursor + 1);
}

bool record_take_slot(struct malloctape_lane *lane)
{
    struct spool *spool = &recording.writer.spool;
    bool done = atomic_load_acquire(&recording.writer.done);
    uint32_t slot = done ? SPOOL_NO_SLOT : writer_slot(&recording.writer);
    if (slot == SPOOL_NO_SLOT) {
        if (atomic_load_acquire(&recording.writer.done)) recording_stop();
        return false;
    }
    spool_begin(spool, slot, lane->number, lane->slots++, raw_token_serial(lane->next_token) - 1);
    uint64_t *words = spool_words(spool, slot);
    if (lane->slot == SPOOL_NO_SLOT) {
        lane->read_slot = slot;
        lane->read_from = words;
    } else {
        spool_end(spool, lane->slot, (uint32_t)(lane->cursor - spool_words(spool, lane->slot)),
                  slot);
    }
    lane->slot = slot;
    lane->end = words + SPOOL_SLOT_WORDS;
    atomic_store_release(&lane->cursor, words);
    atomic_store_relaxed(&lane->limit, lane->end - LIMIT_MARGIN_WORDS);
    return true;
}

void record_thread_begin(struct malloctape_lane *lane, int thread_id)
{
    put_word(lane, raw_word(RAW_THREAD_BEGIN, (uint64_t)thread_id));
}

void record_thread_end(struct malloctape_lane *lane)
{
    put_word(lane, raw_word(RAW_THREAD_END, 0));
}

/* --- tokens and events --- */

static uint64_t *token_place(const void *object)
{
    struct shadow_page *page = shadow_page_of(object);
    uint64_t *tokens = atomic_load_acquire(&page->tokens);
    return tokens ? tokens + shadow_index(page, object) : NULL;
}

static void set_token(const void *object, uint64_t token)
{
    uint64_t *place = token_place(object);
    if (place) *place = token;
}

/* Writes a record of `count` words; the first one last, because it makes the record valid. */
static void put_record(struct malloctape_lane *lane, const uint64_t *words, unsigned count)
{
    uint64_t *cursor = lane->cursor;
    for (unsigned i = count; i-- > 1;)
        cursor[i] = words[i];
    atomic_store_release(cursor, words[0]);
    atomic_store_release(&lane->cursor, cursor + count);
}

/* The lane of the calling thread with room for an event, NULL if recording has ended meanwhile. */
static struct malloctape_lane *lane_with_room(void)
{
    return malloctape_ready() ? malloctape_lane : NULL;
}

static const bool has_alignment[CALL_KINDS] = {
#define ALIGNMENT_ENTRY(number, identifier, name, shape) \
    [number] = SHAPE_##shape == SHAPE_BIRTH_ALIGNED,
    CALL_KIND_LIST(ALIGNMENT_ENTRY)
#undef ALIGNMENT_ENTRY
};

void malloctape_born(unsigned kind, uint64_t size, uint64_t alignment, const void *object)
{
    struct malloctape_lane *lane = lane_with_room();
    if (!lane) {
        if (object) malloctape_born_unrecorded(object);
        return;
    }
    if (!object) {
        put_record(lane, (uint64_t[]){raw_word(RAW_FAILED, kind), size, alignment, 0}, 4);
        return;
    }
    set_token(object, lane->next_token++);
    /* By the kind and not by the operand: a program may ask for an alignment of 0. */
    put_record(lane, (uint64_t[]){raw_word(kind, size), alignment}, has_alignment[kind] ? 2 : 1);
}

void malloctape_born_unrecorded(const void *object)
{
    if (shadow_has_begun()) set_token(object, RAW_TOKEN_UNKNOWN);
}

uint64_t malloctape_token_of(const void *object)
{
    uint64_t *place = token_place(object);
    return place ? *place : RAW_TOKEN_UNKNOWN;
}

static const uint8_t operands_of_death[CALL_KINDS] = {
#define OPERANDS_ENTRY(number, identifier, name, shape)         \
    [number] = SHAPE_##shape == SHAPE_DEATH_SIZED           ? 1 \
               : SHAPE_##shape == SHAPE_DEATH_ALIGNED       ? 2 \
               : SHAPE_##shape == SHAPE_DEATH_SIZED_ALIGNED ? 3 \
                                                            : 0,
    CALL_KIND_LIST(OPERANDS_ENTRY)
#undef OPERANDS_ENTRY
};

void malloctape_dies(unsigned kind, uint64_t token, uint64_t size, uint64_t alignment)
{
    struct malloctape_lane *lane = lane_with_room();
    if (!lane) return;
    uint64_t words[3] = {raw_word(kind, token)};
    unsigned count = 1;
    if (operands_of_death[kind] & 1) words[count++] = size;
    if (operands_of_death[kind] & 2) words[count++] = alignment;
    put_record(lane, words, count);
}

void malloctape_reallocated(unsigned kind, uint64_t token, uint64_t size, const void *object)
{
    struct malloctape_lane *lane = lane_with_room();
    if (!lane) {
        if (object) malloctape_born_unrecorded(object);
        return;
    }
    if (!object) {
        put_record(lane, (uint64_t[]){raw_word(RAW_FAILED, kind), size, 0, token}, 4);
        return;
    }
    set_token(object, lane->next_token++);
    put_record(lane, (uint64_t[]){raw_word(kind, token), size}, 2);
}

void malloctape_heap_call(unsigned kind, unsigned count, uint64_t first, uint64_t second)
{
    struct malloctape_lane *lane = lane_with_room();
    if (lane) put_record(lane, (uint64_t[]){raw_word(kind, count), first, second}, 3);
}

void malloctape_stamp(unsigned structure)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (!lane->limit || lane->busy) return;
    if (lane->cursor == lane->end) {
        lane->busy = 1;
        bool has_room = record_take_slot(lane);
        lane->busy = 0;
        if (!has_room) return;
    }
    uint64_t number = stamps[structure] + 1;
    unsigned record = lane->allocating ? RAW_STAMP_BEFORE : RAW_STAMP_AFTER;
    put_word(lane, raw_word(record, raw_stamp_value(structure, number)));
    stamps[structure] = number;
}

void malloctape_thread_cache_deleted(void)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (lane->limit && malloctape_ready()) put_word(lane, raw_word(RAW_THREAD_CACHE_DELETED, 0));
}
