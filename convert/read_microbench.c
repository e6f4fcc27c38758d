/* read_microbench - journals of MallocMicrobench, a line a call:
 *
 *   a SIZE POINTER THREAD NS     f POINTER THREAD NS
 *
 * The pointer is hexadecimal, other numbers are decimal. */
#include "convert/fields.h"
#include "convert/formats.h"

/* Parses the thread and the time. */
static bool read_microbench_call(struct fields *fields, struct call *call, uint64_t *thread,
                                 uint64_t *ns)
{
    *call = (struct call){.kind = CALL_MALLOC};
    bool allocation = fields_word(fields, "a");
    if (!allocation && !fields_word(fields, "f")) return false;
    if (!allocation) call->kind = CALL_FREE;
    return (!allocation || fields_decimal(fields, &call->size)) &&
           fields_hexadecimal(fields, allocation ? &call->began : &call->ended) &&
           fields_decimal(fields, thread) && *thread < UINT64_MAX && fields_decimal(fields, ns) &&
           fields_end(fields);
}

static bool microbench_recognize(struct source *head)
{
    struct fields fields;
    struct call call;
    uint64_t thread, ns;
    return source_line(head, &fields) && read_microbench_call(&fields, &call, &thread, &ns);
}

static bool read_microbench_file(struct source *source, struct call_writer *writer)
{
    struct fields fields;
    while (source_line(source, &fields)) {
        struct call call;
        uint64_t thread, ns;
        if (fields_end(&fields)) continue;
        if (!read_microbench_call(&fields, &call, &thread, &ns))
            return source_bad_line(source, "expected `a SIZE POINTER THREAD NS` or "
                                           "`f POINTER THREAD NS`");
        call_writer_thread(writer, thread);
        call_writer_time(writer, ns, 0);
        if (!call_writer_put(writer, &call)) return false;
    }
    return !error_is_set(&source->error);
}

const struct format format_microbench = {
    .lacks = "kinds of call, alignments, reallocs (they are a free and an allocation)",
    .threads = true,
    .parts = true,
    .recognize = microbench_recognize,
    .read = read_microbench_file,
};
