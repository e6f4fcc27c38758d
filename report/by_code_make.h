/* by_code_make - makes the rows of by_code.h. */
#ifndef MALLOCTAPE_REPORT_BY_CODE_MAKE_H
#define MALLOCTAPE_REPORT_BY_CODE_MAKE_H

#include "report/by_code.h"

/* Once code->tally has all batches and code->stacks the definitions. False: no memory. */
bool by_code_make(struct by_code *code, const struct by_code_options *options,
                  const struct code_places *places);

#endif
