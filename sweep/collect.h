/* sweep/collect - `malloctape sweep --collect DIR`: the results of a sweep, taken together. */
#ifndef MALLOCTAPE_SWEEP_COLLECT_H
#define MALLOCTAPE_SWEEP_COLLECT_H

struct sweep_collect_options {
    const char *json, *avro, *html; /* NULL: none; json: "-" is the standard output */
};

/* Collects the sweep in the directory. Prints the tables unless the JSON goes to the standard
 * output. Returns an exit status: PROGRAM_FAILED also if a result is missing or an entry failed;
 * errors have been printed. */
int sweep_collect(const char *directory, const struct sweep_collect_options *options);

#endif
