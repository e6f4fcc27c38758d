/* call_sizes - writes the size of each call that asks for memory: one decimal number a line, in the
 * order of the calls, failed ones and reallocs included. */
#ifndef MALLOCTAPE_REPORT_CALL_SIZES_H
#define MALLOCTAPE_REPORT_CALL_SIZES_H

#include "common/output.h"
#include "stream/instruction_reader.h"

/* Compressed if the name ends in .lz4; "-" is the standard output. False: see output->error. */
bool call_sizes_open(struct output *output, const char *path);

/* Writes the sizes of a batch with indices. */
void call_sizes_add(struct output *output, const struct instruction_batch *batch);

#endif
