/* write_text - the text formats that take one line for a call: memory_replay and mtrace(3), and the
 * numbers in them. */
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

static char *put_address(char *to, uint32_t object)
{
    return export_put_hexadecimal(to, export_address(object));
}

static bool write_line(struct export *export, const char *line, char *end)
{
    *end++ = '\n';
    return output_write(&export->output, line, (size_t)(end - line));
}

/* ---- memory_replay ---- */

static char *put_operands(char *to, struct export *export, const struct export_call *call)
{
    switch (call->shape) {
    case SHAPE_ALLOCATION:
        to = export_put_text(to, call->kind == CALL_CALLOC         ? "calloc "
                                 : call->kind == CALL_REALLOC_NULL ? "realloc "
                                                                   : "malloc ");
        to = put_address(to, call->object);
        to = export_put_text(to, call->kind == CALL_CALLOC         ? " 1 "
                                 : call->kind == CALL_REALLOC_NULL ? " 0x0 "
                                                                   : " ");
        export->losses.kinds += call->kind != CALL_CALLOC && call->kind != CALL_REALLOC_NULL &&
                                call->kind != CALL_MALLOC;
        return export_put_decimal(to, call->size);
    case SHAPE_ALLOCATION_ALIGNED:
        to = put_address(export_put_text(to, "memalign "), call->object);
        to = export_put_decimal(export_put_text(to, " "), call->alignment);
        export->losses.kinds += call->kind != CALL_MEMALIGN;
        return export_put_decimal(export_put_text(to, " "), call->size);
    case SHAPE_REALLOC:
        to = put_address(export_put_text(to, "realloc "), call->object);
        to = export_put_text(to, " ");
        to = call->unknown ? export_put_text(to, "0x0") : put_address(to, call->object);
        return export_put_decimal(export_put_text(to, " "), call->size);
    default:
        export->losses.kinds += call->kind != CALL_FREE;
        return put_address(export_put_text(to, "free "), call->object);
    }
}

static char *put_thread(char *to, const struct export_call *call)
{
    return export_put_text(export_put_decimal(to, call->thread), ": ");
}

static bool memory_replay_call(struct export *export, const struct export_call *call)
{
    char line[LINE_BYTES], *end = put_operands(put_thread(line, call), export, call);
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
    .call = memory_replay_call,
    .thread_end = memory_replay_thread_end,
};

/* ---- mtrace(3) ---- */

static bool mtrace_open(struct export *export)
{
    return output_write(&export->output, "= Start\n", 8);
}

static bool mtrace_call(struct export *export, const struct export_call *call)
{
    char line[LINE_BYTES], *end = export_put_text(line, "@ trace:[0x0] ");
    bool moved = call->shape == SHAPE_REALLOC && !call->unknown;
    if (moved) {
        end = put_address(export_put_text(end, "< "), call->object);
        end = export_put_text(end, "\n@ trace:[0x0] ");
    }
    if (call->shape == SHAPE_ALLOCATION_ALIGNED) export->losses.alignments++;
    export->losses.kinds += call->kind != CALL_MALLOC && call->kind != CALL_FREE && !moved;
    bool ends = call->shape >= SHAPE_FREE;
    end = put_address(export_put_text(end, ends ? "- " : moved ? "> " : "+ "), call->object);
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
};
