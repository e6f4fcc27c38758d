#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/call_table.h"
#include "inspect/verify.h"
#include "stream/metadata.h"

/* How far ahead of the ordered stream the recording is read before a missing record counts as too
 * far away. Rule 4 allows one window; the other rules rarely force more than one in addition. */
enum { READ_AHEAD_WINDOWS = 16 };

/* The number of the record at the head of the lane, which must have one. */
static uint64_t lane_position(const struct verify_lane *lane)
{
    return lane->first->first_record + lane->first->taken;
}

/* "instruction 17, lane 3, record 4 (chunk at offset 0x72): ". Returns its length. */
static size_t place_text(const struct verify *verify, const struct verify_lane *lane, char *to,
                         size_t bytes)
{
    int used = 0;
    if (verify->position > 0)
        used = snprintf(to, bytes, "instruction %" PRIu64 ", ", verify->position - 1);
    if (lane->first != NULL)
        used += snprintf(to + used, bytes - (size_t)used,
                         "lane %" PRIu32 ", record %" PRIu64 " (chunk at offset 0x%" PRIx64 "): ",
                         lane->number, lane_position(lane), lane->first->offset);
    else
        used += snprintf(to + used, bytes - (size_t)used, "lane %" PRIu32 ": ", lane->number);
    return (size_t)used;
}

static void note(struct verify *verify, struct verify_violation *violation, enum verify_rule rule,
                 const struct verify_lane *lane, const char *text, va_list arguments)
{
    size_t used = 0;
    if (violation->rule != 0) return;
    violation->rule = rule;
    if (lane != NULL) used = place_text(verify, lane, violation->text, sizeof violation->text);
    vsnprintf(violation->text + used, sizeof violation->text - used, text, arguments);
}

void verify_note(struct verify *verify, struct verify_violation *violation, enum verify_rule rule,
                 const struct verify_lane *lane, const char *text, ...)
{
    va_list arguments;
    va_start(arguments, text);
    note(verify, violation, rule, lane, text, arguments);
    va_end(arguments);
}

bool verify_violated(struct verify *verify, enum verify_rule rule, const struct verify_lane *lane,
                     const char *text, ...)
{
    va_list arguments;
    va_start(arguments, text);
    note(verify, &verify->violation, rule, lane, text, arguments);
    va_end(arguments);
    return false;
}

bool verify_no_memory(struct verify *verify)
{
    errno = ENOMEM;
    return error_set_system(&verify->error, "no memory");
}

/* ---- the next record of a lane ---- */

/* The record that the current instruction must be: the next one of its lane, after sequence
 * numbers. NULL: there is none, or it is not due yet. */
static const struct record *due_record(struct verify *verify, struct verify_lane *lane)
{
    const struct record *record;
    char name[32];
    while ((record = verify_lane_head(lane)) == NULL || lane->blocked_on != VERIFY_NOT_BLOCKED) {
        bool too_far = verify->raw.ticks_count > verify->counts.ticks + READ_AHEAD_WINDOWS;
        if (!verify->raw.ended && !too_far) {
            if (!verify_numbers_read(verify)) return NULL;
        } else if (record == NULL) {
            verify_violated(verify, VERIFY_LANES, lane,
                            "the recording has no more records of this lane%s",
                            verify->raw.ended ? "" : " near here");
            return NULL;
        } else if (!(verify->raw.ended || verify->raw.lost) || !verify_numbers_pass_over(verify)) {
            /* No longer blocked: skipping numbers has found another violation. */
            if (lane->blocked_on == VERIFY_NOT_BLOCKED) return NULL;
            verify_violated(verify, VERIFY_NUMBERS, lane,
                            "the record comes before number %" PRIu64 " of %s has been taken",
                            verify->structures[lane->blocked_on].due,
                            verify_structure_text(lane->blocked_on, name, sizeof name));
            return NULL;
        }
    }
    return record;
}

/* The same for a record that becomes an instruction. Records before it that say what the lane comes
 * after are checked on the way. */
static const struct record *due_call(struct verify *verify, struct verify_lane *lane)
{
    const struct record *record;
    while ((record = due_record(verify, lane)) != NULL && record->number == RAW_AFTER) {
        verify_raise_floor(lane, lane->first->window);
        if (!verify_after(verify, lane, record)) return NULL;
        verify_lane_take(lane);
    }
    return record;
}

/* ---- rule 1 ---- */

/* Compares the operands after the size: an alignment, or the numbers of a HEAP call. */
static bool operands_agree(const struct record *record, const uint64_t *operands, unsigned count)
{
    unsigned shape = call_shapes[record->kind];
    if (shape == SHAPE_HEAP)
        return count == record->count && (count < 1 || operands[0] == record->size) &&
               (count < 2 || operands[1] == record->operand);
    return count == 0 || operands[0] == record->operand;
}

static bool check_call(struct verify *verify, struct verify_lane *lane, const struct record *record,
                       const struct instruction *one, const uint64_t *operands)
{
    bool failed = record->number == RAW_FAILED;
    unsigned shape = call_shapes[record->kind];
    /* A failed realloc names no place (INSTRUCTIONS.md 5.1). */
    unsigned kind = failed && shape == SHAPE_REALLOC ? CALL_REALLOC_MOVED : record->kind;
    if (record->number >= CALL_KINDS && !failed)
        return verify_violated(verify, VERIFY_LANES, lane,
                               "%s is where the recording has record %u",
                               instruction_name(instruction_number(one)), record->number);
    if (kind != instruction_number(one))
        return verify_violated(verify, VERIFY_LANES, lane, "%s is where the recording has %s",
                               instruction_name(instruction_number(one)), call_names[record->kind]);
    if (failed != ((one->opcode & INSTRUCTION_FAILED) != 0))
        return verify_violated(verify, VERIFY_LANES, lane, "%s %s in the recording",
                               call_names[record->kind], failed ? "failed" : "did not fail");
    if (shape != SHAPE_HEAP && one->size != record->size)
        return verify_violated(verify, VERIFY_LANES, lane,
                               "%s of %" PRIu64 " bytes; the recording says %" PRIu64,
                               call_names[record->kind], one->size, record->size);
    if (!operands_agree(record, operands, one->operands))
        return verify_violated(verify, VERIFY_LANES, lane,
                               "the alignment or the numbers of %s differ from the recording",
                               call_names[record->kind]);
    return true;
}

/* Checks an instruction that is a record of a lane but not a call; numbers as in INSTRUCTIONS.md
 * 5.3. */
static bool check_other(struct verify *verify, struct verify_lane *lane,
                        const struct record *record, const struct instruction *one,
                        const uint64_t *operands)
{
    bool agree = false;
    switch (instruction_number(one)) {
    case INSTRUCTION_THREAD_BEGIN:
        agree = record->number == RAW_THREAD_BEGIN && operands[0] == record->operand;
        break;
    case INSTRUCTION_THREAD_END: agree = record->number == RAW_THREAD_END; break;
    case INSTRUCTION_THREAD_CACHE_DELETED:
        agree = record->number == RAW_THREAD_CACHE_DELETED;
        break;
    case INSTRUCTION_LOST: agree = record->number == RAW_LOST && operands[1] == record->size; break;
    }
    if (agree) return true;
    return verify_violated(verify, VERIFY_LANES, lane, "%s is where the recording has record %u",
                           instruction_name(instruction_number(one)), record->number);
}

/* ---- one instruction ---- */

static bool check_address(struct verify *verify, const struct verify_lane *lane,
                          const struct record *record, const struct instruction_batch *batch,
                          size_t index)
{
    /* Records from a spool have no addresses. */
    if (!verify->compare_addresses || batch->addresses == NULL || record->address == 0 ||
        batch->addresses[index] == record->address)
        return true;
    return verify_violated(verify, VERIFY_LANES, lane,
                           "address 0x%" PRIx64 "; the recording says 0x%" PRIx64,
                           batch->addresses[index], record->address);
}

/* Checks what the record does to objects, and its window. */
static bool check_objects(struct verify *verify, struct verify_lane *lane,
                          const struct record *record, const struct instruction_batch *batch,
                          size_t index, const struct instruction *one)
{
    bool is_call = instruction_number(one) < CALL_KINDS;
    unsigned shape = is_call ? call_shapes[record->kind] : SHAPE_UNDEFINED;
    bool names = shape_ends(shape);
    bool ends = names && record->number != RAW_FAILED && (one->opcode & INSTRUCTION_UNKNOWN) == 0;
    if (names && !verify_object(verify, lane, record, one)) return false;
    if (!verify_window(verify, lane)) return false;
    if (ends) verify_object_ends(verify, one->object);
    verify->counts.frees += ends;
    if (raw_record_counts(record, raw_source_is_opaque(&verify->raw.source)) &&
        !verify_object_counts(verify, lane))
        return false;
    if (!is_call || record->serial == 0) return true;
    return check_address(verify, lane, record, batch, index) &&
           verify_object_begins(verify, lane, record, one->object);
}

/* Checks an instruction against the next record of its lane, call or not. */
static bool check_record(struct verify *verify, struct verify_lane *lane,
                         const struct instruction_batch *batch, size_t index,
                         const struct instruction *one)
{
    const uint64_t *operands = batch->operands + one->operand_at;
    const struct record *record = due_call(verify, lane);
    if (record == NULL) return false;
    bool is_call = instruction_number(one) < CALL_KINDS;
    if (!(is_call ? check_call(verify, lane, record, one, operands)
                  : check_other(verify, lane, record, one, operands)))
        return false;
    verify_raise_floor(lane, lane->first->window);
    if (!check_objects(verify, lane, record, batch, index, one)) return false;
    verify->counts.calls += is_call;
    if (record->number == RAW_LOST) lane->allocations += record->operand;
    if (is_call || record->number == RAW_THREAD_CACHE_DELETED) lane->calls++;
    verify_lane_take(lane);
    return verify_numbers_follow(verify, lane);
}

/* Checks a free that the recording missed, before the record that reuses the place of its
 * object. */
static bool check_missed_free(struct verify *verify, const struct instruction *one)
{
    struct verify_lane *lane = verify_raw_lane(&verify->raw, verify->lane);
    if (lane == NULL) return verify_no_memory(verify);
    verify->free_missed = false;
    if (one->opcode != CALL_FREE)
        return verify_violated(verify, VERIFY_LANES, lane, "%s is where a missed free must be",
                               instruction_name(instruction_number(one)));
    const struct record *record = due_call(verify, lane);
    return record != NULL && verify_missed_free(verify, lane, record, one->object);
}

static bool check_instruction(struct verify *verify, const struct instruction_batch *batch,
                              size_t index, const struct instruction *one)
{
    const uint64_t *operands = batch->operands + one->operand_at;
    unsigned number = instruction_number(one);
    verify->position = batch->number + index + 1;
    if (index == 0) verify->usage = NULL;
    if (verify->free_missed) return check_missed_free(verify, one);
    if (number == INSTRUCTION_USAGE) { /* of the tick, which comes next */
        verify->usage = operands;
        return true;
    }
    if (number == INSTRUCTION_STATISTIC) {
        verify->statistics[operands[0]] = operands[1];
        return true;
    }
    if (number == INSTRUCTION_TICK)
        return verify_tick(verify, operands) && verify_mapped_tick(verify);
    verify->usage = NULL;
    if (number == INSTRUCTION_LANE) {
        verify->lane = (uint32_t)operands[0];
        return true;
    }
    /* The former only in imports, which have no recording; the latter is no record of a lane. */
    if (number == INSTRUCTION_PATH || number == INSTRUCTION_TOUCHED) return true;
    if (number == INSTRUCTION_FREED_TWICE) { /* a note about the next call, no record */
        verify->freed_twice = true;
        verify->counts.freed_twice++;
        return true;
    }
    if (number == INSTRUCTION_FREE_MISSED) {
        verify->free_missed = true;
        return true;
    }
    uint32_t lane = number == INSTRUCTION_LOST ? (uint32_t)operands[0] : verify->lane;
    struct verify_lane *found = verify_raw_lane(&verify->raw, lane);
    if (found == NULL) return verify_no_memory(verify);
    bool good = check_record(verify, found, batch, index, one);
    verify->freed_twice = false;
    return good;
}

bool verify_batch(struct verify *verify, const struct instruction_batch *batch)
{
    if (!verify_objects_reach(verify, batch->registers)) return false;
    struct instruction_walk walk = instruction_walk_over(batch, batch->count);
    struct instruction one;
    while (instruction_walk_next(&walk, &one))
        if (!check_instruction(verify, batch, walk.at - 1, &one) ||
            !verify_touched(verify, &walk, &one))
            return false;
    return true;
}

/* ---- opening and closing ---- */

bool verify_open(struct verify *verify, int fd, const char *path)
{
    *verify = (struct verify){.violation = {.rule = 0}};
    for (unsigned i = 0; i < RAW_STRUCTURES; i++)
        verify->structures[i].due = 1;
    if (!verify_objects_init(verify)) return verify_no_memory(verify);
    if (!verify_raw_open(&verify->raw, fd, path)) {
        verify->error = verify->raw.error;
        return false;
    }
    verify->compare_addresses =
        (verify->raw.source.reader.header.features & RAW_FEATURE_ADDRESSES) != 0;
    verify->is_attached = metadata_is_attached(verify->raw.source.reader.header.metadata,
                                               verify->raw.source.reader.header.metadata_bytes);
    return true;
}

/* Whether the lane has queued records that should have become instructions. */
static bool has_records(const struct verify_lane *lane)
{
    for (const struct verify_block *block = lane->first; block != NULL; block = block->next)
        for (uint32_t i = block->taken; i < block->count; i++) {
            unsigned number = block->records[i].number;
            if (number != RAW_SEQUENCE_BEFORE && number != RAW_SEQUENCE_AFTER &&
                number != RAW_AFTER)
                return true;
        }
    return false;
}

/* Checks that every record has come; only sequence numbers may be left. */
static bool check_left(struct verify *verify)
{
    for (uint32_t i = 0; i < verify->raw.lanes_count; i++) {
        struct verify_lane *lane = verify->raw.lanes[i];
        if (lane == NULL) continue;
        if (lane->calls > 0) verify->counts.lanes++;
        if (has_records(lane))
            return verify_violated(verify, VERIFY_LANES, lane,
                                   "the ordered stream ends without it");
    }
    for (uint32_t i = 0; i < verify->raw.lanes_count; i++) {
        struct verify_lane *lane = verify->raw.lanes[i];
        while (lane != NULL && verify_lane_head(lane) != NULL)
            if (!verify_numbers_pass_over(verify)) return verify->violation.rule == 0;
    }
    return true;
}

bool verify_finish(struct verify *verify)
{
    verify->position = 0;
    while (!verify->raw.ended)
        if (!verify_numbers_read(verify)) return false;
    if (!check_left(verify)) return false;
    if (verify->counts.overlaps > 0 && verify->counts.unknown == 0 && !verify->raw.lost) {
        struct verify_violation *first = &verify->overlap;
        const size_t used = strlen(first->text);
        snprintf(first->text + used, sizeof first->text - used,
                 "; objects on whose bytes others begin: %" PRIu64, verify->counts.overlaps);
        verify->violation = *first;
        return false;
    }
    const struct error *underrun = verify_raw_underrun(&verify->raw);
    if (underrun != NULL && verify->counts.freed_twice == 0) {
        verify->error = *underrun;
        return false;
    }
    if (verify->counts.ticks != verify->raw.ticks_count)
        return verify_violated(verify, VERIFY_WINDOWS, NULL,
                               "%" PRIu64 " ticks; the recording has %zu", verify->counts.ticks,
                               verify->raw.ticks_count);
    return true;
}

void verify_close(struct verify *verify)
{
    verify_raw_close(&verify->raw);
    verify_objects_free(verify);
    verify_mapped_close(&verify->mapped);
}
