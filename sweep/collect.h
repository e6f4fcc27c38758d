/* sweep/collect - puts the results of a sweep into one table. */
#ifndef MALLOCTAPE_SWEEP_COLLECT_H
#define MALLOCTAPE_SWEEP_COLLECT_H

/* Files; NULL: none. */
struct sweep_collect_options {
    const char *json, *avro, *html;
};

/* Of the sweep in the directory. Prints the table, unless `json` is "-". Returns an exit status;
 * what is wrong has been printed. */
int sweep_collect(const char *directory, const struct sweep_collect_options *options);

#endif
