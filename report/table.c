#include "report/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_file.h"
#include "common/printable.h"
#include "common/terminal.h"
#include "report/words.h"

/* Between tables that are printed side by side. */
#define GAP "  "

enum { BESIDE_MAX = 4, LINE_BYTES = 1024 };

static bool row_get(const struct table *table, size_t at, struct table_row *row)
{
    return table->row(table->of, table->order != NULL ? table->order[at] : at, row);
}

/* ---- JSON ---- */

static json_t *cell_json(const struct cell *cell)
{
    if (cell->text != NULL) return json_text(cell->text);
    if (isnan(cell->value)) return json_null();
    if (cell->unit < UNIT_SECONDS || cell->unit == UNIT_SHARE) return json_whole(cell->value);
    json_t *real = json_real((double)cell->value);
    return real != NULL ? real : json_null(); /* it is infinite */
}

json_t *table_put(json_t *object, const char *key, const struct table *table)
{
    json_t *columns = json_put_object(object, key);
    struct table_row row;
    table->row(table->of, 0, &row);
    for (size_t i = 0; i < row.count; i++)
        if (row.cells[i].key != NULL) json_object_set_new(columns, row.cells[i].key, json_array());
    for (size_t at = 0; at < table->rows; at++) {
        if (!row_get(table, at, &row)) continue;
        for (size_t i = 0; i < row.count; i++)
            if (row.cells[i].key != NULL)
                json_array_append_new(json_object_get(columns, row.cells[i].key),
                                      cell_json(&row.cells[i]));
    }
    return columns;
}

json_t *table_row_json(table_row_of *row_of, const void *of, size_t at)
{
    json_t *object = json_object();
    struct table_row row;
    row_of(of, at, &row);
    for (size_t i = 0; i < row.count; i++)
        if (row.cells[i].key != NULL)
            json_object_set_new(object, row.cells[i].key, cell_json(&row.cells[i]));
    return object;
}

/* ---- text ---- */

struct line {
    char text[LINE_BYTES];
    size_t used;
};

static void line_fill(struct line *line, size_t to)
{
    while (line->used < to && line->used < LINE_BYTES - 1)
        line->text[line->used++] = ' ';
}

static void line_add(struct line *line, const char *text)
{
    while (*text != '\0' && line->used < LINE_BYTES - 1)
        line->text[line->used++] = *text++;
}

/* Prints the line without spaces at its end. */
static void line_end(struct line *line, FILE *to)
{
    while (line->used > 0 && line->text[line->used - 1] == ' ')
        line->used--;
    printable_print(to, line->text, line->used);
    fputc('\n', to);
    line->used = 0;
}

static bool is_shown(const struct cell *cell, bool wide)
{
    return cell->label != NULL && (wide || !cell->wide);
}

static const char *table_cell_text(const struct cell *cell)
{
    if (cell->text != NULL) return cell->text;
    if (cell->unit != UNIT_SHARE) return words_number(cell->unit, cell->value);
    return words_number(UNIT_SHARE, cell->of > 0 ? (double)cell->value / (double)cell->of : 0);
}

/* Columns have a space between them. A text too long for its column takes unused room of others, or
 * makes the line longer if there is none. Returns where the last column ends. */
static size_t table_add_row(struct line *line, const struct table_row *row, bool labels, bool wide)
{
    size_t end = line->used, space = 0;
    for (size_t i = 0; i < row->count; i++) {
        const struct cell *cell = &row->cells[i];
        if (!is_shown(cell, wide)) continue;
        const char *text = labels ? cell->label : table_cell_text(cell);
        const size_t length = strlen(text), begin = end + space;
        size_t at = line->used + space;
        end = begin + (size_t)abs(cell->width);
        if (cell->width < 0 && begin > at) at = begin;
        if (cell->width >= 0 && end > at + length) at = end - length;
        if (length > 0) line_fill(line, at);
        line_add(line, text);
        space = 1;
    }
    return line->used > end ? line->used : end;
}

void table_print(const struct table *table, FILE *to)
{
    const bool wide = terminal_line_width(to) == LINE_WIDTH_MOST;
    struct line line = {.used = 0};
    struct table_row row;
    bool begun = table->goes_on;
    for (size_t at = 0; at < table->rows; at++) {
        if (!row_get(table, at, &row)) continue;
        if (!begun) {
            fprintf(to, table->title != NULL ? "\n%s\n" : "\n", table->title);
            table_add_row(&line, &row, true, wide);
            line_end(&line, to);
        }
        begun = true;
        table_add_row(&line, &row, false, wide);
        line_end(&line, to);
    }
}

static void print_beside(const struct table *tables, size_t count, FILE *to)
{
    size_t begins[BESIDE_MAX + 1] = {0}, most = 0;
    struct line titles = {.used = 0}, line = {.used = 0};
    struct table_row row;
    for (size_t i = 0; i < count; i++) {
        row_get(&tables[i], 0, &row);
        line_fill(&titles, begins[i]);
        line_add(&titles, tables[i].title);
        line_fill(&line, begins[i]);
        begins[i + 1] = table_add_row(&line, &row, true, true) + strlen(GAP);
        if (tables[i].rows > most) most = tables[i].rows;
    }
    fputc('\n', to);
    line_end(&titles, to);
    line_end(&line, to);
    for (size_t at = 0; at < most; at++) {
        for (size_t i = 0; i < count; i++) {
            if (at >= tables[i].rows || !row_get(&tables[i], at, &row)) continue;
            if (i > 0) line_add(&line, GAP);
            line_fill(&line, begins[i]);
            table_add_row(&line, &row, false, true);
        }
        line_end(&line, to);
    }
}

void table_print_beside(const struct table *tables, size_t count, FILE *to)
{
    if (terminal_line_width(to) == LINE_WIDTH_MOST && tables->rows > 0)
        print_beside(tables, count, to);
    else
        for (size_t i = 0; i < count; i++)
            table_print(&tables[i], to);
}

/* ---- the most of many ---- */

static uint64_t table_number_at(const void *first, size_t stride, uint32_t entry)
{
    return *(const uint64_t *)(const void *)((const char *)first + entry * stride);
}

unsigned report_top(const uint64_t *first, uint32_t count, size_t stride, uint32_t *top,
                    unsigned most)
{
    unsigned found = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t number = table_number_at(first, stride, i);
        unsigned at = found;
        while (at > 0 && table_number_at(first, stride, top[at - 1]) < number)
            at--;
        if (number == 0 || at == most) continue;
        if (found < most) found++;
        memmove(top + at + 1, top + at, (found - 1 - at) * sizeof *top);
        top[at] = i;
    }
    return found;
}
