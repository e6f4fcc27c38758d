#include "stream/mapping.h"

#include "stream/stack_definition.h"
#include "stream/varint.h"

#include <string.h>

/* The bits of a record's head, above what it is (FORMAT.md 4.5). */
enum { HEAD_WHAT_BITS = 4, HEAD_FAILED = 1, HEAD_OWN = 2, HEAD_FILE = 4, HEAD_LANE = 8 };
#define HEAD_LIMIT (1u << (HEAD_WHAT_BITS + 4))

const char *mapping_what_name(unsigned what)
{
#define MAPPING_WHAT_NAME(number, identifier, name) \
    case number: return name;
    switch (what) {
        MAPPING_WHAT_LIST(MAPPING_WHAT_NAME)
    default: return NULL;
    }
#undef MAPPING_WHAT_NAME
}

bool mapping_voids(const struct mapping_record *record, const struct mapping_record *earlier)
{
    return record->failed && !earlier->failed && record->what == earlier->what &&
           record->what == MAPPING_UNMAP && record->thread_id == earlier->thread_id &&
           record->address == earlier->address && record->length == earlier->length;
}

/* ---- writing ---- */

uint8_t *mapping_record_put(uint8_t *at, const struct mapping_record *record, uint64_t *latest)
{
    const unsigned flags = (record->failed ? HEAD_FAILED : 0) | (record->own ? HEAD_OWN : 0) |
                           (record->has_file ? HEAD_FILE : 0) | (record->has_lane ? HEAD_LANE : 0);
    at = varint_put(at, record->what | flags << HEAD_WHAT_BITS);
    at = varint_put(at, record->thread_id);
    at = varint_put(at, zigzag((int64_t)(record->address - *latest)));
    at = varint_put(at, record->length);
    at = varint_put(at, record->protection);
    at = varint_put(at, record->flags);
    at = varint_put(at, record->stack);
    *latest = record->address;
    if (record->has_lane) {
        at = varint_put(at, raw_allocations_lane(record->calls));
        at = varint_put(at, raw_allocations_count(record->calls));
    }
    if (!record->has_file) return at;
    at = varint_put(at, record->offset);
    at = varint_put(at, record->device);
    at = varint_put(at, record->inode);
    at = varint_put(at, record->name_bytes);
    if (record->name_bytes > 0) memcpy(at, record->name, record->name_bytes);
    return at + record->name_bytes;
}

/* ---- reading ---- */

struct mapping_input {
    const uint8_t *at, *end;
};

/* Where there is no number, `at` passes the end, which is checked afterwards. */
static uint64_t take_mapping_number(struct mapping_input *input)
{
    if (input->at < input->end) return varint_get(&input->at);
    input->at = input->end + 1;
    return 0;
}

/* The same, of 32 bits; *good stays as it is if it has no more. */
static uint32_t take_mapping_word(struct mapping_input *input, bool *good)
{
    const uint64_t value = take_mapping_number(input);
    *good = *good && value <= UINT32_MAX;
    return (uint32_t)value;
}

static bool take_mapping_lane(struct mapping_input *input, struct mapping_record *record)
{
    const uint64_t lane = take_mapping_number(input), calls = take_mapping_number(input);
    record->calls = raw_allocations((uint32_t)lane, calls);
    return lane < RAW_LANES_MAX && calls <= RAW_SERIAL_MAX;
}

static bool take_mapping_file(struct mapping_input *input, struct mapping_record *record)
{
    record->offset = take_mapping_number(input);
    record->device = take_mapping_number(input);
    record->inode = take_mapping_number(input);
    const uint64_t bytes = take_mapping_number(input);
    if (input->at > input->end || bytes > MAPPING_NAME_BYTES_MAX ||
        bytes > (uint64_t)(input->end - input->at))
        return false;
    record->name = (const char *)input->at;
    record->name_bytes = (uint32_t)bytes;
    input->at += bytes;
    return true;
}

const char *mapping_record_take(const uint8_t **at, const uint8_t *end, uint64_t *latest,
                                struct mapping_record *record)
{
    struct mapping_input input = {*at, end};
    const uint64_t head = take_mapping_number(&input);
    const unsigned flags = (unsigned)head >> HEAD_WHAT_BITS;
    bool good = true;
    *record = (struct mapping_record){.what = (uint8_t)(head & ((1u << HEAD_WHAT_BITS) - 1)),
                                      .failed = flags & HEAD_FAILED,
                                      .own = flags & HEAD_OWN,
                                      .has_file = flags & HEAD_FILE,
                                      .has_lane = flags & HEAD_LANE};
    if (head >= HEAD_LIMIT || mapping_what_name(record->what) == NULL) return "its head";
    record->thread_id = take_mapping_word(&input, &good);
    record->address = *latest + (uint64_t)unzigzag(take_mapping_number(&input));
    record->length = take_mapping_number(&input);
    record->protection = take_mapping_word(&input, &good);
    record->flags = take_mapping_word(&input, &good);
    record->stack = take_mapping_word(&input, &good);
    if (!good || record->stack >= STACK_NUMBERS_LIMIT) return "a number out of range";
    if (record->has_lane && !take_mapping_lane(&input, record)) return "its lane";
    if (record->has_file && !take_mapping_file(&input, record)) return "its file";
    if (input.at > end) return "its end";
    *latest = record->address;
    *at = input.at;
    return NULL;
}
