/* unwind_own - what the files of unwind.h share.
 *
 *   unwind_object.c   objects, and what is read of them
 *   unwind.c          tables become rules
 *   unwind_bytes.c    how these are read
 *   unwind_step.c     steps that few rules need */
#ifndef MALLOCTAPE_UNWIND_OWN_H
#define MALLOCTAPE_UNWIND_OWN_H

#include "tracing/stacks/unwind.h"

#define UNWIND_PAGE_BYTES ((uintptr_t)4096) /* or a part of a page */

/* Whether the object with this id is the program. */
bool unwind_is_program(const void *id);

/* Notes which of the program's memory stays. */
void unwind_learn_program(struct unwind_object *object);

/* ---- bytes of a table ---- */

struct unwind_source {
    struct unwind_memory *memory;
    const struct unwind_object *object;
    bool is_cut; /* something could not be read */
};

/* Reads on; past the end it reads zeros. */
struct unwind_reader {
    uintptr_t at, end;
    struct unwind_source *source;
};

/* False: the source is cut. */
bool unwind_read_bytes(struct unwind_source *source, uintptr_t from, void *to, size_t bytes);

/* A number of up to eight bytes; LEB128; what comes behind a length. */
uint64_t unwind_take(struct unwind_reader *reader, unsigned bytes);
uint64_t unwind_take_unsigned(struct unwind_reader *reader);
int64_t unwind_take_signed(struct unwind_reader *reader);
struct unwind_reader unwind_take_block(struct unwind_reader *reader);

/* A pointer in the encoding of DW_EH_PE_...; `relative`: it may be relative to its own address. */
uint64_t unwind_take_encoded(struct unwind_reader *reader, unsigned encoding, bool relative);

#endif
