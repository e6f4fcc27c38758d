/* sweep/collection - the results of a sweep, joined.
 *
 *   DIR/results.list --> IDs --> DIR/results/ID.json --result.c--> results
 *                                        `--> rows: entry by trace, with changes and ranks
 *                                                `--> entries: over all traces
 *                                                       `--> table, JSON, page; Avro, by run
 *
 * A result has a group of the entries of one trace. Groups are joined through the recorded
 * allocator, which each of them has: changes are relative to its replays in the same result, never
 * to those in another. If an entry is in several results of a trace, the one with the most runs
 * counts.
 *
 * Results describe the machine on which they were made. Two machines are equal if the descriptions
 * are, except for names and load. */
#ifndef MALLOCTAPE_SWEEP_COLLECTION_H
#define MALLOCTAPE_SWEEP_COLLECTION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/mean.h"
#include "sweep/result.h"

struct collection_result {
    char id[256];
    char why[512];    /* empty, or why it cannot be read */
    bool is_missing;  /* there is no file */
    struct result of; /* valid unless `is_missing` or `why` */
    size_t trace, machine;
};

/* The result for an entry and a trace. */
struct collection_row {
    const struct collection_result *from; /* NULL: no result has it */
    const struct result_entry *of;
    unsigned rank[COMPARE_MEASURES]; /* in its trace, from 1; 0: none */
    bool is_elsewhere;               /* made on another machine than the trace's first result */
};

struct collection_trace {
    char name[256];                        /* for people: of the ID */
    const struct collection_result *first; /* of its results */
    size_t failed;                         /* entries */
    bool is_open;                          /* an entry is missing that may be the best */
    bool machines_differ;
    size_t best[COMPARE_MEASURES]; /* how many have rank 1 */
};

/* The summary of an entry over the traces that have a change for it. */
struct collection_summary {
    struct mean change;        /* from the recorded allocator, as a share: the geometric mean */
    size_t traces, less, more; /* how many; in how many it takes noticeably less, or more */
    size_t worst;              /* the trace with the greatest change */
};

struct collection_entry {
    const char *label;
    bool recorded; /* in all traces that have it */
    struct collection_summary summary[COMPARE_MEASURES];
};

struct collection {
    const char *directory;
    struct collection_result *results; /* as listed */
    size_t results_count, missing, unread;
    struct collection_trace *traces;
    size_t traces_count;
    struct collection_entry *entries;
    size_t entries_count;
    size_t *order;               /* entries: those with most traces first, then by memory */
    struct collection_row *rows; /* see collection_row() */
    size_t failed;               /* rows */
    json_t **machines;           /* the description of each kind */
    size_t machines_count;
    json_t *halving; /* DIR/halving.json, or NULL */
};

static inline bool collection_is_read(const struct collection_result *result)
{
    return !result->is_missing && *result->why == '\0';
}

static inline const struct collection_row *collection_row(const struct collection *collection,
                                                          size_t trace, size_t entry)
{
    return &collection->rows[trace * collection->entries_count + entry];
}

/* The change of a row; all NAN if there is none. */
struct result_change collection_change(const struct collection_row *row,
                                       enum compare_measure measure);

/* Whether the row is missing, and may be the best. */
static inline bool collection_is_missing(const struct collection_row *row)
{
    return row->of != NULL && row->of->is_missing;
}

/* False: `why` says why there is nothing to collect. */
bool collection_open(struct collection *collection, const char *directory, char *why,
                     size_t why_bytes);

void collection_close(struct collection *collection);

/* ---- output ---- */

/* Prints what is missing that may be the best; then the best entry over all traces, by memory and by
 * time, in a sentence each. */
void collection_print_answer(const struct collection *collection, FILE *to);

/* Prints what is missing, failed or cannot be compared, a sentence a line. */
void collection_print_warnings(const struct collection *collection, FILE *to);

/* For a terminal. */
void collection_print(const struct collection *collection, FILE *to);

/* docs/sweep.md. The caller owns it. */
json_t *collection_json(const struct collection *collection);

/* A row for each run of each result. False: `why` says what is wrong. */
bool collection_avro_write(const struct collection *collection, const char *path, char *why,
                           size_t why_bytes);

/* One page. False: `why` says what is missing or cannot be written. */
bool collection_html_write(const struct collection *collection, const char *path, char *why,
                           size_t why_bytes);

#endif
