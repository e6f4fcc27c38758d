/* read_logalloc - logs of Firefox's logalloc, as they are or munged:
 *
 *   PID TID FUNCTION(ARGUMENT,...)[=RESULT]
 *
 * An object is an address in hexadecimal, or in a munged log # and a slot, which means nothing in
 * another file. Several processes may be in one log; as logalloc's own replay does, the reader
 * takes the process of the first line. */
#include <inttypes.h>

#include "convert/fields.h"
#include "convert/formats.h"

/* Arguments: P the object that ends, A an alignment, S a size, C a count of such sizes. */
static const struct function {
    const char *name, *arguments;
    uint8_t kind;
} functions[] = {
    {"malloc", "S", CALL_MALLOC},
    {"calloc", "CS", CALL_CALLOC},
    {"realloc", "PS", CALL_REALLOC_MOVED},
    {"free", "P", CALL_FREE},
    {"posix_memalign", "AS", CALL_POSIX_MEMALIGN},
    {"aligned_alloc", "AS", CALL_ALIGNED_ALLOC},
    {"memalign", "AS", CALL_MEMALIGN},
    {"valloc", "S", CALL_VALLOC},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static bool read_object(struct fields *fields, uint64_t *name)
{
    if (fields_text(fields, "#")) return fields_decimal(fields, name);
    return fields_hexadecimal(fields, name);
}

/* Parses `PID TID`, or `PID` in older logs, and what must follow. */
static bool read_logalloc_head(struct fields *fields, uint64_t *process, uint64_t *thread)
{
    if (!fields_decimal(fields, process)) return false;
    if (!fields_decimal(fields, thread)) *thread = *process;
    fields_space(fields);
    return *process < UINT64_MAX && *thread < UINT64_MAX && fields->at < fields->end &&
           memchr(fields->at, '(', (size_t)(fields->end - fields->at)) != NULL;
}

static bool read_argument(struct fields *fields, char what, struct call *call)
{
    uint64_t count;
    switch (what) {
    case 'P': return read_object(fields, &call->ended);
    case 'A': return fields_decimal(fields, &call->alignment);
    case 'C':
        /* The size follows. */
        call->size = 1;
        return fields_decimal(fields, &call->size);
    default:
        if (!fields_decimal(fields, &count)) return false;
        return !__builtin_mul_overflow(call->size, count, &call->size);
    }
}

static bool read_arguments(struct fields *fields, const struct function *function,
                           struct call *call)
{
    *call = (struct call){.kind = function->kind, .size = 1};
    for (const char *what = function->arguments; *what != '\0'; what++)
        if (!read_argument(fields, *what, call) || !fields_text(fields, what[1] ? "," : ")"))
            return false;
    if (call->kind == CALL_FREE) call->size = 0;
    if (call->kind == CALL_FREE) return fields_end(fields);
    return fields_text(fields, "=") && read_object(fields, &call->began) && fields_end(fields);
}

/* NULL: not an allocator call, such as jemalloc_stats. */
static const struct function *function_find(struct fields *fields)
{
    for (size_t i = 0; i < FUNCTIONS; i++) {
        struct fields before = *fields;
        if (fields_text(fields, functions[i].name) && fields_text(fields, "("))
            return &functions[i];
        *fields = before;
    }
    return NULL;
}

static bool logalloc_recognize(struct source *head)
{
    struct fields fields;
    uint64_t process, thread;
    return source_line(head, &fields) && read_logalloc_head(&fields, &process, &thread) &&
           fields.end[-1] != ' ';
}

static bool read_logalloc_file(struct source *source, struct call_writer *writer)
{
    uint64_t first = 0, process, thread;
    bool begun = false;
    struct fields fields;
    while (source_line(source, &fields)) {
        struct call call;
        if (fields_end(&fields)) continue;
        if (!read_logalloc_head(&fields, &process, &thread))
            return source_bad_line(source, "expected `PID TID FUNCTION(...)`");
        if (!begun) first = process;
        begun = true;
        if (process != first) {
            writer->counts.others++;
            continue;
        }
        const struct function *function = function_find(&fields);
        if (function == NULL) continue;
        if (source->part && memchr(fields.at, '#', (size_t)(fields.end - fields.at)) != NULL)
            return source_bad_line(source,
                                   "a munged log names slots and cannot be part of another one");
        if (!read_arguments(&fields, function, &call))
            return source_bad_line(source, "expected the arguments of %s and its result",
                                   function->name);
        call_writer_thread(writer, thread);
        if (!call_writer_put(writer, &call)) return false;
    }
    return !error_is_set(&source->error);
}

const struct format format_logalloc = {
    .lacks = "times, kinds of call other than those of C",
    .threads = true,
    .parts = true,
    .recognize = logalloc_recognize,
    .read = read_logalloc_file,
};
