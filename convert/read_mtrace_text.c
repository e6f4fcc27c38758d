/* read_mtrace_text - what mtrace(3) of the GNU C library writes, a line a call, numbers in
 * hexadecimal.
 *
 *   = Start                       tracing began, or = End
 *   @ WHERE + ADDRESS SIZE        an allocation of any kind; `@ WHERE` may be missing
 *   @ WHERE - ADDRESS             a free
 *   @ WHERE < ADDRESS             a realloc that moved: the old object,
 *   @ WHERE > ADDRESS SIZE        and, on the next line, the new one
 *   @ WHERE ! ADDRESS SIZE        a realloc that failed
 *
 * WHERE may contain spaces, because names of files may. */
#include "convert/fields.h"
#include "convert/formats.h"

static bool mtrace_text_recognize(struct source *head)
{
    struct fields fields;
    return source_line(head, &fields) && fields_word(&fields, "=") && fields_word(&fields, "Start");
}

/* `@ WHERE` ends before the last mark of the line that has a space on either side. */
static void skip_where(struct fields *fields)
{
    if (!fields_word(fields, "@")) return;
    for (const char *at = fields->end - 2; at > fields->at; at--)
        if (strchr("+-<>!", *at) != NULL && at[-1] == ' ' && at[1] == ' ') {
            fields->at = at;
            return;
        }
}

struct reading {
    struct source *source;
    struct call_writer *writer;
    bool moving; /* the line before was `< ADDRESS` */
    uint64_t moved;
};

static bool read_mtrace_text_line(struct reading *reading, struct fields fields)
{
    struct source *source = reading->source;
    struct call call = {.kind = CALL_MALLOC};
    uint64_t address;
    skip_where(&fields);
    char mark = fields.at < fields.end ? *fields.at++ : '\0';
    if (mark == '\0' || strchr("+-<>!", mark) == NULL)
        return source_bad_line(source, "expected + - < > ! or =, with `@ WHERE` before it");
    if (!fields_hexadecimal(&fields, &address))
        return source_bad_line(source, "expected an address after %c", mark);
    if (strchr("+>!", mark) != NULL && !fields_hexadecimal(&fields, &call.size))
        return source_bad_line(source, "expected a size after the address");
    if (!fields_end(&fields)) return source_bad_line(source, "expected the end of the line");
    if ((mark == '>') != reading->moving)
        return source_bad_line(source, mark == '>' ? "expected a line with < before this one"
                                                   : "expected a line with > after the one with <");
    reading->moving = false;
    switch (mark) {
    case '+': call.began = address; break;
    case '-':
        call.kind = CALL_FREE;
        call.ended = address;
        break;
    case '<':
        reading->moving = true;
        reading->moved = address;
        return true;
    case '>':
        call.kind = CALL_REALLOC_MOVED;
        call.ended = reading->moved;
        call.began = address;
        break;
    default: /* ! */ call.kind = CALL_REALLOC_MOVED; call.ended = address;
    }
    return call_writer_put(reading->writer, &call);
}

static bool read_mtrace_text_file(struct source *source, struct call_writer *writer)
{
    struct reading reading = {.source = source, .writer = writer};
    struct fields fields;
    while (source_line(source, &fields)) {
        fields_space(&fields);
        if (fields.at == fields.end || *fields.at == '=') continue;
        if (!read_mtrace_text_line(&reading, fields)) return false;
    }
    return !error_is_set(&source->error);
}

const struct format format_mtrace_text = {
    .lacks = "threads, times, kinds of call, alignments",
    .parts = true,
    .recognize = mtrace_text_recognize,
    .read = read_mtrace_text_file,
};
