/* raw_decoder_tcmalloc - what records do to the cache of their thread (FORMAT.md 2.6, raw_cache.h). */
#include <errno.h>

#include "stream/raw_decoder_own.h"

static bool decoder_tcmalloc_no_memory(struct raw_decoder *decoder)
{
    errno = ENOMEM;
    return error_set_system(&decoder->error, "no memory for a thread's cache");
}

/* The number of the list of a class that a record names. */
static bool find_list(struct raw_decoder *decoder, uint64_t size_class, uint32_t *list)
{
    struct raw_cache *cache = &decoder->cache;
    if (!raw_cache_prepare(cache)) return decoder_tcmalloc_no_memory(decoder);
    *list = cache->list_of_class[size_class];
    if (*list != RAW_LIST_UNKNOWN) return true;
    if (!cache->gap)
        return DECODER_FAIL(decoder, RAW_SIZE_CLASS, ": class %" PRIu64 " was not announced",
                            size_class);
    if (!raw_cache_announce(cache, (uint32_t)size_class, 0))
        return decoder_tcmalloc_no_memory(decoder);
    *list = cache->list_of_class[size_class];
    return true;
}

/* Notes a place of a class, whose list is given. */
static bool note_in_list(struct raw_decoder *decoder, uint32_t place, uint64_t size_class,
                         uint32_t list)
{
    uint32_t before = raw_cache_list_of_place(&decoder->cache, place);
    if (before == list) return true;
    if (before != RAW_LIST_UNKNOWN)
        return DECODER_FAIL(decoder, RAW_PLACE_CLASS,
                            ": place %" PRIu32 " is of class %" PRIu64 " now", place, size_class);
    return raw_cache_note_place(&decoder->cache, place, list) ||
           decoder_tcmalloc_no_memory(decoder);
}

/* The same for a class that a record names, whose list is looked up. */
static bool note_place(struct raw_decoder *decoder, uint32_t place, uint64_t size_class,
                       uint32_t *list)
{
    return find_list(decoder, size_class, list) && note_in_list(decoder, place, size_class, *list);
}

/* The list of a place that the lane has. */
static bool find_own_list(struct raw_decoder *decoder, uint32_t place, uint32_t *list)
{
    *list = raw_cache_list_of_place(&decoder->cache, place);
    if (*list != RAW_LIST_UNKNOWN) return true;
    if (!decoder->cache.gap)
        return DECODER_FAIL(decoder, RAW_OBJECT, ": place %" PRIu32 " is not one that the lane has",
                            place);
    /* It goes to the front of one of the lists, but nobody knows which. */
    raw_cache_empty(&decoder->cache);
    return true;
}

/* Notes that more is taken from a list than it has. */
static void note_underrun(struct raw_decoder *decoder, enum raw_error which, uint64_t number)
{
    if (error_is_set(&decoder->underrun)) return;
    const struct error before = decoder->error;
    DECODER_FAIL(decoder, which, ": %" PRIu64, number);
    decoder->underrun = decoder->error;
    decoder->error = before;
}

/* An object that begins without a place in its record has the first one of its list. */
static bool begin_from_cache(struct raw_decoder *decoder, struct record *record)
{
    struct raw_cache *cache = &decoder->cache;
    if (!cache->known)
        return DECODER_FAIL(decoder, RAW_CACHE_UNKNOWN, ": %" PRIu64 " bytes", record->size);
    uint32_t list = raw_cache_list_of_size(cache, record->size);
    if (list == RAW_LIST_UNKNOWN && !cache->gap)
        return DECODER_FAIL(decoder, RAW_SIZE_CLASS,
                            ": no class of %" PRIu64 " bytes was announced", record->size);
    /* It took the first place of a list, but nobody knows of which. */
    if (list == RAW_LIST_UNKNOWN || !raw_cache_is_certain(cache, list)) {
        raw_cache_empty(cache);
        return true;
    }
    record->place = raw_list_first(&cache->lists[list]);
    if (record->place != RAW_PLACE_NONE) cache->lists[list].top--;
    if (record->place != RAW_PLACE_NONE || cache->gap) return true;
    note_underrun(decoder, RAW_CACHE_EMPTY, record->size);
    if (decoder->unplaced == 0) decoder->unplaced = record->serial;
    return true;
}

static bool begin_at_place(struct raw_decoder *decoder, const struct record *record,
                           const struct units_record *coded)
{
    uint32_t number;
    if (!note_place(decoder, record->place, coded->place_class, &number)) return false;
    struct raw_list *list = &decoder->cache.lists[number];
    if (decoder->cache.known && raw_list_first(list) == record->place) list->top--;
    return true;
}

/* Puts the place of the object that ends into the cache, unless another object begins there or the
 * call failed. */
static bool decoder_tcmalloc_end_object(struct raw_decoder *decoder, const struct record *record,
                                        const struct units_record *coded)
{
    uint32_t list = RAW_LIST_UNKNOWN;
    bool is_own =
        coded->object_form == UNITS_OBJECT_OWN || coded->object_form == UNITS_OBJECT_BY_AGE;
    bool stays = coded->number == CALL_REALLOC_IN_PLACE || coded->number == RAW_FAILED;
    if (!(is_own ? find_own_list(decoder, record->ends, &list)
                 : note_place(decoder, record->ends, coded->ends_class, &list)))
        return false;
    if (stays || !decoder->cache.known || list == RAW_LIST_UNKNOWN) return true;
    return raw_list_push(&decoder->cache.lists[list], record->ends) ||
           decoder_tcmalloc_no_memory(decoder);
}

/* What a call does to the cache of its lane. A moved realloc takes its place before it gives one
 * back. */
static bool follow_call(struct raw_decoder *decoder, struct record *record,
                        const struct units_record *coded)
{
    if (coded->begins) {
        if (coded->number != CALL_REALLOC_IN_PLACE &&
            !(record->place == RAW_PLACE_NONE ? begin_from_cache(decoder, record)
                                              : begin_at_place(decoder, record, coded)))
            return false;
        if (!raw_cache_prepare(&decoder->cache)) return decoder_tcmalloc_no_memory(decoder);
        raw_cache_set_recent(&decoder->cache, record->serial, record->place);
    }
    return record->ends == RAW_PLACE_NONE || decoder_tcmalloc_end_object(decoder, record, coded);
}

static bool follow_class(struct raw_decoder *decoder, const struct record *record)
{
    struct raw_cache *cache = &decoder->cache;
    uint32_t list = cache->list_of_class[record->structure];
    uint32_t before = list == RAW_LIST_UNKNOWN ? 0 : cache->lists[list].bytes;
    if (before != 0 && before != record->size)
        return DECODER_FAIL(decoder, RAW_SIZE_CLASS, ": class %" PRIu32 " had %" PRIu32 " bytes",
                            record->structure, before);
    if (before == 0 && raw_cache_has_bytes(cache, (uint32_t)record->size))
        return DECODER_FAIL(decoder, RAW_SIZE_CLASS,
                            ": %" PRIu32 ", another one has %" PRIu64 " bytes", record->structure,
                            record->size);
    return before != 0 || raw_cache_announce(cache, record->structure, (uint32_t)record->size) ||
           decoder_tcmalloc_no_memory(decoder);
}

static bool follow_cached(struct raw_decoder *decoder, const struct units_record *coded)
{
    uint32_t list;
    if (!find_list(decoder, coded->structure, &list)) return false;
    for (uint32_t i = 0; i < coded->count; i++) {
        if (!note_in_list(decoder, coded->cached[i], coded->structure, list)) return false;
        if (decoder->cache.known && !raw_list_append(&decoder->cache.lists[list], coded->cached[i]))
            return decoder_tcmalloc_no_memory(decoder);
    }
    return true;
}

static bool follow_uncached(struct raw_decoder *decoder, const struct record *record)
{
    uint32_t number;
    if (!find_list(decoder, record->structure, &number)) return false;
    struct raw_list *list = &decoder->cache.lists[number];
    uint32_t count = raw_list_count(list);
    if (!decoder->cache.known) return true;
    if (record->operand > count && !decoder->cache.gap)
        note_underrun(decoder, RAW_CACHE_SHORT, record->operand);
    list->top -= record->operand < count ? (uint32_t)record->operand : count;
    return true;
}

static void set_known(struct raw_decoder *decoder, bool known)
{
    decoder->cache.known = known;
    raw_cache_empty(&decoder->cache);
}

/* What a record does to the cache of its lane. */
static bool follow_record(struct raw_decoder *decoder, struct record *record,
                          const struct units_record *coded)
{
    switch (record->number) {
    case RAW_THREAD_BEGIN:
    case RAW_THREAD_CACHE_DELETED: set_known(decoder, false); return true;
    case RAW_LOST:
        set_known(decoder, false);
        raw_cache_forget_recent(&decoder->cache, decoder->allocations, record->operand);
        return true;
    case RAW_CACHE_BEGIN: set_known(decoder, true); return true;
    case RAW_CLASS: return follow_class(decoder, record);
    case RAW_CACHED: return follow_cached(decoder, coded);
    case RAW_UNCACHED: return follow_uncached(decoder, record);
    default: return follow_call(decoder, record, coded);
    }
}

static uint32_t place_of_age(const struct raw_decoder *decoder, uint32_t age)
{
    if (age > decoder->allocations) return RAW_PLACE_NONE;
    return raw_cache_recent(&decoder->cache, decoder->allocations + 1 - age);
}

static uint32_t decode_calls(struct raw_decoder *decoder, struct record *records, uint32_t room)
{
    struct raw_calls calls;
    struct raw_call call;
    uint32_t done = 0;
    if (!raw_calls_begin(&calls, decoder)) return 0;
    for (; done < room && raw_calls_look(&calls, &call); done++) {
        raw_decoder_make_call(decoder, &call, calls.allocations, &records[done]);
        raw_calls_take(&calls, &call);
    }
    raw_calls_end(&calls, decoder);
    return done;
}

const struct raw_dialect raw_tcmalloc = {.units = &units_tcmalloc,
                                         .place_of_age = place_of_age,
                                         .follow = follow_record,
                                         .decode_calls = decode_calls,
                                         .roundings = 1};
