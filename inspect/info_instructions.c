#include "inspect/info.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "stream/instruction_reader.h"
#include "stream/metadata.h"

static void info_instructions_take_header(struct info *info,
                                          const struct instruction_header *header)
{
    const char *metadata = header->metadata;
    const size_t bytes = header->metadata_bytes;
    info->version_major = header->version_major;
    info->version_minor = header->version_minor;
    info->has_addresses = (header->features & INSTRUCTION_FEATURE_ADDRESSES) != 0;
    info->has_stacks = (header->features & INSTRUCTION_FEATURE_STACKS) != 0;
    info->has_mappings = (header->features & INSTRUCTION_FEATURE_MAPPINGS) != 0;
    info->has_base = (header->features & INSTRUCTION_FEATURE_BASE) != 0;
    info->truncated = (header->info & INSTRUCTION_INFO_INCOMPLETE) != 0;
    info->program = metadata_copy(metadata, bytes, "program");
    info->architecture = metadata_copy(metadata, bytes, "architecture");
    info->page_bytes = metadata_page_bytes(metadata, bytes);
    info->allocator = metadata_copy(metadata, bytes, "allocator");
    info->heap_unknown = metadata_copy(metadata, bytes, "heap.unknown");
    info->recording = metadata_copy(metadata, bytes, "run");
    info->pid = metadata_copy(metadata, bytes, "pid");
    info->source = metadata_copy(metadata, bytes, "source");
    info->lacks = metadata_copy(metadata, bytes, "lacks");
    info->what_if = metadata_copy(metadata, bytes, "what_if");
    info->thin = metadata_thin(metadata, bytes);
    statistics_take(&info->names, metadata, bytes);
    info->start_s = metadata_start_s(metadata, bytes);
}

static void take_ticks(struct info *info, const struct instruction_batch *batch)
{
    for (size_t i = 0; i < batch->ticks_count; i++) {
        const struct instruction_tick *tick = &batch->ticks[i];
        const uint64_t *operands = &batch->operands[tick->operand_at];
        struct original_usage usage;
        bool has_usage = instruction_batch_usage(batch, tick, &usage);
        instruction_batch_statistics(batch, tick, &info->statistics);
        if (batch->is_base) continue;
        info->duration_ns += operands[0];
        info_take_tick(info, operands[0], operands[1], has_usage ? &usage : NULL);
    }
}

static void take_touched(struct info *info, const struct instruction_walk *walk,
                         const struct instruction *one)
{
    const unsigned does = instruction_does[one->opcode];
    const uint64_t *runs;
    if (does != INSTRUCTION_BEGINS && does != INSTRUCTION_RESIZES) return;
    const size_t count = instruction_walk_touched(walk, one, &runs);
    const uint64_t page_bytes = info->page_bytes != 0 ? info->page_bytes : MAPPING_PAGE_BYTES;
    const uint64_t most = one->size / page_bytes + 2;
    uint64_t pages = 0;
    for (size_t i = 0; i < count && pages < most; i++)
        pages += runs[2 * i + 1] < most ? runs[2 * i + 1] : most;
    info->touched += count > 0;
    info->touched_bytes += (pages < most ? pages : most) * page_bytes;
}

/* Counts what the reader's totals do not have. A lane counts when something happens in it. */
static void take_batch(struct info *info, bool *seen, uint64_t *lane,
                       const struct instruction_batch *batch)
{
    struct instruction_walk walk = instruction_walk_over(batch, batch->count);
    struct instruction one;
    while (instruction_walk_next(&walk, &one)) {
        const unsigned number = instruction_number(&one);
        if (number == INSTRUCTION_LANE) *lane = batch->operands[one.operand_at];
        if (number < CALL_KINDS || number == INSTRUCTION_THREAD_BEGIN) {
            info->lanes += !seen[*lane];
            seen[*lane] = true;
        }
        if (number < CALL_KINDS && (one.opcode & INSTRUCTION_FAILED) != 0 && !batch->is_base)
            info->failed++;
        take_touched(info, &walk, &one);
    }
}

static const char *info_instructions_define(void *stacks, const struct stack_definition *definition)
{
    return stacks_define(stacks, definition);
}

/* False: no memory. */
static bool take_stacks(struct info *info, struct stacks *stacks,
                        const struct instruction_batch *batch)
{
    for (size_t i = 0; batch->stacks != NULL && i < batch->count; i++) {
        if (batch->stacks[i] == STACK_END) continue;
        if (!stacks_use(stacks, batch->stacks[i])) return false;
        info->stacks += !batch->is_base;
    }
    return true;
}

static void take_totals(struct info *info, const struct instruction_totals *totals)
{
    info->instructions = totals->instructions;
    info->events = totals->calls;
    memcpy(info->by_kind, totals->by_kind, sizeof info->by_kind);
    info->threads = totals->threads;
    info->live_is_known = true;
    info->live_at_end = totals->live;
    info->lost_events = totals->lost_events;
    info->ticks = totals->ticks;
    info->freed_twice = totals->freed_twice;
    info->missed_frees = totals->missed_frees;
    info->residencies = totals->residencies;
    info->base_calls = totals->base_calls;
    info->base_objects = totals->base_live;
    info->base_bytes = totals->base_live_bytes;
}

static const char *ended(const struct instruction_reader *reader)
{
    if (reader->state != INSTRUCTIONS_END) return "cut short";
    switch (reader->end_status) {
    case INSTRUCTION_STATUS_COMPLETE: return "complete";
    case INSTRUCTION_STATUS_EXEC: return "complete: another program ran in the process (exec)";
    case INSTRUCTION_STATUS_CUT: return "complete, of a recording that was cut short";
    case INSTRUCTION_STATUS_DAMAGED:
        return "complete, of a recording whose damaged parts were left out";
    case INSTRUCTION_STATUSES: break;
    }
    return "complete, with an unknown status";
}

int info_instructions(struct info *info, struct stream *stream, struct error *error)
{
    struct instruction_reader reader;
    struct instruction_batch batch;
    static bool seen[INSTRUCTION_LANES_MAX]; /* by lane */
    uint64_t lane = 0;
    struct stacks stacks = {0};
    const bool opened = instruction_reader_open(&reader, &stream->input);
    if (opened) {
        info_instructions_take_header(info, &reader.header);
        reader.define = info_instructions_define;
        reader.define_context = &stacks;
        reader.mapping = info_take_mapping;
        reader.residency = info_take_residency;
        reader.mappings_context = info;
        while (instruction_reader_next(&reader, &batch)) {
            if (!take_stacks(info, &stacks, &batch)) {
                reader.state = INSTRUCTIONS_FAILED;
                error_set_system(&reader.error, "%s", stacks_no_memory);
            }
            take_batch(info, seen, &lane, &batch);
            take_ticks(info, &batch);
        }
    }
    *error = reader.error;
    take_totals(info, &reader.totals);
    info_take_stacks(info, &stacks);
    stacks_free(&stacks);
    info->ended = ended(&reader);
    info->truncated |=
        reader.state != INSTRUCTIONS_END || reader.end_status == INSTRUCTION_STATUS_CUT;
    int status = reader.state == INSTRUCTIONS_END             ? PROGRAM_OK
                 : opened && reader.state == INSTRUCTIONS_CUT ? PROGRAM_CUT
                                                              : PROGRAM_FAILED;
    instruction_reader_close(&reader);
    return status;
}
