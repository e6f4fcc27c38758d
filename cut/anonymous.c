#include "cut/anonymous.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/known.h"
#include "common/array.h"
#include "common/call_table.h"
#include "common/pages.h"

#define TIMES_NS        UINT64_C(100000000) /* times are given in whole tenths of a second */
#define SIZES_EXACT     64u                 /* from here on sizes have three significant bits */
#define PLAIN_SIZE_MOST 0xe000u             /* the greatest one of those below INSTRUCTION_ESCAPE */

void anonymous_close(struct anonymous *anonymous)
{
    stacks_free(&anonymous->texts);
    for (size_t i = 0; i < anonymous->files_count; i++)
        free(anonymous->files[i]);
    free(anonymous->files);
    pages_unmap(anonymous->payload, INSTRUCTION_BLOCK_PAYLOAD_MAX);
    anonymous->files = NULL;
    anonymous->files_count = 0;
    anonymous->payload = NULL;
}

/* ---- metadata ---- */

static bool anonymous_has_only(const char *value, const char *end, const char *characters)
{
    for (; value < end; value++)
        if (strchr(characters, *value) == NULL || *value == '\0') return false;
    return true;
}

/* A name that allocators are known by, and a version. */
static bool anonymous_allocator(const char *value, const char *end)
{
#define ALLOCATOR_NAME(name, where, files, package, no_switching, help) name,
    static const char *const names[] = {"gperftools", "musl", KNOWN_ALLOCATOR_LIST(ALLOCATOR_NAME)};
#undef ALLOCATOR_NAME
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t bytes = strlen(names[i]);
        if ((size_t)(end - value) >= bytes && memcmp(value, names[i], bytes) == 0 &&
            anonymous_has_only(value + bytes, end, " 0123456789."))
            return true;
    }
    return false;
}

/* Of the libraries that the program has: those of C and C++, which allocators need, too. */
static size_t anonymous_libraries(const char *value, const char *end, char *to)
{
    static const char *const known[] = {"libstdc++.so.6", "libm.so.6", "libgcc_s.so.1",
                                        "libc.so.6"};
    size_t used = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const size_t bytes = strlen(known[i]);
        const char *at = value, *comma = at;
        for (; comma != NULL && at < end; at = comma + 1) {
            comma = memchr(at, ',', (size_t)(end - at));
            const char *const behind = comma != NULL ? comma : end;
            if ((size_t)(behind - at) != bytes || memcmp(at, known[i], bytes) != 0) continue;
            used += (size_t)sprintf(to + used, "%s%s", used > 0 ? "," : "program.has=", known[i]);
            break;
        }
    }
    if (used > 0) to[used++] = '\n';
    return used;
}

#define DIGITS  "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyz_"

size_t anonymous_line(const char *line, const char *end, char *to)
{
    static const struct {
        const char *key, *characters;
    } known[] = {{"page.bytes=", DIGITS},
                 {"own=", DIGITS " "},
                 {"attached=", "1"},
                 {"forked=", "1"},
                 {"stacks=", DIGITS "al"},
                 {"stacks.frees=", "alsome"},
                 {"stacks.chance=", DIGITS " "},
                 {"statistics=", LETTERS DIGITS " "},
                 {"thin=", DIGITS "."},
                 {"thin.weights=", DIGITS ". "},
                 {"cut=", DIGITS " "}};
    const size_t bytes = (size_t)(end - line);
    const char *value = memchr(line, '=', bytes);
    bool stays = false;
    if (value == NULL) return 0;
    value++;
    const size_t key = (size_t)(value - line);
    for (size_t i = 0; i < sizeof known / sizeof *known && !stays; i++)
        stays = strlen(known[i].key) == key && memcmp(line, known[i].key, key) == 0 &&
                anonymous_has_only(value, end, known[i].characters);
    if (key == 10 && memcmp(line, "allocator=", 10) == 0) stays = anonymous_allocator(value, end);
    if (bytes == 19 && memcmp(line, "architecture=x86_64", bytes) == 0) stays = true;
    if (bytes == 20 && memcmp(line, "architecture=aarch64", bytes) == 0) stays = true;
    if (key == 8 && memcmp(line, "what_if=", 8) == 0)
        return (size_t)sprintf(to, "what_if=not shown\n");
    if (key == 12 && memcmp(line, "program.has=", 12) == 0)
        return anonymous_libraries(value, end, to);
    if (!stays) return 0;
    memcpy(to, line, bytes);
    to[bytes] = '\n';
    return bytes + 1;
}

/* ---- instructions ---- */

/* Three significant bits, rounded up; of the greatest ones down. */
static uint64_t blur_size(uint64_t size)
{
    if (size < SIZES_EXACT || size > UINT64_MAX / 2) return size;
    const unsigned bits = 61u - (unsigned)__builtin_clzll(size);
    const uint64_t step = UINT64_C(1) << bits;
    return (size + step - 1) & ~(step - 1);
}

static void blur_sizes(const struct instruction_batch *batch, struct instruction_room *room)
{
    size_t record = 0;
    for (size_t i = 0; i < batch->count; i++) {
        const unsigned does = instruction_does[batch->opcodes[i]];
        if (room->values[i] == INSTRUCTION_ESCAPE) {
            struct instruction *one = &room->records[record++];
            if (does != INSTRUCTION_OTHER) one->size = blur_size(one->size);
        } else if (does == INSTRUCTION_BEGINS) {
            const uint64_t size = blur_size(room->values[i]);
            room->values[i] = (uint16_t)(size < INSTRUCTION_ESCAPE ? size : PLAIN_SIZE_MOST);
        }
    }
}

static uint64_t blur_time(uint64_t ns)
{
    return (ns + TIMES_NS / 2) / TIMES_NS * TIMES_NS;
}

static void blur_ticks(struct anonymous *anonymous, const struct instruction_batch *batch,
                       struct instruction_room *room)
{
    for (size_t i = 0; i < batch->ticks_count; i++) {
        const struct instruction_tick *tick = &batch->ticks[i];
        anonymous->ns += room->operands[tick->operand_at];
        const uint64_t given = blur_time(anonymous->ns);
        room->operands[tick->operand_at] = given - anonymous->given_ns;
        anonymous->given_ns = given;
        if (tick->usage_at == INSTRUCTION_NO_USAGE) continue;
        room->operands[tick->usage_at + 1] = blur_time(room->operands[tick->usage_at + 1]);
        room->operands[tick->usage_at + 2] = blur_time(room->operands[tick->usage_at + 2]);
    }
}

void anonymous_batch(struct anonymous *anonymous, const struct instruction_batch *batch,
                     struct instruction_room *room)
{
    if (memchr(batch->opcodes, INSTRUCTION_THREAD_BEGIN, batch->count) != NULL) {
        struct instruction_walk walk = instruction_walk_over(batch, batch->count);
        struct instruction one;
        while (instruction_walk_next(&walk, &one))
            if (one.opcode == INSTRUCTION_THREAD_BEGIN)
                room->operands[one.operand_at] = ++anonymous->threads;
    }
    if (anonymous->blurs_sizes) blur_sizes(batch, room);
    if (anonymous->blurs_times) blur_ticks(anonymous, batch, room);
}

/* ---- definitions ---- */

typedef void anonymous_put(void *of, const struct stack_definition *definition);

static void anonymous_put_text(uint32_t code, const char *text, anonymous_put *put, void *of)
{
    struct stack_definition piece = {.what = STACK_TEXT,
                                     .number = code,
                                     .of = STACK_CODE_TEXT,
                                     .length = (uint32_t)strlen(text)};
    for (; piece.offset < piece.length; piece.offset += STACK_PIECE_BYTES) {
        memcpy(piece.piece, text + piece.offset, stack_piece_bytes(&piece));
        put(of, &piece);
    }
}

/* How much of a line of a code's text is the function; some name their file, "py::f:/home/f.py". */
static size_t anonymous_function(const char *line)
{
    const size_t name = strcspn(line, "\t\n");
    if (*line == '/') return 0;
    for (size_t i = 1; i < name; i++)
        if (line[i] == '/' && strchr(" :(", line[i - 1]) != NULL) return i - 1;
    return name;
}

/* Of each line the function, when all of the text has come. */
static void anonymous_code_text(struct anonymous *anonymous, const struct stack_definition *piece,
                                anonymous_put *put, void *of)
{
    const char *wrong = stacks_define(&anonymous->texts, piece);
    const char *text = wrong == NULL ? stacks_text_of_code(&anonymous->texts, piece->number) : NULL;
    if (wrong == stacks_no_memory) anonymous->no_memory = true;
    if (text == NULL) return;
    char *functions = malloc(strlen(text) + 4), *to = functions;
    if (functions == NULL) {
        anonymous->no_memory = true;
        return;
    }
    while (*text != '\0') {
        const size_t line = strcspn(text, "\n"), name = anonymous_function(text);
        if (to > functions) *to++ = '\n';
        memcpy(to, text, name);
        to += name;
        text += line + (text[line] == '\n');
    }
    *to = '\0';
    if (to > functions) anonymous_put_text(piece->number, functions, put, of);
    free(functions);
}

/* Where a module is mapped is random; what it has there is not. */
static void anonymous_module(struct stack_definition *module)
{
    module->start -= module->bias;
    module->end -= module->bias;
    module->bias = 0;
}

/* A file of source code is a module that is nowhere in memory: the places in it are lines. */
static bool anonymous_is_mapped(const struct anonymous *anonymous, uint32_t module)
{
    return stacks_module(&anonymous->texts, module) != NULL &&
           !stack_module_is_source(&anonymous->texts, module);
}

/* Codes of no module, or of one that is not told, are told apart, and that is all. So are those whose
 * module is defined only after them. */
static void anonymous_codes(const struct anonymous *anonymous, struct stack_definition *codes)
{
    if (anonymous->keeps_build_ids && codes->of != STACK_MODULE_NONE &&
        anonymous_is_mapped(anonymous, codes->of))
        return;
    codes->of = STACK_MODULE_NONE;
    for (uint32_t i = 0; i < codes->count; i++)
        codes->offsets[i] = (uint64_t)codes->number + i;
}

/* A module, or that it was unloaded. */
static bool anonymous_keeps_module(struct anonymous *anonymous, const struct stack_definition *one)
{
    if (!anonymous->keeps_build_ids) return false;
    if (stacks_define(&anonymous->texts, one) == stacks_no_memory) anonymous->no_memory = true;
    return anonymous_is_mapped(anonymous, one->number);
}

void anonymous_definition(struct anonymous *anonymous, const struct stack_definition *definition,
                          anonymous_put *put, void *of)
{
    struct stack_definition one = *definition;
    const bool build_ids = anonymous->keeps_build_ids;
    switch (one.what) {
    case STACK_MODULE:
    case STACK_UNLOADED:
        if (!anonymous_keeps_module(anonymous, &one)) break;
        if (one.what == STACK_MODULE) anonymous_module(&one);
        put(of, &one);
        break;
    case STACK_TEXT:
        if (one.of == STACK_BUILD_ID && build_ids) put(of, &one);
        if (one.of == STACK_CODE_TEXT && anonymous->keeps_functions)
            anonymous_code_text(anonymous, &one, put, of);
        break;
    case STACK_CODES:
        anonymous_codes(anonymous, &one);
        put(of, &one);
        break;
    default: put(of, &one);
    }
}

/* ---- the address space ---- */

void anonymous_mapping(struct mapping_record *record)
{
    record->thread_id = 0;
    record->name = NULL;
    record->name_bytes = 0;
    record->device = record->inode = record->offset = 0;
}

/* The number of a file, from 1; 0: no memory. */
static size_t anonymous_file(struct anonymous *anonymous, const char *name, size_t bytes)
{
    for (size_t i = 0; i < anonymous->files_count; i++)
        if (strlen(anonymous->files[i]) == bytes && memcmp(anonymous->files[i], name, bytes) == 0)
            return i + 1;
    if (!array_reserve(&anonymous->files, &anonymous->files_room, anonymous->files_count + 1,
                       sizeof *anonymous->files) ||
        (anonymous->files[anonymous->files_count] = strndup(name, bytes)) == NULL) {
        anonymous->no_memory = true;
        return 0;
    }
    return ++anonymous->files_count;
}

/* Names of the kernel stay; a file becomes a number. */
static void anonymous_area(struct anonymous *anonymous, struct residency_area *area, char *room,
                           size_t room_bytes)
{
    static const char *const kernels[] = {"[heap]", "[stack]", "[vdso]", "[vvar]", "[vsyscall]"};
    area->device = area->inode = area->offset = 0;
    if (area->name_bytes == 0) return;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strlen(kernels[i]) == area->name_bytes &&
            memcmp(kernels[i], area->name, area->name_bytes) == 0)
            return;
    if (area->name[0] == '[')
        snprintf(room, room_bytes, "[anon]");
    else
        snprintf(room, room_bytes, "file-%zu",
                 anonymous_file(anonymous, area->name, area->name_bytes));
    area->name = room;
    area->name_bytes = (uint32_t)strlen(room);
}

bool anonymous_residency(struct anonymous *anonymous, struct residency *residency,
                         const uint8_t **at, const uint8_t **end)
{
    struct residency_area area = {0};
    struct residency_run run;
    uint64_t latest_end = 0, latest_put = 0;
    char room[32];
    if (anonymous->payload == NULL) anonymous->payload = pages_map(INSTRUCTION_BLOCK_PAYLOAD_MAX);
    if (anonymous->payload == NULL) return false;
    uint8_t *to = anonymous->payload;
    const uint8_t *const most = to + INSTRUCTION_BLOCK_PAYLOAD_MAX - RESIDENCY_BYTES_MAX -
                                RESIDENCY_AREA_BYTES_MAX - RESIDENCY_RUN_BYTES_MAX;
    if (anonymous->blurs_times) residency->since_start_ns = blur_time(residency->since_start_ns);
    while (*at < *end && residency_take_area(at, *end, &latest_end, &area) == NULL) {
        struct residency_area given = area;
        anonymous_area(anonymous, &given, room, sizeof room);
        if (to > most) return false;
        to = residency_put_area(to, &given, &latest_put);
        while (area.has_runs && residency_run_take(&area, &run)) {
            if (to > most) return false;
            to = residency_put_run(to, &run);
        }
    }
    *at = anonymous->payload;
    *end = to;
    return !anonymous->no_memory;
}
