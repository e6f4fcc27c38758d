/* Reads the trace once: up to where the part begins into a base, and the part into a copy. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cut/anonymous.h"
#include "cut/cut_copy.h"
#include "launch/process.h"
#include "stream/metadata.h"

#define CUT_DEAD_MAX 4000000u /* lives of the base: 384 MB */

struct cutting {
    const struct cut_plan *plan;
    struct cut_counts *counts;
    struct instruction_reader reader;
    struct output output;
    struct base base;
    struct cut_copy copy;
    const char *path;
    const char *wrong;  /* with a definition */
    uint64_t calls, ns; /* so far; of a base in the trace only the time */
    bool begun, ended, no_memory;
};

/* ---- where the part begins and ends ---- */

/* Whether the part may begin at once, with nothing before it. */
static bool cut_has_no_base(const struct cutting *state)
{
    return state->plan->from.unit == CUT_NOWHERE && !state->reader.in_base;
}

static bool cut_is_reached(const struct cutting *state, const struct cut_bound *bound)
{
    if (bound->unit == CUT_NS) return state->ns >= bound->value;
    return bound->unit == CUT_CALLS && state->calls >= bound->value;
}

/* Follows `calls` and `ns` over the instruction at `at`. */
static void cut_follow(struct cutting *state, const struct instruction_batch *batch, size_t at,
                       const struct instruction_tick **tick)
{
    if (instruction_does[batch->opcodes[at]] != INSTRUCTION_OTHER && !batch->is_base)
        state->calls++;
    if (batch->opcodes[at] == INSTRUCTION_TICK) state->ns += batch->operands[(*tick)++->operand_at];
}

/* ---- the header ---- */

static uint64_t cut_features(const struct cutting *state, bool has_base)
{
    const struct cut_plan *plan = state->plan;
    uint64_t features = state->reader.header.features & ~INSTRUCTION_FEATURE_BASE;
    if (plan->drops_addresses) features &= ~INSTRUCTION_FEATURE_ADDRESSES;
    if (plan->drops_mappings) features &= ~INSTRUCTION_FEATURE_MAPPINGS;
    if (plan->drops_stacks)
        features &= ~(INSTRUCTION_FEATURE_STACKS | INSTRUCTION_FEATURE_FREE_STACKS);
    return has_base ? features | INSTRUCTION_FEATURE_BASE : features;
}

/* Whether a line of metadata stays. */
static bool cut_keeps_line(const struct cut_plan *plan, const char *line)
{
    if (strncmp(line, "cut=", 4) == 0) return false;
    return !plan->drops_statistics || strncmp(line, "statistics=", 11) != 0;
}

/* Returns how many bytes were put. */
static size_t cut_put_line(const struct cut_plan *plan, const char *line, size_t bytes, char *to)
{
    if (plan->anonymous != NULL)
        return anonymous_line(line, line + bytes - (line[bytes - 1] == '\n'), to);
    memcpy(to, line, bytes);
    return bytes;
}

/* The metadata of the new stream, and where it was cut: calls and nanoseconds before the part. NULL:
 * no memory. */
static char *cut_metadata(const struct cutting *state)
{
    const char *at = state->reader.header.metadata;
    const size_t bytes = state->reader.header.metadata_bytes;
    char *before = metadata_copy(at, bytes, "cut");
    const char *const linked = state->plan->linked;
    const size_t linked_bytes = linked != NULL ? strlen(linked) : 0;
    char *metadata = malloc(bytes + linked_bytes + 128), *to = metadata;
    const uint64_t earlier = before != NULL ? strtoull(before, NULL, 10) : 0;
    free(before);
    if (metadata == NULL) return NULL;
    for (const char *end = at + bytes; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t line = newline != NULL ? (size_t)(newline - at) + 1 : (size_t)(end - at);
        if (cut_keeps_line(state->plan, at)) to += cut_put_line(state->plan, at, line, to);
        at += line;
    }
    if (linked != NULL) to += cut_put_line(state->plan, linked, linked_bytes, to);
    if (state->plan->anonymous != NULL) to += sprintf(to, "anonymous=1\n");
    sprintf(to, "cut=%" PRIu64 " %" PRIu64 "\n", earlier + state->calls, state->ns);
    return metadata;
}

/* ---- the part begins ---- */

static bool cut_write_base(struct cutting *state)
{
    struct base *base = &state->base;
    struct cut_copy *copy = &state->copy;
    if (state->plan->drops_statistics) base->statistics = (struct original_statistics){.count = 0};
    if (!cut_copy_reserve(copy, base->live + 1) || !base_write(base, &copy->writer, copy->names))
        return false;
    const struct instruction_totals *totals = instruction_writer_totals(&copy->writer);
    copy->live = base->live;
    copy->lane = base->lane;
    copy->statistics = base->statistics;
    state->counts->base_objects = totals->base_live;
    state->counts->base_bytes = totals->base_live_bytes;
    state->counts->base_calls = totals->base_calls;
    return true;
}

static bool cut_begin_part(struct cutting *state, bool has_base)
{
    struct instruction_header header = state->reader.header;
    char *metadata = cut_metadata(state);
    state->counts->before = state->calls;
    state->counts->before_ns = state->ns;
    state->counts->begins = state->begun = true;
    state->no_memory = metadata == NULL;
    if (metadata == NULL) return false;
    header.features = cut_features(state, has_base);
    header.metadata = metadata;
    header.metadata_bytes = strlen(metadata);
    bool good = instruction_writer_open(&state->copy.writer, &state->output, &header);
    free(metadata);
    if (good && has_base && !cut_write_base(state)) {
        state->no_memory = true;
        good = false;
    }
    base_close(&state->base);
    return good;
}

/* ---- what the reader hands out ---- */

static void cut_put_definition(void *of, const struct stack_definition *definition)
{
    struct cutting *state = of;
    if (state->begun && !state->plan->drops_stacks)
        instruction_put_definition(&state->copy.writer, definition);
    else if (!state->begun)
        state->wrong = base_take_definition(&state->base, definition);
}

static const char *cut_take_definition(void *of, const struct stack_definition *definition)
{
    struct cutting *state = of;
    state->wrong = NULL;
    if (state->plan->anonymous != NULL)
        anonymous_definition(state->plan->anonymous, definition, cut_put_definition, of);
    else
        cut_put_definition(of, definition);
    return state->wrong;
}

static void cut_take_mapping(void *of, const struct mapping_record *record)
{
    struct cutting *state = of;
    struct mapping_record one = *record;
    if (state->plan->anonymous != NULL) anonymous_mapping(&one);
    if (state->plan->drops_stacks) one.stack = STACK_END;
    if (state->begun)
        cut_copy_mapping(&state->copy, &one);
    else
        base_take_mapping(&state->base, &one);
}

static void cut_take_residency(void *of, const struct residency *residency, const uint8_t *at,
                               const uint8_t *end)
{
    struct cutting *state = of;
    struct residency one = *residency;
    if (!state->begun) return;
    if (state->plan->anonymous != NULL &&
        !anonymous_residency(state->plan->anonymous, &one, &at, &end))
        return;
    cut_copy_residency(&state->copy, &one, at, end);
}

static void cut_listen(struct cutting *state)
{
    struct instruction_reader *reader = &state->reader;
    instruction_reader_use_indices(reader);
    const bool wants = !state->plan->drops_stacks || state->plan->code != NULL;
    if (wants && (reader->header.features & INSTRUCTION_FEATURE_STACKS) != 0) {
        reader->define = cut_take_definition;
        reader->define_context = state;
    }
    if (state->plan->drops_mappings) return;
    reader->mapping = cut_take_mapping;
    reader->residency = cut_take_residency;
    reader->mappings_context = state;
}

/* ---- batches ---- */

/* Takes instructions into the base until the part begins. Returns the index of its first one, or
 * batch->count. */
static size_t cut_take_before(struct cutting *state, const struct instruction_batch *batch)
{
    const struct instruction_tick *tick = batch->ticks;
    size_t at = 0;
    const bool waits = state->plan->from.unit == CUT_NOWHERE;
    while (at < batch->count && (batch->is_base || !cut_is_reached(state, &state->plan->from)) &&
           !(waits && !batch->is_base))
        cut_follow(state, batch, at++, &tick);
    if (!base_take(&state->base, batch, 0, at)) state->no_memory = true;
    return at;
}

static void cut_take_part(struct cutting *state, const struct instruction_batch *batch, size_t from)
{
    struct instruction_walk walk = instruction_walk_over(batch, batch->count);
    const struct instruction_tick *tick = batch->ticks;
    struct instruction one;
    state->copy.tick = batch->ticks;
    if (!cut_copy_reserve(&state->copy, batch->count)) {
        state->no_memory = true;
        return;
    }
    while (walk.at < from && instruction_walk_next(&walk, &one))
        if (one.opcode == INSTRUCTION_TICK) tick = ++state->copy.tick;
    while (!(state->ended = cut_is_reached(state, &state->plan->to)) &&
           instruction_walk_next(&walk, &one)) {
        cut_copy_instruction(&state->copy, &walk, &one);
        cut_follow(state, batch, walk.at - 1, &tick);
    }
}

static void cut_take_batch(struct cutting *state, const struct instruction_batch *batch)
{
    size_t from = 0;
    if (state->plan->anonymous != NULL)
        anonymous_batch(state->plan->anonymous, batch, state->reader.room);
    if (!state->begun) {
        from = cut_take_before(state, batch);
        if (state->no_memory) return;
        const bool at_end =
            instruction_batch_ends_base(batch) &&
            (state->plan->from.unit == CUT_NOWHERE || cut_is_reached(state, &state->plan->from));
        if ((from < batch->count || at_end) && !cut_begin_part(state, true)) return;
    }
    if (!state->begun) return;
    cut_copy_put_mappings(&state->copy);
    cut_take_part(state, batch, from);
}

/* Whether some objects are left out. */
static bool cut_chooses(const struct cut_plan *plan)
{
    return plan->lanes.count > 0 || plan->sizes.count > 0 || plan->code != NULL;
}

/* Whether there were calls, and none is chosen. */
static bool cut_chose_nothing(const struct cutting *state)
{
    const struct cut_counts *counts = state->counts;
    return cut_chooses(state->plan) && counts->left_out + counts->before > 0 &&
           counts->calls + counts->base_objects == 0;
}

static bool cut_fails(struct cutting *state, char *why, size_t why_bytes)
{
    if (process_interrupted()) return !error_explain(why, why_bytes, "interrupted");
    if (state->no_memory || (state->plan->anonymous != NULL && state->plan->anonymous->no_memory))
        return !error_explain(why, why_bytes, "no memory");
    if (state->reader.state == INSTRUCTIONS_FAILED) {
        error_text(&state->reader.error, why, why_bytes);
        return true;
    }
    if (instruction_writer_failed(&state->copy.writer)) {
        error_text(&state->copy.writer.error, why, why_bytes);
        return true;
    }
    if (cut_chose_nothing(state))
        return !error_explain(why, why_bytes,
                              "no object of the part is of these sizes, lanes or code");
    if (state->begun) return false;
    return !error_explain(
        why, why_bytes, "the trace ends before the part begins: it has %" PRIu64 " calls in %.3f s",
        state->calls, (double)state->ns / 1e9);
}

static bool cut_read(struct cutting *state, char *why, size_t why_bytes)
{
    struct instruction_batch batch;
    cut_listen(state);
    if (cut_has_no_base(state)) cut_begin_part(state, false);
    while (!process_interrupted() && !state->no_memory && !state->ended &&
           !instruction_writer_failed(&state->copy.writer) &&
           instruction_reader_next(&state->reader, &batch))
        cut_take_batch(state, &batch);
    if (!state->begun && cut_is_reached(state, &state->plan->from) &&
        state->reader.state != INSTRUCTIONS_FAILED && !state->reader.in_base)
        cut_begin_part(state, true);
    if (cut_fails(state, why, why_bytes)) return false;
    const bool is_cut = state->reader.state == INSTRUCTIONS_CUT;
    const enum instruction_status status = state->ended ? INSTRUCTION_STATUS_COMPLETE
                                           : is_cut     ? INSTRUCTION_STATUS_CUT
                                                        : state->reader.end_status;
    cut_copy_put_mappings(&state->copy);
    state->counts->is_cut = status == INSTRUCTION_STATUS_CUT;
    if (instruction_writer_finish(&state->copy.writer, status)) return true;
    error_text(&state->copy.writer.error, why, why_bytes);
    return false;
}

static bool cut_takes(void *of, uint32_t lane, uint64_t size, uint32_t stack)
{
    return cut_is_chosen(of, lane, size, stack);
}

static bool cut_open(struct cutting *state, struct input *input, char *why, size_t why_bytes)
{
    if (!instruction_reader_open(&state->reader, input)) {
        error_text(&state->reader.error, why, why_bytes);
        return false;
    }
    const struct instruction_header *header = &state->reader.header;
    const struct base_limits limits = {.moments = state->plan->moments,
                                       .dead_max = CUT_DEAD_MAX,
                                       .takes = cut_chooses(state->plan) ? cut_takes : NULL,
                                       .of = (void *)state->plan};
    if (!base_open(&state->base, &limits,
                   metadata_page_bytes(header->metadata, header->metadata_bytes)))
        return error_explain(why, why_bytes, "no memory");
    if (!output_open(&state->output, state->path)) {
        error_text(&state->output.error, why, why_bytes);
        return false;
    }
    if (output_is_lz4(state->path)) output_compress(&state->output);
    return true;
}

bool cut_stream_write(const struct cut_plan *plan, struct input *input, const char *path,
                      struct cut_counts *counts, char *why, size_t why_bytes)
{
    struct cutting state = {.plan = plan,
                            .counts = counts,
                            .output = {.fd = -1},
                            .copy = {.plan = plan, .counts = counts},
                            .path = path};
    *counts = (struct cut_counts){.calls = 0};
    bool good = cut_open(&state, input, why, why_bytes);
    if (good) {
        good = cut_read(&state, why, why_bytes);
        instruction_writer_close(&state.copy.writer);
        state.output.discards = !good;
        const bool closed = output_close(&state.output);
        if (good && !closed) error_text(&state.output.error, why, why_bytes);
        good = good && closed;
    }
    base_close(&state.base);
    cut_copy_close(&state.copy);
    instruction_reader_close(&state.reader);
    return good;
}
