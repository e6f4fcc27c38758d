#include "inspect/dump.h"

#include "inspect/mapping_text.h"
#include "reading/path.h"
#include "stream/instruction_reader.h"
#include "stream/stacks.h"

struct instruction_dump {
    const struct dump *dump;
    const struct instruction_reader *reader;
    const struct input *input;
    const struct instruction_batch *batch; /* the present one */
    size_t at;                             /* the index of the instruction */
    struct stacks stacks;
    uint64_t offset; /* after the latest block */
    uint32_t lane;
    uint64_t ticks;
};

static void dump_instructions_header_print(const struct dump *dump,
                                           const struct instruction_header *header)
{
    if (!dump_wants_general(dump)) return;
    dump_offset(dump, 0);
    printf("instructions %u.%u features 0x%" PRIx64 " info 0x%" PRIx64 "\n", header->version_major,
           header->version_minor, header->features, header->info);
    dump_metadata(dump, INSTRUCTION_HEADER_BYTES, header->metadata, header->metadata_bytes);
}

/* An instruction has no offset of its own; errors and lines give that of its block. */
static void place_print(const struct instruction_dump *state)
{
    if (state->dump->only_calls) return;
    dump_offset(state->dump, state->batch->offset);
    printf("#%" PRIu64 " ", state->batch->number + state->at);
}

static void dump_instructions_call_print(struct instruction_dump *state,
                                         const struct instruction *one)
{
    const uint64_t *operands = state->batch->operands + one->operand_at;
    unsigned shape = call_shapes[instruction_number(one)];
    bool heap = shape == SHAPE_HEAP;
    bool unknown = (one->opcode & INSTRUCTION_UNKNOWN) != 0;
    struct call_text text = {
        .kind = instruction_number(one),
        .failed = (one->opcode & INSTRUCTION_FAILED) != 0,
        .size = one->size,
        .alignment = !heap && one->operands > 0 ? operands[0] : 0,
        .numbers = operands,
        .numbers_count = one->operands,
        .stack = state->batch->stacks != NULL ? state->batch->stacks[state->at] : STACK_END,
    };
    if (unknown)
        snprintf(text.ended, sizeof text.ended, "?");
    else if (shape_ends(shape))
        snprintf(text.ended, sizeof text.ended, "r%" PRIu32, one->object);
    if (shape_begins(shape) && !text.failed) {
        snprintf(text.began, sizeof text.began, "r%" PRIu32, one->object);
        text.has_address = state->batch->addresses != NULL;
        text.address = text.has_address ? state->batch->addresses[state->at] : 0;
    }
    place_print(state);
    if (!state->dump->only_calls) printf("L%" PRIu32 " ", state->lane);
    call_text_print(stdout, &text);
}

/* Seven letters as for a recording's paths (reading/path.h), then the names of all ways. */
static void ways_print(uint64_t ways)
{
    static const struct {
        unsigned bit;
        const char *name;
        char letter;
    } known[] = {
#define WAY(bit, name, letter) {bit, name, letter},
        INSTRUCTION_WAY_LIST(WAY)
#undef WAY
    };
    unsigned path = 0;
    char letters[PATH_LETTERS];
    bool cache = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!(ways >> known[i].bit & 1)) continue;
        cache = cache || known[i].letter == 'T';
        if (known[i].letter == 'S') path |= PATH_SYSTEM;
        if (known[i].letter == 'W') path |= PATH_WAITED;
    }
    path_letters(letters, path);
    if (!cache) letters[0] = '-';
    printf(" %s", letters);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (ways >> known[i].bit & 1) printf(" %s", known[i].name);
}

/* Prints an instruction of a lane that is not a call. */
static void lane_instruction_print(struct instruction_dump *state, const struct instruction *one)
{
    unsigned number = instruction_number(one);
    place_print(state);
    printf("L%" PRIu32 " %s", state->lane, instruction_name(number));
    if (number == INSTRUCTION_THREAD_BEGIN)
        printf(" %" PRIu64, state->batch->operands[one->operand_at]);
    if (number == INSTRUCTION_TOUCHED)
        printf(" %" PRIu64 " %" PRIu64, state->batch->operands[one->operand_at],
               state->batch->operands[one->operand_at + 1]);
    if (number == INSTRUCTION_PATH) ways_print(state->batch->operands[one->operand_at]);
    putchar('\n');
}

static void general_print(struct instruction_dump *state, const struct instruction *one)
{
    const uint64_t *operands = state->batch->operands + one->operand_at;
    place_print(state);
    if (instruction_number(one) == INSTRUCTION_TICK)
        printf("tick %" PRIu64 " nanoseconds +%" PRIu64 " rss %" PRIu64 " heap %" PRIu64
               " live %" PRIu64 "\n",
               state->ticks, operands[0], operands[1], operands[2], operands[3]);
    else if (instruction_number(one) == INSTRUCTION_USAGE)
        printf("usage recorder %" PRIu64 " user %" PRIu64 " system %" PRIu64 " peak %" PRIu64 "\n",
               operands[0], operands[1], operands[2], operands[3]);
    else if (instruction_number(one) == INSTRUCTION_STATISTIC)
        printf("statistic %" PRIu64 " is %" PRIu64 "\n", operands[0], operands[1]);
    else if (instruction_number(one) == INSTRUCTION_BASE_END)
        puts("base_end");
    else
        printf("lost lane %" PRIu64 " events %" PRIu64 "\n", operands[0], operands[1]);
}

static void instruction_print(struct instruction_dump *state, const struct instruction *one)
{
    const struct dump *dump = state->dump;
    unsigned number = instruction_number(one);
    if (number == INSTRUCTION_LANE) state->lane = (uint32_t)state->batch->operands[one->operand_at];
    if (number == INSTRUCTION_TICK || number == INSTRUCTION_USAGE ||
        number == INSTRUCTION_STATISTIC || number == INSTRUCTION_LOST ||
        number == INSTRUCTION_BASE_END) {
        if (dump_wants_general(dump)) general_print(state, one);
        if (number == INSTRUCTION_TICK) state->ticks++;
    } else if (dump_wants_lane(dump, state->lane)) {
        if (number < CALL_KINDS)
            dump_instructions_call_print(state, one);
        else if (!dump->only_calls)
            lane_instruction_print(state, one);
    }
}

static const char *definition_print(void *context, const struct stack_definition *definition)
{
    struct instruction_dump *state = context;
    const char *wrong = stacks_define(&state->stacks, definition);
    state->offset = input_offset(state->input);
    if (wrong != NULL || !dump_wants_general(state->dump)) return wrong;
    dump_offset(state->dump, state->reader->definitions_offset);
    definition_text_print(stdout, definition);
    return NULL;
}

static void dump_ordered_mapping(void *context, const struct mapping_record *record)
{
    struct instruction_dump *state = context;
    state->offset = input_offset(state->input);
    if (!dump_wants_general(state->dump)) return;
    dump_offset(state->dump, state->reader->mappings_offset);
    mapping_text_print(stdout, record);
}

static void dump_ordered_residency(void *context, const struct residency *residency,
                                   const uint8_t *at, const uint8_t *end)
{
    struct instruction_dump *state = context;
    struct residency_area area = {0};
    uint64_t latest_end = 0;
    state->offset = input_offset(state->input);
    if (!dump_wants_general(state->dump)) return;
    dump_offset(state->dump, state->reader->mappings_offset);
    residency_text_print(stdout, residency);
    while (at < end && residency_take_area(&at, end, &latest_end, &area) == NULL) {
        dump_offset(state->dump, state->reader->mappings_offset);
        residency_area_print(stdout, &area, residency->page_bytes);
    }
}

static void dump_instructions_end_print(const struct dump *dump,
                                        const struct instruction_reader *reader, uint64_t offset)
{
    const struct instruction_totals *totals = &reader->totals;
    if (!dump_wants_general(dump)) return;
    dump_offset(dump, offset);
    printf("end status %d live %" PRIu64 " registers %" PRIu64 " threads %" PRIu64 " lost %" PRIu64
           "\n",
           (int)reader->end_status, totals->live, totals->registers, totals->threads,
           totals->lost_events);
    dump_counts(dump, offset, totals->by_kind);
}

int dump_instructions(const struct dump *dump, struct stream *stream, struct error *error)
{
    struct instruction_reader reader;
    struct instruction_batch batch;
    struct instruction one;
    struct instruction_dump state = {
        .dump = dump, .reader = &reader, .input = &stream->input, .batch = &batch};
    bool opened = instruction_reader_open(&reader, &stream->input);
    if (opened) {
        dump_instructions_header_print(dump, &reader.header);
        state.offset = input_offset(&stream->input);
        reader.define = definition_print;
        reader.define_context = &state;
        reader.mapping = dump_ordered_mapping;
        reader.residency = dump_ordered_residency;
        reader.mappings_context = &state;
        while (instruction_reader_next(&reader, &batch)) {
            struct instruction_walk walk = instruction_walk_over(&batch, batch.count);
            while (instruction_walk_next(&walk, &one)) {
                state.at = walk.at - 1;
                instruction_print(&state, &one);
            }
            state.offset = input_offset(&stream->input);
        }
    }
    *error = reader.error;
    if (reader.state == INSTRUCTIONS_END) dump_instructions_end_print(dump, &reader, state.offset);
    int status = reader.state == INSTRUCTIONS_END             ? PROGRAM_OK
                 : opened && reader.state == INSTRUCTIONS_CUT ? PROGRAM_CUT
                                                              : PROGRAM_FAILED;
    stacks_free(&state.stacks);
    instruction_reader_close(&reader);
    return status;
}
