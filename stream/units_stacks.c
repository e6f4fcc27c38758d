/* units_stacks - call stacks, and what their numbers mean (FORMAT.md 5.8). */
#include "stream/units_own.h"

void units_stack(struct units_lane *lane, uint32_t node)
{
    uint16_t *at = units_rest_of_record(lane);
    if (node >= RAW_STACK_LIMIT)
        return units_finish(lane, RAW_UNIT_GENERAL + RAW_STACK, units_put_number(at, node));
    *at++ = (uint16_t)node;
    units_finish(lane, RAW_UNIT_STACK + (node >> 16), at);
}

/* A number that is less than 2^32. */
static uint32_t take_short_number(struct units_reader *reader)
{
    uint64_t number = units_take_number(reader);
    if (number > UINT32_MAX) reader->too_large = true;
    return (uint32_t)number;
}

/* The first of some numbers, as a difference to the one after the latest. */
static uint16_t *units_stacks_put_first(uint16_t *at, uint32_t *next,
                                        const struct stack_definition *definition)
{
    at = units_put_number(at, zigzag((int64_t)definition->number - *next));
    *next = definition->number + definition->count;
    return at;
}

static uint16_t *units_stacks_put_module(uint16_t *at, const struct stack_definition *module)
{
    at = units_put_number(units_put_number(at, module->number), module->start);
    at = units_put_number(at, module->end - module->start);
    return units_put_number(at, zigzag((int64_t)(module->start - module->bias)));
}

static bool units_stacks_take_module(struct units_reader *reader, struct stack_definition *module)
{
    module->number = take_short_number(reader);
    if (module->what == STACK_UNLOADED) return true;
    module->start = units_take_number(reader);
    module->end = module->start + units_take_number(reader);
    module->bias = module->start - (uint64_t)unzigzag(units_take_number(reader));
    return true;
}

static uint16_t *units_stacks_put_piece(uint16_t *at, const struct stack_definition *text)
{
    const uint32_t bytes = stack_piece_bytes(text);
    at = units_put_number(units_put_number(units_put_number(at, text->number), text->length),
                          text->offset);
    for (uint32_t i = 0; i < bytes; i += 2) {
        unsigned upper = i + 1 < bytes ? text->piece[i + 1] : 0;
        *at++ = (uint16_t)(text->piece[i] | upper << 8);
    }
    return at;
}

static bool units_stacks_take_piece(struct units_reader *reader, struct stack_definition *text)
{
    text->number = take_short_number(reader);
    text->length = take_short_number(reader);
    text->offset = take_short_number(reader);
    if (text->offset >= text->length) return false;
    const uint32_t bytes = stack_piece_bytes(text);
    for (uint32_t i = 0; i < bytes; i += 2) {
        const unsigned both = units_take_unit(reader);
        text->piece[i] = (uint8_t)both;
        if (i + 1 < bytes)
            text->piece[i + 1] = (uint8_t)(both >> 8);
        else if (both >> 8 != 0)
            return false;
    }
    return true;
}

static uint16_t *units_stacks_put_codes(struct units_lane *lane, uint16_t *at,
                                        const struct stack_definition *definition)
{
    uint64_t before = 0;
    at = units_put_number(units_stacks_put_first(at, &lane->next_code, definition), definition->of);
    for (uint32_t i = 0; i < definition->count; i++) {
        at = units_put_number(at, zigzag((int64_t)(definition->offsets[i] - before)));
        before = definition->offsets[i];
    }
    return at;
}

static bool units_stacks_take_codes(struct units_reader *reader, struct units_record *coded)
{
    uint64_t offset = 0;
    if (coded->definition.count > STACK_CODES_MAX) return false;
    coded->operand = units_take_number(reader);
    coded->definition.of = take_short_number(reader);
    for (uint32_t i = 0; i < coded->definition.count; i++)
        coded->definition.offsets[i] = offset += (uint64_t)unzigzag(units_take_number(reader));
    return true;
}

static uint16_t *units_stacks_put_nodes(struct units_lane *lane, uint16_t *at,
                                        const struct stack_definition *definition)
{
    at = units_stacks_put_first(at, &lane->next_node, definition);
    at = units_put_number(at, definition->number - definition->of);
    for (uint32_t i = 0; i < definition->count; i++)
        at = units_put_number(at, definition->codes[i]);
    return at;
}

static bool units_stacks_take_nodes(struct units_reader *reader, struct units_record *coded)
{
    if (coded->definition.count > STACK_NODES_MAX) return false;
    coded->operand = units_take_number(reader);
    coded->size = units_take_number(reader);
    for (uint32_t i = 0; i < coded->definition.count; i++)
        coded->definition.codes[i] = take_short_number(reader);
    return true;
}

void units_define(struct units_lane *lane, const struct stack_definition *definition)
{
    uint16_t *at = units_put_number(units_rest_of_record(lane), stack_definition_head(definition));
    switch (definition->what) {
    case STACK_MODULE: at = units_stacks_put_module(at, definition); break;
    case STACK_TEXT: at = units_stacks_put_piece(at, definition); break;
    case STACK_CODES: at = units_stacks_put_codes(lane, at, definition); break;
    case STACK_NODES: at = units_stacks_put_nodes(lane, at, definition); break;
    default: at = units_put_number(at, definition->number);
    }
    units_finish(lane, RAW_UNIT_GENERAL + RAW_DEFINE, at);
}

/* The decoder checks whether the rest of the definition is within its limits. */
bool units_take_define(struct units_reader *reader, struct units_record *coded)
{
    struct stack_definition *definition = &coded->definition;
    const uint64_t number = units_take_number(reader), more = number >> STACK_WHAT_BITS;
    bool good = more <= UINT32_MAX;
    definition->what = number & STACK_WHAT_MASK;
    definition->of = definition->count = 0;
    switch (definition->what) {
    case STACK_MODULE:
    case STACK_UNLOADED: good = more == 0 && units_stacks_take_module(reader, definition); break;
    case STACK_TEXT:
        definition->of = (uint32_t)more;
        good = good && units_stacks_take_piece(reader, definition);
        break;
    case STACK_CODES:
        definition->count = (uint32_t)more;
        good = good && units_stacks_take_codes(reader, coded);
        break;
    case STACK_NODES:
        definition->count = (uint32_t)more;
        good = good && units_stacks_take_nodes(reader, coded);
        break;
    default: good = false;
    }
    return good || units_fail(coded, RAW_OPERAND, number);
}
