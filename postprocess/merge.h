/* merge - several recordings of one run, a process and its children, as one stream.
 *
 *   recording --thread: run_order--> pipe --instruction_reader--+
 *   recording --thread: run_order--> pipe --instruction_reader--+--by time--> instruction_writer
 *
 * Each recording is ordered by itself. Then the one whose window began first is let go on, to its next tick. The clock of
 * the result is that of the windows; its memory is the sum over the processes that live. Lanes are numbered anew, in
 * the order in which they come, and so are registers: objects of different processes are different objects.
 *
 * Windows are as near as ticks are: nothing is known of the order of calls of different processes.
 *
 * Threads  one that calls, and one or two for each recording. Memory: that of run_order() for each, and 4 bytes for each
 *          register. */
#ifndef MALLOCTAPE_MERGE_H
#define MALLOCTAPE_MERGE_H

#include "postprocess/run.h"

#ifdef __cplusplus
extern "C" {
#endif

struct merge_input {
    struct raw_reader *reader; /* opened */
    struct run_options options;
    struct run_result result; /* of its ordering */
};

/* `result`: of all together; its error is that of the output, or else of the first input in `inputs` that has one. Sorts
 * the inputs by the time at which their recording began. */
void merge_run(struct merge_input *inputs, uint32_t count, struct output *output,
               void (*progress)(void *context, uint64_t bytes_in, uint64_t instructions),
               void *context, struct run_result *result);

#ifdef __cplusplus
}
#endif
#endif
