#include "compare/series.h"

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

struct series {
    double (*rows)[COLUMNS]; /* NAN: not known */
    size_t count, room;
};

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

static bool row_add(struct series *series, char *line, const unsigned *of_field, unsigned fields)
{
    if (series->count == series->room) {
        size_t room = series->room == 0 ? 1024 : series->room * 2;
        void *grown = realloc(series->rows, room * sizeof *series->rows);
        if (grown == NULL) return false;
        series->rows = grown;
        series->room = room;
    }
    double *row = series->rows[series->count++];
    for (unsigned i = 0; i < COLUMNS; i++)
        row[i] = NAN;
    for (unsigned field = 0; field < fields; field++) {
        char *text = strsep(&line, ","), *end;
        if (text == NULL) return false;
        if (of_field[field] == COLUMNS) continue;
        double value = strtod(text, &end);
        if (end != text) row[of_field[field]] = value;
    }
    return true;
}

static bool series_read(struct series *series, FILE *file)
{
    char line[LINE_BYTES_MAX];
    unsigned of_field[FIELDS_MAX];
    if (fgets(line, sizeof line, file) == NULL) return false;
    unsigned fields = head_read(line, of_field);
    bool good = fields > 0;
    while (good && fgets(line, sizeof line, file) != NULL)
        good = row_add(series, line, of_field, fields);
    return good && !ferror(file);
}

/* The greater one of those that are known. */
static double most(double one, double other)
{
    return isnan(one) || other > one ? other : one;
}

/* Merges `every` neighbours into one. */
static void series_thin(struct series *series, size_t every)
{
    size_t count = 0;
    for (size_t i = 0; i < series->count; i++) {
        if (i % every == 0) {
            memmove(series->rows[count++], series->rows[i], sizeof *series->rows);
            continue;
        }
        double *into = series->rows[count - 1];
        for (unsigned column = 0; column < COLUMNS; column++)
            into[column] = column == TIME ? series->rows[i][column]
                                          : most(into[column], series->rows[i][column]);
    }
    series->count = count;
}

static json_t *series_json(const struct series *series)
{
    json_t *object = json_object();
    for (unsigned column = 0; column < COLUMNS; column++) {
        json_t *list = json_array();
        for (size_t i = 0; i < series->count; i++) {
            double value = series->rows[i][column];
            if (!isfinite(value))
                json_array_append_new(list, json_null());
            else if (column == TIME)
                json_array_append_new(list, json_real(value));
            else
                json_array_append_new(list, json_integer((json_int_t)value));
        }
        json_object_set_new(object, columns[column][1], list);
    }
    return object;
}

json_t *compare_series_read(const char *path)
{
    struct series series = {0};
    FILE *file = fopen(path, "re");
    if (file == NULL) return NULL;
    bool good = series_read(&series, file);
    fclose(file);
    if (series.count > COMPARE_SERIES_POINTS_MAX)
        series_thin(&series,
                    (series.count + COMPARE_SERIES_POINTS_MAX - 1) / COMPARE_SERIES_POINTS_MAX);
    json_t *object = good ? series_json(&series) : NULL;
    free(series.rows);
    return object;
}
