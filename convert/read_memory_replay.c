/* read_memory_replay - the text that Android's malloc_debug writes (record_allocs) and its
 * memory_replay reads; a zip with one such file is unpacked on the way.
 *
 *   TID: malloc PTR SIZE [TIMES]        TID: calloc PTR COUNT SIZE [TIMES]
 *   TID: memalign PTR ALIGN SIZE [TIMES]
 *   TID: realloc NEW OLD SIZE [TIMES [PRESENT]]
 *   TID: free PTR [TIMES [PRESENT]]     TID: thread_done 0x0 [END]
 *
 * TIMES are the beginning and the end of the call in nanoseconds, PRESENT the bytes in memory of
 * the object that ends. Pointers are hexadecimal, other numbers decimal. */
#include "convert/fields.h"
#include "convert/formats.h"

enum operation { OTHER, MALLOC, CALLOC, MEMALIGN, REALLOC, FREE, THREAD_DONE };

static const struct {
    const char *name, *expected;
} operations[] = {
    [MALLOC] = {"malloc", "`malloc PTR SIZE`"},
    [CALLOC] = {"calloc", "`calloc PTR COUNT SIZE`"},
    [MEMALIGN] = {"memalign", "`memalign PTR ALIGN SIZE`"},
    [REALLOC] = {"realloc", "`realloc NEW OLD SIZE`"},
    [FREE] = {"free", "`free PTR`"},
    [THREAD_DONE] = {"thread_done", "`thread_done 0x0`"},
};

static bool read_memory_replay_head(struct fields *fields, uint64_t *thread,
                                    enum operation *operation)
{
    if (!fields_decimal(fields, thread) || *thread == UINT64_MAX || !fields_text(fields, ":"))
        return false;
    for (*operation = MALLOC; *operation <= THREAD_DONE; ++*operation)
        if (fields_word(fields, operations[*operation].name)) return true;
    return false;
}

static bool memory_replay_recognize(struct source *head)
{
    struct fields fields;
    uint64_t thread;
    enum operation operation;
    return source_line(head, &fields) && read_memory_replay_head(&fields, &thread, &operation);
}

static bool read_operands(struct fields *fields, enum operation operation, struct call *call)
{
    uint64_t count;
    switch (operation) {
    case MALLOC:
        call->kind = CALL_MALLOC;
        return fields_hexadecimal(fields, &call->began) && fields_decimal(fields, &call->size);
    case CALLOC:
        call->kind = CALL_CALLOC;
        return fields_hexadecimal(fields, &call->began) && fields_decimal(fields, &count) &&
               fields_decimal(fields, &call->size) &&
               !__builtin_mul_overflow(count, call->size, &call->size);
    case MEMALIGN:
        call->kind = CALL_MEMALIGN;
        return fields_hexadecimal(fields, &call->began) &&
               fields_decimal(fields, &call->alignment) && fields_decimal(fields, &call->size);
    case REALLOC:
        call->kind = CALL_REALLOC_MOVED;
        return fields_hexadecimal(fields, &call->began) &&
               fields_hexadecimal(fields, &call->ended) && fields_decimal(fields, &call->size);
    case FREE: call->kind = CALL_FREE; return fields_hexadecimal(fields, &call->ended);
    default: return fields_hexadecimal(fields, &count);
    }
}

/* Parses up to three numbers, of which the first is a time. PRESENT may be -1. */
static bool read_times(struct fields *fields, struct call_writer *writer)
{
    uint64_t ns = 0, number;
    if (fields_decimal(fields, &ns)) call_writer_time(writer, ns, 0);
    if (fields_decimal(fields, &number)) {
        fields_text(fields, "-");
        fields_decimal(fields, &number);
    }
    return fields_end(fields);
}

static bool read_memory_replay_line(struct source *source, struct fields fields,
                                    struct call_writer *writer)
{
    uint64_t thread;
    enum operation operation;
    struct call call = {.kind = 0};
    if (!read_memory_replay_head(&fields, &thread, &operation))
        return source_bad_line(source, "expected a thread id, a colon and malloc, calloc, "
                                       "memalign, realloc, free or thread_done");
    if (!read_operands(&fields, operation, &call))
        return source_bad_line(source, "expected %s", operations[operation].expected);
    call_writer_thread(writer, thread);
    if (!read_times(&fields, writer))
        return source_bad_line(source, "expected times in nanoseconds, or the end of the line");
    if (operation != THREAD_DONE) return call_writer_put(writer, &call);
    call_writer_thread_end(writer);
    return !error_is_set(&writer->error);
}

static bool read_memory_replay_file(struct source *source, struct call_writer *writer)
{
    struct fields fields;
    while (source_line(source, &fields)) {
        if (!fields_end(&fields) && !read_memory_replay_line(source, fields, writer)) return false;
    }
    return !error_is_set(&source->error);
}

const struct format format_memory_replay = {
    .lacks = "kinds of call other than those of C; times, where the file has none",
    .threads = true,
    .parts = true,
    .recognize = memory_replay_recognize,
    .read = read_memory_replay_file,
};
