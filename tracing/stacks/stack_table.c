#include "tracing/stacks/stack_table.h"

#include "common/atomic.h"
#include "tracing/data/settings.h"
#include "tracing/os/os.h"
#include "tracing/recording/recording.h"
#include "tracing/recording/slot.h"
#include "tracing/stacks/node_table.h"
#include "tracing/stacks/stack_map.h"

#include <elf.h>
#include <string.h>

#define RULE_SETS_BITS 13
#define RULE_SETS      (1u << RULE_SETS_BITS)
#define RULES_IN_SET   4u
#define MODULES_MAX    4096u

/* A code, and the rule that has been compiled for it, in one word. There is none for frames that
 * are larger than 64 KiB, or save registers far from their end. */
struct code_word {
    uint64_t is_there : 1, number : 28, how : 3, bp_at_bp : 1;
    int64_t offset_words : 14, bp : 8, bx : 9;
};
#define WORD_BX_ELSEWHERE (-0x100)

_Static_assert(sizeof(struct code_word) == sizeof(uint64_t), "one word");
_Static_assert(STACK_NUMBERS_LIMIT == 1u << 28, "a code fits");
_Static_assert(STACK_NODES_FULL < RAW_STACK_LIMIT, "nodes have a short code in a lane");

/* `check` is a hash of the word, the address, and the time at which the rule holds: so two threads
 * may store at once, and what is stale is not found. */
struct kept_rule {
    uint64_t check;
    uint64_t word; /* struct code_word; 0: none */
};

/* The rules of addresses with the same hash. */
struct rule_set {
    struct kept_rule rules[RULES_IN_SET];
} __attribute__((aligned(64)));

/* Whoever takes a module out of NONE or UNLOADED has it until it stores LOADED (release). Others
 * may read it meanwhile: what they have read is consistent if it is LOADED afterwards, too, with
 * the same number, which no other one gets. */
enum module_state { MODULE_NONE = 0, MODULE_BEGINS, MODULE_LOADED, MODULE_UNLOADED };

struct module {
    struct unwind_object object;
    uintptr_t pc; /* an address that the object has */
    uint32_t number;
    uint32_t state; /* enum module_state */
};

struct stack_table {
    uint32_t is_there;  /* 0 in a forked child */
    uint32_t time;      /* 1, 2, ... (release) */
    uint32_t unloading; /* how many threads are about to unload something */
    uint32_t modules_count, codes_count, nodes_count; /* numbers given, by addition */
    struct stack_map codes;
    struct node_table nodes;
    /* Nodes that are whole stacks of calls, one in seven: kept apart, as only these are looked up
     * all the time. */
    struct stack_map of_calls;
    struct stack_map sources; /* files and functions of an interpreter */
    struct module modules[MODULES_MAX];
    uint32_t rules_replaced; /* by addition */
    struct rule_set rules[RULE_SETS];
};

static struct stack_table *table;
static const struct stack_table_watcher *watcher; /* set when recording begins */

bool stack_table_begin(const struct stack_table_watcher *told)
{
    watcher = told;
    if (table == NULL) table = os_memory_reserve_per_process(sizeof *table);
    if (table == NULL) return false;
    stack_map_clear(&table->codes);
    node_table_clear(&table->nodes);
    stack_map_clear(&table->of_calls);
    stack_map_clear(&table->sources);
    memset(table->modules, 0, sizeof table->modules);
    table->modules_count = table->codes_count = table->nodes_count = 0;
    table->unloading = 0;
    table->time++;
    table->is_there = 1;
    /* Makes room now: a thread that found another one making it would have none meanwhile. */
    return stack_map_has_room(&table->codes, 1) && node_table_begin(&table->nodes) &&
           stack_map_has_room(&table->of_calls, 1);
}

uint64_t stack_table_time(void)
{
    if (!atomic_load_relaxed(&table->is_there) || atomic_load_acquire(&table->unloading)) return 0;
    return atomic_load_acquire(&table->time);
}

/* ---- modules ---- */

static bool definition_send(struct malloctape_lane *lane, const struct stack_definition *definition)
{
    /* Bytes of a piece, or numbers of two units and more. */
    const long units = 4 * RAW_NUMBER_UNITS_MAX + 4 * STACK_NODES_MAX;
    if (!slot_has_room(lane, units)) return false;
    units_define(&lane->units, definition);
    return true;
}

/* Bytes of ours, or those that the object has. */
struct text {
    const char *ours;
    uintptr_t its; /* if not `ours` */
    uint32_t bytes;
};

/* Defines a text: a directory of ours, and what follows. */
static bool stack_table_define_text(struct malloctape_lane *lane, struct unwind_memory *memory,
                                    uint32_t number, enum stack_text_of of, const char *directory,
                                    struct text rest)
{
    const uint32_t before = (uint32_t)strlen(directory);
    struct stack_definition piece = {
        .what = STACK_TEXT, .number = number, .of = of, .length = before + rest.bytes};
    if (piece.length > STACK_TEXT_BYTES_MAX) return true;
    for (; piece.offset < piece.length; piece.offset += STACK_PIECE_BYTES) {
        for (uint32_t i = 0; i < stack_piece_bytes(&piece); i++) {
            const uint32_t at = piece.offset + i;
            if (at < before)
                piece.piece[i] = (uint8_t)directory[at];
            else if (rest.ours != NULL)
                piece.piece[i] = (uint8_t)rest.ours[at - before];
            else if (!unwind_read_text(memory, rest.its + at - before, &piece.piece[i], 1))
                return false;
        }
        if (!definition_send(lane, &piece)) return false;
    }
    return true;
}

static bool stack_table_send_text(struct malloctape_lane *lane, uint32_t number,
                                  enum stack_text_of of, const char *bytes, uint32_t count)
{
    return count == 0 || stack_table_define_text(lane, NULL, number, of, "",
                                                 (struct text){.ours = bytes, .bytes = count});
}

/* NULL: the module has no language. */
static bool stack_table_send_language(struct malloctape_lane *lane, uint32_t number,
                                      const char *language)
{
    return language == NULL || stack_table_send_text(lane, number, STACK_LANGUAGE, language,
                                                     (uint32_t)strlen(language));
}

/* The text at this address, which ends with a null byte. */
static struct text text_at(struct unwind_memory *memory, uintptr_t address)
{
    struct text text = {.its = address};
    char letter;
    while (address && text.bytes < STACK_TEXT_BYTES_MAX &&
           unwind_read_text(memory, address + text.bytes, &letter, 1) && letter)
        text.bytes++;
    return text;
}

/* The linker has no name for the program, and perhaps a relative one for a library. */
static bool stack_table_define_path(struct malloctape_lane *lane, struct unwind_memory *memory,
                                    uint32_t number, uintptr_t path)
{
    static const char vdso[] = "linux-vdso";
    char begin[sizeof vdso - 1] = {0};
    struct text text = text_at(memory, path);
    const char *directory = "";
    for (uint32_t i = 0; i < text.bytes && i < sizeof begin; i++)
        unwind_read_text(memory, path + i, &begin[i], 1);
    if (memcmp(begin, vdso, sizeof begin) == 0)
        text = (struct text){.ours = "[vdso]"};
    else if (text.bytes > 0 && begin[0] != '/')
        directory = settings.directory;
    if (!path) text = (struct text){.ours = settings.program_path};
    if (text.ours != NULL) text.bytes = (uint32_t)strlen(text.ours);
    return stack_table_define_text(lane, memory, number, STACK_PATH, directory, text);
}

/* The build id in an object's notes; empty: there is none. */
static struct text build_id_in(struct unwind_memory *memory, const struct unwind_object *object,
                               uintptr_t notes, size_t bytes)
{
    Elf64_Nhdr note;
    char owner[sizeof "GNU"];
    while (bytes >= sizeof note && unwind_read(memory, object, notes, &note, sizeof note)) {
        const size_t name = (note.n_namesz + 3u) & ~(size_t)3, what = (note.n_descsz + 3u) & ~3u;
        if (name > bytes - sizeof note || what > bytes - sizeof note - name) break;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof owner &&
            unwind_read(memory, object, notes + sizeof note, owner, sizeof owner) &&
            memcmp(owner, "GNU", sizeof owner) == 0)
            return (struct text){.its = notes + sizeof note + name, .bytes = note.n_descsz};
        notes += sizeof note + name + what;
        bytes -= sizeof note + name + what;
    }
    return (struct text){.bytes = 0};
}

static struct text build_id_of(struct unwind_memory *memory, const struct unwind_object *object)
{
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    struct text id = {.bytes = 0};
    if (!unwind_read(memory, object, object->start, &header, sizeof header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phoff > 4096 ||
        header.e_phnum > 64)
        return id;
    for (unsigned i = 0; i < header.e_phnum && id.bytes == 0; i++) {
        const uintptr_t at = object->start + header.e_phoff + i * sizeof segment;
        if (!unwind_read(memory, object, at, &segment, sizeof segment)) break;
        if (segment.p_type == PT_NOTE)
            id = build_id_in(memory, object, object->bias + segment.p_vaddr, segment.p_filesz);
    }
    return id;
}

static bool stack_table_is_same(const struct unwind_object *a, const struct unwind_object *b)
{
    return a->start == b->start && a->end == b->end && a->id == b->id && a->table == b->table;
}

/* False: there is none that is loaded. */
static bool read_module(const struct module *module, struct module *copy)
{
    if (atomic_load_acquire(&module->state) != MODULE_LOADED) return false;
    copy->number = atomic_load_relaxed(&module->number);
    copy->pc = atomic_load_relaxed(&module->pc);
    copy->object =
        (struct unwind_object){.start = atomic_load_relaxed(&module->object.start),
                               .end = atomic_load_relaxed(&module->object.end),
                               .id = atomic_load_relaxed(&module->object.id),
                               .table = atomic_load_relaxed(&module->object.table),
                               .bias = atomic_load_relaxed(&module->object.bias),
                               .stays_from = atomic_load_relaxed(&module->object.stays_from),
                               .stays_to = atomic_load_relaxed(&module->object.stays_to),
                               .functions = atomic_load_relaxed(&module->object.functions)};
    atomic_fence_acquire();
    return atomic_load_relaxed(&module->number) == copy->number &&
           atomic_load_relaxed(&module->state) == MODULE_LOADED;
}

/* The module's addresses are no longer its own. */
static void note_unloaded(struct malloctape_lane *lane, struct module *module, uint32_t number)
{
    uint32_t loaded = MODULE_LOADED;
    const struct stack_definition unloaded = {.what = STACK_UNLOADED, .number = number};
    if (!atomic_swap_once(&module->state, &loaded, MODULE_UNLOADED)) return;
    watcher->unloaded(number);
    if (lane != NULL) definition_send(lane, &unloaded);
}

/* A free entry. NULL: there are too many modules. */
static struct module *stack_table_take_module(void)
{
    /* Not only as many as have numbers: other threads may have taken the last of these. */
    for (uint32_t i = 0; i < MODULES_MAX; i++) {
        struct module *module = &table->modules[i];
        uint32_t state = atomic_load_relaxed(&module->state);
        if (state != MODULE_NONE && state != MODULE_UNLOADED) continue;
        if (atomic_swap_once(&module->state, &state, MODULE_BEGINS)) return module;
    }
    return NULL;
}

static bool stack_table_define_module(struct malloctape_lane *lane, struct unwind_memory *memory,
                                      uint32_t number, const struct unwind_object *object)
{
    const struct stack_definition definition = {.what = STACK_MODULE,
                                                .number = number,
                                                .start = object->start,
                                                .end = object->end,
                                                .bias = object->bias};
    if (!definition_send(lane, &definition) ||
        !stack_table_define_path(lane, memory, number, object->path))
        return false;
    const struct text id = build_id_of(memory, object);
    return id.bytes == 0 || id.bytes > STACK_BUILD_ID_MAX ||
           stack_table_define_text(lane, memory, number, STACK_BUILD_ID, "", id);
}

static void begin_module(struct module *module, uint32_t number, const struct unwind_object *object,
                         uintptr_t pc)
{
    atomic_fence_release(); /* after BEGINS, for those that read */
    atomic_store_relaxed(&module->number, number);
    atomic_store_relaxed(&module->pc, pc);
    atomic_store_relaxed(&module->object.start, object->start);
    atomic_store_relaxed(&module->object.end, object->end);
    atomic_store_relaxed(&module->object.id, object->id);
    atomic_store_relaxed(&module->object.table, object->table);
    atomic_store_relaxed(&module->object.bias, object->bias);
    atomic_store_relaxed(&module->object.stays_from, object->stays_from);
    atomic_store_relaxed(&module->object.stays_to, object->stays_to);
    atomic_store_relaxed(&module->object.functions, object->functions);
    atomic_store_release(&module->state, MODULE_LOADED);
}

/* Another module for the object. False: there was no room to define it now. */
static bool add_module(struct malloctape_lane *lane, struct unwind_memory *memory, uintptr_t pc,
                       const struct unwind_object *object, uint32_t *number)
{
    struct module *module = stack_table_take_module();
    *number = STACK_MODULE_NONE;
    if (module == NULL) return true;
    const uint32_t next = atomic_add_relaxed(&table->modules_count, 1) + 1;
    if (next < STACK_MODULES_LIMIT && stack_table_define_module(lane, memory, next, object)) {
        begin_module(module, next, object, pc);
        *number = next;
        return stack_table_send_language(lane, next, watcher->seen(memory, object, next));
    }
    atomic_store_release(&module->state, MODULE_NONE);
    return next >= STACK_MODULES_LIMIT;
}

/* The number of the module of the object that has `pc`, of which it learns the rest;
 * STACK_MODULE_NONE: there are too many. False: it has gone, or there was no room to define it
 * now. */
static bool stack_table_module_of(struct malloctape_lane *lane, struct unwind_memory *memory,
                                  uintptr_t pc, struct unwind_object *object, uint32_t *number)
{
    uint32_t count = atomic_load_relaxed(&table->modules_count);
    if (count > MODULES_MAX) count = MODULES_MAX;
    for (uint32_t i = 0; i < count; i++) {
        struct module module;
        if (!read_module(&table->modules[i], &module)) continue;
        *number = module.number;
        if (stack_table_is_same(&module.object, object)) {
            *object = module.object;
            return true;
        }
        if (object->start < module.object.end && module.object.start < object->end) {
            note_unloaded(lane, &table->modules[i], module.number);
            atomic_add_acq_rel(&table->time, 1);
        }
    }
    unwind_memory_forget_objects(memory);
    return unwind_learn(memory, object) && add_module(lane, memory, pc, object, number);
}

void stack_table_unloading(void)
{
    if (table != NULL) atomic_add_acq_rel(&table->unloading, 1);
}

void stack_table_unloaded(struct malloctape_lane *lane)
{
    struct unwind_object now;
    if (table == NULL || !atomic_load_relaxed(&table->is_there)) return;
    const uint32_t count = atomic_load_relaxed(&table->modules_count);
    for (uint32_t i = 0; i < count && i < MODULES_MAX; i++) {
        struct module module;
        if (!read_module(&table->modules[i], &module)) continue;
        if (!unwind_find(module.pc, &now) || !stack_table_is_same(&module.object, &now))
            note_unloaded(lane, &table->modules[i], module.number);
    }
    atomic_add_acq_rel(&table->time, 1);
    /* A recording that has begun meanwhile counts from 0. */
    uint32_t unloading = atomic_load_relaxed(&table->unloading);
    while (unloading && !atomic_swap_once(&table->unloading, &unloading, unloading - 1))
        continue;
}

/* ---- codes ---- */

static uint32_t stack_table_code_of(struct malloctape_lane *lane, uint32_t module, uint64_t offset)
{
    const uint64_t key = (uint64_t)module << 48 | (offset & ((UINT64_C(1) << 48) - 1));
    uint32_t code = stack_map_find(&table->codes, key);
    if (code) return code;
    if (offset >> 48) return 0;
    code = atomic_add_relaxed(&table->codes_count, 1) + STACK_CODE_FIRST;
    struct stack_definition codes = {
        .what = STACK_CODES, .number = code, .count = 1, .of = module, .offsets = {offset}};
    if (code >= STACK_NUMBERS_LIMIT || !definition_send(lane, &codes)) return 0;
    if (stack_map_has_room(&table->codes, 1)) stack_map_put(&table->codes, key, code);
    return code;
}

/* Finds the rule and the number of a code. `*keeps`: they hold until something is unloaded. */
static bool stack_table_resolve(struct malloctape_lane *lane, struct unwind_memory *memory,
                                uintptr_t pc, struct stack_code *code, bool *keeps)
{
    struct unwind_object object;
    uint32_t module;
    *code = (struct stack_code){.number = 0};
    *keeps = unwind_find(pc - 1, &object);
    if (!*keeps) {
        code->rule = unwind_guess;
        code->number = stack_table_code_of(lane, STACK_MODULE_NONE, pc);
        return code->number != 0;
    }
    if (stack_table_is_own(pc)) {
        object.stays_from = (uintptr_t)__ehdr_start;
        object.stays_to = (uintptr_t)_end;
        if (!unwind_learn(memory, &object)) return false;
        code->rule = unwind_compile(memory, &object, pc);
        return true;
    }
    if (!stack_table_module_of(lane, memory, pc - 1, &object, &module)) return false;
    code->rule = unwind_compile(memory, &object, pc);
    code->number = stack_table_code_of(lane, module, module ? pc - object.bias : pc);
    return code->number != 0;
}

/* 0: the rule does not fit. */
static uint64_t word_of(const struct stack_code *code)
{
    const struct unwind_rule rule = code->rule;
    const bool elsewhere = rule.bx == UNWIND_BX_ELSEWHERE;
    const struct code_word word = {.is_there = 1,
                                   .number = code->number,
                                   .how = rule.how,
                                   .bp_at_bp = rule.bp_at_bp,
                                   .offset_words = rule.offset / 8,
                                   .bp = rule.bp,
                                   .bx = elsewhere ? WORD_BX_ELSEWHERE : rule.bx};
    uint64_t bits;
    if (word.offset_words * 8 != rule.offset || word.bp != rule.bp ||
        (!elsewhere && (word.bx != rule.bx || word.bx == WORD_BX_ELSEWHERE)))
        return 0;
    memcpy(&bits, &word, sizeof bits);
    return bits;
}

static inline struct stack_code code_of_word(uint64_t bits)
{
    struct code_word word;
    memcpy(&word, &bits, sizeof word);
    return (struct stack_code){
        .rule = {.how = word.how,
                 .bp_at_bp = word.bp_at_bp,
                 .offset = word.offset_words * 8,
                 .bp = word.bp,
                 .bx = word.bx == WORD_BX_ELSEWHERE ? UNWIND_BX_ELSEWHERE : word.bx},
        .number = word.number};
}

static inline uint64_t stack_table_check_of(uintptr_t pc, uint64_t time, uint64_t word)
{
    return pc ^ (word ^ time << 32) * UINT64_C(0x9fb21c651e98df25);
}

static inline struct rule_set *rule_set_of(uintptr_t pc)
{
    return &table->rules[pc * UINT64_C(0x9e3779b97f4a7c15) >> (64 - RULE_SETS_BITS)];
}

/* Stores a rule in a free entry, or in place of any other, which may be stale. */
static void stack_table_keep(uintptr_t pc, uint64_t time, const struct stack_code *code)
{
    struct rule_set *set = rule_set_of(pc);
    const uint64_t word = word_of(code);
    uint32_t at = 0;
    if (word == 0) return;
    while (at < RULES_IN_SET && atomic_load_relaxed(&set->rules[at].word))
        at++;
    if (at == RULES_IN_SET) at = atomic_add_relaxed(&table->rules_replaced, 1) % RULES_IN_SET;
    atomic_store_relaxed(&set->rules[at].check, stack_table_check_of(pc, time, word));
    atomic_store_relaxed(&set->rules[at].word, word);
}

bool stack_table_code(struct malloctape_lane *lane, struct unwind_memory *memory, uintptr_t pc,
                      struct stack_code *code)
{
    const uint64_t time = stack_table_time();
    const struct rule_set *set = rule_set_of(pc);
    for (uint32_t i = 0; i < RULES_IN_SET; i++) {
        const uint64_t word = atomic_load_relaxed(&set->rules[i].word);
        if (!word ||
            atomic_load_relaxed(&set->rules[i].check) != stack_table_check_of(pc, time, word))
            continue;
        *code = code_of_word(word);
        return true;
    }
    bool keeps;
    if (!stack_table_resolve(lane, memory, pc, code, &keeps)) return false;
    if (time && keeps) stack_table_keep(pc, time, code);
    return true;
}

/* ---- functions of an interpreter ---- */

bool stack_table_of_source(uint64_t hash, uint32_t *number)
{
    *number = stack_map_find(&table->sources, hash + !hash);
    return *number != 0;
}

static void stack_table_keep_source(uint64_t hash, uint32_t number)
{
    if (stack_map_has_room(&table->sources, 1))
        stack_map_put(&table->sources, hash + !hash, number);
}

bool stack_table_define_source(struct malloctape_lane *lane, uint64_t hash, const char *language,
                               const char *path, uint32_t path_bytes, uint32_t *number)
{
    *number = atomic_add_relaxed(&table->modules_count, 1) + 1;
    if (*number >= STACK_MODULES_LIMIT) {
        *number = STACK_MODULE_NONE;
        return true;
    }
    const struct stack_definition module = {.what = STACK_MODULE, .number = *number};
    if (!definition_send(lane, &module) || !stack_table_send_language(lane, *number, language) ||
        !stack_table_send_text(lane, *number, STACK_PATH, path, path_bytes))
        return false;
    stack_table_keep_source(hash, *number);
    return true;
}

bool stack_table_define_function(struct malloctape_lane *lane, uint64_t hash,
                                 const struct stack_table_function *function, const char *name,
                                 uint32_t name_bytes, uint32_t *number)
{
    *number = atomic_add_relaxed(&table->codes_count, 1) + STACK_CODE_FIRST;
    const struct stack_definition code = {
        .what = STACK_CODES,
        .number = *number,
        .count = 1,
        .of = function->module,
        .offsets = {stack_offset_of_line(function->first_line, function->line)}};
    if (*number >= STACK_NUMBERS_LIMIT || !definition_send(lane, &code) ||
        !stack_table_send_text(lane, *number, STACK_CODE_TEXT, name, name_bytes))
        return false;
    stack_table_keep_source(hash, *number);
    return true;
}

/* ---- nodes ---- */

uint32_t stack_table_of_call(uint64_t hash)
{
    return stack_map_find(&table->of_calls, hash);
}

void stack_table_will_ask(uint64_t hash)
{
    stack_map_prefetch(&table->of_calls, hash);
}

void stack_table_call(uint64_t hash, uint32_t node)
{
    if (stack_map_has_room(&table->of_calls, 1)) stack_map_put(&table->of_calls, hash, node);
}

uint32_t stack_table_child(uint32_t parent, uint32_t code)
{
    return node_table_child(&table->nodes, parent, code);
}

uint32_t stack_table_define(struct malloctape_lane *lane, uint32_t parent, uint32_t count,
                            const uint32_t *codes)
{
    if (atomic_load_relaxed(&table->nodes_count) >= STACK_NODES_FULL) return 0;
    const uint32_t first = atomic_add_relaxed(&table->nodes_count, count) + STACK_NODE_FIRST;
    if (first + count > RAW_STACK_LIMIT) return 0;
    struct stack_definition nodes = {.what = STACK_NODES, .number = first, .of = parent};
    for (uint32_t done = 0; done < count; done += nodes.count) {
        nodes.number = first + done;
        nodes.count = count - done < STACK_NODES_MAX ? count - done : STACK_NODES_MAX;
        memcpy(nodes.codes, codes + done, nodes.count * sizeof *codes);
        if (!definition_send(lane, &nodes)) return 0;
        nodes.of = nodes.number + nodes.count - 1;
    }
    /* While another thread makes room they are not put, and perhaps defined once more. */
    node_table_put(&table->nodes, parent, first, count, codes);
    return first + count - 1;
}
