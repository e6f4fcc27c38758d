/* instruction_definitions - blocks of definitions (INSTRUCTIONS.md 4.6); the errors of the reader. */
#include <string.h>

#include "stream/instruction_reader_own.h"
#include "stream/varint.h"

const struct error_kind instruction_errors[] = {INSTRUCTION_ERROR_LIST(ERROR_LIST_KIND)};

/* The next number. Where there is none, `next` passes the end, which is checked afterwards. */
static uint64_t instruction_definitions_take_number(struct column *column)
{
    if (column->next < column->end) return varint_get(&column->next);
    column->next = column->end + 1;
    return 0;
}

/* The same; UINT32_MAX, which is never valid, if it does not fit into 32 bits. */
static uint32_t take_short(struct column *column)
{
    uint64_t value = instruction_definitions_take_number(column);
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

static void instruction_definitions_take_module(struct column *column,
                                                struct stack_definition *module)
{
    module->start = instruction_definitions_take_number(column);
    module->end = module->start + instruction_definitions_take_number(column);
    module->bias = instruction_definitions_take_number(column);
}

static bool instruction_definitions_take_piece(struct column *column, struct stack_definition *text)
{
    text->length = take_short(column);
    text->offset = take_short(column);
    if (text->offset >= text->length) return false;
    const uint32_t bytes = stack_piece_bytes(text);
    if (column->next > column->end || (size_t)(column->end - column->next) < bytes) return false;
    memcpy(text->piece, column->next, bytes);
    column->next += bytes;
    return true;
}

static bool instruction_definitions_take_codes(struct column *column,
                                               struct stack_definition *codes)
{
    uint64_t offset = 0;
    if (codes->count > STACK_CODES_MAX) return false;
    codes->of = take_short(column);
    for (uint32_t i = 0; i < codes->count; i++)
        codes->offsets[i] = offset +=
            (uint64_t)unzigzag(instruction_definitions_take_number(column));
    return true;
}

static bool instruction_definitions_take_nodes(struct column *column,
                                               struct stack_definition *nodes)
{
    if (nodes->count > STACK_NODES_MAX) return false;
    nodes->of = take_short(column);
    for (uint32_t i = 0; i < nodes->count; i++)
        nodes->codes[i] = take_short(column);
    return true;
}

static bool take_definition(struct column *column, struct stack_definition *definition)
{
    const uint32_t head = take_short(column), more = head >> STACK_WHAT_BITS;
    bool good = true;
    *definition =
        (struct stack_definition){.what = head & STACK_WHAT_MASK, .number = take_short(column)};
    *(definition->what == STACK_TEXT ? &definition->of : &definition->count) = more;
    switch (definition->what) {
    case STACK_MODULE: instruction_definitions_take_module(column, definition); break;
    case STACK_TEXT: good = instruction_definitions_take_piece(column, definition); break;
    case STACK_CODES: good = instruction_definitions_take_codes(column, definition); break;
    case STACK_NODES: good = instruction_definitions_take_nodes(column, definition); break;
    default: break;
    }
    return good && column->next <= column->end && stack_definition_is_valid(definition);
}

bool block_define(struct instruction_reader *reader, const struct block *block,
                  const uint8_t *payload, size_t payload_bytes)
{
    struct column column = {payload, payload + payload_bytes};
    struct stack_definition definition;
    const char *wrong = NULL;
    size_t at = 0;
    if (reader->define == NULL) return true;
    reader->definitions_offset = block->offset;
    for (; at < block->count && wrong == NULL; at++)
        wrong = take_definition(&column, &definition)
                    ? reader->define(reader->define_context, &definition)
                    : "outside of its limits";
    if (wrong == NULL && (column.next != column.end || at == 0)) wrong = "the count is wrong";
    if (wrong == NULL) return true;
    error_set(&reader->error, &instruction_errors[INSTRUCTION_ERROR_DEFINITION], block->offset,
              "definition %zu: %s", at, wrong);
    return reader_fail(reader);
}
