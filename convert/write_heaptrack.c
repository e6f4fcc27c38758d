/* write_heaptrack - what `heaptrack` writes and heaptrack_print and heaptrack_gui read: text,
 * numbers in hexadecimal (src/analyze/accumulatedtracedata.cpp there).
 *
 *   v VERSION FORMAT                          first
 *   X COMMAND
 *   I PAGE_BYTES PAGES                        of the machine
 *   s LENGTH TEXT                             texts, counted from 1
 *   i ADDRESS MODULE [FUNCTION FILE LINE]...  codes, counted from 1; innermost first
 *   t CODE PARENT                             nodes, counted from 1
 *   a SIZE NODE                               kinds of allocations, counted from 0
 *   + A, - A                                  one of that kind is made, ended
 *   c MILLISECONDS, R PAGES                   the time, resident memory
 *
 * Codes and kinds must be defined before they are used. A stream may define its numbers only later,
 * so the calls are first written to a file without a name. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "convert/convert_files.h"
#include "convert/export_writer.h"
#include "symbols/code_names.h"

enum { PAGE_BYTES = 4096 };

/* A size and a stack; kinds are in the order in which they came. */
struct made_kind {
    uint64_t size;
    uint32_t stack;
};

struct state {
    FILE *calls; /* lines of the format */
    struct made_kind *kinds;
    size_t kinds_count, kinds_room;
    uint32_t *slots; /* 1 + index of a kind */
    size_t slots_count;
    uint32_t *objects; /* by register: the kind of the object there */
    size_t objects_room;
    uint64_t ms;
};

/* ---- kinds ---- */

static size_t heaptrack_slot_of(const struct state *state, uint64_t size, uint32_t stack)
{
    size_t at = (size_t)(((size ^ (uint64_t)stack << 32) * UINT64_C(0x9e3779b97f4a7c15)) >> 32) &
                (state->slots_count - 1);
    while (state->slots[at] != 0 && (state->kinds[state->slots[at] - 1].size != size ||
                                     state->kinds[state->slots[at] - 1].stack != stack))
        at = (at + 1) & (state->slots_count - 1);
    return at;
}

static bool kinds_reserve(struct state *state)
{
    if (!array_reserve(&state->kinds, &state->kinds_room, state->kinds_count + 1,
                       sizeof *state->kinds))
        return false;
    if ((state->kinds_count + 1) * 2 <= state->slots_count) return true;
    const size_t count = state->slots_count == 0 ? 1024 : 2 * state->slots_count;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (slots == NULL) return false;
    free(state->slots);
    state->slots = slots;
    state->slots_count = count;
    for (size_t i = 0; i < state->kinds_count; i++)
        slots[heaptrack_slot_of(state, state->kinds[i].size, state->kinds[i].stack)] =
            (uint32_t)i + 1;
    return true;
}

/* There is room for one more. */
static uint32_t heaptrack_kind_of(struct state *state, uint64_t size, uint32_t stack)
{
    uint32_t *slot = &state->slots[heaptrack_slot_of(state, size, stack)];
    if (*slot == 0) {
        state->kinds[state->kinds_count] = (struct made_kind){size, stack};
        *slot = (uint32_t)++state->kinds_count;
    }
    return *slot - 1;
}

/* ---- calls ---- */

static bool heaptrack_open(struct export *export)
{
    struct state *state = export->state = calloc(1, sizeof *state);
    const int file = state != NULL ? file_temporary(&export->error) : -1;
    if (state == NULL) return error_set_system(&export->error, "no memory");
    if (file < 0) return false;
    state->calls = fdopen(file, "w+");
    if (state->calls != NULL) return true;
    close(file);
    return error_set_system(&export->error, "no memory");
}

static bool heaptrack_call(struct export *export, const struct export_call *call)
{
    struct state *state = export->state;
    const bool begins = call->shape < SHAPE_FREE;
    const bool ends = call->shape >= SHAPE_FREE || (call->shape == SHAPE_REALLOC && !call->unknown);
    if (!kinds_reserve(state) || !array_reserve(&state->objects, &state->objects_room,
                                                (size_t)call->object + 1, sizeof *state->objects))
        return error_set_system(&export->error, "no memory for kinds of objects");
    if (call->shape == SHAPE_ALLOCATION_ALIGNED) export->losses.alignments++;
    if (call->ns / 1000000 > state->ms) {
        state->ms = call->ns / 1000000;
        fprintf(state->calls, "c %" PRIx64 "\n", state->ms);
    }
    if (ends) fprintf(state->calls, "- %" PRIx32 "\n", state->objects[call->object]);
    if (begins) {
        state->objects[call->object] = heaptrack_kind_of(state, call->size, call->stack);
        fprintf(state->calls, "+ %" PRIx32 "\n", state->objects[call->object]);
    }
    return !ferror(state->calls) ||
           error_set_system(&export->error, "cannot write a temporary file");
}

/* ---- what the numbers mean ---- */

static bool __attribute__((format(printf, 2, 3)))
put(struct export *export, const char *format, ...)
{
    char room[256];
    va_list list;
    va_start(list, format);
    const int length = vsnprintf(room, sizeof room, format, list);
    va_end(list);
    return output_write(&export->output, room, (size_t)length);
}

static bool put_texts(struct export *export, const struct strings *strings)
{
    bool good = true;
    for (uint32_t i = 1; i < strings->count && good; i++) {
        const size_t length = strlen(strings->at[i]);
        good = put(export, "s %zx ", length) &&
               output_write(&export->output, strings->at[i], length) && put(export, "\n");
    }
    return good;
}

/* Fills `numbers`, by code. */
static bool heaptrack_put_codes(struct export *export, const struct export_code *code,
                                uint32_t *numbers)
{
    const struct code_names *names = code->names;
    uint32_t count = 0;
    bool good = true;
    for (size_t i = CODE_FRAME_FIRST; i < names->count && good; i++) {
        const struct code_frame *frame = &names->frames[i];
        if (numbers[frame->code] == 0) {
            const struct stack_code *of = stacks_code(code->stacks, frame->code);
            const struct stack_module *module = stacks_module(code->stacks, of->module);
            numbers[frame->code] = ++count;
            good = put(export, "%si %" PRIx64 " %" PRIx32, count > 1 ? "\n" : "",
                       of->offset + (module != NULL ? module->bias : 0), frame->module);
        }
        good = good && put(export, " %" PRIx32 " %" PRIx32 " %" PRIx32, frame->function,
                           frame->file, frame->line);
    }
    return good && put(export, "%s", count > 0 ? "\n" : "");
}

/* Writes the nodes and fills `numbers`, by node. A parent's number is lower than its node's. */
static bool heaptrack_put_nodes(struct export *export, const struct export_code *code,
                                const uint32_t *codes, uint32_t *numbers)
{
    uint32_t count = 0;
    bool good = true;
    for (uint64_t i = STACK_NODE_FIRST; i < code->stacks->nodes_end && good; i++) {
        const struct stack_node *node = stacks_node(code->stacks, (uint32_t)i);
        if (node == NULL || node->code >= code->stacks->codes_end || codes[node->code] == 0)
            continue;
        numbers[i] = ++count;
        good = put(export, "t %" PRIx32 " %" PRIx32 "\n", codes[node->code], numbers[node->parent]);
    }
    return good;
}

static bool put_kinds(struct export *export, const struct export_code *code, const uint32_t *nodes)
{
    const struct state *state = export->state;
    bool good = true;
    for (size_t i = 0; i < state->kinds_count && good; i++) {
        const uint32_t stack = code_names_caller(code->names, state->kinds[i].stack);
        good = put(export, "a %" PRIx64 " %" PRIx32 "\n", state->kinds[i].size,
                   stack < code->stacks->nodes_end ? nodes[stack] : 0);
    }
    return good;
}

static bool copy_calls(struct export *export)
{
    struct state *state = export->state;
    static char piece[1 << 16];
    size_t bytes;
    bool good = fflush(state->calls) == 0 && fseeko(state->calls, 0, SEEK_SET) == 0;
    while (good && (bytes = fread(piece, 1, sizeof piece, state->calls)) > 0)
        good = output_write(&export->output, piece, bytes);
    return (good && !ferror(state->calls)) ||
           error_set_system(&export->error, "cannot copy the calls");
}

static bool heaptrack_code(struct export *export, const struct export_code *code)
{
    uint32_t *codes = calloc(code->stacks->codes_end + 1, sizeof *codes);
    uint32_t *nodes = calloc(code->stacks->nodes_end + STACK_NODE_FIRST, sizeof *nodes);
    bool good = codes != NULL && nodes != NULL;
    if (!good) error_set_system(&export->error, "no memory for call stacks");
    good = good && put(export, "v 10400 3\nX %.200s\nI %x 0\n", code->program, PAGE_BYTES) &&
           put_texts(export, &code->names->symbols.strings) &&
           heaptrack_put_codes(export, code, codes) &&
           heaptrack_put_nodes(export, code, codes, nodes) && put_kinds(export, code, nodes) &&
           copy_calls(export) &&
           put(export, "c %" PRIx64 "\nR %" PRIx64 "\n", code->duration_ns / 1000000,
               code->peak_rss_bytes / PAGE_BYTES);
    free(codes);
    free(nodes);
    return good;
}

static void heaptrack_close(struct export *export)
{
    struct state *state = export->state;
    if (state == NULL) return;
    if (state->calls != NULL) fclose(state->calls);
    free(state->kinds);
    free(state->slots);
    free(state->objects);
    free(state);
}

const struct export_writer export_heaptrack = {
    .name = "heaptrack",
    .title = "heaptrack",
    .loses = "threads, kinds of call; a realloc is a free and an allocation",
    .open = heaptrack_open,
    .call = heaptrack_call,
    .code = heaptrack_code,
    .close = heaptrack_close,
};
