/* mutants - ways to spoil a correct result, to prove that the checker would see it.
 *
 * Each one changes the instructions as decoded, in one place that is chosen so that the change
 * breaks a rule. */
#ifndef TESTS_SIM_MUTANTS_H
#define TESTS_SIM_MUTANTS_H

#include <string>
#include <vector>

#include "tests/sim/instructions.h"
#include "tests/sim/random.h"
#include "tests/sim/truth.h"

/* Names of all of them. */
std::vector<std::string> mutant_names();

/* False: there is no such mutant, or no place for it in these instructions. */
bool mutate(const std::string &name, Random &random, bool opaque, const Truth &truth,
            Instructions &instructions);

#endif
