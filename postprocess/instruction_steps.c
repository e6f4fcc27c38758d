#include "postprocess/instruction_steps.h"

#include <immintrin.h>

#include "common/call_table.h"
#include "common/varint.h"

#define STEP    INSTRUCTION_STEP
#define HAS_ALL __attribute__((target("avx2,bmi,bmi2,popcnt")))

_Static_assert(INSTRUCTION_BATCH_SLACK >= STEP && INPUT_SLACK >= STEP + VARINT_SLACK,
               "a block may be decoded in whole steps");
_Static_assert(INSTRUCTION_BLOCK_MAX % STEP == 0, "a full block has no more than whole steps");

bool instruction_steps_possible(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

/* ---- vectors ---- */

static inline HAS_ALL __m128i load_half(const uint8_t *from)
{
    return _mm_loadu_si128((const __m128i *)(const void *)from);
}

static inline HAS_ALL __m256i load(const void *from)
{
    return _mm256_loadu_si256((const __m256i *)from);
}

static inline HAS_ALL void store(void *to, __m256i vector)
{
    _mm256_storeu_si256((__m256i *)to, vector);
}

static inline HAS_ALL uint32_t bits_of_bytes(__m256i bytes)
{
    return (uint32_t)_mm256_movemask_epi8(bytes);
}

/* Of two vectors of 16 bits, one after the other, that are all ones or all zeroes. */
static inline HAS_ALL uint32_t bits_of_words(__m256i words, __m256i more_words)
{
    __m256i bytes = _mm256_packs_epi16(words, more_words); /* within each half */
    return bits_of_bytes(_mm256_permute4x64_epi64(bytes, _MM_SHUFFLE(3, 1, 2, 0)));
}

static inline HAS_ALL bool any(__m256i vector)
{
    return !_mm256_testz_si256(vector, vector);
}

/* Which bytes are from `first` to `last`. */
static inline HAS_ALL __m256i is_in(__m256i bytes, unsigned first, unsigned last)
{
    __m256i above = _mm256_sub_epi8(bytes, _mm256_set1_epi8((char)first));
    __m256i most = _mm256_set1_epi8((char)(last - first));
    return _mm256_cmpeq_epi8(_mm256_min_epu8(above, most), above);
}

/* ---- opcodes and values (INSTRUCTIONS.md 4.3, 4.4) ---- */

/* STEP half-bytes, a byte for each: those of the first half of the step, and of the second. */
static inline HAS_ALL void load_half_bytes(const uint8_t *from, __m128i halves[2])
{
    const __m128i lower = _mm_set1_epi8(0xf);
    __m128i both = load_half(from);
    __m128i even = _mm_and_si128(both, lower), odd = _mm_and_si128(_mm_srli_epi16(both, 4), lower);
    halves[0] = _mm_unpacklo_epi8(even, odd);
    halves[1] = _mm_unpackhi_epi8(even, odd);
}

HAS_ALL void instruction_steps_look_up(const uint8_t *from, size_t count,
                                       const uint8_t table[HALF_BYTES_VALUES], uint8_t *to)
{
    const __m256i values = _mm256_broadcastsi128_si256(load_half(table));
    for (size_t i = 0; i < count; i += STEP) {
        __m128i indices[2];
        load_half_bytes(from + i / 2, indices);
        store(to + i, _mm256_shuffle_epi8(values, _mm256_set_m128i(indices[1], indices[0])));
    }
}

HAS_ALL size_t instruction_steps_values(const struct value_columns *columns, size_t from,
                                        size_t count, uint16_t *to, uint32_t *escaped)
{
    const uint8_t *const low = columns->low, *const high = columns->high;
    const unsigned high_bits = columns->high_bits;
    const __m256i escape = _mm256_set1_epi16((short)value_columns_escape(columns));
    size_t i;
    for (i = from; i < count; i += STEP) {
        __m256i values = _mm256_cvtepu8_epi16(load_half(low + i));
        __m256i more_values = _mm256_cvtepu8_epi16(load_half(low + i + STEP / 2));
        if (high_bits != 0) {
            __m128i above[2];
            if (high_bits == 4) {
                load_half_bytes(high + i / 2, above);
            } else {
                above[0] = load_half(high + i);
                above[1] = load_half(high + i + STEP / 2);
            }
            values = _mm256_or_si256(values, _mm256_slli_epi16(_mm256_cvtepu8_epi16(above[0]), 8));
            more_values =
                _mm256_or_si256(more_values, _mm256_slli_epi16(_mm256_cvtepu8_epi16(above[1]), 8));
        }
        store(to + i, values);
        store(to + i + STEP / 2, more_values);
        __m256i escapes = _mm256_cmpeq_epi16(values, escape);
        __m256i more_escapes = _mm256_cmpeq_epi16(more_values, escape);
        if (__builtin_expect(any(_mm256_or_si256(escapes, more_escapes)), 0)) {
            *escaped = bits_of_words(escapes, more_escapes);
            break;
        }
    }
    return i;
}

HAS_ALL size_t instruction_steps_count(const uint8_t *opcodes, size_t count, uint8_t wanted)
{
    const __m256i all_wanted = _mm256_set1_epi8((char)wanted);
    const size_t steps = count / STEP;
    __m256i sums = _mm256_setzero_si256();
    for (size_t i = 0; i < steps;) {
        __m256i counts = _mm256_setzero_si256(); /* a byte for each lane */
        const size_t end = steps - i < UINT8_MAX ? steps : i + UINT8_MAX;
        for (; i < end; i++)
            counts =
                _mm256_sub_epi8(counts, _mm256_cmpeq_epi8(load(opcodes + i * STEP), all_wanted));
        sums = _mm256_add_epi64(sums, _mm256_sad_epu8(counts, _mm256_setzero_si256()));
    }
    uint64_t parts[4];
    store(parts, sums);
    uint32_t rest = bits_of_bytes(_mm256_cmpeq_epi8(load(opcodes + steps * STEP), all_wanted));
    return parts[0] + parts[1] + parts[2] + parts[3] +
           (size_t)_mm_popcnt_u32(_bzhi_u32(rest, (unsigned)(count % STEP)));
}

/* ---- kinds of calls ---- */

/* The numbers of nearly all plain calls, as ranges; valloc() and pvalloc() can do without. */
#define PLAIN_BIRTH_FIRST CALL_MALLOC
#define PLAIN_BIRTH_LAST  CALL_MALLOC_SKIP_NEW_HANDLER
#define PLAIN_BIRTH_OTHER CALL_REALLOC_NULL
#define PLAIN_DEATH_FIRST CALL_REALLOC_ZERO
#define PLAIN_DEATH_LAST  CALL_DELETE_ARRAY_NOTHROW

/* Those of calls that have a size beside their place and nothing else. */
#define SIZED_DEATH_FIRST CALL_FREE_SIZED
#define SIZED_DEATH_LAST  CALL_DELETE_ARRAY_SIZED
#define REALLOC_FIRST     CALL_REALLOC_MOVED
#define REALLOC_LAST      CALL_REALLOC_IN_PLACE

#define CALL_BITS(first, last) ((UINT64_C(2) << (last)) - (UINT64_C(1) << (first)))
#define BIRTH_BIT(number, identifier, name, shape) \
    | (uint64_t)(SHAPE_##shape == SHAPE_BIRTH) << (number)
#define DEATH_BIT(number, identifier, name, shape) \
    | (uint64_t)(SHAPE_##shape == SHAPE_DEATH) << (number)
#define SIZED_DEATH_BIT(number, identifier, name, shape) \
    | (uint64_t)(SHAPE_##shape == SHAPE_DEATH_SIZED) << (number)
#define REALLOC_BIT(number, identifier, name, shape) \
    | (uint64_t)(SHAPE_##shape == SHAPE_REALLOC) << (number)
_Static_assert(((CALL_BITS(PLAIN_BIRTH_FIRST, PLAIN_BIRTH_LAST) |
                 CALL_BITS(PLAIN_BIRTH_OTHER, PLAIN_BIRTH_OTHER)) &
                ~(UINT64_C(0) CALL_KIND_LIST(BIRTH_BIT))) == 0,
               "these are plain births");
_Static_assert((CALL_BITS(PLAIN_DEATH_FIRST, PLAIN_DEATH_LAST) &
                ~(UINT64_C(0) CALL_KIND_LIST(DEATH_BIT))) == 0,
               "these are plain deaths");
_Static_assert((CALL_BITS(SIZED_DEATH_FIRST, SIZED_DEATH_LAST) &
                ~(UINT64_C(0) CALL_KIND_LIST(SIZED_DEATH_BIT))) == 0,
               "these are deaths with a size");
_Static_assert((CALL_BITS(REALLOC_FIRST, REALLOC_LAST) &
                ~(UINT64_C(0) CALL_KIND_LIST(REALLOC_BIT))) == 0,
               "these are reallocs");

/* ---- objects ---- */

/* One step: a bit for each instruction. */
struct step {
    uint32_t births, deaths; /* those that change the number of live objects */
    uint32_t named;          /* the value is a place */
    uint32_t records;        /* not plain, or too large a value */
    unsigned taken;          /* the first instructions that are as they should be */
};

static inline HAS_ALL uint64_t live_before(const struct step *step, uint64_t live, unsigned lane)
{
    return live + (uint64_t)_mm_popcnt_u32(_bzhi_u32(step->births, lane)) -
           (uint64_t)_mm_popcnt_u32(_bzhi_u32(step->deaths, lane));
}

/* Looks at the values that may be too large, `beyond`: a place has to be less than the number of objects before the call; escapes
 * get a record. */
static HAS_ALL void step_look_at_values(struct step *step, const uint16_t *values, uint64_t live,
                                        uint32_t beyond)
{
    beyond = _bzhi_u32(beyond, step->taken);
    for (; beyond != 0; beyond = _blsr_u32(beyond)) {
        const unsigned lane = _tzcnt_u32(beyond);
        if (values[lane] == INSTRUCTION_ESCAPE) {
            step->records |= 1u << lane;
        } else if ((step->named >> lane & 1) != 0 &&
                   values[lane] >= live_before(step, live, lane)) {
            step->taken = lane;
            return;
        }
    }
}

/* The record of one instruction. `live`: objects before it. False, and nothing is changed: something about it is wrong. */
static inline HAS_ALL bool step_record(struct block *block, bool birth, uint16_t value,
                                       uint64_t live, struct instruction *to)
{
    const uint64_t *const large = block->large;
    const uint8_t *const sizes = block->next[COLUMN_SIZES];
    const uint64_t whole = block_take_value(block, value);
    bool good;
    if (birth) {
        to->size = whole;
        to->object = (uint32_t)live;
        good = whole != SIZE_NEVER;
    } else {
        good = whole < live;
        if (instruction_effects[to->opcode] == INSTRUCTION_NOT_PLAIN) {
            good = good && sizes < block->end[COLUMN_SIZES];
            if (good) to->size = varint_get(&block->next[COLUMN_SIZES]);
            good = good && block->next[COLUMN_SIZES] <= block->end[COLUMN_SIZES] &&
                   to->size != SIZE_NEVER;
        }
        to->object = (uint32_t)(live - 1 - whole);
    }
    if (good) return true;
    block->large = large;
    block->next[COLUMN_SIZES] = sizes;
    return false;
}

static HAS_ALL void step_write_records(struct step *step, struct block *block,
                                       struct instruction_room *room, size_t from, uint64_t live)
{
    struct instruction *to = &room->at[block->at_count];
    uint32_t records = _bzhi_u32(step->records, step->taken);
    for (; records != 0; records = _blsr_u32(records)) {
        const unsigned lane = _tzcnt_u32(records);
        uint8_t *const opcode = &room->opcodes[from + lane];
        *to = (struct instruction){.opcode = *opcode};
        if (!step_record(block, step->births >> lane & 1, room->values[from + lane],
                         live_before(step, live, lane), to)) {
            step->taken = lane;
            break;
        }
        if (instruction_effects[*opcode] != INSTRUCTION_NOT_PLAIN) *opcode |= INSTRUCTION_LARGE;
        to++;
    }
    block->at_count = (size_t)(to - room->at);
}

/* How many more objects than before a step are alive behind one of its first `taken` instructions, at most. */
static inline HAS_ALL int64_t step_most(__m256i births, __m256i deaths, unsigned taken)
{
    const __m256i indices =
        _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
                         21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
    const __m256i last_of_half = _mm256_set1_epi8(15);
    /* Ones are -1. Sums within each half, and of the first half on top of the second. */
    __m256i live = _mm256_sub_epi8(deaths, births);
    live = _mm256_and_si256(live, _mm256_cmpgt_epi8(_mm256_set1_epi8((char)taken), indices));
    live = _mm256_add_epi8(live, _mm256_slli_si256(live, 1));
    live = _mm256_add_epi8(live, _mm256_slli_si256(live, 2));
    live = _mm256_add_epi8(live, _mm256_slli_si256(live, 4));
    live = _mm256_add_epi8(live, _mm256_slli_si256(live, 8));
    __m256i first_half = _mm256_permute2x128_si256(live, live, 0x08);
    live = _mm256_add_epi8(live, _mm256_shuffle_epi8(first_half, last_of_half));
    __m128i most = _mm_max_epi8(_mm256_castsi256_si128(live), _mm256_extracti128_si256(live, 1));
    /* The least of 127 - live, all of which are positive. */
    __m128i least = _mm_sub_epi8(_mm_set1_epi8(127), most);
    least = _mm_min_epu8(least, _mm_srli_epi16(least, 8));
    return 127 - (int64_t)(_mm_cvtsi128_si32(_mm_minpos_epu16(least)) & 0xff);
}

HAS_ALL size_t instruction_steps_take(struct block *block, struct instruction_room *room,
                                      size_t from)
{
    const size_t count = block->count;
    const __m256i zero = _mm256_setzero_si256();
    uint64_t live = block->live, high = block->high;
    size_t i = from;
    while (i < count) {
        const __m256i opcodes = load(room->opcodes + i);
        const __m256i values = load(room->values + i);
        const __m256i more_values = load(room->values + i + STEP / 2);
        const __m256i births =
            _mm256_or_si256(is_in(opcodes, PLAIN_BIRTH_FIRST, PLAIN_BIRTH_LAST),
                            _mm256_cmpeq_epi8(opcodes, _mm256_set1_epi8(PLAIN_BIRTH_OTHER)));
        __m256i deaths = is_in(opcodes, PLAIN_DEATH_FIRST, PLAIN_DEATH_LAST);
        struct step step = {
            .births = bits_of_bytes(births), .deaths = bits_of_bytes(deaths), .taken = STEP};
        step.named = step.deaths;
        if (__builtin_expect((step.births | step.deaths) != UINT32_MAX, 0)) {
            const __m256i sized = is_in(opcodes, SIZED_DEATH_FIRST, SIZED_DEATH_LAST);
            const uint32_t reallocs = bits_of_bytes(is_in(opcodes, REALLOC_FIRST, REALLOC_LAST));
            deaths = _mm256_or_si256(deaths, sized);
            step.deaths = bits_of_bytes(deaths);
            step.named = step.deaths | reallocs;
            step.records = bits_of_bytes(sized) | reallocs;
            step.taken = (unsigned)_tzcnt_u64(~(uint64_t)(step.births | step.named));
        }
        if (count - i < step.taken) step.taken = (unsigned)(count - i);

        /* All places that are less than this are good. */
        const uint64_t fewest = live > STEP ? live - STEP : 0;
        const __m256i limit =
            _mm256_set1_epi16((short)(fewest < INSTRUCTION_ESCAPE ? fewest : INSTRUCTION_ESCAPE));
        const __m256i beyond = _mm256_cmpeq_epi16(_mm256_subs_epu16(limit, values), zero);
        const __m256i more_beyond = _mm256_cmpeq_epi16(_mm256_subs_epu16(limit, more_values), zero);
        if (__builtin_expect(any(_mm256_or_si256(beyond, more_beyond)), 0))
            step_look_at_values(&step, room->values + i, live, bits_of_words(beyond, more_beyond));
        if (__builtin_expect(step.records != 0, 0)) step_write_records(&step, block, room, i, live);

        const uint64_t born = (uint64_t)_mm_popcnt_u32(_bzhi_u32(step.births, step.taken));
        if (live + born > high) {
            const uint64_t most = live + (uint64_t)step_most(births, deaths, step.taken);
            if (most > high) high = most;
        }
        live += born - (uint64_t)_mm_popcnt_u32(_bzhi_u32(step.deaths, step.taken));
        i += step.taken;
        if (step.taken < STEP) break;
    }
    block->live = live;
    block->high = high;
    return i;
}
