#include "convert/heaptrack_interpreted.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "symbols/function_name.h"

struct heaptrack_text {
    char *text;
    uint32_t module; /* the module with this path; 0: none yet */
};

struct heaptrack_kind {
    uint64_t size;
    uint32_t node;
    uint32_t latest; /* object, plus 1; 0: none is alive */
};

static bool interpreted_fail_memory(struct heaptrack_interpreted *file)
{
    return error_set_system(&file->writer->error, "no memory for call stacks");
}

static void interpreted_put(struct heaptrack_interpreted *file,
                            const struct stack_definition *definition)
{
    instruction_put_definition(&file->writer->instructions, definition);
}

/* ---- texts ---- */

static bool interpreted_take_text(struct heaptrack_interpreted *file, struct fields fields)
{
    uint64_t length;
    if (!file->plain && !fields_number(&fields, 16, &length)) return false;
    if (fields.at < fields.end) fields.at++; /* one space */
    const size_t bytes = (size_t)(fields.end - fields.at);
    if (!file->plain && length != bytes) return false;
    char *text = strndup(fields.at, bytes);
    if (text == NULL || !array_reserve(&file->texts, &file->texts_room, file->texts_count + 1,
                                       sizeof *file->texts)) {
        free(text);
        return interpreted_fail_memory(file);
    }
    file->texts[file->texts_count++] = (struct heaptrack_text){text, 0};
    return true;
}

static const char *interpreted_text_of(const struct heaptrack_interpreted *file, uint64_t number)
{
    return number > 0 && number <= file->texts_count ? file->texts[number - 1].text : "";
}

static void interpreted_define_text(struct heaptrack_interpreted *file, enum stack_text_of of,
                                    uint32_t number, const char *text)
{
    struct stack_definition piece = {.what = STACK_TEXT, .number = number, .of = of};
    const size_t bytes = strlen(text);
    piece.length = bytes < STACK_TEXT_BYTES_MAX ? (uint32_t)bytes : STACK_TEXT_BYTES_MAX;
    for (; piece.offset < piece.length; piece.offset += STACK_PIECE_BYTES) {
        memcpy(piece.piece, text + piece.offset, stack_piece_bytes(&piece));
        interpreted_put(file, &piece);
    }
}

/* ---- codes and nodes ---- */

/* The module whose path is the text; 0: none. The file does not tell where it was mapped. */
static uint32_t interpreted_module_of(struct heaptrack_interpreted *file, uint64_t number)
{
    if (*interpreted_text_of(file, number) == '\0') return STACK_MODULE_NONE;
    struct heaptrack_text *text = &file->texts[number - 1];
    if (text->module != 0 || file->modules_count + 1 >= STACK_MODULES_LIMIT) return text->module;
    text->module = ++file->modules_count;
    interpreted_put(file, &(struct stack_definition){.what = STACK_MODULE, .number = text->module});
    interpreted_define_text(file, STACK_PATH, text->module, text->text);
    return text->module;
}

/* Adds "function\tfile\tline", a line of the text of a code. Without debug information, a function
 * has only its name. */
static bool interpreted_add_frame(struct heaptrack_interpreted *file, struct fields *fields,
                                  FILE *to)
{
    uint64_t function, source = 0, line = 0;
    if (!fields_number(fields, 16, &function) || *interpreted_text_of(file, function) == '\0')
        return false;
    if (fields_number(fields, 16, &source)) fields_number(fields, 16, &line);
    char *name = strdup(interpreted_text_of(file, function));
    if (name == NULL) return interpreted_fail_memory(file);
    function_name_take_out_types(name);
    fprintf(to, "%s%s\t%s\t%" PRIu64, ftello(to) > 0 ? "\n" : "", name,
            interpreted_text_of(file, source), line);
    free(name);
    return true;
}

static bool take_code(struct heaptrack_interpreted *file, struct fields fields)
{
    struct stack_definition code = {.what = STACK_CODES, .count = 1};
    uint64_t address, module;
    char *text = NULL;
    size_t bytes = 0;
    if (!fields_number(&fields, 16, &address) || !fields_number(&fields, 16, &module)) return false;
    FILE *to = open_memstream(&text, &bytes);
    if (to == NULL) return interpreted_fail_memory(file);
    while (interpreted_add_frame(file, &fields, to))
        continue;
    if (ftello(to) == 0)
        fprintf(to, "%s+0x%" PRIx64, basename(interpreted_text_of(file, module)), address);
    const bool written = fclose(to) == 0;
    code.number = file->codes_count + 1;
    code.of = interpreted_module_of(file, module);
    code.offsets[0] = address % STACK_OFFSETS_LIMIT;
    const bool good = written && stack_definition_is_valid(&code);
    if (good) {
        interpreted_put(file, &code);
        interpreted_define_text(file, STACK_CODE_TEXT, code.number, text);
        file->codes_count++;
    }
    free(text);
    return good || (written ? false : interpreted_fail_memory(file));
}

static uint32_t node_of(const struct heaptrack_interpreted *file, uint64_t trace)
{
    return trace > 0 && trace <= file->traces ? (uint32_t)trace + STACK_NODE_FIRST - 1
                                              : (uint32_t)STACK_END;
}

static bool take_trace(struct heaptrack_interpreted *file, struct fields fields)
{
    struct stack_definition node = {.what = STACK_NODES, .count = 1};
    uint64_t code, parent;
    if (!fields_number(&fields, 16, &code) || !fields_number(&fields, 16, &parent) ||
        !fields_end(&fields) || parent > file->traces || code == 0 || code > file->codes_count)
        return false;
    node.number = STACK_NODE_FIRST + file->traces;
    node.codes[0] = (uint32_t)code;
    node.of = node_of(file, parent);
    if (!stack_definition_is_valid(&node)) return false;
    file->traces++;
    interpreted_put(file, &node);
    return true;
}

/* ---- calls ---- */

static bool take_kind(struct heaptrack_interpreted *file, struct fields fields)
{
    struct heaptrack_kind kind = {.latest = 0};
    uint64_t trace;
    if (!fields_number(&fields, 16, &kind.size) || !fields_number(&fields, 16, &trace) ||
        !fields_end(&fields))
        return false;
    kind.node = node_of(file, trace);
    if (!array_reserve(&file->kinds, &file->kinds_room, file->kinds_count + 1, sizeof *file->kinds))
        return interpreted_fail_memory(file);
    file->kinds[file->kinds_count++] = kind;
    return true;
}

static bool interpreted_begin_object(struct heaptrack_interpreted *file,
                                     struct heaptrack_kind *kind)
{
    uint32_t object = file->free_object;
    if (object != 0) {
        file->free_object = file->below[object - 1];
    } else {
        if (file->objects_count + 1 >= UINT32_MAX ||
            !array_reserve(&file->below, &file->objects_room, file->objects_count + 1,
                           sizeof *file->below))
            return interpreted_fail_memory(file);
        object = (uint32_t)++file->objects_count;
    }
    file->below[object - 1] = kind->latest;
    kind->latest = object;
    return call_writer_put(file->writer, &(struct call){.kind = CALL_MALLOC,
                                                        .began = object,
                                                        .size = kind->size,
                                                        .stack = kind->node});
}

static bool interpreted_end_object(struct heaptrack_interpreted *file, struct heaptrack_kind *kind)
{
    const uint32_t object = kind->latest;
    if (object == 0) return false;
    kind->latest = file->below[object - 1];
    file->below[object - 1] = file->free_object;
    file->free_object = object;
    return call_writer_put(file->writer, &(struct call){.kind = CALL_FREE, .ended = object});
}

static bool interpreted_take_call(struct heaptrack_interpreted *file, char letter,
                                  struct fields fields)
{
    uint64_t number;
    if (!fields_number(&fields, 16, &number) || !fields_end(&fields) || number >= file->kinds_count)
        return false;
    struct heaptrack_kind *kind = &file->kinds[number];
    return letter == '+' ? interpreted_begin_object(file, kind)
                         : interpreted_end_object(file, kind);
}

bool heaptrack_interpreted_line(struct heaptrack_interpreted *file, char letter,
                                struct fields fields)
{
    switch (letter) {
    case 's': return interpreted_take_text(file, fields);
    case 'i': return take_code(file, fields);
    case 't': return take_trace(file, fields);
    case 'a': return take_kind(file, fields);
    default: return interpreted_take_call(file, letter, fields);
    }
}

void heaptrack_interpreted_free(struct heaptrack_interpreted *file)
{
    for (size_t i = 0; i < file->texts_count; i++)
        free(file->texts[i].text);
    free(file->texts);
    free(file->kinds);
    free(file->below);
}
