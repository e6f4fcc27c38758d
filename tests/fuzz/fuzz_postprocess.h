/* fuzz_postprocess - the whole of postprocess over a raw stream in memory: reader, decoder, spool
 * reader, ordering, writer. */
#ifndef TESTS_FUZZ_FUZZ_POSTPROCESS_H
#define TESTS_FUZZ_FUZZ_POSTPROCESS_H

#include <stddef.h>
#include <stdint.h>

/* `spool` NULL: there is none. `choice`: the last byte of the input (fuzz_input.h). What comes out
 * is thrown away. With FUZZ_DIRECTORY in the environment, the files `raw` and `raw.spool` are
 * written there first. */
void fuzz_postprocess(const uint8_t *raw, size_t raw_bytes, const uint8_t *spool,
                      size_t spool_bytes, unsigned choice);

#endif
