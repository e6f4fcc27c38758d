/* raw_format - the numbers of the raw event stream and of the spool, as FORMAT.md gives them.
 *
 * Shared by what writes a stream (the capture core, inside other people's programs) and what reads
 * one: constants and pure arithmetic only, no header but stdint.h, C and C++. The section of
 * FORMAT.md stands beside each constant; what the constants mean is said there and not here.
 *
 * Fixed-size structures are given as offsets of their fields. They are never laid over memory as a
 * C struct: nothing in a stream is aligned.
 *
 *             63                                    6 5      0
 *   a word    |  value, 58 bits                      | number |      FORMAT.md 7
 *              57          42 41                    0
 *   a token   | lane, 16 bits | serial, 42 bits      |               FORMAT.md 2.5
 */
#ifndef MALLOCTAPE_RAW_FORMAT_H
#define MALLOCTAPE_RAW_FORMAT_H

#include <stdint.h>

#define RAW_VERSION_MAJOR 1
#define RAW_VERSION_MINOR 0

/* --- tokens, FORMAT.md 2.5 --- */

#define RAW_SERIAL_BITS 42
#define RAW_SERIAL_MAX  ((UINT64_C(1) << RAW_SERIAL_BITS) - 1)
#define RAW_LANE_BITS   16
#define RAW_LANES_MAX   (1u << RAW_LANE_BITS)

/* The object whose birth was not recorded. Serial 0 of any other lane is undefined. */
#define RAW_TOKEN_UNKNOWN UINT64_C(0)

static inline uint64_t raw_token(uint32_t lane, uint64_t serial)
{
    return ((uint64_t)lane << RAW_SERIAL_BITS) | serial;
}

static inline uint32_t raw_token_lane(uint64_t token)
{
    return (uint32_t)(token >> RAW_SERIAL_BITS);
}

static inline uint64_t raw_token_serial(uint64_t token)
{
    return token & RAW_SERIAL_MAX;
}

/* --- records that are not calls, FORMAT.md 3 --- */

enum raw_record {
    RAW_THREAD_BEGIN = 48,
    RAW_THREAD_END = 49,
    RAW_THREAD_CACHE_DELETED = 50,
    RAW_STAMP_BEFORE = 51,
    RAW_STAMP_AFTER = 52,
    RAW_LOST = 53,
    RAW_FAILED = 54,
    RAW_LOST_STAMPS = 55
};

/* One more than the highest number six bits can hold. */
#define RAW_NUMBERS 64

/* Structures are named by one byte, FORMAT.md 3: size classes 0 to 127, and the page heap. */
#define RAW_STRUCTURES          256
#define RAW_SIZE_CLASSES_MAX    128
#define RAW_STRUCTURE_PAGE_HEAP 255

/* --- the header of a stream, FORMAT.md 4.1 --- */

/* "MTAPERAW" as the little-endian number of its bytes. */
#define RAW_MAGIC                 UINT64_C(0x574152455041544d)
#define RAW_HEADER_BYTES          64
#define RAW_HEADER_MAGIC          0
#define RAW_HEADER_VERSION_MAJOR  8
#define RAW_HEADER_VERSION_MINOR  10
#define RAW_HEADER_METADATA_BYTES 12
#define RAW_HEADER_FEATURES       16
#define RAW_HEADER_INFO           24
#define RAW_HEADER_RUN_ID         32
#define RAW_HEADER_START_NS       48
#define RAW_HEADER_PID            56
#define RAW_HEADER_CHECKSUM       60
#define RAW_METADATA_BYTES_MAX    65536
#define RAW_RUN_ID_BYTES          16

#define RAW_FEATURE_ADDRESSES UINT64_C(1)
#define RAW_FEATURES_KNOWN    RAW_FEATURE_ADDRESSES

/* --- chunks, FORMAT.md 4.2 to 4.4 --- */

/* "MTRC" as the little-endian number of its bytes. */
#define RAW_CHUNK_MAGIC             0x4352544du
#define RAW_CHUNK_HEADER_BYTES      36
#define RAW_CHUNK_HEADER_MAGIC      0
#define RAW_CHUNK_HEADER_TYPE       4
#define RAW_CHUNK_HEADER_FLAGS      5
#define RAW_CHUNK_HEADER_LANE       6
#define RAW_CHUNK_HEADER_PAYLOAD    8
#define RAW_CHUNK_HEADER_RECORDS    12
#define RAW_CHUNK_HEADER_FIRST      16
#define RAW_CHUNK_HEADER_BIRTH      24
#define RAW_CHUNK_HEADER_CHECKSUM   32
#define RAW_CHUNK_PAYLOAD_BYTES_MAX 1048576u
#define RAW_CHUNK_RECORDS_MAX       65536u

enum raw_chunk_type { RAW_CHUNK_RECORDS = 1, RAW_CHUNK_TICK = 2, RAW_CHUNK_END = 3 };

#define RAW_CHUNK_FLAG_KEY 1u

/* A key chunk at least every so many chunks of a lane, FORMAT.md 5.2. */
#define RAW_KEY_CHUNK_EVERY 64

enum raw_end_status { RAW_END_STOPPED = 0, RAW_END_LIMIT = 1, RAW_END_ERROR = 2 };

/* --- the opcode byte, FORMAT.md 5.2 --- */

#define RAW_OPCODE_NUMBER  0x3fu
#define RAW_OPCODE_FOREIGN 0x40u
#define RAW_OPCODE_UNKNOWN 0x80u

/* --- codes, FORMAT.md 5.1 and 5.2 --- */

/* The slots, in the order of the payload's first bytes. */
enum raw_slot { RAW_SLOT_DEATH_1, RAW_SLOT_DEATH_2, RAW_SLOT_BIRTH_1, RAW_SLOT_BIRTH_2, RAW_SLOTS };

/* Codes begin behind the slots and their own length. */
#define RAW_PAYLOAD_CODES 8

/* First value of the first byte for each slot, and the other codes. */
#define RAW_CODE_DEATH_1 0
#define RAW_CODE_DEATH_2 122
#define RAW_CODE_BIRTH_1 151
#define RAW_CODE_BIRTH_2 208
#define RAW_CODE_FOREIGN 241
#define RAW_CODE_GENERAL 242

/* Numbers that a HEAP call carries at most, FORMAT.md 5.2. */
#define RAW_HEAP_NUMBERS_MAX 2

/* --- event words, FORMAT.md 7 --- */

#define RAW_WORD_NUMBER_BITS     6
#define RAW_WORD_NUMBER_MASK     UINT64_C(0x3f)
#define RAW_WORD_VALUE_MAX       ((UINT64_C(1) << 58) - 1)
#define RAW_WORDS_PER_RECORD_MAX 4
#define RAW_WORD_STRUCTURE_BITS  8

static inline uint64_t raw_word(uint32_t number, uint64_t value)
{
    return (value << RAW_WORD_NUMBER_BITS) | number;
}

static inline uint32_t raw_word_number(uint64_t word)
{
    return (uint32_t)(word & RAW_WORD_NUMBER_MASK);
}

static inline uint64_t raw_word_value(uint64_t word)
{
    return word >> RAW_WORD_NUMBER_BITS;
}

/* The value of a stamp's word (its number) or of a lost_stamps' word (the count). */
static inline uint64_t raw_stamp_value(uint32_t structure, uint64_t number)
{
    return (number << RAW_WORD_STRUCTURE_BITS) | structure;
}

static inline uint32_t raw_stamp_structure(uint64_t value)
{
    return (uint32_t)(value & (RAW_STRUCTURES - 1));
}

static inline uint64_t raw_stamp_number(uint64_t value)
{
    return value >> RAW_WORD_STRUCTURE_BITS;
}

/* --- the spool, FORMAT.md 8 --- */

/* "MTAPESPL" as the little-endian number of its bytes. */
#define SPOOL_MAGIC                UINT64_C(0x4c5053455041544d)
#define SPOOL_VERSION_MAJOR        1
#define SPOOL_VERSION_MINOR        0
#define SPOOL_HEADER_BYTES         40
#define SPOOL_HEADER_MAGIC         0
#define SPOOL_HEADER_VERSION_MAJOR 8
#define SPOOL_HEADER_VERSION_MINOR 10
#define SPOOL_HEADER_SLOT_BYTES    12
#define SPOOL_HEADER_RUN_ID        16
#define SPOOL_HEADER_PID           32
#define SPOOL_HEADER_CHECKSUM      36
#define SPOOL_SLOTS_OFFSET         4096
#define SPOOL_SLOT_ALIGNMENT       4096u
#define SPOOL_SLOT_BYTES_MAX       1048576u

#define SPOOL_SLOT_HEADER_BYTES 32
#define SPOOL_SLOT_STATE        0
#define SPOOL_SLOT_LANE         4
#define SPOOL_SLOT_SERIAL       8
#define SPOOL_SLOT_FIRST_BIRTH  16
#define SPOOL_SLOT_FIRST_RECORD 24 /* plus one */

enum spool_slot_state { SPOOL_SLOT_FREE = 0, SPOOL_SLOT_IN_USE = 1 };

#endif
