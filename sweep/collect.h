/* sweep/collect - `malloctape sweep --collect DIR`: what the results of a sweep say together. */
#ifndef MALLOCTAPE_SWEEP_COLLECT_H
#define MALLOCTAPE_SWEEP_COLLECT_H

struct sweep_collect_options {
    const char *json, *avro, *html; /* NULL: none; json: "-" is the standard output */
};

/* Of the sweep in the directory. Prints the tables unless the JSON goes there. Returns an exit
 * status: PROGRAM_FAILED, too, if a result is missing or an entry failed; what is wrong has been
 * printed. */
int sweep_collect(const char *directory, const struct sweep_collect_options *options);

#endif
