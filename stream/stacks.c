#include "stream/stacks.h"

#include <stdlib.h>
#include <string.h>

#include "common/pages.h"

const char stacks_no_memory[] = "no memory for call stacks";

/* Numbers may have gaps: definitions come late or are lost. But memory is bounded by what is
 * defined (FORMAT.md 2.8). */
#define GAPS_MAX (UINT64_C(1) << 22)
#define GAPS_FOR 16

enum { LEAST_ENTRIES = 1024 };

/* Makes room for numbers below `end`, of which `defined` are defined. */
static const char *stacks_reserve(void *entries, uint64_t *capacity, size_t entry_bytes,
                                  uint64_t defined, uint64_t end)
{
    if (end > GAPS_MAX + GAPS_FOR * defined) return "a number far above those that are defined";
    return pages_reserve(entries, capacity, end, LEAST_ENTRIES, entry_bytes) ? NULL
                                                                             : stacks_no_memory;
}

static void extend(uint64_t *end, uint64_t number)
{
    if (*end < number) *end = number;
}

/* ---- texts ---- */

static const char *add_piece(struct stack_text *text, const struct stack_definition *piece)
{
    const uint32_t bytes = stack_piece_bytes(piece);
    if (piece->offset == 0 && text->bytes != NULL) return "a text that is given twice";
    /* An earlier piece is lost. */
    if (piece->offset != text->come || (piece->offset > 0 && piece->length != text->length))
        return NULL;
    uint8_t *grown = realloc(text->bytes, (size_t)text->come + bytes + 1);
    if (grown == NULL) return stacks_no_memory;
    memcpy(grown + text->come, piece->piece, bytes);
    text->bytes = grown;
    text->length = piece->length;
    text->come += bytes;
    grown[text->come] = 0;
    return NULL;
}

static const char *reserve_modules(struct stacks *stacks, uint64_t end)
{
    const char *wrong = stacks_reserve(&stacks->module, &stacks->modules_capacity,
                                       sizeof *stacks->module, stacks->modules, end);
    if (wrong == NULL) extend(&stacks->modules_end, end);
    return wrong;
}

static const char *reserve_codes(struct stacks *stacks, uint64_t end)
{
    const char *wrong = stacks_reserve(&stacks->code, &stacks->codes_capacity, sizeof *stacks->code,
                                       stacks->codes, end);
    if (wrong == NULL) extend(&stacks->codes_end, end);
    return wrong;
}

static const char *stacks_define_text(struct stacks *stacks, const struct stack_definition *piece)
{
    const uint64_t end = (uint64_t)piece->number + 1;
    const char *wrong;
    if (piece->of != STACK_CODE_TEXT) {
        if ((wrong = reserve_modules(stacks, end)) != NULL) return wrong;
        struct stack_module *module = &stacks->module[piece->number];
        return add_piece(piece->of == STACK_PATH       ? &module->path
                         : piece->of == STACK_BUILD_ID ? &module->build_id
                                                       : &module->language,
                         piece);
    }
    if ((wrong = reserve_codes(stacks, end)) != NULL) return wrong;
    uint32_t *text = &stacks->code[piece->number].text;
    if (*text == 0) {
        if (!pages_reserve(&stacks->text, &stacks->texts_capacity, stacks->texts + 1, LEAST_ENTRIES,
                           sizeof *stacks->text))
            return stacks_no_memory;
        *text = (uint32_t)++stacks->texts;
    }
    return add_piece(&stacks->text[*text - 1], piece);
}

/* ---- modules, codes, nodes ---- */

static const char *stacks_define_module(struct stacks *stacks,
                                        const struct stack_definition *definition)
{
    const char *wrong = reserve_modules(stacks, (uint64_t)definition->number + 1);
    if (wrong != NULL) return wrong;
    struct stack_module *module = &stacks->module[definition->number];
    if (definition->what == STACK_UNLOADED) {
        module->unloaded = true;
        return NULL;
    }
    if (module->defined) return "a module that is given twice";
    module->defined = true;
    module->start = definition->start;
    module->end = definition->end;
    module->bias = definition->bias;
    stacks->modules++;
    return NULL;
}

static const char *define_codes(struct stacks *stacks, const struct stack_definition *definition)
{
    const uint64_t end = (uint64_t)definition->number + definition->count;
    const char *wrong = reserve_codes(stacks, end);
    if (wrong != NULL) return wrong;
    struct stack_code *code = &stacks->code[definition->number];
    for (uint32_t i = 0; i < definition->count; i++)
        if (code[i].defined) return "a code that is given twice";
    for (uint32_t i = 0; i < definition->count; i++) {
        code[i].offset = definition->offsets[i];
        code[i].module = (uint16_t)definition->of;
        code[i].defined = true;
    }
    stacks->codes += definition->count;
    if (definition->of == STACK_MODULE_NONE) stacks->codes_of_none += definition->count;
    return NULL;
}

static const char *stacks_define_nodes(struct stacks *stacks,
                                       const struct stack_definition *definition)
{
    const uint64_t end = (uint64_t)definition->number + definition->count;
    const char *wrong = stacks_reserve(&stacks->node, &stacks->nodes_capacity, sizeof *stacks->node,
                                       stacks->nodes, end);
    if (wrong != NULL) return wrong;
    struct stack_node *node = &stacks->node[definition->number];
    for (uint32_t i = 0; i < definition->count; i++)
        if (node[i].code != 0) return "a node that is given twice";
    for (uint32_t i = 0; i < definition->count; i++)
        node[i] =
            (struct stack_node){.parent = i == 0 ? definition->of : definition->number + i - 1,
                                .code = definition->codes[i]};
    stacks->nodes += definition->count;
    extend(&stacks->nodes_end, end);
    return NULL;
}

const char *stacks_define(struct stacks *stacks, const struct stack_definition *definition)
{
    if (!stack_definition_is_valid(definition)) return "a definition outside of its limits";
    switch (definition->what) {
    case STACK_TEXT: return stacks_define_text(stacks, definition);
    case STACK_CODES: return define_codes(stacks, definition);
    case STACK_NODES: return stacks_define_nodes(stacks, definition);
    default: return stacks_define_module(stacks, definition);
    }
}

void stacks_free(struct stacks *stacks)
{
    for (uint64_t i = 0; i < stacks->modules_end; i++) {
        free(stacks->module[i].path.bytes);
        free(stacks->module[i].build_id.bytes);
        free(stacks->module[i].language.bytes);
    }
    for (uint64_t i = 0; i < stacks->texts; i++)
        free(stacks->text[i].bytes);
    pages_unmap(stacks->node, stacks->nodes_capacity * sizeof *stacks->node);
    pages_unmap(stacks->code, stacks->codes_capacity * sizeof *stacks->code);
    pages_unmap(stacks->module, stacks->modules_capacity * sizeof *stacks->module);
    pages_unmap(stacks->text, stacks->texts_capacity * sizeof *stacks->text);
    pages_unmap(stacks->used, stacks->used_capacity * sizeof *stacks->used);
    *stacks = (struct stacks){.nodes = 0};
}

/* ---- questions ---- */

const char *stacks_text_of_code(const struct stacks *stacks, uint32_t code)
{
    if (code >= stacks->codes_end || stacks->code[code].text == 0) return NULL;
    return (const char *)stack_text_bytes(&stacks->text[stacks->code[code].text - 1]);
}

bool stacks_use(struct stacks *stacks, uint32_t node)
{
    if (!pages_reserve(&stacks->used, &stacks->used_capacity, (uint64_t)node / 64 + 1,
                       LEAST_ENTRIES, sizeof *stacks->used))
        return false;
    stacks->used[node / 64] |= UINT64_C(1) << node % 64;
    return true;
}

static bool stacks_has_bit(const uint64_t *bits, uint64_t number)
{
    return bits[number / 64] >> number % 64 & 1;
}

/* A bit for each node from which on all are defined: parents have lower numbers. The caller frees
 * it. NULL: no memory. */
static uint64_t *whole_nodes(const struct stacks *stacks)
{
    uint64_t *whole = calloc(stacks->nodes_end / 64 + 1, sizeof *whole);
    for (uint32_t i = STACK_NODE_FIRST; whole != NULL && i < stacks->nodes_end; i++) {
        const struct stack_node *node = stacks_node(stacks, i);
        if (node != NULL &&
            (node->parent < STACK_NODE_FIRST || stacks_has_bit(whole, node->parent)))
            whole[i / 64] |= UINT64_C(1) << i % 64;
    }
    return whole;
}

static bool is_whole(const struct stacks *stacks, const uint64_t *whole, uint32_t node)
{
    if (whole == NULL || node < STACK_NODE_FIRST)
        return stacks_end(stacks, node, NULL) < STACK_NODE_FIRST;
    return node < stacks->nodes_end && stacks_has_bit(whole, node);
}

uint64_t stacks_unknown(const struct stacks *stacks)
{
    uint64_t *whole = whole_nodes(stacks), unknown = 0;
    for (uint64_t i = 0; i < stacks->used_capacity; i++)
        for (uint64_t bits = stacks->used[i]; bits != 0; bits &= bits - 1)
            unknown +=
                !is_whole(stacks, whole, (uint32_t)(64 * i) + (uint32_t)__builtin_ctzll(bits));
    free(whole);
    return unknown;
}

uint32_t stacks_end(const struct stacks *stacks, uint32_t node, uint32_t *depth)
{
    const struct stack_node *entry;
    uint32_t frames = 0;
    for (; (entry = stacks_node(stacks, node)) != NULL; node = entry->parent)
        frames++;
    if (depth != NULL) *depth = frames;
    return node;
}
