/* order_totals - what ordering a stream counts, and what may be wrong with one. */
#ifndef MALLOCTAPE_ORDER_TOTALS_H
#define MALLOCTAPE_ORDER_TOTALS_H

#include <stdint.h>

#include "common/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ORDER_ERROR_LIST(X)                                                                        \
    X(ORDER_STUCK, "order_stuck", "a record waits for another one that never comes (FORMAT.md 6)") \
    X(ORDER_SEQUENCE_REPEATED, "order_sequence_repeated",                                          \
      "this sequence number has occurred before (FORMAT.md 3)")                                    \
    X(ORDER_TOTALS, "order_totals",                                                                \
      "the end chunk's totals do not match the records (FORMAT.md 4.4)")
enum order_error { ORDER_ERROR_LIST(ERROR_LIST_ENUM) };
extern const struct error_kind order_errors[];

struct order_totals {
    uint64_t records;           /* taken so far */
    uint64_t spool_records;     /* decoded from chunks of a spool */
    uint64_t sequences;         /* of them */
    uint64_t failed;            /* calls that failed, of them */
    uint64_t unknown_objects;   /* calls that ended an object whose allocation is not known */
    uint64_t first_freed_twice; /* number of the first `freed_twice` instruction */
    uint64_t displaced;         /* allocations at places whose older objects seem to live on */
    uint64_t lost_events;
    uint64_t stacks; /* calls that brought, changed or freed an object, with a call stack */
    uint64_t sequences_missing; /* numbers that never came where that is no damage */
    uint64_t windows;           /* that were ended */
    uint64_t windows_overtaken; /* those that had not ended when the next one began */
    uint64_t steps_split;       /* steps that could not be taken as a whole */
    uint64_t steps_relaxed;     /* records that had to go without the rest of their step */
    uint64_t damages;           /* pieces of damage that were left out */
    uint32_t lanes;             /* that had records */
};

#ifdef __cplusplus
}
#endif
#endif
