/* Tables of call stacks and of mappings, as definitions and records. */
#include <stdlib.h>
#include <string.h>

#include "base/base_own.h"

/* ---- call stacks (FORMAT.md 5.8) ---- */

static void base_put_text(struct instruction_writer *writer, uint32_t number, enum stack_text_of of,
                          const uint8_t *bytes, uint32_t length)
{
    for (uint32_t offset = 0; bytes != NULL && offset < length; offset += STACK_PIECE_BYTES) {
        struct stack_definition text = {
            .what = STACK_TEXT, .number = number, .of = of, .length = length, .offset = offset};
        memcpy(text.piece, bytes + offset, stack_piece_bytes(&text));
        instruction_put_definition(writer, &text);
    }
}

static void base_put_modules(const struct stacks *stacks, struct instruction_writer *writer)
{
    for (uint32_t i = 0; i < stacks->modules_end; i++) {
        const struct stack_module *module = stacks_module(stacks, i);
        if (module == NULL) continue;
        const struct stack_definition definition = {.what = STACK_MODULE,
                                                    .number = i,
                                                    .start = module->start,
                                                    .end = module->end,
                                                    .bias = module->bias};
        instruction_put_definition(writer, &definition);
        base_put_text(writer, i, STACK_PATH, stack_text_bytes(&module->path), module->path.length);
        base_put_text(writer, i, STACK_BUILD_ID, stack_text_bytes(&module->build_id),
                      module->build_id.length);
        base_put_text(writer, i, STACK_LANGUAGE, stack_text_bytes(&module->language),
                      module->language.length);
        if (module->unloaded)
            instruction_put_definition(
                writer, &(struct stack_definition){.what = STACK_UNLOADED, .number = i});
    }
}

static void base_put_codes(const struct stacks *stacks, struct instruction_writer *writer)
{
    for (uint32_t i = STACK_CODE_FIRST; i < stacks->codes_end;) {
        const struct stack_code *code = stacks_code(stacks, i);
        struct stack_definition codes = {.what = STACK_CODES, .number = i};
        if (code == NULL) {
            i++;
            continue;
        }
        codes.of = code->module;
        for (; code != NULL && code->module == codes.of && codes.count < STACK_CODES_MAX;
             code = stacks_code(stacks, ++i))
            codes.offsets[codes.count++] = code->offset;
        instruction_put_definition(writer, &codes);
    }
    for (uint32_t i = STACK_CODE_FIRST; i < stacks->codes_end; i++) {
        const char *text = stacks_code(stacks, i) != NULL ? stacks_text_of_code(stacks, i) : NULL;
        if (text != NULL)
            base_put_text(writer, i, STACK_CODE_TEXT, (const uint8_t *)text,
                          (uint32_t)strlen(text));
    }
}

/* Each node after the first of a definition is a child of the one before it. */
static void base_put_nodes(const struct stacks *stacks, struct instruction_writer *writer)
{
    for (uint32_t i = STACK_NODE_FIRST; i < stacks->nodes_end;) {
        const struct stack_node *node = stacks_node(stacks, i);
        struct stack_definition nodes = {.what = STACK_NODES, .number = i};
        if (node == NULL) {
            i++;
            continue;
        }
        nodes.of = node->parent;
        do {
            nodes.codes[nodes.count++] = node->code;
            node = stacks_node(stacks, ++i);
        } while (node != NULL && node->parent == i - 1 && nodes.count < STACK_NODES_MAX);
        instruction_put_definition(writer, &nodes);
    }
}

void base_write_stacks(const struct stacks *stacks, struct instruction_writer *writer)
{
    if (stacks->nodes_end == 0 && stacks->codes_end == 0 && stacks->modules_end == 0) return;
    base_put_modules(stacks, writer);
    base_put_codes(stacks, writer);
    base_put_nodes(stacks, writer);
}

/* ---- mappings (FORMAT.md 4.5) ---- */

static struct mapping_record base_record_of(const struct mapping_piece *piece,
                                            const struct mapping_maker *maker)
{
    const bool is_kept = maker->what == MAPPING_ATTACH || maker->what == MAPPING_FOUND;
    return (struct mapping_record){.what = is_kept ? maker->what : MAPPING_MAP,
                                   .own = maker->own,
                                   .has_file = maker->has_file,
                                   .thread_id = maker->thread_id,
                                   .address = piece->start,
                                   .length = piece->end - piece->start,
                                   .protection = maker->protection,
                                   .flags = maker->flags,
                                   .stack = maker->stack,
                                   .offset = maker->offset,
                                   .device = maker->device,
                                   .inode = maker->inode,
                                   .name = maker->name,
                                   .name_bytes = maker->name_bytes};
}

/* Each piece as the call that mapped it: what others have unmapped of that is gone. And that the
 * allocator moves the end of the data segment: what is below it is the heap. */
bool base_write_mappings(const struct mapping_table *table, struct instruction_writer *writer)
{
    size_t count = 0;
    if (table->pieces_count == 0 && table->own_break == 0) return true;
    struct mapping_record *records = calloc(table->pieces_count + 1, sizeof *records);
    if (records == NULL) return false;
    for (; count < table->pieces_count; count++) {
        const struct mapping_piece *piece = &table->pieces[count];
        records[count] = base_record_of(piece, &table->makers[piece->maker]);
    }
    if (table->own_break != 0)
        records[count++] = (struct mapping_record){
            .what = MAPPING_BREAK, .own = true, .address = table->own_break};
    instruction_put_mappings(writer, records, count);
    free(records);
    return true;
}
