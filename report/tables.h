/* tables - the tables of a trace that text and JSON share (table.h): for each, the function that
 * gives its rows, and what that takes as `of`. JSON has all rows; text.c selects those of the
 * text. */
#ifndef MALLOCTAPE_REPORT_TABLES_H
#define MALLOCTAPE_REPORT_TABLES_H

#include "report/table.h"
#include "report/tally.h"

/* Row n is entry n of the sizes. The text has a table for each order. */
enum tables_order { TABLES_BY_COUNT, TABLES_BY_BYTES, TABLES_BY_PEAK, TABLES_ORDERS };
struct tables_sizes {
    const struct tally *tally;
    enum tables_order by;
};
table_row_of tables_size;

/* Row n is what rule n of rounding.h adds. `of`: struct rounded[ROUNDINGS]. */
table_row_of tables_rounding;

/* Row n is a piece of the time, or a quarter. */
struct tables_ages {
    const struct live *pieces;
    bool quarters;
};
table_row_of tables_age;

/* Row n is lane n. `of`: struct tally. */
table_row_of tables_lane;

/* Row n is a row of the timeline. */
struct tables_times {
    const struct timeline_row *rows;
    unsigned vm_size; /* the index of that statistic; ORIGINAL_STATISTICS_MAX: none */
};
table_row_of tables_time;

#endif
