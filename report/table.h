/* table - a table of a report, stated once, as report/report_numbers.h does for single numbers: a
 * function gives row number `at` as cells, each with its column's key in JSON, its value, and the
 * label and width of its column in the text. Text and JSON are made from that; the page draws the JSON.
 *
 *   static bool lane_row(const void *of, size_t at, struct table_row *row)
 *   {
 *       const struct tally *tally = of;
 *       const struct lane_counts *lane = &tally->lanes.lanes[at];
 *       const struct cell cells[] = {
 *           {"lane", .value = at},                                        only in JSON
 *           {"calls", lane->calls, "calls", .width = 15},                 in both
 *           {NULL, lane->calls, "", 9, UNIT_SHARE, .of = tally->calls},   only in the text
 *           {"bytes", lane->bytes, "asked for", 11, .unit = UNIT_BYTES},
 *       };
 *       TABLE_ROW(row, cells);
 *       return lane->calls > 0;
 *   }
 *
 *   table_put(object, "threads", &(struct table){lane_row, tally, INSTRUCTION_LANES_MAX});
 *       "threads": {"lane": [0, 2], "calls": [3000, 1000], "bytes": [72704, 96]}
 *   table_print(&(struct table){lane_row, tally, count, .order = top}, stdout);
 *                 calls             asked for
 *                 3 000      75 %    71.0 KiB
 *                 1 000      25 %    96 bytes */
#ifndef MALLOCTAPE_REPORT_TABLE_H
#define MALLOCTAPE_REPORT_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/numbers.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cell {
    const char *key;   /* in JSON; NULL: not there */
    long double value; /* holds any 64-bit integer; NAN: not known, null in JSON, "-" in the text */
    const char *label; /* above the column in the text; NULL: not in the text */
    int width;         /* of the column, in the text; below 0: aligned to the left */
    enum number_unit unit;
    long double of;   /* with UNIT_SHARE, the text shows value / of */
    const char *text; /* if not NULL, shown instead of the value; must live as long as the row */
    bool wide;        /* only where lines are wide */
};

enum { TABLE_CELLS_MAX = 40 };

struct table_row {
    struct cell cells[TABLE_CELLS_MAX];
    size_t count;
};

/* Takes over an array of cells. */
#define TABLE_ROW(row, of_cells)                                                   \
    do {                                                                           \
        _Static_assert(sizeof(of_cells) <= sizeof(row)->cells, "TABLE_CELLS_MAX"); \
        (row)->count = sizeof(of_cells) / sizeof *(of_cells);                      \
        for (size_t table_at = 0; table_at < (row)->count; table_at++)             \
            (row)->cells[table_at] = (of_cells)[table_at];                         \
    } while (0)

/* Gives row number `at`. False: the table has no such row. Keys, labels and widths must be the same
 * in all rows; those of row 0 are asked for even if there are no rows. */
typedef bool table_row_of(const void *of, size_t at, struct table_row *row);

struct table {
    table_row_of *row;
    const void *of;
    size_t rows;
    const uint32_t *order; /* NULL: rows 0, 1, 2, ...; else these */
    const char *title;     /* in the text: above the labels; NULL: an empty line */
    bool goes_on;          /* in the text: continues the lines above it, without labels */
};

/* Adds a new object with an array for each column to `object`, as `key`, and returns it. */
json_t *table_put(json_t *object, const char *key, const struct table *table);

/* Row number `at` as a new object. */
json_t *table_row_json(table_row_of *row, const void *of, size_t at);

/* Prints a table; nothing if it has no rows. */
void table_print(const struct table *table, FILE *to);

/* Prints several tables, each with a title, side by side if lines are wide, else one by one. */
void table_print_beside(const struct table *tables, size_t count, FILE *to);

/* Puts the indices of the greatest of `count` numbers, at most `most`, into `top`: greatest first,
 * lower index first among equals, without zeros. Returns how many there are. The numbers are
 * `stride` bytes apart: members of entries. */
unsigned report_top(const uint64_t *first, uint32_t count, size_t stride, uint32_t *top,
                    unsigned most);
#define REPORT_TOP(entries, count, member, top, most) \
    report_top(&(entries)[0].member, count, sizeof(entries)[0], top, most)

#ifdef __cplusplus
}
#endif
#endif
