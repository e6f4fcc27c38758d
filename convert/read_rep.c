/* read_rep - the trace files of a teaching course (CS:APP): four numbers, then a call a line.
 *
 *   heap bytes, ids, operations, weight      each on a line of its own
 *   a ID BYTES     an allocation
 *   r ID BYTES     a realloc
 *   f ID           a free; id -1: of NULL
 *
 * Some have the weight first and something else last; ids and operations are always in the
 * middle. */
#include <inttypes.h>

#include "convert/fields.h"
#include "convert/formats.h"

enum { HEADER_LINES = 4 };

static bool rep_recognize(struct source *head)
{
    struct fields fields;
    uint64_t number;
    for (int i = 0; i < HEADER_LINES; i++)
        if (!source_line(head, &fields) || !fields_decimal(&fields, &number) ||
            !fields_end(&fields))
            return false;
    return !source_line(head, &fields) || fields_word(&fields, "a") || fields_word(&fields, "r") ||
           fields_word(&fields, "f");
}

static bool read_rep_header(struct source *source, uint64_t *header)
{
    static const char *const names[HEADER_LINES] = {"the heap size, a number", "the number of ids",
                                                    "the number of operations",
                                                    "the weight, a number"};
    struct fields fields;
    for (int i = 0; i < HEADER_LINES; i++)
        if (!source_line(source, &fields) || !fields_decimal(&fields, &header[i]) ||
            !fields_end(&fields))
            return source_bad_line(source, "expected %s", names[i]);
    return true;
}

static bool read_rep_operation(struct source *source, struct fields fields, uint64_t ids,
                               struct call *call, const struct call_writer *writer)
{
    uint64_t id;
    *call = (struct call){.kind = CALL_FREE};
    if (fields_word(&fields, "f")) {
        if (fields_word(&fields, "-1") && fields_end(&fields)) return true;
        if (!fields_decimal(&fields, &id) || !fields_end(&fields))
            return source_bad_line(source, "expected `f ID`");
        call->ended = id + 1;
    } else {
        bool allocation = fields_word(&fields, "a");
        if (!allocation && !fields_word(&fields, "r"))
            return source_bad_line(source, "expected `a ID BYTES`, `r ID BYTES` or `f ID`");
        if (!fields_decimal(&fields, &id) || !fields_decimal(&fields, &call->size) ||
            !fields_end(&fields))
            return source_bad_line(source, "expected `%c ID BYTES`", allocation ? 'a' : 'r');
        call->kind = allocation ? CALL_MALLOC : CALL_REALLOC_MOVED;
        call->began = id + 1;
        bool live = call_writer_is_live(writer, call->began);
        if (allocation && live) return source_bad_line(source, "id %" PRIu64 " is allocated", id);
        if (!allocation && live) call->ended = call->began;
    }
    if (id >= ids)
        return source_bad_line(source, "id %" PRIu64 ", but the file says that it has %" PRIu64, id,
                               ids);
    if (call->kind == CALL_FREE && !call_writer_is_live(writer, call->ended))
        return source_bad_line(source, "id %" PRIu64 " is not allocated", id);
    return true;
}

static bool read_rep_file(struct source *source, struct call_writer *writer)
{
    uint64_t header[HEADER_LINES], operations = 0;
    struct fields fields;
    if (!read_rep_header(source, header)) return false;
    while (source_line(source, &fields)) {
        struct call call;
        if (fields_end(&fields)) continue;
        if (!read_rep_operation(source, fields, header[1], &call, writer)) return false;
        /* A realloc to 0 bytes frees. */
        if (call.kind == CALL_REALLOC_MOVED && call.ended != 0 && call.size == 0) call.began = 0;
        if (!call_writer_put(writer, &call)) return false;
        operations++;
    }
    if (error_is_set(&source->error)) return false;
    if (operations < header[2])
        return source_bad_line(source, "the file ends after %" PRIu64 " operations of %" PRIu64,
                               operations, header[2]);
    writer->counts.beyond = operations - header[2];
    return true;
}

const struct format format_rep = {
    .lacks = "threads, times, kinds of call",
    .recognize = rep_recognize,
    .read = read_rep_file,
};
