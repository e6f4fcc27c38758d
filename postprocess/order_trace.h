/* order_trace - a whole raw stream into a whole instruction stream.
 *
 *   raw_reader --chunks---------------> order --> instruction_writer
 *        \--cut--> spool_reader --chunks--^
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
#ifndef MALLOCTAPE_ORDER_TRACE_H
#define MALLOCTAPE_ORDER_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/output.h"
#include "postprocess/order.h"
#include "stream/instruction.h"
#include "stream/raw_reader.h"

#ifdef __cplusplus
extern "C" {
#endif

enum order_trace_status {
    ORDER_TRACE_COMPLETE,
    ORDER_TRACE_CUT,
    ORDER_TRACE_SALVAGED,
    ORDER_TRACE_DAMAGED,
    ORDER_TRACE_FAILED
};

enum order_trace_spool {
    ORDER_TRACE_SPOOL_NONE, /* not needed, or there is none */
    ORDER_TRACE_SPOOL_USED,
    ORDER_TRACE_SPOOL_OTHER,  /* it belongs to another recording */
    ORDER_TRACE_SPOOL_DAMAGED /* damage in it; what was before that was used */
};

struct order_trace_result {
    enum order_trace_status status;
    struct error error;   /* the first of the stream or the output, from ORDER_TRACE_SALVAGED on */
    bool truncated;       /* the stream has no end chunk, or an error had ended the recording */
    uint64_t lost_at_end; /* events lost, as the end of the stream says: also after the last record
                             of a loss */
    struct error cut;     /* where it ends, if it has no end chunk */
    enum order_trace_spool spool;
    struct error spool_error;    /* with ORDER_TRACE_SPOOL_DAMAGED */
    uint64_t spool_records;      /* taken from it */
    uint32_t spool_lanes_gapped; /* lanes that the spool does not have completely */
    struct instruction_totals totals;
    struct order_totals order;
    uint64_t ticks;
    uint64_t bytes_in, bytes_out;
};

struct order_trace_options {
    const char
        *path; /* of the file that the reader reads, if that can be read once more, or NULL */
    const char *spool_path; /* where the spool would be, or NULL */
    bool
        spool_completes; /* a stream with the rest in its spool is complete, as a file that `record`
                               has finished */
    /* Where the recorder puts the spool of a stream without a file (tracing/data/output_files.h), or
     * NULL. */
    const char *spool_directory;
    struct order_options order;
    /* Called every now and then, unless it is NULL: how much of the file has been read, and how
     * many instructions have been put. */
    void (*progress)(void *context, uint64_t bytes_in, uint64_t instructions);
    void *context;
};

/* Orders what `reader` reads; it has been opened. */
void order_trace(struct raw_reader *reader, const struct order_trace_options *options,
                 struct output *output, struct order_trace_result *result);

#ifdef __cplusplus
}
#endif
#endif
