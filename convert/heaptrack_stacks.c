#include "convert/heaptrack_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

struct heaptrack_module {
    char *name;
    uint64_t base, start, end;
    bool present, defined;
};

static bool heaptrack_stacks_fail_memory(struct heaptrack_stacks *stacks)
{
    return error_set_system(&stacks->writer->error, "no memory for call stacks");
}

static void heaptrack_stacks_put(struct heaptrack_stacks *stacks,
                                 const struct stack_definition *definition)
{
    instruction_put_definition(&stacks->writer->instructions, definition);
}

/* ---- texts ---- */

static bool is_number(const char *at, const char *end)
{
    while (at < end && fields_digit(*at) < 16)
        at++;
    return at == end;
}

/* How many bytes of a line are a name, before BASE and pairs of numbers. */
static size_t heaptrack_stacks_name_bytes(const struct fields *fields)
{
    const char *end = fields->end, *last = end;
    unsigned numbers = 0;
    for (const char *word = end; word > fields->at; end = word) {
        while (word > fields->at && word[-1] != ' ')
            word--;
        if (word == fields->at || !is_number(word, end)) break;
        word--;
        numbers++;
        /* Of an even count of numbers, the first one belongs to the name. */
        if (numbers % 2 == 1) last = word;
    }
    return (size_t)(last - fields->at);
}

/* Takes LENGTH TEXT; without lengths, a text that ends before numbers, or with the line. */
static bool heaptrack_stacks_take_text(const struct heaptrack_stacks *stacks, struct fields *fields,
                                       bool before_numbers, struct fields *text)
{
    uint64_t length;
    if (!stacks->plain && !fields_number(fields, 16, &length)) return false;
    fields_space(fields);
    const size_t there = (size_t)(fields->end - fields->at);
    if (stacks->plain) length = before_numbers ? heaptrack_stacks_name_bytes(fields) : there;
    if (length == 0 || length > there) return false;
    *text = (struct fields){fields->at, fields->at + length};
    fields->at += length;
    return true;
}

/* ---- modules ---- */

bool heaptrack_stacks_program(struct heaptrack_stacks *stacks, struct fields fields)
{
    struct fields text;
    if (!heaptrack_stacks_take_text(stacks, &fields, false, &text)) return false;
    free(stacks->program);
    stacks->program = strndup(text.at, (size_t)(fields.end - text.at));
    return stacks->program != NULL || heaptrack_stacks_fail_memory(stacks);
}

/* Forgets what is mapped: the file lists it anew, and addresses may belong to other files now. */
static void forget_modules(struct heaptrack_stacks *stacks)
{
    for (size_t i = 0; i < stacks->modules_count; i++)
        stacks->modules[i].present = false;
    names_free(&stacks->codes);
    stacks->changed = true;
}

static bool heaptrack_stacks_is_same(const struct heaptrack_module *module, const char *name,
                                     size_t bytes, uint64_t base)
{
    return module->base == base && strlen(module->name) == bytes &&
           memcmp(module->name, name, bytes) == 0;
}

/* The module of that name at that address, a known or a new one. NULL: none, or no memory. */
static struct heaptrack_module *heaptrack_stacks_module_of(struct heaptrack_stacks *stacks,
                                                           const char *name, size_t bytes,
                                                           uint64_t base)
{
    for (size_t i = 0; i < stacks->modules_count; i++)
        if (heaptrack_stacks_is_same(&stacks->modules[i], name, bytes, base))
            return &stacks->modules[i];
    if (stacks->modules_count + 1 >= STACK_MODULES_LIMIT) return NULL;
    if (!array_reserve(&stacks->modules, &stacks->modules_room, stacks->modules_count + 1,
                       sizeof *stacks->modules)) {
        heaptrack_stacks_fail_memory(stacks);
        return NULL;
    }
    char *copy = strndup(name, bytes);
    if (copy == NULL) {
        heaptrack_stacks_fail_memory(stacks);
        return NULL;
    }
    struct heaptrack_module *module = &stacks->modules[stacks->modules_count++];
    *module = (struct heaptrack_module){.name = copy, .base = base, .start = UINT64_MAX};
    return module;
}

/* Parses NAME BASE, and for each segment its offset from BASE and its size. */
bool heaptrack_stacks_module(struct heaptrack_stacks *stacks, struct fields fields)
{
    struct fields name;
    uint64_t base, offset, size;
    if (!heaptrack_stacks_take_text(stacks, &fields, true, &name)) return false;
    const size_t bytes = (size_t)(name.end - name.at);
    if (bytes == 1 && *name.at == '-') {
        forget_modules(stacks);
        return true;
    }
    if (!fields_number(&fields, 16, &base)) return false;
    const bool is_program = bytes == 1 && *name.at == 'x' && stacks->program != NULL;
    struct heaptrack_module *module =
        is_program
            ? heaptrack_stacks_module_of(stacks, stacks->program, strlen(stacks->program), base)
            : heaptrack_stacks_module_of(stacks, name.at, bytes, base);
    if (module == NULL) return !error_is_set(&stacks->writer->error);
    module->present = true;
    while (fields_number(&fields, 16, &offset) && fields_number(&fields, 16, &size)) {
        if (base + offset < module->start) module->start = base + offset;
        if (base + offset + size > module->end) module->end = base + offset + size;
    }
    if (module->end < module->start) module->start = module->end = base;
    return true;
}

static void heaptrack_stacks_define_path(struct heaptrack_stacks *stacks, uint32_t number,
                                         const char *path)
{
    const size_t bytes = strlen(path);
    struct stack_definition text = {.what = STACK_TEXT, .number = number, .of = STACK_PATH};
    text.length = bytes < STACK_TEXT_BYTES_MAX ? (uint32_t)bytes : STACK_TEXT_BYTES_MAX;
    for (; text.offset < text.length; text.offset += STACK_PIECE_BYTES) {
        memcpy(text.piece, path + text.offset, stack_piece_bytes(&text));
        heaptrack_stacks_put(stacks, &text);
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
        heaptrack_stacks_put(stacks, &definition);
        if (module->present) heaptrack_stacks_define_path(stacks, i + 1, module->name);
    }
}

/* ---- codes and nodes ---- */

/* 0: none, or no memory. */
static uint32_t heaptrack_stacks_code_of(struct heaptrack_stacks *stacks, uint64_t address)
{
    struct name *known = names_put(&stacks->codes, address);
    struct stack_definition code = {.what = STACK_CODES, .count = 1, .offsets = {address}};
    if (known == NULL) {
        heaptrack_stacks_fail_memory(stacks);
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
    heaptrack_stacks_put(stacks, &code);
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
    node.codes[0] = address != 0 ? heaptrack_stacks_code_of(stacks, address) : 0;
    node.of = heaptrack_stacks_node(stacks, parent);
    if (number < STACK_NUMBERS_LIMIT && stack_definition_is_valid(&node))
        heaptrack_stacks_put(stacks, &node);
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
