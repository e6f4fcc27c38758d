/* read_heaptrack - what heaptrack writes: a line an event, numbers in hexadecimal. With --raw:
 *
 *   v VERSION FORMAT             first; FORMAT is 3 since heaptrack 1.3, which gives texts a length
 *   + SIZE TRACE POINTER         an allocation of any kind
 *   - POINTER                    a free; a realloc is a free and an allocation
 *   c MILLISECONDS               the time
 *   I PAGE_BYTES PAGES           of the machine
 *   R PAGES                      resident memory
 *   t, m, x                      stacks, libraries, the program (heaptrack_stacks.h)
 *   X, A, S, #                   remarks
 *
 * Without, lines s, i, t, a, + and - are those of heaptrack_interpreted.h. */
#include "convert/fields.h"
#include "convert/formats.h"
#include "convert/heaptrack_interpreted.h"
#include "convert/heaptrack_stacks.h"

enum { PAGE_BYTES = 4096, FORMAT_PLAIN_MAX = 2, FORMAT_MAX = 3 };

/* Takes what follows v. */
static bool take_version(struct fields fields, uint64_t *format)
{
    uint64_t version;
    if (!fields_number(&fields, 16, &version)) return false;
    if (fields_number(&fields, 16, format)) return true;
    *format = 1; /* what came before heaptrack 1.0 */
    return version == 0x10200 && fields_end(&fields);
}

static bool heaptrack_recognize(struct source *head)
{
    struct fields fields;
    uint64_t format;
    return source_line(head, &fields) && fields_word(&fields, "v") && take_version(fields, &format);
}

struct reading {
    struct source *source;
    struct call_writer *writer;
    uint64_t page_bytes, resident_bytes;
    struct heaptrack_stacks stacks;
    struct heaptrack_interpreted interpreted;
    bool is_interpreted;
};

static bool read_heaptrack_call(struct reading *reading, char letter, struct fields fields)
{
    uint64_t trace = 0;
    struct call call = {.kind = letter == '+' ? CALL_MALLOC : CALL_FREE};
    bool good = letter == '+' ? fields_number(&fields, 16, &call.size) &&
                                    fields_number(&fields, 16, &trace) &&
                                    fields_number(&fields, 16, &call.began)
                              : fields_number(&fields, 16, &call.ended);
    if (!good || !fields_end(&fields))
        return source_bad_line(reading->source, "expected %s",
                               letter == '+' ? "`+ SIZE TRACE POINTER`" : "`- POINTER`");
    if (letter == '+') call.stack = heaptrack_stacks_node(&reading->stacks, trace);
    return call_writer_put(reading->writer, &call);
}

static bool read_version(struct reading *reading, struct fields fields)
{
    uint64_t format;
    if (!take_version(fields, &format) || format == 0 || format > FORMAT_MAX)
        return source_bad_line(reading->source, "expected `v VERSION FORMAT`, FORMAT from 1 to %d",
                               FORMAT_MAX);
    reading->stacks.plain = reading->interpreted.plain = format <= FORMAT_PLAIN_MAX;
    return true;
}

static bool read_heaptrack_line(struct reading *reading, char letter, struct fields fields)
{
    uint64_t number;
    if (heaptrack_is_interpreted(letter)) reading->is_interpreted = true;
    if (reading->is_interpreted && strchr("sita+-", letter) != NULL)
        return heaptrack_interpreted_line(&reading->interpreted, letter, fields) ||
               error_is_set(&reading->writer->error) ||
               source_bad_line(reading->source, "expected what heaptrack's interpreter writes");
    switch (letter) {
    case '+':
    case '-': return read_heaptrack_call(reading, letter, fields);
    case 'c':
    case 'R':
    case 'I':
        if (!fields_number(&fields, 16, &number))
            return source_bad_line(reading->source, "expected a number after %c", letter);
        if (letter == 'I') reading->page_bytes = number;
        if (letter == 'R') reading->resident_bytes = number * reading->page_bytes;
        if (letter == 'c')
            call_writer_time(reading->writer, number * 1000000, reading->resident_bytes);
        return true;
    case 'v': return read_version(reading, fields);
    case 'm':
        return heaptrack_stacks_module(&reading->stacks, fields) ||
               error_is_set(&reading->writer->error) ||
               source_bad_line(reading->source, "expected `m NAME BASE [OFFSET SIZE]...`");
    case 'x':
        return heaptrack_stacks_program(&reading->stacks, fields) ||
               error_is_set(&reading->writer->error) ||
               source_bad_line(reading->source, "expected `x PATH`");
    case 't':
        return heaptrack_stacks_trace(&reading->stacks, fields) ||
               source_bad_line(reading->source,
                               "expected `t ADDRESS PARENT`, with a parent before");
    default:
        if (strchr("XAS#", letter) != NULL) return true;
        return source_bad_line(reading->source, "expected an event of heaptrack, found '%c'",
                               letter);
    }
}

static bool read_heaptrack_file(struct source *source, struct call_writer *writer)
{
    struct reading reading = {.source = source,
                              .writer = writer,
                              .page_bytes = PAGE_BYTES,
                              .stacks = {.writer = writer},
                              .interpreted = {.writer = writer}};
    struct fields fields;
    bool good = true;
    while (good && source_line(source, &fields)) {
        if (fields.at == fields.end) continue;
        const char letter = *fields.at++;
        good = read_heaptrack_line(&reading, letter, fields) && !error_is_set(&writer->error);
    }
    heaptrack_stacks_free(&reading.stacks);
    heaptrack_interpreted_free(&reading.interpreted);
    return good && !error_is_set(&source->error);
}

const struct format format_heaptrack = {
    .lacks = "threads, kinds of call, alignments, reallocs (they are a free and an allocation)",
    .stacks = true,
    .recognize = heaptrack_recognize,
    .read = read_heaptrack_file,
};
