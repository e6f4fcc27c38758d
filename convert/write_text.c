/* write_text - the text formats with one line for a call: memory_replay and mtrace(3). */
#include <stdlib.h>

#include "common/array.h"
#include "common/text.h"
#include "convert/export_writer.h"

enum { LINE_BYTES = 256 };

static void put_decimal(struct text *line, const char *before, uint64_t number)
{
    text_string(line, before);
    text_decimal(line, number);
}

static void put_hexadecimal(struct text *line, const char *before, uint64_t number)
{
    unsigned digits = 1;
    while (digits < 16 && number >> (4 * digits) != 0)
        digits++;
    text_string(line, before);
    text_string(line, "0x");
    while (digits-- > 0)
        text_character(line, "0123456789abcdef"[number >> (4 * digits) & 15]);
}

static bool write_line(struct export *export, struct text *line)
{
    text_character(line, '\n');
    return output_write(&export->output, line->to, line->used);
}

/* ---- addresses ---- */

/* Each register stands for two addresses: a realloc that moved goes from one to the other. */
struct addresses {
    uint8_t *second; /* by register: whether the object has the second one */
    size_t room;
};

static bool addresses_open(struct export *export)
{
    export->state = calloc(1, sizeof(struct addresses));
    return export->state != NULL || error_set_system(&export->error, "no memory");
}

static void addresses_close(struct export *export)
{
    struct addresses *addresses = export->state;
    if (addresses != NULL) free(addresses->second);
    free(addresses);
}

static bool addresses_reserve(struct export *export, uint32_t object)
{
    struct addresses *addresses = export->state;
    return array_reserve(&addresses->second, &addresses->room, (size_t)object + 1, 1) ||
           error_set_system(&export->error, "no memory");
}

static uint64_t address_of(const struct export *export, uint32_t object)
{
    const struct addresses *addresses = export->state;
    return UINT64_C(0x100000) + (uint64_t)object * 32 + (addresses->second[object] != 0 ? 16 : 0);
}

/* The old address of the object of a realloc. From then on it has its new address. */
static uint64_t take_old_address(struct export *export, const struct export_call *call)
{
    struct addresses *addresses = export->state;
    if (call->unknown) return 0;
    const uint64_t old = address_of(export, call->object);
    addresses->second[call->object] ^= call->kind == CALL_REALLOC_MOVED;
    return old;
}

/* ---- memory_replay ---- */

/* Puts an allocation without an alignment. */
static void text_put_allocation(struct text *line, struct export *export,
                                const struct export_call *call)
{
    const uint64_t address = address_of(export, call->object);
    if (call->kind == CALL_CALLOC) {
        put_hexadecimal(line, "calloc ", address);
        put_decimal(line, " 1 ", call->size);
    } else if (call->kind == CALL_REALLOC_NULL) {
        put_hexadecimal(line, "realloc ", address);
        put_decimal(line, " 0x0 ", call->size);
    } else {
        put_hexadecimal(line, "malloc ", address);
        put_decimal(line, " ", call->size);
        export->losses.kinds += call->kind != CALL_MALLOC;
    }
}

static void text_put_call(struct text *line, struct export *export, const struct export_call *call)
{
    uint64_t old;
    switch (call->shape) {
    case SHAPE_ALLOCATION: text_put_allocation(line, export, call); break;
    case SHAPE_ALLOCATION_ALIGNED:
        put_hexadecimal(line, "memalign ", address_of(export, call->object));
        put_decimal(line, " ", call->alignment);
        put_decimal(line, " ", call->size);
        export->losses.kinds += call->kind != CALL_MEMALIGN;
        break;
    case SHAPE_REALLOC:
        old = take_old_address(export, call);
        put_hexadecimal(line, "realloc ", address_of(export, call->object));
        put_hexadecimal(line, " ", old);
        put_decimal(line, " ", call->size);
        break;
    default:
        put_hexadecimal(line, "free ", address_of(export, call->object));
        export->losses.kinds += call->kind != CALL_FREE;
    }
}

static bool memory_replay_call(struct export *export, const struct export_call *call)
{
    char room[LINE_BYTES];
    struct text line = {room, 0, sizeof room};
    if (!addresses_reserve(export, call->object)) return false;
    put_decimal(&line, "", call->thread);
    text_string(&line, ": ");
    text_put_call(&line, export, call);
    put_decimal(&line, " ", call->ns);
    put_decimal(&line, " ", call->ns);
    return write_line(export, &line);
}

static bool memory_replay_thread_end(struct export *export, const struct export_call *where)
{
    char room[LINE_BYTES];
    struct text line = {room, 0, sizeof room};
    put_decimal(&line, "", where->thread);
    put_decimal(&line, ": thread_done 0x0 ", where->ns);
    return write_line(export, &line);
}

const struct export_writer export_memory_replay = {
    .name = "memory_replay",
    .title = "Android memory_replay",
    .loses = "memory of the original, how long calls took",
    .open = addresses_open,
    .call = memory_replay_call,
    .thread_end = memory_replay_thread_end,
    .close = addresses_close,
};

/* ---- mtrace(3) ---- */

static bool mtrace_open(struct export *export)
{
    return addresses_open(export) && output_write(&export->output, "= Start\n", 8);
}

static bool mtrace_call(struct export *export, const struct export_call *call)
{
    char room[LINE_BYTES];
    struct text line = {room, 0, sizeof room};
    const bool moved = call->shape == SHAPE_REALLOC && !call->unknown;
    const bool ends = call->shape >= SHAPE_FREE;
    if (!addresses_reserve(export, call->object)) return false;
    text_string(&line, "@ trace:[0x0] ");
    if (moved) {
        put_hexadecimal(&line, "< ", take_old_address(export, call));
        text_string(&line, "\n@ trace:[0x0] ");
    }
    if (call->shape == SHAPE_ALLOCATION_ALIGNED) export->losses.alignments++;
    export->losses.kinds += call->kind != CALL_MALLOC && call->kind != CALL_FREE && !moved;
    const char *mark = ends ? "- " : moved ? "> " : "+ ";
    put_hexadecimal(&line, mark, address_of(export, call->object));
    if (!ends) put_hexadecimal(&line, " ", call->size);
    return write_line(export, &line);
}

static bool mtrace_finish(struct export *export)
{
    return output_write(&export->output, "= End\n", 6);
}

const struct export_writer export_mtrace = {
    .name = "mtrace",
    .title = "mtrace(3) of the GNU C library",
    .loses = "threads, times, memory of the original",
    .open = mtrace_open,
    .call = mtrace_call,
    .finish = mtrace_finish,
    .close = addresses_close,
};
