#include "change/change_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "change/changing.h"
#include "common/pages.h"
#include "launch/process.h"

#define CHANGE_LANES_BYTES INSTRUCTION_LANES_MAX

/* What the call a little further on does in the writer. */
static inline __attribute__((always_inline)) void changing_fetch(
    const struct changing *changing, const struct instruction_walk *walk)
{
    enum { AHEAD = 8 };
    const uint32_t object =
        walk->end - walk->at > AHEAD ? walk->record[AHEAD].object : INSTRUCTION_NO_REGISTER;
    if (object >= changing->capacity) return;
    __builtin_prefetch(
        (const void *)((uintptr_t)changing->writer.objects +
                       changing->objects[object].name * sizeof *changing->writer.objects),
        1);
}

/* False: no memory. */
static bool changing_take_batch(struct changing *changing, const struct instruction_batch *batch)
{
    struct instruction_walk walk = instruction_walk_over(batch, batch->count);
    struct instruction one;
    if (!pages_reserve(&changing->objects, &changing->capacity, batch->registers,
                       INSTRUCTION_BLOCK_MAX, sizeof *changing->objects))
        return false;
    while (instruction_walk_next(&walk, &one)) {
        struct changing_call call = {&one,
                                     batch,
                                     batch->operands + one.operand_at,
                                     instruction_walk_stack(&walk),
                                     instruction_number(&one),
                                     NULL,
                                     0};
        if (call.kind < CALL_KINDS)
            call.touched_count = instruction_walk_touched(&walk, &one, &call.touched);
        instruction_walk_fetch(&walk, changing->objects, sizeof *changing->objects);
        changing_fetch(changing, &walk);
        changing_take(changing, &call);
        if (call.kind == INSTRUCTION_TICK) changing_tick(changing, &call);
    }
    if (changing->writer.live_bytes > changing->result->peak_changed_bytes)
        changing->result->peak_changed_bytes = changing->writer.live_bytes;
    return !changing->lacks;
}

static const char *changing_define(void *of, const struct stack_definition *definition)
{
    struct changing *changing = of;
    instruction_put_definition(&changing->writer, definition);
    return NULL;
}

/* The header of the new stream, whose metadata the caller frees: that of the trace, and the change.
 * False: no memory. */
static bool changing_header(struct instruction_header *header, const struct change_list *list)
{
    const size_t bytes = header->metadata_bytes + strlen(list->text) + sizeof "what_if=\n";
    char *metadata = malloc(bytes);
    if (metadata == NULL) return false;
    if (header->metadata_bytes > 0) memcpy(metadata, header->metadata, header->metadata_bytes);
    snprintf(metadata + header->metadata_bytes, bytes - header->metadata_bytes, "what_if=%s\n",
             list->text);
    header->metadata = metadata;
    header->metadata_bytes = bytes - 1;
    header->features &=
        INSTRUCTION_FEATURE_STACKS | INSTRUCTION_FEATURE_FREE_STACKS | INSTRUCTION_FEATURE_BASE;
    return true;
}

static void changing_explain_output(struct changing *changing, const struct error *error, char *why,
                                    size_t why_bytes)
{
    changing->result->output_failed = true;
    error_text(error, why, why_bytes);
}

static bool changing_copy(struct changing *changing, struct instruction_reader *reader, char *why,
                          size_t why_bytes)
{
    struct instruction_batch batch;
    const uint64_t calls_max = changing->trace->calls_max;
    while (!process_interrupted() && (calls_max == 0 || changing->calls < calls_max) &&
           instruction_reader_next(reader, &batch) && !instruction_writer_failed(&changing->writer))
        if (!changing_take_batch(changing, &batch))
            return error_explain(why, why_bytes, "no memory for objects");
    if (process_interrupted()) return error_explain(why, why_bytes, CHANGE_INTERRUPTED);
    if (reader->state == INSTRUCTIONS_FAILED) {
        error_text(&reader->error, why, why_bytes);
        return false;
    }
    for (size_t i = 0; i < changing->list->count; i++) {
        changing->result->of[i].chunks = changing->chunks.made[i];
        changing->result->of[i].given_back = changing->chunks.given[i];
        if (changing->list->at[i].action == CHANGE_ARENA)
            changing->result->of[i].outlived = changing->chunks.outlived[i];
    }
    changing->result->peak_live_bytes = changing->peak;
    changing->result->is_cut = reader->state == INSTRUCTIONS_CUT;
    const enum instruction_status status =
        reader->state == INSTRUCTIONS_CUT ? INSTRUCTION_STATUS_CUT : reader->end_status;
    if (instruction_writer_finish(&changing->writer, status)) return true;
    changing_explain_output(changing, &changing->writer.error, why, why_bytes);
    return false;
}

static bool changing_write(struct changing *changing, struct instruction_reader *reader,
                           const char *path, char *why, size_t why_bytes)
{
    struct instruction_header header = reader->header;
    struct output output;
    if (!output_open(&output, path)) {
        changing_explain_output(changing, &output.error, why, why_bytes);
        return false;
    }
    if (output_is_lz4(path)) output_compress(&output);
    bool good = changing_header(&header, changing->list);
    if (!good) error_explain(why, why_bytes, "no memory");
    if (good && !(good = instruction_writer_open(&changing->writer, &output, &header)))
        changing_explain_output(changing, &changing->writer.error, why, why_bytes);
    if (header.metadata != reader->header.metadata) free((char *)header.metadata);
    good = good && changing_copy(changing, reader, why, why_bytes);
    instruction_writer_close(&changing->writer);
    output.discards = !good;
    if (output_close(&output)) return good;
    if (good) changing_explain_output(changing, &output.error, why, why_bytes);
    return false;
}

static bool changing_open(struct changing *changing)
{
    for (size_t i = 0; i < CHANGES_MAX; i++)
        changing->queues[i] =
            (struct changed_queue){INSTRUCTION_NO_REGISTER, INSTRUCTION_NO_REGISTER};
    for (uint32_t i = 0; i < changing->list->count; i++)
        changing->by_call |= (uint32_t)change_is_by_call(&changing->list->at[i]) << i;
    changing->chunks.writer = &changing->writer;
    changing->ended = pages_map(CHANGE_LANES_BYTES);
    changing->continued = pages_map(CHANGE_LANES_BYTES * sizeof *changing->continued);
    for (size_t i = 0; changing->continued != NULL && i < INSTRUCTION_LANES_MAX; i++)
        changing->continued[i] = INSTRUCTION_NO_REGISTER;
    return changing->ended != NULL && changing->continued != NULL &&
           change_match_open(&changing->match, changing->list,
                             changing->trace->has_stacks ? &changing->trace->names : NULL,
                             changing->trace->stacks.nodes_end);
}

static void changing_close(struct changing *changing)
{
    change_match_close(&changing->match);
    change_growth_free(&changing->growth);
    change_chunks_free(&changing->chunks);
    change_shared_free(&changing->shared);
    pages_unmap(changing->ended, CHANGE_LANES_BYTES);
    pages_unmap(changing->continued, CHANGE_LANES_BYTES * sizeof *changing->continued);
    pages_unmap(changing->objects, changing->capacity * sizeof *changing->objects);
}

/* Whether the call stacks are enough for the patterns. */
static bool change_has_stacks(const struct change_trace *trace, const struct change_list *list,
                              char *why, size_t why_bytes)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->at[i].pattern.names_count == 0) continue;
        if (!trace->has_stacks)
            return error_explain(why, why_bytes,
                                 "'%s' needs call stacks, which the trace does not have: "
                                 "malloctape record --stacks=all",
                                 list->at[i].text);
        if (trace->is_sampled)
            return error_explain(why, why_bytes,
                                 "'%s' needs the call stacks of all calls, and the trace has those "
                                 "of samples: malloctape record --stacks=all",
                                 list->at[i].text);
    }
    return true;
}

static bool change_wants_growth(const struct change_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->at[i].action == CHANGE_RESERVE) return true;
    return false;
}

/* Whether each change has found something. */
static bool change_has_found(const struct changing *changing, char *why, size_t why_bytes)
{
    for (size_t i = 0; i < changing->list->count; i++) {
        if (changing->result->of[i].objects > 0) continue;
        change_match_explain(&changing->match, &changing->list->at[i], why, why_bytes);
        return false;
    }
    return true;
}

bool change_stream_write(const struct change_trace *trace, const struct change_list *list,
                         const char *path, struct change_result *result, char *why,
                         size_t why_bytes)
{
    struct changing changing = {.trace = trace, .list = list, .result = result};
    struct instruction_reader reader = {.state = INSTRUCTIONS_FAILED};
    struct input input = {.fd = -1};
    *result = (struct change_result){.peak_live_bytes = 0};
    if (!change_has_stacks(trace, list, why, why_bytes)) return false;
    bool good = changing_open(&changing) || error_explain(why, why_bytes, "no memory");
    if (good && change_wants_growth(list))
        good = change_growth_read(&changing.growth, trace, &changing.match, why, why_bytes);
    if (good && !(good = change_trace_read(trace, &reader, &input, changing_define, &changing)))
        error_text(&reader.error, why, why_bytes);
    good = good && changing_write(&changing, &reader, path, why, why_bytes);
    if (good && !(good = change_has_found(&changing, why, why_bytes))) output_remove(path);
    instruction_reader_close(&reader);
    input_close(&input);
    changing_close(&changing);
    return good;
}
