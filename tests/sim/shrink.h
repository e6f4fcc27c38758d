/* shrink - a smaller program that still fails. */
#ifndef TESTS_SIM_SHRINK_H
#define TESTS_SIM_SHRINK_H

#include <functional>

#include "tests/sim/options.h"

/* Tries fewer events, threads and objects, and does without one feature after another, as long as
 * `fails` is true. A smaller program is another program, so the smallest is not always found. */
Options shrink(Options options, const std::function<bool(const Options &)> &fails);

#endif
