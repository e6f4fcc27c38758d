#include "report/by_code_source.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/printable.h"
#include "report/words.h"

enum { LINES_AROUND = 3, LINE_SHOWN = 160 };

/* A larger file is none that a person wrote. */
#define SOURCE_BYTES_MOST (64 << 20)

/* A line of a function; `row` is of code->groups. */
struct source_row {
    uint32_t row;
    size_t name_bytes; /* of the function, in the name of the row */
};

struct listing {
    const struct by_code *code;
    struct source_row *rows;
    size_t count;
};

/* ---- which lines ---- */

/* A row is called "function file.c:12", or "function" if the line is not known. */
static size_t function_bytes(const struct by_code *code, uint32_t row)
{
    const char *name = by_code_name(code, row);
    const char *end = strrchr(name, ' ');
    return code->groups.groups[row].frame.line != 0 && end != NULL ? (size_t)(end - name)
                                                                   : strlen(name);
}

static bool is_called(const char *function, size_t bytes, const char *name)
{
    const size_t length = strlen(name);
    if (bytes < length || memcmp(function + bytes - length, name, length) != 0) return false;
    return bytes == length || function[bytes - length - 1] == ':';
}

static int by_place(const void *one, const void *other, void *of)
{
    const struct by_code *code = of;
    const struct source_row *a = one, *b = other;
    const struct code_frame *x = &code->groups.groups[a->row].frame;
    const struct code_frame *y = &code->groups.groups[b->row].frame;
    const size_t bytes = a->name_bytes < b->name_bytes ? a->name_bytes : b->name_bytes;
    const int names = memcmp(by_code_name(code, a->row), by_code_name(code, b->row), bytes);
    if (names != 0) return names;
    if (a->name_bytes != b->name_bytes) return a->name_bytes < b->name_bytes ? -1 : 1;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
}

/* Lists the lines of functions of this name. False: no memory. */
static bool listing_find(struct listing *listing, const char *name)
{
    const struct by_code *code = listing->code;
    listing->rows = calloc(code->groups.count + 1, sizeof *listing->rows);
    for (uint32_t i = 0; listing->rows != NULL && i < code->groups.count; i++) {
        const size_t bytes = function_bytes(code, i);
        if (is_called(by_code_name(code, i), bytes, name))
            listing->rows[listing->count++] = (struct source_row){i, bytes};
    }
    if (listing->count > 1)
        qsort_r(listing->rows, listing->count, sizeof *listing->rows, by_place, (void *)code);
    return listing->rows != NULL;
}

/* ---- printing ---- */

static const char *bytes_or_none(double value)
{
    return value >= 0.5 ? words_bytes((uint64_t)llround(value)) : ".";
}

static void print_numbers(const struct by_code *code, uint32_t row, FILE *to)
{
    const struct stack_sums *self = &code->self[row];
    const double made = self->objects[STACK_MADE].value;
    fprintf(to, "%10s", bytes_or_none(self->bytes[STACK_MADE].value));
    fprintf(to, " %10s", bytes_or_none(code->total[row].bytes[STACK_MADE].value));
    fprintf(to, " %10s", made >= 0.5 ? words_count((uint64_t)llround(made)) : ".");
    fprintf(to, " %10s", bytes_or_none(self->bytes[STACK_AT_END].value));
}

/* A file that a trace names: it may be anything. NULL: it is no file of text here. */
static FILE *source_open(const char *path)
{
    struct stat about;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file >= 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode) &&
        about.st_size <= SOURCE_BYTES_MOST) {
        FILE *stream = fdopen(file, "r");
        if (stream != NULL) return stream;
    }
    if (file >= 0) close(file);
    return NULL;
}

static void print_text(char *line, FILE *to)
{
    line[strcspn(line, "\r\n")] = '\0';
    for (char *at = line; *at != '\0'; at++)
        if (*at == '\t') *at = ' ';
    if (strlen(line) > LINE_SHOWN) line[LINE_SHOWN] = '\0';
    printable_put(to, line);
}

static unsigned row_line(const struct by_code *code, const struct source_row *row)
{
    return code->groups.groups[row->row].frame.line;
}

/* Prints rows of lines before this one without their text; returns how many. */
static size_t print_rows_before(const struct by_code *code, const struct source_row *rows,
                                size_t count, uint64_t line, FILE *to)
{
    size_t at = 0;
    for (; at < count && row_line(code, &rows[at]) < line; at++) {
        print_numbers(code, rows[at].row, to);
        fprintf(to, " %6u\n", row_line(code, &rows[at]));
    }
    return at;
}

/* Prints the lines from before the first row to after the last one: what has no numbers has dots. The
 * file may be shorter than it was. */
static void print_file(const struct by_code *code, const struct source_row *rows, size_t count,
                       FILE *source, FILE *to)
{
    const uint64_t last = row_line(code, &rows[count - 1]);
    char *line = NULL;
    size_t room = 0, at = 0;
    for (unsigned number = 1; number <= last + LINES_AROUND && getline(&line, &room, source) >= 0;
         number++) {
        if (number + LINES_AROUND < row_line(code, &rows[0])) continue;
        at += print_rows_before(code, rows + at, count - at, number, to);
        if (at < count && row_line(code, &rows[at]) == number)
            print_numbers(code, rows[at++].row, to);
        else
            fprintf(to, "%10s %10s %10s %10s", ".", ".", ".", ".");
        fprintf(to, " %6u  ", number);
        print_text(line, to);
        fputc('\n', to);
    }
    free(line);
    if (print_rows_before(code, rows + at, count - at, UINT64_MAX, to) > 0)
        fputs("! The file has fewer lines than it had: it was changed.\n", to);
}

/* Prints the rows of one function in one file. */
static void print_function(const struct by_code *code, const struct source_row *rows, size_t count,
                           FILE *to)
{
    const char *path = code_names_text(&code->names, code->groups.groups[rows[0].row].frame.file);
    FILE *source = *path != '\0' ? source_open(path) : NULL;
    fprintf(to, "\n%.*s  %s%s\n%10s %10s %10s %10s %6s\n", (int)rows[0].name_bytes,
            by_code_name(code, rows[0].row), *path != '\0' ? path : "in a file that is not known",
            source == NULL && *path != '\0' ? ", which is not here" : "", "bytes", "with calls",
            "objects", "at the end", "line");
    if (source == NULL) {
        print_rows_before(code, rows, count, UINT64_MAX, to);
        return;
    }
    print_file(code, rows, count, source, to);
    fclose(source);
}

/* Whether two rows are of one function and file. */
static bool are_of_one(const struct by_code *code, const struct source_row *a,
                       const struct source_row *b)
{
    return a->name_bytes == b->name_bytes &&
           memcmp(by_code_name(code, a->row), by_code_name(code, b->row), a->name_bytes) == 0 &&
           code->groups.groups[a->row].frame.file == code->groups.groups[b->row].frame.file;
}

bool by_code_print_source(const struct by_code *code, const char *name, FILE *to)
{
    struct listing listing = {.code = code};
    if (!listing_find(&listing, name)) return false;
    for (size_t i = 0, end; i < listing.count; i = end) {
        for (end = i + 1; end < listing.count; end++)
            if (!are_of_one(code, &listing.rows[i], &listing.rows[end])) break;
        print_function(code, &listing.rows[i], end - i, to);
    }
    free(listing.rows);
    return listing.count > 0;
}
