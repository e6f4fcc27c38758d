/* instruction_mappings - blocks of mappings and of residency (INSTRUCTIONS.md 4.7, 4.8). */
#include "stream/instruction_reader_own.h"

/* Goes through the records, and gives them to whoever wants them, if `gives`. NULL: all are good. */
static const char *mappings_go_through(struct instruction_reader *reader, const struct block *block,
                                       const uint8_t *at, const uint8_t *end, bool gives,
                                       size_t *done)
{
    struct mapping_record record;
    const char *wrong = block->count == 0 ? "there is none" : NULL;
    uint64_t latest = 0;
    for (*done = 0; wrong == NULL && *done < block->count; (*done)++) {
        wrong = mapping_record_take(&at, end, &latest, &record);
        if (gives) reader->mapping(reader->mappings_context, &record);
    }
    return wrong == NULL && at != end ? "something follows the last one" : wrong;
}

/* A block with a mistake is refused as a whole. */
bool block_give_mappings(struct instruction_reader *reader, const struct block *block,
                         const uint8_t *payload, size_t payload_bytes)
{
    size_t done;
    const char *wrong =
        mappings_go_through(reader, block, payload, payload + payload_bytes, false, &done);
    reader->mappings_offset = block->offset;
    if (wrong != NULL) {
        error_set(&reader->error, &instruction_errors[INSTRUCTION_ERROR_MAPPING], block->offset,
                  "record %zu: %s", done, wrong);
        return reader_fail(reader);
    }
    reader->totals.mappings += block->count;
    if (reader->mapping != NULL)
        mappings_go_through(reader, block, payload, payload + payload_bytes, true, &done);
    return true;
}

bool block_give_residency(struct instruction_reader *reader, const struct block *block,
                          const uint8_t *payload, size_t payload_bytes)
{
    const uint8_t *at = payload, *end = payload + payload_bytes;
    const char *wrong = block->count == 1 ? residency_check(at, end) : "the count is not 1";
    struct residency residency;
    reader->mappings_offset = block->offset;
    if (wrong == NULL) {
        reader->totals.residencies++;
        residency_take(&at, end, &residency);
        if (reader->residency != NULL)
            reader->residency(reader->mappings_context, &residency, at, end);
        return true;
    }
    error_set(&reader->error, &instruction_errors[INSTRUCTION_ERROR_RESIDENCY], block->offset, "%s",
              wrong);
    return reader_fail(reader);
}
