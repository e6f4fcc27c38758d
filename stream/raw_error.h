/* raw_error - what can be wrong with a raw stream or a spool: one list for everything that reads
 * one.
 *
 * The name is for tests and reports, the text for people; what only the place knows (lane,
 * record, numbers) is added by whoever finds it. Cut is not damage: see raw_reader.h and
 * spool_reader.h. */
#ifndef MALLOCTAPE_RAW_ERROR_H
#define MALLOCTAPE_RAW_ERROR_H

#include "common/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RAW_ERROR_LIST(X)                                                                          \
    X(RAW_NO_STREAM, "raw_no_stream", "this is not a raw event stream (FORMAT.md 4.1)")            \
    X(RAW_EMPTY, "raw_empty", "the stream ends before its header is complete (FORMAT.md 4.1)")     \
    X(RAW_VERSION, "raw_version", "unknown major version (FORMAT.md 4.1)")                         \
    X(RAW_FEATURE, "raw_feature", "unknown feature bit (FORMAT.md 4.1)")                           \
    X(RAW_METADATA, "raw_metadata", "more metadata than allowed (FORMAT.md 4.1)")                  \
    X(RAW_HEADER_DAMAGED, "raw_header_damaged",                                                    \
      "the header does not match its checksum (FORMAT.md 4.1)")                                    \
    X(RAW_CHUNK_MAGIC_WRONG, "raw_chunk_magic", "no chunk begins here (FORMAT.md 4.2)")            \
    X(RAW_CHUNK_LIMIT, "raw_chunk_limit", "the chunk is larger than allowed (FORMAT.md 4.2)")      \
    X(RAW_CHUNK_DAMAGED, "raw_chunk_damaged",                                                      \
      "the chunk does not match its checksum (FORMAT.md 4.2)")                                     \
    X(RAW_CHUNK_FIELD, "raw_chunk_field", "a field of the chunk header is wrong (FORMAT.md 4.2)")  \
    X(RAW_SEQUENCE, "raw_sequence", "chunks are missing or repeated (FORMAT.md 4.2)")              \
    X(RAW_TICK_DAMAGED, "raw_tick_damaged", "a tick that cannot be read (FORMAT.md 4.3)")          \
    X(RAW_MAPPING, "raw_mapping", "a mapping that cannot be read (FORMAT.md 4.5)")                 \
    X(RAW_RESIDENCY, "raw_residency", "a residency that cannot be read (FORMAT.md 4.6)")           \
    X(RAW_END_DAMAGED, "raw_end_damaged", "an end chunk that cannot be read (FORMAT.md 4.4)")      \
    X(RAW_END_DIFFERS, "raw_end_differs",                                                          \
      "the end chunk's totals do not match the stream (FORMAT.md 4.4)")                            \
    X(RAW_TRAILING, "raw_trailing", "something follows the end chunk (FORMAT.md 4.4)")             \
    X(RAW_PAYLOAD, "raw_payload", "the payload has no room for its units (FORMAT.md 4.2)")         \
    X(RAW_PACKED, "raw_packed", "the number of packed units is wrong (FORMAT.md 5.5)")             \
    X(RAW_PROFILE, "raw_profile", "the profile has a kind of the wrong shape (FORMAT.md 5.1)")     \
    X(RAW_UNIT, "raw_unit", "the unit is undefined (FORMAT.md 5.2)")                               \
    X(RAW_UNITS_SHORT, "raw_units_short", "a record crosses the end of its chunk (FORMAT.md 4.2)") \
    X(RAW_NUMBER, "raw_number", "the record number is undefined (FORMAT.md 3)")                    \
    X(RAW_UNIT_FLAG, "raw_unit_flag", "the unit has a bit that it must not have (FORMAT.md 5.2)")  \
    X(RAW_OBJECT, "raw_object", "an object that cannot exist (FORMAT.md 5.2)")                     \
    X(RAW_OPERAND, "raw_operand", "an operand is out of range (FORMAT.md 5.2)")                    \
    X(RAW_STRUCTURE, "raw_structure", "the structure is undefined (FORMAT.md 3)")                  \
    X(RAW_ALLOCATIONS, "raw_allocations",                                                          \
      "a lane has more allocations than a bound can count (FORMAT.md 2.5)")                        \
    X(RAW_PLACE, "raw_place", "the place is out of range (FORMAT.md 2.5)")                         \
    X(RAW_PLACE_CLASS, "raw_place_class", "places of one block have two classes (FORMAT.md 2.5)")  \
    X(RAW_SIZE_CLASS, "raw_size_class", "the size class is undefined (FORMAT.md 3)")               \
    X(RAW_CACHE_UNKNOWN, "raw_cache_unknown",                                                      \
      "an allocation gives no place, and the cache's contents are unknown (FORMAT.md 2.6)")        \
    X(RAW_CACHE_EMPTY, "raw_cache_empty",                                                          \
      "an allocation gives no place, and the cache is empty (FORMAT.md 2.6)")                      \
    X(RAW_CACHE_SHORT, "raw_cache_short", "more leaves a cache than is in it (FORMAT.md 2.6)")     \
    X(RAW_DEFINITION, "raw_definition", "an invalid definition of call stacks (FORMAT.md 5.8)")    \
    X(RAW_PLACES_MEMORY, "raw_places_memory",                                                      \
      "the lanes of this stream need more than 4 GiB for the places of their objects")             \
    X(RAW_CUT_CHUNK, "raw_cut_chunk", "the stream ends inside a chunk")                            \
    X(RAW_CUT_NO_END, "raw_cut_no_end", "the stream has no end chunk (FORMAT.md 4.4)")             \
    X(SPOOL_NO_SPOOL, "spool_no_spool", "this is not a spool (FORMAT.md 8)")                       \
    X(SPOOL_VERSION, "spool_version", "unknown major version of the spool (FORMAT.md 8)")          \
    X(SPOOL_HEADER_DAMAGED, "spool_header_damaged",                                                \
      "the header of the spool does not match its checksum (FORMAT.md 8)")                         \
    X(SPOOL_SLOT_SIZE, "spool_slot_size", "the size of a slot is not allowed (FORMAT.md 8)")       \
    X(SPOOL_SLOT_DAMAGED, "spool_slot_damaged", "a slot of the spool is damaged (FORMAT.md 8)")    \
    X(SPOOL_OTHER_RECORDING, "spool_other_recording",                                              \
      "the spool belongs to another recording (FORMAT.md 8)")

enum raw_error { RAW_ERROR_LIST(ERROR_LIST_ENUM) };
extern const struct error_kind raw_errors[];

#ifdef __cplusplus
}
#endif
#endif
