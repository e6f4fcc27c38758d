/* fragments - what keeps the pages of a heap resident, in one snapshot of a replay.
 *
 *   objects (tally.h), by index --+--> by address --walk--> pages: how full, and by whom
 *   addresses, pages (snapshot) --'
 *
 * A page is sparse when it has an object but at most a quarter of it is live. The bytes of a sparse
 * page that are not live are kept by its objects, in equal parts.
 *
 * Memory: 56 bytes for each object and 24 for each page, freed by fragments_find(). */
#ifndef MALLOCTAPE_REPORT_FRAGMENTS_H
#define MALLOCTAPE_REPORT_FRAGMENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/error.h"
#include "report/by_code.h"
#include "report/tally.h"

enum {
    FRAGMENTS_FULLNESS = 17, /* [0]: no object; [n]: at most n sixteenths are live */
    FRAGMENTS_SPARSE = 4,    /* up to this one */
    FRAGMENTS_SHOWN = 20,
    FRAGMENTS_AGES = 64,
    FRAGMENTS_OLDEST = 3,
    FRAGMENTS_CELLS = 4096
};

/* Objects on sparse pages that have something in common. */
struct fragments_blame {
    uint64_t what; /* a size, a lane, or a row of by_code.h */
    uint64_t objects, bytes, kept_bytes;
    uint64_t first_call, last_call; /* of those that made them */
};

/* When a snapshot was taken. One may stand for several of these. */
enum fragments_time { FRAGMENTS_PEAK_RSS, FRAGMENTS_PEAK_LIVE, FRAGMENTS_END, FRAGMENTS_TIMES };
extern const struct fragments_time_name {
    const char *key, *text;
} fragments_time_names[FRAGMENTS_TIMES];

struct fragments {
    bool is[FRAGMENTS_TIMES];
    uint64_t call; /* after this one */
    uint64_t page_bytes, pages;
    uint64_t objects, live_bytes; /* on these pages */
    uint64_t by_fullness[FRAGMENTS_FULLNESS];
    struct fragments_blame sparse; /* all objects on sparse pages; `what`: how many pages */
    struct fragments_blame by_size[FRAGMENTS_SHOWN], by_lane[FRAGMENTS_SHOWN],
        by_code[FRAGMENTS_SHOWN]; /* most first */
    unsigned sizes_count, lanes_count, codes_count;
    uint64_t by_age[FRAGMENTS_AGES];           /* kept bytes, by equal parts of the calls so far */
    uint64_t without_oldest[FRAGMENTS_OLDEST]; /* bytes of sparse pages that only these keep */
    uint32_t cells_count; /* pages by address, `pages_per_cell` of them in each cell */
    uint64_t pages_per_cell;
    uint16_t cells[FRAGMENTS_CELLS]; /* per mille that are live */
};

/* The shares of the oldest among the objects on sparse pages for which without_oldest[] is
 * given. */
extern const double fragments_oldest[FRAGMENTS_OLDEST];

/* Fills in *fragments for the state after fragments->call. `objects`: those of a tally up to that
 * call; `codes`: the row of by_code.h of each, or NULL; `path`: the snapshot of a replay up to that
 * call. False: see *error. */
bool fragments_find(struct fragments *fragments, const struct tally_object *objects,
                    const uint32_t *codes, uint64_t objects_count, const char *path,
                    struct error *error);

/* `code` need not be known (code->is_known). */
void fragments_print(const struct fragments *fragments, const struct by_code *code, FILE *to);

/* A new object. */
json_t *fragments_json(const struct fragments *fragments, const struct by_code *code);

#endif
