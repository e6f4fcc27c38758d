/* code_view - which functions of a stack are shown (code_names.h, enum code_view). */
#ifndef MALLOCTAPE_SYMBOLS_CODE_VIEW_H
#define MALLOCTAPE_SYMBOLS_CODE_VIEW_H

#include "symbols/code_names.h"

/* Drops those that are not, of a stack's frames (code_names_walk()). Returns how many are left. */
unsigned code_view_take(const struct code_names *names, uint32_t *at, unsigned count);

#endif
