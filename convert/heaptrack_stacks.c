#include "convert/heaptrack_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

struct heaptrack_module {
    char *name;
    uint64_t base, start, end;
    bool present, defined;
};

static bool fail_memory(struct heaptrack_stacks *stacks)
{
    return error_set_system(&stacks->writer->error, "no memory for call stacks");
}

static void put(struct heaptrack_stacks *stacks, const struct stack_definition *definition)
{
    instruction_put_definition(&stacks->writer->instructions, definition);
}

/* ---- modules ---- */

void heaptrack_stacks_program(struct heaptrack_stacks *stacks, struct fields fields)
{
    uint64_t length;
    if (!fields_number(&fields, 16, &length)) return;
    fields_space(&fields);
    free(stacks->program);
    stacks->program = strndup(fields.at, (size_t)(fields.end - fields.at));
}

/* Forgets what is mapped: the file lists it anew, and addresses may belong to other files now. */
static void forget_modules(struct heaptrack_stacks *stacks)
{
    for (size_t i = 0; i < stacks->modules_count; i++)
        stacks->modules[i].present = false;
    names_free(&stacks->codes);
    stacks->changed = true;
}

static bool is_same(const struct heaptrack_module *module, const char *name, size_t bytes,
                    uint64_t base)
{
    return module->base == base && strlen(module->name) == bytes &&
           memcmp(module->name, name, bytes) == 0;
}

/* The module of that name at that address, a known or a new one. NULL: none, or no memory. */
static struct heaptrack_module *module_of(struct heaptrack_stacks *stacks, const char *name,
                                          size_t bytes, uint64_t base)
{
    for (size_t i = 0; i < stacks->modules_count; i++)
        if (is_same(&stacks->modules[i], name, bytes, base)) return &stacks->modules[i];
    if (stacks->modules_count + 1 >= STACK_MODULES_LIMIT) return NULL;
    if (!array_reserve(&stacks->modules, &stacks->modules_room, stacks->modules_count + 1,
                       sizeof *stacks->modules)) {
        fail_memory(stacks);
        return NULL;
    }
    char *copy = strndup(name, bytes);
    if (copy == NULL) {
        fail_memory(stacks);
        return NULL;
    }
    struct heaptrack_module *module = &stacks->modules[stacks->modules_count++];
    *module = (struct heaptrack_module){.name = copy, .base = base, .start = UINT64_MAX};
    return module;
}

/* Parses LENGTH NAME BASE, and for each segment its offset from BASE and its size. */
void heaptrack_stacks_module(struct heaptrack_stacks *stacks, struct fields fields)
{
    uint64_t length, base, offset, size;
    if (!fields_number(&fields, 16, &length)) return;
    fields_space(&fields);
    const char *name = fields.at;
    if (length == 0 || length > (size_t)(fields.end - fields.at)) return;
    fields.at += length;
    if (length == 1 && *name == '-') return forget_modules(stacks);
    if (length == 1 && *name == 'x' && stacks->program != NULL) {
        name = stacks->program;
        length = strlen(name);
    }
    if (!fields_number(&fields, 16, &base)) return;
    struct heaptrack_module *module = module_of(stacks, name, length, base);
    if (module == NULL) return;
    module->present = true;
    while (fields_number(&fields, 16, &offset) && fields_number(&fields, 16, &size)) {
        if (base + offset < module->start) module->start = base + offset;
        if (base + offset + size > module->end) module->end = base + offset + size;
    }
    if (module->end < module->start) module->start = module->end = base;
}

static void define_path(struct heaptrack_stacks *stacks, uint32_t number, const char *path)
{
    const size_t bytes = strlen(path);
    struct stack_definition text = {.what = STACK_TEXT, .number = number, .of = STACK_PATH};
    text.length = bytes < STACK_TEXT_BYTES_MAX ? (uint32_t)bytes : STACK_TEXT_BYTES_MAX;
    for (; text.offset < text.length; text.offset += STACK_PIECE_BYTES) {
        memcpy(text.piece, path + text.offset, stack_piece_bytes(&text));
        put(stacks, &text);
    }
}

/* Writes definitions of the modules that have been mapped and unmapped. */
static void define_modules(struct heaptrack_stacks *stacks)
{
    stacks->changed = false;
    for (uint32_t i = 0; i < stacks->modules_count; i++) {
        struct heaptrack_module *module = &stacks->modules[i];
        struct stack_definition definition = {.number = i + 1};
        if (module->present == module->defined) continue;
        definition.what = module->present ? STACK_MODULE : STACK_UNLOADED;
        definition.start = module->start;
        definition.end = module->end;
        definition.bias = module->base;
        module->defined = true;
        if (!module->present) {
            /* If it is mapped again, it is a new module. */
            module->base = UINT64_MAX;
            module->defined = false;
        }
        put(stacks, &definition);
        if (module->present) define_path(stacks, i + 1, module->name);
    }
}

/* ---- codes and nodes ---- */

/* 0: none, or no memory. */
static uint32_t code_of(struct heaptrack_stacks *stacks, uint64_t address)
{
    struct name *known = names_put(&stacks->codes, address);
    struct stack_definition code = {.what = STACK_CODES, .count = 1, .offsets = {address}};
    if (known == NULL) {
        fail_memory(stacks);
        return 0;
    }
    if (known->object != 0) return known->object;
    for (uint32_t i = 0; i < stacks->modules_count; i++) {
        const struct heaptrack_module *module = &stacks->modules[i];
        if (!module->present || address < module->start || address > module->end) continue;
        code.of = i + 1;
        code.offsets[0] = address - module->base;
    }
    code.number = stacks->codes_count + 1;
    if (!stack_definition_is_valid(&code)) return 0;
    put(stacks, &code);
    stacks->codes_count++;
    return known->object = code.number;
}

bool heaptrack_stacks_trace(struct heaptrack_stacks *stacks, struct fields fields)
{
    uint64_t address, parent;
    if (!fields_number(&fields, 16, &address) || !fields_number(&fields, 16, &parent) ||
        !fields_end(&fields) || parent > stacks->traces)
        return false;
    const uint64_t number = STACK_NODE_FIRST + stacks->traces++;
    if (stacks->changed) define_modules(stacks);
    struct stack_definition node = {.what = STACK_NODES, .number = (uint32_t)number, .count = 1};
    node.codes[0] = address != 0 ? code_of(stacks, address) : 0;
    node.of = heaptrack_stacks_node(stacks, parent);
    if (number < STACK_NUMBERS_LIMIT && stack_definition_is_valid(&node)) put(stacks, &node);
    return true;
}

void heaptrack_stacks_free(struct heaptrack_stacks *stacks)
{
    for (size_t i = 0; i < stacks->modules_count; i++)
        free(stacks->modules[i].name);
    free(stacks->modules);
    free(stacks->program);
    names_free(&stacks->codes);
}
