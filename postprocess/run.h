/* run - a whole raw stream into a whole instruction stream.
 *
 *   raw_reader --chunks--> read_ahead --> order --> instruction_writer
 *        \--cut--> spool_reader --chunks----^
 *
 * Ordering is order.h; this is what surrounds it: ticks, the spool of a process that could not
 * finish its stream (FORMAT.md 8), the totals of the end chunk, handing out what there is when the
 * input runs dry.
 *
 * How it ended is one of
 *
 *   complete   the stream was complete, all of it was ordered
 *   cut        all there was was ordered, but the recording ended before its program did, or events
 *              were lost
 *   salvaged   as far as it goes, but some of the stream was damaged and has been left out
 *   damaged    the stream is damaged; what was ordered before that is in the output, and the output
 *              says so
 *   failed     the output, or the system: `error` says what */
#ifndef MALLOCTAPE_RUN_H
#define MALLOCTAPE_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/output.h"
#include "postprocess/instruction.h"
#include "postprocess/order.h"
#include "tracing/raw_reader.h"

#ifdef __cplusplus
extern "C" {
#endif

enum run_status { RUN_COMPLETE, RUN_CUT, RUN_SALVAGED, RUN_DAMAGED, RUN_FAILED };

enum run_spool {
    RUN_SPOOL_NONE, /* not needed, or there is none */
    RUN_SPOOL_USED,
    RUN_SPOOL_OTHER,  /* it belongs to another run */
    RUN_SPOOL_DAMAGED /* damage in it; what was before that was used */
};

struct run_result {
    enum run_status status;
    struct error error;   /* the first of the stream or the output, from RUN_SALVAGED on */
    bool truncated;       /* the stream has no end chunk, or an error had ended the recording */
    uint64_t lost_at_end; /* events lost, as the end of the stream says: also behind the last record
                             of a loss */
    struct error cut;     /* where it ends, if it has no end chunk */
    enum run_spool spool;
    struct error spool_error;    /* with RUN_SPOOL_DAMAGED */
    uint64_t spool_records;      /* taken from it */
    uint32_t spool_lanes_gapped; /* lanes of which the spool has not everything */
    struct instruction_totals totals;
    struct order_totals order;
    uint64_t ticks;
    uint64_t bytes_in, bytes_out;
};

struct run_options {
    const char *spool_path; /* where the spool would be, or NULL */
    struct order_options order;
    /* Called every now and then, unless it is NULL: how much of the file has been read, and how
     * many instructions have been put. */
    void (*progress)(void *context, uint64_t bytes_in, uint64_t instructions);
    void *context;
};

/* Orders what `reader` reads; it has been opened. */
void run_order(struct raw_reader *reader, const struct run_options *options, struct output *output,
               struct run_result *result);

#ifdef __cplusplus
}
#endif
#endif
