/* checker - whether an instruction stream is a legal order of what a simulated program did.
 *
 *   Truth ----------------\
 *                          check()  "" or what is wrong
 *   decoded instructions -/
 *
 * It knows the truth and FORMAT.md 6, and nothing of how ordering works:
 *
 *   each thread's calls, in its order, each of them once, with all their operands and flags;
 *   each call ends or changes the very object that it did: no allocation comes too late, and no
 *     pairing is wrong;
 *   what ends an object of another lane comes after as many allocations of that as when it did;
 *   registers live once;
 *   sequence numbers: there is a way to put the sequence numbers, each between the calls that its
 *     thread made before and after it, among
 *     the calls as they stand, so that the numbers of each structure ascend;
 *   ticks come all, with their numbers; a call is at most a window from its own, except where what
 *     had to come before
 *     or after it was farther away;
 *   where no call was interrupted, the numbers of each structure ascend from whole call to whole
 *     call;
 *   addresses, totals, statuses, metadata. */
#ifndef TESTS_SIM_CHECKER_H
#define TESTS_SIM_CHECKER_H

#include <cstdint>
#include <string>

#include "tests/sim/instructions.h"
#include "tests/sim/options.h"
#include "tests/sim/truth.h"

struct CheckResult {
    std::string problem; /* empty: there is none */
    uint64_t calls = 0;
    /* Calls that, taken as a whole with their sequence numbers, stand on the wrong side of another.
     * That breaks no rule, and must be where calls are interrupted; in programs without that it is
     * a problem. */
    uint64_t inversions = 0;
};

CheckResult check(const Options &options, const Truth &truth, const Instructions &instructions);

#endif
