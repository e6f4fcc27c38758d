/* unwind - see unwind.h. The format is that of the Linux Standard Base, "Exception Frames", and of
 * DWARF's call frame information. */
#include "tracing/stacks/unwind_own.h"

#include <link.h>
#include <string.h>

/* A part of an object this large without a table is generated code: that of node has 1.6 MiB,
 * assembly in libcrypto 150 KiB. */
#define GENERATED_BYTES ((uintptr_t)512 << 10)

/* ---- entries of the table ---- */

struct entry {                        /* FDE, and what its CIE says */
    struct unwind_reader common, own; /* instructions */
    uintptr_t first, end;             /* of the function's code */
    uint64_t code_factor;
    int64_t data_factor;
    bool is_signal;
};

struct augmentation {
    unsigned encoding; /* of addresses in the FDE */
    bool has_length;   /* the FDE's augmentation begins with its length */
};

/* A longer entry is none. */
#define ENTRY_BYTES_MAX ((uint64_t)64 << 10)

/* An entry begins with its length; false: it has none. */
static bool begin_entry(uintptr_t at, struct unwind_source *source, struct unwind_reader *reader)
{
    *reader = (struct unwind_reader){at, source->object->end, source};
    if (at < source->object->start || at >= source->object->end) return false;
    uint64_t bytes = unwind_take(reader, 4);
    if (bytes == 0xffffffff) bytes = unwind_take(reader, 8);
    if (bytes == 0 || bytes > ENTRY_BYTES_MAX || bytes > reader->end - reader->at) return false;
    reader->end = reader->at + bytes;
    return true;
}

static bool take_augmentation(struct unwind_reader letters, struct unwind_reader more,
                              struct entry *entry, struct augmentation *augmentation)
{
    for (;;) {
        switch (unwind_take(&letters, 1)) {
        case 0: return true;
        case 'R': augmentation->encoding = (unsigned)unwind_take(&more, 1); break;
        case 'L': unwind_take(&more, 1); break;
        case 'P': unwind_take_encoded(&more, (unsigned)unwind_take(&more, 1), false); break;
        case 'S': entry->is_signal = true; break;
        case 'B': break; /* by which key return addresses are signed */
        default: return false;
        }
    }
}

static bool read_common(uintptr_t at, struct unwind_source *source, struct entry *entry,
                        struct augmentation *augmentation)
{
    struct unwind_reader reader;
    if (!begin_entry(at, source, &reader) || unwind_take(&reader, 4) != 0) return false;
    const uint64_t version = unwind_take(&reader, 1);
    if (version != 1 && version != 3) return false;
    struct unwind_reader letters = reader;
    while (reader.at < reader.end && unwind_take(&reader, 1))
        continue;
    entry->code_factor = unwind_take_unsigned(&reader);
    entry->data_factor = unwind_take_signed(&reader);
    uint64_t address = version == 1 ? unwind_take(&reader, 1) : unwind_take_unsigned(&reader);
    if (address != UNWIND_NUMBER_PC) return false;
    entry->common = reader;
    const uint64_t first = unwind_take(&letters, 1);
    augmentation->has_length = first == 'z';
    if (!augmentation->has_length) return first == 0;
    struct unwind_reader more = unwind_take_block(&reader);
    entry->common = reader;
    return take_augmentation(letters, more, entry, augmentation);
}

static bool read_entry(uintptr_t at, struct unwind_source *source, struct entry *entry)
{
    struct augmentation augmentation = {0, false};
    struct unwind_reader reader;
    *entry = (struct entry){.is_signal = false};
    if (!begin_entry(at, source, &reader)) return false;
    const uintptr_t here = reader.at;
    const uint64_t back = unwind_take(&reader, 4);
    if (back == 0 || !read_common(here - back, source, entry, &augmentation)) return false;
    entry->first = unwind_take_encoded(&reader, augmentation.encoding, true);
    entry->end = entry->first + unwind_take_encoded(&reader, augmentation.encoding & 0x0f, false);
    if (augmentation.has_length) unwind_take_block(&reader);
    entry->own = reader;
    return true;
}

/* An entry of the sorted index that linkers make: where a function begins and where its entry is,
 * from the table on. */
struct index {
    int32_t function, entry;
};

#define INDEX_HEAD_BYTES 12u
#define INDEX_COPIED     (UNWIND_COPY_BYTES / sizeof(struct index))

/* 0: the table has no index that is understood here. */
static uint32_t count_functions(struct unwind_memory *memory, const struct unwind_object *object)
{
    static const uint8_t kind[] = {1 /* version */, 0x1b /* pointer */, 0x03 /* count */, 0x3b};
    uint8_t head[INDEX_HEAD_BYTES];
    uint32_t count;
    if (!unwind_read(memory, object, object->table, head, sizeof head) ||
        memcmp(head, kind, sizeof kind) != 0)
        return 0;
    memcpy(&count, head + INDEX_HEAD_BYTES - sizeof count, sizeof count);
    return count;
}

static bool read_index(struct unwind_source *source, uint32_t at, struct index *index)
{
    const uintptr_t first = source->object->table + INDEX_HEAD_BYTES;
    return unwind_read_bytes(source, first + at * sizeof *index, index, sizeof *index);
}

bool unwind_learn(struct unwind_memory *memory, struct unwind_object *object)
{
    const struct link_map *map = object->id;
    if (unwind_is_program(map))
        unwind_learn_program(object);
    else if (!unwind_read_text(memory, (uintptr_t)&map->l_addr, &object->bias,
                               sizeof object->bias) ||
             !unwind_read_text(memory, (uintptr_t)&map->l_name, &object->path, sizeof object->path))
        return false;
    object->functions = count_functions(memory, object);
    return true;
}

/* Narrows the entries among which the last one is that begins at or before `wanted` to those that
 * are copied at once. Functions are much the same size, so mostly it lies where its address lets
 * expect; every other time the half of them goes. */
static bool narrow_index(struct unwind_source *source, intptr_t wanted, uint32_t *low,
                         uint32_t *count)
{
    const struct unwind_object *object = source->object;
    intptr_t from = (intptr_t)(object->start - object->table),
             to = (intptr_t)(object->end - object->table);
    struct index index;
    for (bool halves = false; *count > INDEX_COPIED; halves = !halves) {
        const uint32_t room = *count - INDEX_COPIED;
        struct index last;
        uint64_t guess = *count / 2;
        if (!halves && wanted > from && wanted < to && to - from <= UINT32_MAX)
            guess = *count * (uint64_t)(wanted - from) / (uint64_t)(to - from);
        guess = guess < INDEX_COPIED / 2 ? 0 : guess - INDEX_COPIED / 2;
        const uint32_t at = *low + (guess < room ? (uint32_t)guess : room);
        if (!read_index(source, at, &index) || !read_index(source, at + INDEX_COPIED - 1, &last))
            return false;
        if (index.function > wanted) {
            *count = at > *low ? at - *low : 1;
            to = index.function;
        } else if (last.function <= wanted) {
            *count -= at + INDEX_COPIED - 1 - *low;
            *low = at + INDEX_COPIED - 1;
            from = last.function;
        } else {
            *low = at;
            *count = INDEX_COPIED;
        }
    }
    return *count == 0 || read_index(source, *low, &index);
}

/* The last entry that begins at or before this address. `*next`: where the one after it begins. */
static bool find_entry(struct unwind_source *source, uintptr_t address, struct entry *entry,
                       uintptr_t *next)
{
    const uintptr_t table = source->object->table;
    const uint32_t all = source->object->functions;
    const intptr_t wanted = (intptr_t)(address - table);
    uint32_t low = 0, count = all;
    struct index index;
    if (!narrow_index(source, wanted, &low, &count)) return false;
    while (count > 1) {
        if (!read_index(source, low + count / 2, &index)) return false;
        if (index.function <= wanted) low += count / 2;
        count = index.function <= wanted ? count - count / 2 : count / 2;
    }
    if (count == 0) return false;
    *next = source->object->end;
    if (low + 1 < all) {
        if (!read_index(source, low + 1, &index)) return false;
        *next = table + (uintptr_t)(intptr_t)index.function;
    }
    return read_index(source, low, &index) &&
           read_entry(table + (uintptr_t)(intptr_t)index.entry, source, entry);
}

/* ---- instructions ---- */

enum where { SAME = 0, AT_OFFSET, BY_EXPRESSION, NOWHERE, ELSEWHERE };

/* Bytes of the table. */
struct expression {
    uintptr_t at; /* 0: there is none */
    uint64_t bytes;
};

struct saved {
    enum where where;
    int64_t offset; /* from the frame's end */
    struct expression expression;
};

struct row {
    uint64_t base; /* the frame's end: this register and an offset, or an expression */
    int64_t offset;
    struct expression expression;
    struct saved bx, bp, pc;
};

/* Rows that an entry remembers at a time. GCC and clang need one or two. */
#define REMEMBERED_MAX 4

struct machine {
    struct row now, initial, remembered[REMEMBERED_MAX];
    unsigned remembered_count;
    uintptr_t at; /* the row is that of code from here on */
    bool is_wrong;
};

static struct saved *saved_of(struct row *row, uint64_t number)
{
    switch (number) {
    case UNWIND_NUMBER_BX: return &row->bx;
    case UNWIND_NUMBER_BP: return &row->bp;
    case UNWIND_NUMBER_PC: return &row->pc;
    default: return NULL;
    }
}

static void save(struct machine *machine, uint64_t number, enum where where, int64_t offset)
{
    struct saved *saved = saved_of(&machine->now, number);
    if (saved != NULL) *saved = (struct saved){.where = where, .offset = offset};
}

static void restore(struct machine *machine, uint64_t number)
{
    struct saved *saved = saved_of(&machine->now, number);
    if (saved != NULL) *saved = *saved_of(&machine->initial, number);
}

static struct expression take_expression(struct unwind_reader *reader)
{
    const struct unwind_reader block = unwind_take_block(reader);
    return (struct expression){block.at, block.end - block.at};
}

static void save_by_expression(struct machine *machine, uint64_t number,
                               struct expression expression)
{
    struct saved *saved = saved_of(&machine->now, number);
    if (saved != NULL) *saved = (struct saved){.where = BY_EXPRESSION, .expression = expression};
}

static void unwind_set_end(struct machine *machine, uint64_t base, int64_t offset)
{
    machine->now.base = base;
    machine->now.offset = offset;
    machine->now.expression.at = 0;
}

static void remember_row(struct machine *machine)
{
    if (machine->remembered_count == REMEMBERED_MAX)
        machine->is_wrong = true;
    else
        machine->remembered[machine->remembered_count++] = machine->now;
}

static void restore_row(struct machine *machine)
{
    if (machine->remembered_count == 0)
        machine->is_wrong = true;
    else
        machine->now = machine->remembered[--machine->remembered_count];
}

/* One instruction whose upper two bits are 0. */
static void carry_out_other(struct machine *machine, struct unwind_reader *reader,
                            const struct entry *entry, unsigned code)
{
    uint64_t number;
    switch (code) {
    case 0x00: break; /* nop */
    case 0x02: machine->at += unwind_take(reader, 1) * entry->code_factor; break;
    case 0x03: machine->at += unwind_take(reader, 2) * entry->code_factor; break;
    case 0x04: machine->at += unwind_take(reader, 4) * entry->code_factor; break;
    case 0x05: /* offset_extended */
        number = unwind_take_unsigned(reader);
        save(machine, number, AT_OFFSET,
             (int64_t)unwind_take_unsigned(reader) * entry->data_factor);
        break;
    case 0x06: restore(machine, unwind_take_unsigned(reader)); break;
    case 0x07: save(machine, unwind_take_unsigned(reader), NOWHERE, 0); break;
    case 0x08: save(machine, unwind_take_unsigned(reader), SAME, 0); break;
    case 0x09: /* in another register */
    case 0x14: /* val_offset, val_offset_sf, val_expression: no address, but the value itself */
    case 0x15:
        save(machine, unwind_take_unsigned(reader), ELSEWHERE, 0);
        unwind_take_unsigned(reader);
        break;
    case 0x16:
        save(machine, unwind_take_unsigned(reader), ELSEWHERE, 0);
        unwind_take_block(reader);
        break;
    case 0x0a: remember_row(machine); break;
    case 0x0b: restore_row(machine); break;
    case 0x0c:
        number = unwind_take_unsigned(reader);
        unwind_set_end(machine, number, (int64_t)unwind_take_unsigned(reader));
        break;
    case 0x0d: unwind_set_end(machine, unwind_take_unsigned(reader), machine->now.offset); break;
    case 0x0e:
        unwind_set_end(machine, machine->now.base, (int64_t)unwind_take_unsigned(reader));
        break;
    case 0x0f: machine->now.expression = take_expression(reader); break;
    case 0x10:
        number = unwind_take_unsigned(reader);
        save_by_expression(machine, number, take_expression(reader));
        break;
    case 0x11:
        number = unwind_take_unsigned(reader);
        save(machine, number, AT_OFFSET, unwind_take_signed(reader) * entry->data_factor);
        break;
    case 0x12:
        number = unwind_take_unsigned(reader);
        unwind_set_end(machine, number, unwind_take_signed(reader) * entry->data_factor);
        break;
    case 0x13:
        unwind_set_end(machine, machine->now.base, unwind_take_signed(reader) * entry->data_factor);
        break;
    case 0x2d: break; /* the return address is signed from here on, or no more */
    case 0x2e: unwind_take_unsigned(reader); break; /* how many bytes of arguments there are */
    default: machine->is_wrong = true;
    }
}

/* Carries out instructions up to the row of `address`. */
static void unwind_carry_out(struct machine *machine, struct unwind_reader reader,
                             const struct entry *entry, uintptr_t address)
{
    while (reader.at < reader.end && !machine->is_wrong && machine->at <= address) {
        const unsigned byte = (unsigned)unwind_take(&reader, 1), operand = byte & 0x3f;
        switch (byte >> 6) {
        case 1: machine->at += operand * entry->code_factor; break;
        case 2:
            save(machine, operand, AT_OFFSET,
                 (int64_t)unwind_take_unsigned(&reader) * entry->data_factor);
            break;
        case 3: restore(machine, operand); break;
        default: carry_out_other(machine, &reader, entry, byte);
        }
    }
}

/* ---- rules ---- */

static struct unwind_reader read_expression(struct unwind_source *source,
                                            struct expression expression)
{
    return (struct unwind_reader){expression.at, expression.at + expression.bytes, source};
}

static bool is_expression(struct unwind_source *source, struct expression expression,
                          const char *bytes, size_t count)
{
    struct unwind_reader reader = read_expression(source, expression);
    if (expression.bytes != count) return false;
    while (count > 0 && unwind_take(&reader, 1) == (uint8_t)*bytes)
        bytes++, count--;
    return count == 0;
}

/* Takes a register (breg0 is 0x70) and an offset. */
static bool takes_register(struct unwind_reader *expression, unsigned number, int64_t *offset)
{
    if (unwind_take(expression, 1) != 0x70 + number) return false;
    *offset = unwind_take_signed(expression);
    return true;
}

static bool fits_offset(int64_t offset)
{
    return offset >= -(INT64_C(1) << 27) && offset < INT64_C(1) << 27;
}

/* The offset in words; `*fits` becomes false if a rule cannot have it. */
static int64_t unwind_words(const struct saved *saved, bool *fits)
{
    if (saved->where == SAME) return 0;
    *fits = *fits && saved->where == AT_OFFSET && saved->offset % 8 == 0 && saved->offset != 0 &&
            saved->offset / 8 > UNWIND_BX_ELSEWHERE && saved->offset / 8 < 0x8000;
    return *fits ? saved->offset / 8 : 0;
}

/* The same where the frame's end is not at a known distance. */
static int64_t words_from_bp(struct unwind_source *source, const struct saved *saved, bool *fits)
{
    struct saved from_bp = {.where = AT_OFFSET};
    struct unwind_reader rest = read_expression(source, saved->expression);
    if (saved->where == BY_EXPRESSION && takes_register(&rest, UNWIND_NUMBER_BP, &from_bp.offset) &&
        rest.at == rest.end)
        return unwind_words(&from_bp, fits);
    *fits = saved->where == SAME;
    return 0;
}

/* What GNU ld writes for a PLT: 16 bytes an entry, the second half with a word more on the stack. */
static bool is_plt(struct unwind_source *source, struct expression expression,
                   struct unwind_rule *rule)
{
    static const char before[] = "\x77\x08\x80\x00\x3f\x1a", behind[] = "\x2a\x33\x24\x22";
    char bytes[11];
    if (expression.bytes != sizeof bytes ||
        !unwind_read_bytes(source, expression.at, bytes, sizeof bytes) ||
        memcmp(bytes, before, 6) != 0 || memcmp(bytes + 7, behind, 4) != 0)
        return false;
    *rule = (struct unwind_rule){.how = UNWIND_PLT, .offset = (bytes[6] - 0x30) & 15};
    return true;
}

static bool is_signal_frame(struct unwind_source *source, const struct row *row,
                            const struct entry *entry)
{
    return entry->is_signal && row->bp.where == BY_EXPRESSION && row->pc.where == BY_EXPRESSION &&
           is_expression(source, row->expression, "\x77\xa0\x01\x06", 4) &&
           is_expression(source, row->bp.expression, "\x77\xf8\x00", 3) &&
           is_expression(source, row->pc.expression, "\x77\xa8\x01", 3);
}

/* The frame's end by an expression, of which few forms are understood. */
static struct unwind_rule rule_by_expression(struct unwind_source *source, const struct row *row,
                                             const struct entry *entry)
{
    struct unwind_rule rule = {.how = UNWIND_UNKNOWN};
    struct unwind_reader rest = read_expression(source, row->expression);
    int64_t offset;
    if (is_plt(source, row->expression, &rule)) return rule;
    if (is_signal_frame(source, row, entry)) return (struct unwind_rule){.how = UNWIND_SIGNAL};
    if (takes_register(&rest, UNWIND_NUMBER_BP, &offset) && unwind_take(&rest, 1) == 0x06 &&
        rest.at == rest.end && fits_offset(offset)) {
        rule.how = UNWIND_BP_SAYS;
        rule.offset = offset;
    }
    return rule;
}

/* The rule says where the return address is, too: saved, or still in its register. */
static struct unwind_rule rule_with_return(const struct row *row, struct unwind_rule rule,
                                           bool fits)
{
    const struct unwind_rule none = {.how = UNWIND_UNKNOWN};
    rule.bp = unwind_words(&row->bp, &fits);
    rule.bx = unwind_words(&row->pc, &fits);
    if (!fits || (rule.bx == 0 && rule.how != UNWIND_SP)) return none;
    if (rule.bx == 0) rule.how = UNWIND_BX;
    return rule;
}

static struct unwind_rule rule_of(struct unwind_source *source, const struct row *row,
                                  const struct entry *entry)
{
    const struct unwind_rule none = {.how = UNWIND_UNKNOWN};
    struct unwind_rule rule = none;
    bool fits = true, bx_fits = true;
    if (row->pc.where == NOWHERE) return (struct unwind_rule){.how = UNWIND_OUTERMOST};
    if (row->expression.at) {
        rule = rule_by_expression(source, row, entry);
        if (rule.how != UNWIND_BP_SAYS) return rule;
    } else {
        rule.how = row->base == UNWIND_NUMBER_SP   ? UNWIND_SP
                   : row->base == UNWIND_NUMBER_BP ? UNWIND_BP
                   : row->base == UNWIND_NUMBER_BX ? UNWIND_BX
                                                   : UNWIND_UNKNOWN;
        rule.offset = row->offset;
        fits = fits_offset(row->offset);
    }
    if (!UNWIND_RETURN_OFFSET) return rule_with_return(row, rule, fits);
    if (row->pc.where != AT_OFFSET || row->pc.offset != UNWIND_RETURN_OFFSET) return none;
    rule.bp_at_bp = rule.how != UNWIND_SP && rule.how != UNWIND_BP &&
                    row->bp.where == BY_EXPRESSION &&
                    is_expression(source, row->bp.expression, "\x76\x00", 2);
    rule.bp = rule.bp_at_bp ? 0 : unwind_words(&row->bp, &fits);
    rule.bx = rule.how == UNWIND_BP_SAYS ? words_from_bp(source, &row->bx, &bx_fits)
                                         : unwind_words(&row->bx, &bx_fits);
    if (!bx_fits) rule.bx = UNWIND_BX_ELSEWHERE;
    return fits ? rule : none;
}

/* A stack may have any address: the code is read only if it can be. */
static struct unwind_rule rule_without_table(struct unwind_memory *memory, uintptr_t pc)
{
    uint32_t code[UNWIND_SIGNAL_CODE_BYTES / sizeof(uint32_t) + 1];
    const bool ends_signal = UNWIND_SIGNAL_CODE_BYTES > 0 && pc % 4 == 0 &&
                             unwind_memory_copy(memory, pc, code, UNWIND_SIGNAL_CODE_BYTES) &&
                             unwind_ends_signal(code);
    return (struct unwind_rule){.how = ends_signal ? UNWIND_SIGNAL : UNWIND_UNKNOWN};
}

static struct unwind_rule compile(struct unwind_source *source, uintptr_t pc)
{
    const uintptr_t address = pc - 1;
    struct machine machine;
    struct entry entry;
    uintptr_t next;
    if (!find_entry(source, pc, &entry, &next)) return rule_without_table(source->memory, pc);
    /* No call returns to a function's first byte: whoever made the stack put that at its end. */
    if (entry.first == pc && !(find_entry(source, address, &entry, &next) && address < entry.end))
        return (struct unwind_rule){.how = UNWIND_OUTERMOST};
    if (address >= entry.end)
        return next - entry.end < GENERATED_BYTES ? rule_without_table(source->memory, pc)
                                                  : unwind_guess;
    memset(&machine, 0, offsetof(struct machine, remembered));
    machine.remembered_count = 0;
    machine.is_wrong = false;
    machine.at = 0;
    unwind_carry_out(&machine, entry.common, &entry, address);
    machine.initial = machine.now;
    machine.at = entry.first;
    unwind_carry_out(&machine, entry.own, &entry, address);
    if (machine.is_wrong) return (struct unwind_rule){.how = UNWIND_UNKNOWN};
    return rule_of(source, &machine.now, &entry);
}

struct unwind_rule unwind_compile(struct unwind_memory *memory, const struct unwind_object *object,
                                  uintptr_t pc)
{
    struct unwind_source source = {memory, object, false};
    const struct unwind_rule rule = compile(&source, pc);
    return source.is_cut ? (struct unwind_rule){.how = UNWIND_UNKNOWN} : rule;
}

bool unwind_function(struct unwind_memory *memory, const struct unwind_object *object,
                     uintptr_t address, uintptr_t *start, uintptr_t *end)
{
    struct unwind_source source = {memory, object, false};
    struct entry entry;
    uintptr_t next;
    if (!find_entry(&source, address, &entry, &next) || source.is_cut) return false;
    *start = entry.first;
    *end = entry.end;
    return address >= entry.first && address < entry.end;
}
