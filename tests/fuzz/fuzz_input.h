/* fuzz_input - what the fuzzers do to their bytes before a reader gets them.
 *
 * The last byte of an input is not part of the stream, but chooses how it is read (FUZZ_...).
 * Checksums are put right where the lengths make sense, for a fuzzer would never get past them;
 * with FUZZ_KEEP they stay as they are. */
#ifndef TESTS_FUZZ_FUZZ_INPUT_H
#define TESTS_FUZZ_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

#define FUZZ_KEEP    1u
#define FUZZ_SALVAGE 2u

/* A changeable copy, valid until the next call; ends the process when there is no memory. */
uint8_t *fuzz_copy(const uint8_t *data, size_t bytes);

/* Checksums of a raw stream (FORMAT.md 4), a spool (FORMAT.md 8) and an instruction stream
 * (INSTRUCTIONS.md 4). */
void fuzz_seal_raw(uint8_t *data, size_t bytes);
void fuzz_seal_spool(uint8_t *data, size_t bytes);
void fuzz_seal_instructions(uint8_t *data, size_t bytes);

/* A file of these bytes, at its beginning. There are two of them, `which` 0 and 1, that are used
 * again and again. */
int fuzz_file(unsigned which, const uint8_t *data, size_t bytes);

/* The name by which it can be opened. */
const char *fuzz_file_name(unsigned which);

#endif
