/* unwind - see unwind.h. The format is that of the Linux Standard Base, "Exception Frames", and of
 * DWARF's call frame information. */
#include "tracing/stacks/unwind.h"

#include "tracing/os/os.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#define PAGE_BYTES      4096u /* or a part of a page */
/* Pages that are farther away are not joined with what is known to be readable. */
#define KNOWN_FAR_PAGES 64u

/* A part of an object this large without a table is generated code: that of node has 1.6 MiB,
 * assembly in libcrypto 150 KiB. */
#define GENERATED_BYTES ((uintptr_t)512 << 10)
/* The largest frame of generated code. */
#define GUESS_BYTES_MAX ((uintptr_t)32 << 10)
/* Generated code calls other such code that is not farther away. */
#define GENERATED_FAR   ((uintptr_t)1 << 30)
/* An address no farther away is on the same stack. */
#define STACK_FAR       ((uintptr_t)8 << 20)

/* --- objects --- */

/* Weak, because an older C library does not have it. */
extern int _dl_find_object(void *address, struct dl_find_object *result) __attribute__((weak));

bool unwind_can_find(void)
{
    return _dl_find_object != NULL;
}

/* For a program with holes between its segments, such as node, the C library reports only where the
 * code is. The program headers tell where all of it is; that must include the table. */
static void widen(struct unwind_object *object)
{
    const uintptr_t table = (uintptr_t)object->table, headers = getauxval(AT_PHDR);
    const Elf64_Phdr *segment = (const Elf64_Phdr *)headers;
    if ((table >= object->start && table < object->end) || !table || *object->path || !headers)
        return;
    uintptr_t start = headers & ~(uintptr_t)(PAGE_BYTES - 1), end = object->end;
    for (uint64_t i = getauxval(AT_PHNUM); i > 0; i--, segment++)
        if (segment->p_type == PT_LOAD && object->bias + segment->p_vaddr + segment->p_memsz > end)
            end = object->bias + segment->p_vaddr + segment->p_memsz;
    if (start > object->start || table < start || table >= end) return;
    object->start = start;
    object->end = end;
}

bool unwind_find(uintptr_t address, struct unwind_object *object)
{
    struct dl_find_object found;
    if (!_dl_find_object || _dl_find_object((void *)address, &found) != 0) return false;
    *object = (struct unwind_object){.start = (uintptr_t)found.dlfo_map_start,
                                     .end = (uintptr_t)found.dlfo_map_end,
                                     .bias = found.dlfo_link_map->l_addr,
                                     .path = found.dlfo_link_map->l_name,
                                     .id = found.dlfo_link_map,
                                     .table = found.dlfo_eh_frame};
    widen(object);
    return true;
}

/* --- bytes of a table --- */

/* Reads on; past the end it reads zeros. */
struct reader {
    const uint8_t *at, *end;
};

static uint64_t take(struct reader *reader, unsigned bytes)
{
    uint64_t value = 0;
    if ((size_t)(reader->end - reader->at) < bytes) {
        reader->at = reader->end;
        return 0;
    }
    memcpy(&value, reader->at, bytes);
    reader->at += bytes;
    return value;
}

/* LEB128; `bits`: how many bits it had. */
static uint64_t take_leb128(struct reader *reader, unsigned *bits)
{
    uint64_t value = 0;
    unsigned byte;
    *bits = 0;
    do {
        byte = (unsigned)take(reader, 1);
        if (*bits < 64) value |= (uint64_t)(byte & 0x7f) << *bits;
        *bits += 7;
    } while (byte & 0x80);
    return value;
}

static uint64_t take_unsigned(struct reader *reader)
{
    unsigned bits;
    return take_leb128(reader, &bits);
}

static int64_t take_signed(struct reader *reader)
{
    unsigned bits;
    uint64_t value = take_leb128(reader, &bits);
    if (bits < 64 && value >> (bits - 1) & 1) value |= ~UINT64_C(0) << bits;
    return (int64_t)value;
}

static struct reader take_block(struct reader *reader)
{
    uint64_t bytes = take_unsigned(reader);
    struct reader block = {reader->at, reader->at};
    if (bytes > (size_t)(reader->end - reader->at)) bytes = (size_t)(reader->end - reader->at);
    reader->at += bytes;
    block.end = reader->at;
    return block;
}

/* A pointer in the encoding of DW_EH_PE_...; `relative`: it may be relative to its own address. */
static uint64_t take_encoded(struct reader *reader, unsigned encoding, bool relative)
{
    const uintptr_t here = (uintptr_t)reader->at;
    uint64_t value;
    switch (encoding & 0x0f) {
    case 0x01: value = take_unsigned(reader); break;
    case 0x02: value = take(reader, 2); break;
    case 0x03: value = take(reader, 4); break;
    case 0x09: value = (uint64_t)take_signed(reader); break;
    case 0x0a: value = (uint64_t)(int16_t)take(reader, 2); break;
    case 0x0b: value = (uint64_t)(int32_t)take(reader, 4); break;
    default: value = take(reader, 8);
    }
    return relative && (encoding & 0x70) == 0x10 ? value + here : value;
}

/* --- entries of the table --- */

struct entry {                 /* FDE, and what its CIE says */
    struct reader common, own; /* instructions */
    uintptr_t first, end;      /* of the function's code */
    uint64_t code_factor;
    int64_t data_factor;
    bool is_signal;
};

struct augmentation {
    unsigned encoding; /* of addresses in the FDE */
    bool has_length;   /* the FDE's augmentation begins with its length */
};

/* An entry begins with its length; false: it has none. */
static bool begin_entry(const uint8_t *at, const struct unwind_object *object,
                        struct reader *reader)
{
    *reader = (struct reader){at, (const uint8_t *)object->end};
    if ((uintptr_t)at < object->start || (uintptr_t)at >= object->end) return false;
    uint64_t bytes = take(reader, 4);
    if (bytes == 0xffffffff) bytes = take(reader, 8);
    if (bytes == 0 || bytes > (size_t)(reader->end - reader->at)) return false;
    reader->end = reader->at + bytes;
    return true;
}

static bool read_common(const uint8_t *at, const struct unwind_object *object, struct entry *entry,
                        struct augmentation *augmentation)
{
    struct reader reader;
    if (!begin_entry(at, object, &reader) || take(&reader, 4) != 0) return false;
    const uint64_t version = take(&reader, 1);
    if (version != 1 && version != 3) return false;
    const char *letter = (const char *)reader.at;
    while (reader.at < reader.end && take(&reader, 1))
        continue;
    entry->code_factor = take_unsigned(&reader);
    entry->data_factor = take_signed(&reader);
    uint64_t address = version == 1 ? take(&reader, 1) : take_unsigned(&reader);
    if (address != UNWIND_NUMBER_PC) return false;
    augmentation->has_length = *letter == 'z';
    entry->common = reader;
    if (!augmentation->has_length) return *letter == 0;
    struct reader more = take_block(&reader);
    entry->common = reader;
    for (letter++; *letter; letter++) {
        switch (*letter) {
        case 'R': augmentation->encoding = (unsigned)take(&more, 1); break;
        case 'L': take(&more, 1); break;
        case 'P': take_encoded(&more, (unsigned)take(&more, 1), false); break;
        case 'S': entry->is_signal = true; break;
        case 'B': break; /* by which key return addresses are signed */
        default: return false;
        }
    }
    return true;
}

static bool read_entry(const uint8_t *at, const struct unwind_object *object, struct entry *entry)
{
    struct augmentation augmentation = {0, false};
    struct reader reader;
    *entry = (struct entry){.is_signal = false};
    if (!begin_entry(at, object, &reader)) return false;
    const uint8_t *here = reader.at;
    const uint64_t back = take(&reader, 4);
    if (back == 0 || !read_common(here - back, object, entry, &augmentation)) return false;
    entry->first = take_encoded(&reader, augmentation.encoding, true);
    entry->end = entry->first + take_encoded(&reader, augmentation.encoding & 0x0f, false);
    if (augmentation.has_length) take_block(&reader);
    entry->own = reader;
    return true;
}

/* The last entry that begins at or before this address, by the sorted index that linkers make.
 * `*next`: where the one after it begins. */
static bool find_entry(const struct unwind_object *object, uintptr_t address, struct entry *entry,
                       uintptr_t *next)
{
    enum { VERSION = 1, POINTER = 0x1b, COUNT = 0x03, INDEX = 0x3b };
    const uint8_t *table = object->table;
    int32_t pair[2];
    uint32_t low = 0, count;
    if (!table || table[0] != VERSION || table[1] != POINTER || table[2] != COUNT ||
        table[3] != INDEX)
        return false;
    memcpy(&count, table + 8, sizeof count);
    const uint32_t all = count;
    const uint8_t *index = table + 12;
    const intptr_t wanted = (intptr_t)(address - (uintptr_t)table);
    while (count > 1) {
        memcpy(pair, index + (low + count / 2) * sizeof pair, sizeof pair);
        if (pair[0] <= wanted) low += count / 2;
        count = pair[0] <= wanted ? count - count / 2 : count / 2;
    }
    if (count == 0) return false;
    *next = object->end;
    if (low + 1 < all) {
        memcpy(pair, index + (low + 1) * sizeof pair, sizeof pair);
        *next = (uintptr_t)table + (uintptr_t)(intptr_t)pair[0];
    }
    memcpy(pair, index + low * sizeof pair, sizeof pair);
    return read_entry(table + pair[1], object, entry);
}

/* --- instructions --- */

enum where { SAME = 0, AT_OFFSET, BY_EXPRESSION, NOWHERE, ELSEWHERE };

struct saved {
    enum where where;
    int64_t offset; /* from the frame's end */
    struct reader expression;
};

struct row {
    uint64_t base; /* the frame's end: this register and an offset, or an expression */
    int64_t offset;
    struct reader expression;
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
    if (saved) *saved = (struct saved){.where = where, .offset = offset};
}

static void restore(struct machine *machine, uint64_t number)
{
    struct saved *saved = saved_of(&machine->now, number);
    if (saved) *saved = *saved_of(&machine->initial, number);
}

static void save_by_expression(struct machine *machine, uint64_t number, struct reader expression)
{
    struct saved *saved = saved_of(&machine->now, number);
    if (saved) *saved = (struct saved){.where = BY_EXPRESSION, .expression = expression};
}

static void set_end(struct machine *machine, uint64_t base, int64_t offset)
{
    machine->now.base = base;
    machine->now.offset = offset;
    machine->now.expression.at = NULL;
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
static void carry_out_other(struct machine *machine, struct reader *reader,
                            const struct entry *entry, unsigned code)
{
    uint64_t number;
    switch (code) {
    case 0x00: break; /* nop */
    case 0x02: machine->at += take(reader, 1) * entry->code_factor; break;
    case 0x03: machine->at += take(reader, 2) * entry->code_factor; break;
    case 0x04: machine->at += take(reader, 4) * entry->code_factor; break;
    case 0x05: /* offset_extended */
        number = take_unsigned(reader);
        save(machine, number, AT_OFFSET, (int64_t)take_unsigned(reader) * entry->data_factor);
        break;
    case 0x06: restore(machine, take_unsigned(reader)); break;
    case 0x07: save(machine, take_unsigned(reader), NOWHERE, 0); break;
    case 0x08: save(machine, take_unsigned(reader), SAME, 0); break;
    case 0x09: /* in another register */
    case 0x14: /* val_offset, val_offset_sf, val_expression: no address, but the value itself */
    case 0x15:
        save(machine, take_unsigned(reader), ELSEWHERE, 0);
        take_unsigned(reader);
        break;
    case 0x16:
        save(machine, take_unsigned(reader), ELSEWHERE, 0);
        take_block(reader);
        break;
    case 0x0a: remember_row(machine); break;
    case 0x0b: restore_row(machine); break;
    case 0x0c:
        number = take_unsigned(reader);
        set_end(machine, number, (int64_t)take_unsigned(reader));
        break;
    case 0x0d: set_end(machine, take_unsigned(reader), machine->now.offset); break;
    case 0x0e: set_end(machine, machine->now.base, (int64_t)take_unsigned(reader)); break;
    case 0x0f: machine->now.expression = take_block(reader); break;
    case 0x10:
        number = take_unsigned(reader);
        save_by_expression(machine, number, take_block(reader));
        break;
    case 0x11:
        number = take_unsigned(reader);
        save(machine, number, AT_OFFSET, take_signed(reader) * entry->data_factor);
        break;
    case 0x12:
        number = take_unsigned(reader);
        set_end(machine, number, take_signed(reader) * entry->data_factor);
        break;
    case 0x13: set_end(machine, machine->now.base, take_signed(reader) * entry->data_factor); break;
    case 0x2d: break; /* the return address is signed from here on, or no more */
    case 0x2e: take_unsigned(reader); break; /* how many bytes of arguments there are */
    default: machine->is_wrong = true;
    }
}

/* Carries out instructions up to the row of `address`. */
static void carry_out(struct machine *machine, struct reader reader, const struct entry *entry,
                      uintptr_t address)
{
    while (reader.at < reader.end && !machine->is_wrong && machine->at <= address) {
        const unsigned byte = (unsigned)take(&reader, 1), operand = byte & 0x3f;
        switch (byte >> 6) {
        case 1: machine->at += operand * entry->code_factor; break;
        case 2:
            save(machine, operand, AT_OFFSET, (int64_t)take_unsigned(&reader) * entry->data_factor);
            break;
        case 3: restore(machine, operand); break;
        default: carry_out_other(machine, &reader, entry, byte);
        }
    }
}

/* --- rules --- */

static bool is_expression(struct reader expression, const char *bytes, size_t count)
{
    return (size_t)(expression.end - expression.at) == count &&
           memcmp(expression.at, bytes, count) == 0;
}

/* Takes a register (breg0 is 0x70) and an offset. */
static bool takes_register(struct reader *expression, unsigned number, int64_t *offset)
{
    if (take(expression, 1) != 0x70 + number) return false;
    *offset = take_signed(expression);
    return true;
}

static bool fits_offset(int64_t offset)
{
    return offset >= -(INT64_C(1) << 27) && offset < INT64_C(1) << 27;
}

/* The offset in words; `*fits` becomes false if a rule cannot have it. */
static int64_t words(const struct saved *saved, bool *fits)
{
    if (saved->where == SAME) return 0;
    *fits = *fits && saved->where == AT_OFFSET && saved->offset % 8 == 0 && saved->offset != 0 &&
            saved->offset / 8 > UNWIND_BX_ELSEWHERE && saved->offset / 8 < 0x8000;
    return *fits ? saved->offset / 8 : 0;
}

/* The same where the frame's end is not at a known distance. */
static int64_t words_from_bp(const struct saved *saved, bool *fits)
{
    struct saved from_bp = {.where = AT_OFFSET};
    struct reader rest = saved->expression;
    if (saved->where == BY_EXPRESSION && takes_register(&rest, UNWIND_NUMBER_BP, &from_bp.offset) &&
        rest.at == rest.end)
        return words(&from_bp, fits);
    *fits = saved->where == SAME;
    return 0;
}

/* What GNU ld writes for a PLT: 16 bytes an entry, the second half with a word more on the stack. */
static bool is_plt(struct reader expression, struct unwind_rule *rule)
{
    static const char before[] = "\x77\x08\x80\x00\x3f\x1a", behind[] = "\x2a\x33\x24\x22";
    if (expression.end - expression.at != 11 || memcmp(expression.at, before, 6) != 0 ||
        memcmp(expression.at + 7, behind, 4) != 0)
        return false;
    *rule = (struct unwind_rule){.how = UNWIND_PLT, .offset = (expression.at[6] - 0x30) & 15};
    return true;
}

static bool is_signal_frame(const struct row *row, const struct entry *entry)
{
    return entry->is_signal && is_expression(row->expression, "\x77\xa0\x01\x06", 4) &&
           row->bp.where == BY_EXPRESSION && is_expression(row->bp.expression, "\x77\xf8\x00", 3) &&
           row->pc.where == BY_EXPRESSION && is_expression(row->pc.expression, "\x77\xa8\x01", 3);
}

/* The frame's end by an expression, of which few forms are understood. */
static struct unwind_rule rule_by_expression(const struct row *row, const struct entry *entry)
{
    struct unwind_rule rule = {.how = UNWIND_UNKNOWN};
    struct reader rest = row->expression;
    int64_t offset;
    if (is_plt(row->expression, &rule)) return rule;
    if (is_signal_frame(row, entry)) return (struct unwind_rule){.how = UNWIND_SIGNAL};
    if (takes_register(&rest, UNWIND_NUMBER_BP, &offset) && take(&rest, 1) == 0x06 &&
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
    rule.bp = words(&row->bp, &fits);
    rule.bx = words(&row->pc, &fits);
    if (!fits || (rule.bx == 0 && rule.how != UNWIND_SP)) return none;
    if (rule.bx == 0) rule.how = UNWIND_BX;
    return rule;
}

static struct unwind_rule rule_of(const struct row *row, const struct entry *entry)
{
    const struct unwind_rule none = {.how = UNWIND_UNKNOWN};
    struct unwind_rule rule = none;
    bool fits = true, bx_fits = true;
    if (row->pc.where == NOWHERE) return (struct unwind_rule){.how = UNWIND_OUTERMOST};
    if (row->expression.at) {
        rule = rule_by_expression(row, entry);
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
                    is_expression(row->bp.expression, "\x76\x00", 2);
    rule.bp = rule.bp_at_bp ? 0 : words(&row->bp, &fits);
    rule.bx =
        rule.how == UNWIND_BP_SAYS ? words_from_bp(&row->bx, &bx_fits) : words(&row->bx, &bx_fits);
    if (!bx_fits) rule.bx = UNWIND_BX_ELSEWHERE;
    return fits ? rule : none;
}

/* A stack may have any address: the code is read only if it can be. */
static struct unwind_rule rule_without_table(uintptr_t pc)
{
    const uintptr_t last = pc + UNWIND_SIGNAL_CODE_BYTES - 1;
    const bool ends_signal = UNWIND_SIGNAL_CODE_BYTES > 0 && pc % 4 == 0 &&
                             os_memory_is_readable((const void *)(pc & ~(uintptr_t)7)) &&
                             os_memory_is_readable((const void *)(last & ~(uintptr_t)7)) &&
                             unwind_ends_signal((const uint32_t *)pc);
    return (struct unwind_rule){.how = ends_signal ? UNWIND_SIGNAL : UNWIND_UNKNOWN};
}

struct unwind_rule unwind_compile(const struct unwind_object *object, uintptr_t pc)
{
    const struct unwind_rule none = {.how = UNWIND_UNKNOWN};
    const uintptr_t address = pc - 1;
    struct machine machine;
    struct entry entry;
    uintptr_t next;
    if (!find_entry(object, pc, &entry, &next)) return rule_without_table(pc);
    /* No call returns to a function's first byte: whoever made the stack put that at its end. */
    if (entry.first == pc && !(find_entry(object, address, &entry, &next) && address < entry.end))
        return (struct unwind_rule){.how = UNWIND_OUTERMOST};
    if (address >= entry.end)
        return next - entry.end < GENERATED_BYTES ? rule_without_table(pc) : unwind_guess;
    memset(&machine, 0, offsetof(struct machine, remembered));
    machine.remembered_count = 0;
    machine.is_wrong = false;
    machine.at = 0;
    carry_out(&machine, entry.common, &entry, address);
    machine.initial = machine.now;
    machine.at = entry.first;
    carry_out(&machine, entry.own, &entry, address);
    return machine.is_wrong ? none : rule_of(&machine.now, &entry);
}

/* --- steps --- */

static uintptr_t page_of(uintptr_t address)
{
    return address & ~(uintptr_t)(PAGE_BYTES - 1);
}

static bool are_readable(uintptr_t page, uintptr_t end)
{
    while (page != end && os_memory_is_readable((const void *)page))
        page += PAGE_BYTES;
    return page == end;
}

/* Adds the page, and those in between, to the memory that is known to be readable. If it is too far
 * away, nothing else is known afterwards. */
static void know(struct unwind_stack *stack, uintptr_t page)
{
    const uintptr_t end = page + PAGE_BYTES, far = KNOWN_FAR_PAGES * PAGE_BYTES;
    if (end > stack->limit) return;
    if (page >= stack->to && page - stack->to < far && are_readable(stack->to, page))
        stack->to = end;
    else if (end <= stack->from && stack->from - end < far && are_readable(end, stack->from))
        stack->from = page;
    else
        *stack = (struct unwind_stack){page, end, stack->limit};
}

/* The C library puts what belongs to a thread at the upper end of its stack, that of the first one
 * elsewhere. */
void unwind_stack_begin(struct unwind_stack *stack, uintptr_t sp)
{
    const uintptr_t thread = (uintptr_t)__builtin_thread_pointer();
    const uintptr_t limit = sp < thread ? page_of(thread) + PAGE_BYTES : UINTPTR_MAX;
    if (stack->limit != limit) *stack = (struct unwind_stack){.limit = limit};
    know(stack, page_of(sp));
}

bool unwind_load_far(struct unwind_stack *stack, uintptr_t address, uintptr_t *word)
{
    if (address % 8 || !os_memory_is_readable((const void *)address)) return false;
    *word = *(const uintptr_t *)address;
    know(stack, page_of(address));
    return true;
}

static bool step_out_of_signal(struct unwind_stack *stack, uintptr_t sp,
                               struct unwind_frame *caller, uintptr_t *bx)
{
    if (!unwind_load(stack, sp + UNWIND_SIGNAL_PC, &caller->pc) ||
        !unwind_load(stack, sp + UNWIND_SIGNAL_SP, &caller->sp) ||
        !unwind_load(stack, sp + UNWIND_SIGNAL_BP, &caller->bp) ||
        (bx && !unwind_load(stack, sp + UNWIND_SIGNAL_BX, bx)))
        return false;
    caller->pc++;
    return caller->pc != 1;
}

/* The caller's registers where the frame's end is known. */
static bool step_to(struct unwind_rule rule, struct unwind_stack *stack, uintptr_t end,
                    const struct unwind_frame *frame, struct unwind_frame *caller, uintptr_t *bx)
{
    const uintptr_t bp_at = rule.bp_at_bp ? frame->bp : end + (uintptr_t)(int64_t)rule.bp * 8;
    if (end <= frame->sp || (rule.bp_at_bp && bp_at < frame->sp) ||
        !unwind_load(stack, unwind_return_at(rule, end), &caller->pc))
        return false;
    caller->pc = unwind_code_address(caller->pc);
    caller->sp = end;
    caller->bp = frame->bp;
    if ((rule.bp || rule.bp_at_bp) && !unwind_load(stack, bp_at, &caller->bp)) return false;
    if (bx && rule.bx &&
        !unwind_load_bx(rule, stack, rule.how == UNWIND_BP_SAYS ? frame->bp : end, bx))
        return false;
    return caller->pc != 0;
}

/* The return address is still in its register; what the caller's was, nobody knows. */
static bool step_by_register(struct unwind_rule rule, struct unwind_stack *stack,
                             const struct unwind_frame *frame, struct unwind_frame *caller,
                             uintptr_t *bx)
{
    const uintptr_t end = frame->sp + (uintptr_t)(int64_t)rule.offset;
    *caller = (struct unwind_frame){unwind_code_address(*bx), end, frame->bp};
    *bx = 0;
    return end >= frame->sp && caller->pc != 0 &&
           (!rule.bp || unwind_load(stack, end + (uintptr_t)(int64_t)rule.bp * 8, &caller->bp));
}

const struct unwind_rule unwind_guess = UNWIND_GUESS;

/* Whether the instruction before `pc` is a call. Copies it: generated code may go at any time. */
static bool is_behind_call(uintptr_t pc)
{
    uint8_t code[UNWIND_CALL_BYTES_MAX + 1]; /* one more, which may be read, but is not known */
    code[UNWIND_CALL_BYTES_MAX] = 0;
    return os_memory_copy(code, (const void *)(pc - UNWIND_CALL_BYTES_MAX),
                          UNWIND_CALL_BYTES_MAX) &&
           unwind_is_behind_call(code + UNWIND_CALL_BYTES_MAX);
}

/* Whether this word of the frame may be a return address: then the frame may end there, and the
 * frame pointer belong to a function further out. (An earlier call may also have left it.) */
static bool may_be_return_address(struct unwind_stack *stack, const struct unwind_frame *frame,
                                  uintptr_t at)
{
    struct unwind_object object;
    uintptr_t word;
    if (!unwind_load(stack, at, &word)) return true;
    if (word - frame->sp < STACK_FAR) return false;
    const bool is_near = word - frame->pc < GENERATED_FAR || frame->pc - word < GENERATED_FAR;
    return (is_near || unwind_find(word - 1, &object)) && is_behind_call(word);
}

static bool step_by_guess(struct unwind_stack *stack, const struct unwind_frame *frame,
                          struct unwind_frame *caller)
{
    if (frame->sp % 8 || frame->bp % 8 || frame->bp < frame->sp ||
        frame->bp - frame->sp > GUESS_BYTES_MAX ||
        (frame->sp < stack->limit && frame->bp >= stack->limit - 16) || !is_behind_call(frame->pc))
        return false;
    for (uintptr_t at = frame->sp; at < frame->bp; at += 8)
        if (may_be_return_address(stack, frame, at)) return false;
    caller->sp = frame->bp + 16;
    return unwind_load(stack, frame->bp, &caller->bp) &&
           unwind_load(stack, frame->bp + 8, &caller->pc) && is_behind_call(caller->pc);
}

bool unwind_step_rarely(struct unwind_rule rule, struct unwind_stack *stack,
                        const struct unwind_frame *frame, struct unwind_frame *caller,
                        uintptr_t *bx)
{
    uintptr_t end = 0;
    switch (rule.how) {
    case UNWIND_SIGNAL: return step_out_of_signal(stack, frame->sp, caller, bx);
    case UNWIND_PLT:
        if (unwind_is_guess(rule)) return !bx && step_by_guess(stack, frame, caller);
        end = frame->sp + ((frame->pc - 1) % 16 >= (uintptr_t)(int64_t)rule.offset ? 16 : 8);
        break;
    case UNWIND_BX:
        if (!bx) return false;
        if (!UNWIND_RETURN_OFFSET) return step_by_register(rule, stack, frame, caller, bx);
        end = *bx + (uintptr_t)(int64_t)rule.offset;
        break;
    case UNWIND_BP_SAYS:
        /* A word below the frame may be on another stack. */
        if (frame->bp + (uintptr_t)(int64_t)rule.offset < frame->sp ||
            !unwind_load(stack, frame->bp + (uintptr_t)(int64_t)rule.offset, &end))
            return false;
        break;
    default: return false;
    }
    return step_to(rule, stack, end, frame, caller, bx);
}
