/* info - what `malloctape info` finds in a stream of either format; info*.c only.
 *
 *   info.c --stream--+--> info_raw.c           --+
 *                    +--> info_instructions.c  --+--> struct info --> info_print.c --> text, JSON
 *
 * All numbers come from the records themselves; if the stream ends with totals, these are compared.
 *
 *   events == sum of by_kind               failed calls included
 *   bytes per event == file_bytes / events */
#ifndef MALLOCTAPE_INFO_H
#define MALLOCTAPE_INFO_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/call_kind.h"
#include "common/error.h"
#include "inspect/together.h"
#include "reading/mapping_table.h"
#include "reading/raw_source.h"
#include "reading/stream.h"
#include "stream/metadata.h"
#include "stream/residency.h"

struct info {
    enum stream_format format;
    bool lz4;
    unsigned version_major, version_minor;
    bool has_addresses;
    char *foreign_malloc; /* file that has the program's malloc, if it is not ours; or empty */
    char *program, *allocator, *recording, *pid; /* empty: not in the stream */
    char *architecture;                          /* of the machine; the same */
    unsigned long page_bytes;                    /* of its memory; 0: unknown */
    char *heap_unknown;                          /* why the heap's bytes are not known, or empty */
    char *source, *lacks; /* from `malloctape import`: the format it read, and what that lacks */
    char *what_if;        /* from `malloctape change`: what it changed */
    double thin;          /* from `malloctape cut --thin`: for how many an object stands; 0: not */
    double start_s;       /* since the epoch; 0: unknown */
    uint64_t duration_ns; /* until the end chunk, or the last tick */
    struct original original;
    struct statistics_names names;
    struct original_statistics statistics; /* from the last tick */

    uint64_t events, failed;
    uint64_t by_kind[CALL_KINDS];
    uint64_t threads, lanes, live_at_end, lost_events, ticks;
    bool live_is_known;    /* false for a raw stream that lacks events */
    bool frees_too_many;   /* raw stream: there were double frees; only ordering tells which */
    uint64_t freed_twice;  /* instruction stream only */
    uint64_t missed_frees; /* instruction stream only */
    bool has_base;         /* the same: INSTRUCTIONS.md 4.9 */
    uint64_t base_calls, base_objects, base_bytes;
    uint64_t instructions; /* instruction stream only */
    uint64_t sequences;    /* raw stream only */
    bool has_stacks;
    uint64_t stacks; /* calls with a call stack that made, changed or freed an object */
    uint64_t stack_nodes, stack_codes, stack_modules; /* defined */
    uint64_t codes_of_none;                           /* codes that are in no module */
    bool nodes_ran_out, modules_ran_out;              /* there were more than there are numbers */
    uint64_t stacks_unknown; /* stacks of calls that are not completely defined */
    bool has_mappings;
    struct mapping_table
        mappings; /* what was mapped; of a raw stream, calls that failed included */
    uint64_t residencies;
    uint64_t touched;       /* of large objects it is known which pages were resident; raw: looks */
    uint64_t touched_bytes; /* instruction stream only: resident of these */
    uint64_t waits, waited_ns;
    uint64_t lock_waits, lock_waited_ns;  /* of threads for the allocator's locks */
    uint64_t taken_bytes, released_bytes; /* got from the system, and given back */
    enum raw_spool spool;
    uint64_t spool_events; /* events that only the spool has */

    bool truncated;      /* the stream has no end, or ends a recording that was incomplete */
    const char *ended;   /* how it ended, for people; a constant */
    uint64_t file_bytes; /* 0: not a file */

    struct together *together; /* of all files, if they are several; or NULL */
};

/* Read a whole stream. Return an exit status; if the stream is bad, *error says how. */
int info_raw(struct info *info, struct stream *stream, const char *path, struct error *error);
int info_instructions(struct info *info, struct stream *stream, struct error *error);

/* A tick, `elapsed_ns` after the one before; its statistics have been taken. `usage` NULL: it has
 * none. */
void info_take_tick(struct info *info, uint64_t elapsed_ns, uint64_t rss_bytes,
                    const struct original_usage *usage);

void info_print(const struct info *info, const char *path);
void info_print_line(const struct info *info, const char *path);
void info_print_together(const struct together_most *most);

/* Takes the numbers about call stacks, when all has been read. */
static inline void info_take_stacks(struct info *info, const struct stacks *stacks)
{
    info->stack_nodes = stacks->nodes;
    info->stack_codes = stacks->codes;
    info->stack_modules = stacks->modules;
    info->codes_of_none = stacks->codes_of_none;
    info->modules_ran_out = stacks_modules_ran_out(stacks);
    info->nodes_ran_out = stacks_nodes_ran_out(stacks);
    info->stacks_unknown = stacks_unknown(stacks);
}

/* What was resident; its areas, which have been checked. */
void info_take_residency(void *info, const struct residency *residency, const uint8_t *at,
                         const uint8_t *end);

/* A chunk of mappings; a record. */
void info_take_mappings(struct info *info, const struct raw_chunk *chunk);
void info_take_mapping(void *info, const struct mapping_record *record);

/* A new object. */
json_t *info_json(const struct info *info);

#endif
