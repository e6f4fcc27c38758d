/* unwind_own - what the files of unwind.h share.
 *
 *   unwind_object.c   objects, and what is read of them
 *   unwind.c          tables become rules
 *   unwind_step.c     steps that few rules need */
#ifndef MALLOCTAPE_UNWIND_OWN_H
#define MALLOCTAPE_UNWIND_OWN_H

#include "tracing/stacks/unwind.h"

#define UNWIND_PAGE_BYTES ((uintptr_t)4096) /* or a part of a page */

/* Whether the object with this id is the program. */
bool unwind_is_program(const void *id);

/* Notes which of the program's memory stays. */
void unwind_learn_program(struct unwind_object *object);

#endif
