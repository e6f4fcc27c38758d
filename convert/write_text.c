/* write_text - the text formats that take one line for a call: memory_replay and mtrace(3), and the
 * numbers in them. */
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "convert/export.h"

enum { LINE_BYTES = 256 };

char *export_put_text(char *to, const char *text)
{
    size_t bytes = strlen(text);
    memcpy(to, text, bytes);
    return to + bytes;
}

char *export_put_decimal(char *to, uint64_t number)
{
    struct text text = {to, 0, 24};
    text_decimal(&text, number);
    return to + text.used;
}

char *export_put_hexadecimal(char *to, uint64_t number)
{
    unsigned digits = 1;
    while (digits < 16 && number >> (4 * digits) != 0)
        digits++;
    to = export_put_text(to, "0x");
    while (digits-- > 0)
        *to++ = "0123456789abcdef"[number >> (4 * digits) & 15];
    return to;
}

/* ---- addresses ---- */

/* Each register stands for two addresses: a realloc that moved goes from one to the other. */
struct addresses {
    uint8_t *second; /* by register: whether the object has the second one */
    uint64_t room;
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
    if (object < addresses->room) return true;
    uint64_t room = 2 * (uint64_t)object + 1024;
    uint8_t *grown = realloc(addresses->second, room);
    if (grown == NULL) return error_set_system(&export->error, "no memory");
    memset(grown + addresses->room, 0, room - addresses->room);
    addresses->second = grown;
    addresses->room = room;
    return true;
}

static char *put_address(char *to, const struct export *export, uint32_t object)
{
    const struct addresses *addresses = export->state;
    return export_put_hexadecimal(to, UINT64_C(0x100000) + (uint64_t)object * 32 +
                                          (addresses->second[object] != 0 ? 16 : 0));
}

/* Where the object was, and then where it is. */
static char *put_old_address(char *to, struct export *export, const struct export_call *call)
{
    struct addresses *addresses = export->state;
    if (call->unknown) return export_put_text(to, "0x0");
    to = put_address(to, export, call->object);
    addresses->second[call->object] ^= call->kind == CALL_REALLOC_MOVED;
    return to;
}

static bool write_line(struct export *export, const char *line, char *end)
{
    *end++ = '\n';
    return output_write(&export->output, line, (size_t)(end - line));
}

/* ---- memory_replay ---- */

/* What stands before the address of a new object, and behind it. */
static void allocation_words(struct export *export, const struct export_call *call,
                             const char **before, const char **behind)
{
    *before = "malloc ";
    *behind = " ";
    if (call->kind == CALL_CALLOC) {
        *before = "calloc ";
        *behind = " 1 ";
    } else if (call->kind == CALL_REALLOC_NULL) {
        *before = "realloc ";
        *behind = " 0x0 ";
    } else {
        export->losses.kinds += call->kind != CALL_MALLOC;
    }
}

static char *put_operands(char *to, struct export *export, const struct export_call *call)
{
    const char *before, *behind;
    char old[LINE_BYTES], *old_end;
    switch (call->shape) {
    case SHAPE_ALLOCATION:
        allocation_words(export, call, &before, &behind);
        to = put_address(export_put_text(to, before), export, call->object);
        return export_put_decimal(export_put_text(to, behind), call->size);
    case SHAPE_ALLOCATION_ALIGNED:
        to = put_address(export_put_text(to, "memalign "), export, call->object);
        to = export_put_decimal(export_put_text(to, " "), call->alignment);
        export->losses.kinds += call->kind != CALL_MEMALIGN;
        return export_put_decimal(export_put_text(to, " "), call->size);
    case SHAPE_REALLOC:
        old_end = put_old_address(old, export, call);
        *old_end = '\0';
        to = put_address(export_put_text(to, "realloc "), export, call->object);
        to = export_put_text(export_put_text(to, " "), old);
        return export_put_decimal(export_put_text(to, " "), call->size);
    default:
        export->losses.kinds += call->kind != CALL_FREE;
        return put_address(export_put_text(to, "free "), export, call->object);
    }
}

static char *put_thread(char *to, const struct export_call *call)
{
    return export_put_text(export_put_decimal(to, call->thread), ": ");
}

static bool memory_replay_call(struct export *export, const struct export_call *call)
{
    char line[LINE_BYTES], *end = put_thread(line, call);
    if (!addresses_reserve(export, call->object)) return false;
    end = put_operands(end, export, call);
    end = export_put_decimal(export_put_text(end, " "), call->ns);
    end = export_put_decimal(export_put_text(end, " "), call->ns);
    return write_line(export, line, end);
}

static bool memory_replay_thread_end(struct export *export, const struct export_call *where)
{
    char line[LINE_BYTES], *end = export_put_text(put_thread(line, where), "thread_done 0x0 ");
    return write_line(export, line, export_put_decimal(end, where->ns));
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
    char line[LINE_BYTES], *end = export_put_text(line, "@ trace:[0x0] ");
    bool moved = call->shape == SHAPE_REALLOC && !call->unknown;
    if (!addresses_reserve(export, call->object)) return false;
    if (moved) {
        end = put_old_address(export_put_text(end, "< "), export, call);
        end = export_put_text(end, "\n@ trace:[0x0] ");
    }
    if (call->shape == SHAPE_ALLOCATION_ALIGNED) export->losses.alignments++;
    export->losses.kinds += call->kind != CALL_MALLOC && call->kind != CALL_FREE && !moved;
    bool ends = call->shape >= SHAPE_FREE;
    end = put_address(export_put_text(end, ends    ? "- "
                                           : moved ? "> "
                                                   : "+ "),
                      export, call->object);
    if (!ends) end = export_put_hexadecimal(export_put_text(end, " "), call->size);
    return write_line(export, line, end);
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
