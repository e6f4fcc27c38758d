#include "symbols/code_names.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/printable.h"
#include "symbols/function_name.h"
#include "symbols/source_name.h"

struct codes_frames {
    uint32_t first, count; /* in names->frames; 0 of them: the code is not defined */
};

/* ---- what a function is ---- */

/* Whether the user wants it to be passed over. */
static bool is_skipped(const struct code_names *names, const struct code_frame *frame)
{
    if (names->skip == NULL) return false;
    return regexec(names->skip, code_names_text(names, frame->function), 0, NULL, 0) == 0 ||
           regexec(names->skip, code_names_text(names, frame->file), 0, NULL, 0) == 0;
}

static void classify(const struct code_names *names, struct code_frame *frame, bool is_rust)
{
    const char *function = code_names_text(names, frame->function);
    const char *file = code_names_text(names, frame->file);
    frame->is_library = function_is_library(function, file, is_rust) || is_skipped(names, frame);
    frame->allocates = function_allocates(function, code_names_text(names, frame->module));
}

/* ---- the frames of a code ---- */

/* Whether a module's functions are called by those of an interpreter, by its name. */
static bool is_extension(const char *module)
{
    const char *name = basename(module);
    return strstr(name, ".cpython-") != NULL || strstr(name, ".abi3.so") != NULL ||
           (strstr(module, "/ruby/") != NULL && strstr(name, ".so") != NULL);
}

static bool code_names_add_frame(struct code_names *names, const struct code_frame *frame,
                                 bool is_rust)
{
    if (!array_reserve(&names->frames, &names->room, names->count + 1, sizeof *names->frames))
        return false;
    names->frames[names->count] = *frame;
    classify(names, &names->frames[names->count++], is_rust);
    return true;
}

/* Takes the text up to the next tab or the end. */
static uint32_t take_field(struct code_names *names, char **at)
{
    char *field = strsep(at, "\t");
    return strings_put(&names->symbols.strings, field);
}

/* Adds the frames that the stream itself gives: lines "function\tfile\tline", innermost first. */
static bool add_said(struct code_names *names, const char *said, struct code_frame frame)
{
    char *copy = strdup(said), *rest = copy;
    bool good = copy != NULL;
    while (good && rest != NULL && *rest != '\0') {
        char *line = strsep(&rest, "\n");
        frame.function = take_field(names, &line);
        frame.file = take_field(names, &line);
        frame.line = line != NULL ? (uint32_t)strtoul(line, NULL, 10) : 0;
        frame.is_inlined = rest != NULL && *rest != '\0';
        if (frame.function == 0) frame.function = strings_put(&names->symbols.strings, "?");
        good = code_names_add_frame(names, &frame, false);
    }
    free(copy);
    return good;
}

/* The text, or what it is if lambdas are joined. */
static uint32_t lambdas_joined(struct code_names *names, uint32_t function)
{
    const char *text = code_names_text(names, function);
    if (!names->joins_lambdas || strstr(text, "{lambda") == NULL) return function;
    char *copy = strdup(text);
    if (copy == NULL) return function;
    function_name_join_lambdas(copy);
    function = strings_put(&names->symbols.strings, copy);
    free(copy);
    return function;
}

static bool add_found(struct code_names *names, uint32_t module, uint64_t offset,
                      struct code_frame frame)
{
    struct symbol_frame found[SYMBOL_FRAMES_MAX];
    const unsigned count =
        symbols_find(&names->symbols, module, offset > 0 ? offset - 1 : 0, found);
    bool good = true;
    for (unsigned i = 0; i < count && good; i++) {
        frame.function = lambdas_joined(names, found[i].function);
        frame.file = found[i].file;
        frame.line = found[i].line;
        frame.is_inlined = i + 1 < count;
        good = code_names_add_frame(names, &frame, found[i].is_rust);
    }
    return good;
}

/* Adds the frame of code without a module, which the program generated. */
static bool add_made(struct code_names *names, uint64_t address, struct code_frame frame)
{
    char text[40];
    frame.function = perf_map_find(&names->map, address > 0 ? address - 1 : 0);
    snprintf(text, sizeof text, "0x%" PRIx64, address);
    if (frame.function == 0) frame.function = strings_put(&names->symbols.strings, text);
    return code_names_add_frame(names, &frame, false);
}

static const char *module_path(const struct code_names *names, uint32_t number)
{
    const struct stack_module *module = stacks_module(names->stacks, number);
    const char *path = module != NULL ? (const char *)stack_text_bytes(&module->path) : NULL;
    return path != NULL ? path : "";
}

/* The language of a module, a text; 0: none. */
static uint32_t module_language(struct code_names *names, uint32_t number)
{
    const struct stack_module *module = stacks_module(names->stacks, number);
    const char *text = module != NULL ? (const char *)stack_text_bytes(&module->language) : NULL;
    return text != NULL ? strings_put(&names->symbols.strings, text) : 0;
}

/* A function in source code: the stream has its name. */
static bool add_source(struct code_names *names, const struct stack_code *code, const char *said,
                       struct code_frame frame)
{
    char name[SOURCE_NAME_BYTES];
    source_name(code_names_text(names, frame.module), said != NULL && *said != '\0' ? said : "?",
                name);
    frame.function = strings_put(&names->symbols.strings, name);
    frame.file = frame.module;
    frame.line = stack_line_of_offset(code->offset);
    frame.first_line = stack_first_line_of_offset(code->offset);
    names->has_languages = true;
    if (!code_names_add_frame(names, &frame, false)) return false;
    struct code_frame *added = &names->frames[names->count - 1];
    added->allocates = false;
    added->is_library =
        source_is_library(code_names_text(names, frame.file)) || is_skipped(names, added);
    return true;
}

/* The number of module `number` in `symbols`; UINT32_MAX: no memory. */
static uint32_t code_names_module_of(struct code_names *names, uint32_t number)
{
    static const uint8_t none[1];
    const struct stack_module *module = stacks_module(names->stacks, number);
    const uint8_t *id = module != NULL ? stack_text_bytes(&module->build_id) : NULL;
    if (names->modules[number] == 0)
        names->modules[number] =
            1 + symbols_module(&names->symbols, module_path(names, number), id != NULL ? id : none,
                               id != NULL ? module->build_id.length : 0);
    return names->modules[number] - 1;
}

static bool add_code(struct code_names *names, uint32_t number)
{
    const struct stack_code *code = stacks_code(names->stacks, number);
    const char *said = stacks_text_of_code(names->stacks, number);
    struct code_frame frame = {.code = number};
    const size_t first = names->count;
    bool good = true;
    if (code == NULL) return true;
    const char *path = module_path(names, code->module);
    frame.module = strings_put(&names->symbols.strings, path);
    const uint32_t language = module_language(names, code->module);
    const bool is_source = language != 0 && stack_module_is_source(names->stacks, code->module);
    frame.is_of_libc = strncmp(basename(path), "libc.so", 7) == 0;
    frame.is_of_interpreter = !is_source && (language != 0 || is_extension(path));
    if (is_source) {
        frame.language = language;
        good = add_source(names, code, said, frame);
    } else if (said != NULL) {
        good = add_said(names, said, frame);
    } else if (code->module == STACK_MODULE_NONE) {
        good = add_made(names, code->offset, frame);
    } else {
        const uint32_t module = code_names_module_of(names, code->module);
        good = module != UINT32_MAX && add_found(names, module, code->offset, frame);
    }
    names->codes[number] = (struct codes_frames){(uint32_t)first, (uint32_t)(names->count - first)};
    return good;
}

/* ---- all of them ---- */

static bool read_maps(struct code_names *names, const struct code_places *places)
{
    char path[PATH_MAX];
    struct strings *strings = &names->symbols.strings;
    if (names->symbols.places.nowhere) return true;
    if (places->trace != NULL) {
        snprintf(path, sizeof path, "%s.perf.map", places->trace);
        if (perf_map_read(&names->map, path, 0, strings)) return true;
    }
    snprintf(path, sizeof path, "/tmp/perf-%" PRIu64 ".map", places->pid);
    if (places->pid != 0 && places->start_s > 0)
        perf_map_read(&names->map, path, places->start_s, strings);
    return !strings->no_memory;
}

bool code_names_open(struct code_names *names, const struct stacks *stacks,
                     const struct code_places *places)
{
    *names = (struct code_names){.stacks = stacks,
                                 .skip = places->skip,
                                 .view = places->view,
                                 .joins_lambdas = places->joins_lambdas};
    bool good = symbols_open(&names->symbols, places->directories, places->count);
    names->codes = calloc(stacks->codes_end + 1, sizeof *names->codes);
    names->modules = calloc(stacks->modules_end + UINT16_MAX + 1, sizeof *names->modules);
    good = good && names->codes != NULL && names->modules != NULL && read_maps(names, places);
    if (good) names->cut = strings_put(&names->symbols.strings, CODE_NAMES_CUT);
    good = good && code_names_add_frame(names, &(struct code_frame){.function = names->cut}, false);
    for (uint64_t i = STACK_CODE_FIRST; i < stacks->codes_end && good; i++)
        good = add_code(names, (uint32_t)i);
    return good && symbols_are_whole(&names->symbols);
}

void code_names_close(struct code_names *names)
{
    if (names->codes != NULL) symbols_close(&names->symbols);
    perf_map_free(&names->map);
    free(names->codes);
    free(names->modules);
    free(names->frames);
    *names = (struct code_names){.count = 0};
}

unsigned code_names_of_code(const struct code_names *names, uint32_t code,
                            const struct code_frame **frames)
{
    if (code >= names->stacks->codes_end) return 0;
    *frames = names->frames + names->codes[code].first;
    return names->codes[code].count;
}

/* How many inner frames belong to allocation, but not all of them. */
static unsigned frames_of_allocator(const struct code_names *names, const uint32_t *at,
                                    unsigned count)
{
    unsigned first = 0;
    while (first + 1 < count && names->frames[at[first]].allocates)
        first++;
    return first;
}

unsigned code_names_walk(const struct code_names *names, uint32_t node, uint32_t *at)
{
    const struct stack_node *entry;
    unsigned count = 0;
    for (; count < CODE_FRAMES_MAX - 1 && (entry = stacks_node(names->stacks, node)) != NULL;
         node = entry->parent) {
        if (entry->code >= names->stacks->codes_end || names->codes[entry->code].count == 0)
            break; /* the code was lost */
        const struct codes_frames *of = &names->codes[entry->code];
        for (unsigned i = 0; i < of->count && count < CODE_FRAMES_MAX - 1; i++)
            at[count++] = of->first + i;
    }
    const unsigned first = frames_of_allocator(names, at, count);
    count -= first;
    memmove(at, at + first, count * sizeof *at);
    if (names->has_languages) count = code_view_take(names->view, names->frames, at, count);
    if (count > 0 && node != STACK_END) at[count++] = 0;
    return count;
}

unsigned code_names_of(const struct code_names *names, uint32_t node, struct code_frame *frames)
{
    uint32_t at[CODE_FRAMES_MAX];
    const unsigned count = code_names_walk(names, node, at);
    for (unsigned i = 0; i < count; i++)
        frames[i] = names->frames[at[i]];
    return count;
}

static bool code_allocates(const struct code_names *names, uint32_t code)
{
    const struct code_frame *frames;
    const unsigned count = code_names_of_code(names, code, &frames);
    for (unsigned i = 0; i < count; i++)
        if (!frames[i].allocates) return false;
    return count > 0;
}

uint32_t code_names_caller(const struct code_names *names, uint32_t node)
{
    const struct stack_node *entry;
    for (unsigned i = 0; i < CODE_FRAMES_MAX; i++) {
        if ((entry = stacks_node(names->stacks, node)) == NULL ||
            entry->parent < STACK_NODE_FIRST || !code_allocates(names, entry->code))
            break;
        node = entry->parent;
    }
    return node;
}

bool code_names_segment(const struct code_names *names, uint32_t module,
                        struct symbol_segment *segment)
{
    const uint32_t number = names->modules[module]; /* 0: none of its addresses was looked for */
    return number != 0 && symbols_segment(&names->symbols, number - 1, segment);
}

static void print_lacks(const char *path, unsigned lacks, const char *prefix, FILE *to)
{
    static const struct {
        enum symbol_lacks lack;
        const char *text;
    } texts[] = {{SYMBOL_LACKS_SHARED,
                  "what it shares with others (dwz) was not found, or is .debug_sup, so some "
                  "functions have no names (--symbols DIR)"},
                 {SYMBOL_LACKS_SPLIT,
                  "files of split units (.dwo, .dwp) were not found, so inlined functions "
                  "are missing (--symbols DIR)"},
                 {SYMBOL_LACKS_UNPACKED, "sections are packed in a way that libelf cannot read"},
                 {SYMBOL_LACKS_BUDGET,
                  "reading all of it would take too long: it is damaged, or far "
                  "larger than others"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (lacks & texts[i].lack)
            fprintf(to, "%sthe debug information of %s: %s.\n", prefix, printable_text(path),
                    texts[i].text);
}

void code_names_print_missing(const struct code_names *names, const char *prefix, FILE *to)
{
    static const char *const why[] = {
        [SYMBOL_FILE_MISSING] =
            "was not found here, so its functions have no names (--symbols DIR)",
        [SYMBOL_FILE_OTHER] = "is a different build here, so its functions have no names "
                              "(--symbols DIR)",
        [SYMBOL_FILE_NO_ID] = "has no build id, so its functions have no names (--symbols DIR)"};
    for (uint32_t i = 0; i < names->symbols.count; i++) {
        const enum symbol_file_state state = symbols_state(&names->symbols, i);
        const char *path = symbols_path(&names->symbols, i);
        if (state != SYMBOL_FILE_FOUND && *path == '/')
            fprintf(to, "%s%s %s.\n", prefix, printable_text(path), why[state]);
        print_lacks(path, symbols_lack(&names->symbols, i), prefix, to);
    }
}
