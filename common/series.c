#include "common/series.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Name in the CSV, and in our JSON. The first is the time. */
static const char *const columns[][2] = {
    {"original_seconds", "seconds"},
    {"event", "events"},
    {"live_bytes", "live_bytes"},
    {"net_rss_bytes", "net_rss_bytes"},
    {"heap_bytes", "heap_bytes"},
    {"original_rss_bytes", "original_rss_bytes"},
    {"original_heap_bytes", "original_heap_bytes"},
    {"original_net_rss_bytes", "original_net_rss_bytes"},
};
enum { COLUMNS = sizeof columns / sizeof *columns, TIME = 0 };

enum { FIELDS_MAX = 32, LINE_BYTES_MAX = 1024 };

/* Which of `columns` the field with this name is; COLUMNS: none. */
static unsigned column_of(const char *name)
{
    unsigned column = 0;
    while (column < COLUMNS && strcmp(columns[column][0], name) != 0)
        column++;
    return column;
}

/* Returns the number of fields, or 0 if a column is missing. */
static unsigned head_read(char *line, unsigned of_field[FIELDS_MAX])
{
    unsigned fields = 0, found = 0;
    line[strcspn(line, "\r\n")] = '\0';
    for (char *name = strsep(&line, ","); name != NULL && fields < FIELDS_MAX;
         name = strsep(&line, ",")) {
        of_field[fields] = column_of(name);
        found += of_field[fields++] < COLUMNS;
    }
    return found == COLUMNS ? fields : 0;
}

/* NAN: not known. False: fields are missing. */
static bool row_read(double row[COLUMNS], char *line, const unsigned *of_field, unsigned fields)
{
    for (unsigned i = 0; i < COLUMNS; i++)
        row[i] = NAN;
    for (unsigned field = 0; field < fields; field++) {
        char *text = strsep(&line, ","), *end;
        if (text == NULL) return false;
        double value = strtod(text, &end);
        if (of_field[field] < COLUMNS && end != text) row[of_field[field]] = value;
    }
    return true;
}

/* The latest time, the most of the others; `first`: there is nothing to merge it with. */
static void row_merge(double into[COLUMNS], const double row[COLUMNS], bool first)
{
    for (unsigned i = 0; i < COLUMNS; i++)
        if (first || i == TIME || isnan(into[i]) || row[i] > into[i]) into[i] = row[i];
}

static void row_put(json_t *series, const double row[COLUMNS])
{
    for (unsigned i = 0; i < COLUMNS; i++) {
        json_t *value = !isfinite(row[i]) ? json_null()
                        : i == TIME       ? json_real(row[i])
                                          : json_integer((json_int_t)row[i]);
        json_array_append_new(json_object_get(series, columns[i][1]), value);
    }
}

/* `every` neighbours become one. False: it is no such file. */
static bool series_read(json_t *series, FILE *file, size_t every)
{
    char line[LINE_BYTES_MAX];
    unsigned of_field[FIELDS_MAX];
    double row[COLUMNS], merged[COLUMNS];
    size_t count = 0;
    if (fgets(line, sizeof line, file) == NULL) return false;
    const unsigned fields = head_read(line, of_field);
    bool good = fields > 0;
    for (; good && fgets(line, sizeof line, file) != NULL; count++) {
        good = row_read(row, line, of_field, fields);
        if (count > 0 && count % every == 0) row_put(series, merged);
        row_merge(merged, row, count % every == 0);
    }
    if (count > 0) row_put(series, merged);
    return good && !ferror(file);
}

static size_t lines_count(FILE *file)
{
    size_t lines = 0;
    for (int c; (c = getc(file)) != EOF;)
        lines += c == '\n';
    rewind(file);
    return lines;
}

json_t *series_load(const char *path, size_t points_max)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) return NULL;
    json_t *series = json_object();
    for (unsigned i = 0; i < COLUMNS; i++)
        json_object_set_new(series, columns[i][1], json_array());
    const size_t lines = lines_count(file); /* of which one is the head */
    const size_t every = lines > 1 ? (lines - 2) / points_max + 1 : 1;
    const bool good = series_read(series, file, every);
    fclose(file);
    if (good) return series;
    json_decref(series);
    return NULL;
}
