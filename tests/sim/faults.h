/* faults - ways to record wrongly, to prove that somebody would see it: postprocess, or the
 * checker.
 *
 * The option `fault` chooses one. It is used wherever it can be, or often, and not each is seen in
 * each program: a bound that is one too high is only late. `simulate --mutant=all` wants each to be
 * seen in one program at least. */
#ifndef TESTS_SIM_FAULTS_H
#define TESTS_SIM_FAULTS_H

#include <cstdint>

/* X(identifier, name) */
#define SIM_FAULT_LIST(X)                                                                \
    X(kBoundHigh, "bound_high")     /* an allocation more than the other lane had had */ \
    X(kBoundLow, "bound_low")       /* an allocation less */                             \
    X(kLocal, "local_for_foreign")  /* an object of another lane as one of its own */    \
    X(kBelow, "taken_from_below")   /* the allocator takes the last of a list */         \
    X(kReversed, "cached_reversed") /* the last will be taken first */                   \
    X(kNotCached, "cached_dropped")                                                      \
    X(kNotUncached, "uncached_dropped")                                                  \
    X(kUncachedMore, "uncached_more")      /* one more than left the list */             \
    X(kImplied, "place_not_said")          /* though it is not the first of the list */  \
    X(kAge, "age_high")                    /* an older object, in packed chunks */       \
    X(kClassOfForeign, "class_of_foreign") /* another one */                             \
    X(kAfterLow, "after_low")              /* a call less */                             \
    X(kAfterDropped, "after_dropped")      /* whom an allocation is after */             \
    X(kFirstOnly, "after_of_first_only")   /* only who had the first bytes */            \
    X(kListed, "listed_wrong")             /* another place of the list */

enum Fault : uint64_t {
    kNoFault,
#define SIM_FAULT_ENUM(identifier, name) identifier,
    SIM_FAULT_LIST(SIM_FAULT_ENUM)
#undef SIM_FAULT_ENUM
        kFaults
};

#endif
