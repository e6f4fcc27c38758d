/* why - tells what an instruction has waited for. */
#ifndef MALLOCTAPE_WHY_H
#define MALLOCTAPE_WHY_H

#include <stdint.h>
#include <stdio.h>

#include "postprocess/order.h"

/* A line for the instruction, for its window, and for each wait. */
void why_print(uint64_t instruction, const struct order_answer *answer, FILE *to);

#endif
