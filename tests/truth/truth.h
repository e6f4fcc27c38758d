/* truth - what a program asked of its allocator, as a witness in front of the allocator saw it.
 *
 *   program --> libtruth.so --> libtcmalloc_minimal_tracing.so
 *                   |                      |
 *                 truth                recording            both --> truth_check
 *
 * A truth is a file of records of one size, in the order of their tickets. A ticket is taken from
 * one counter for all threads: for an allocation after the real call, for a free before it, for a
 * realloc one before and one after. So of two objects at one address the first one's free stands
 * before the second one's allocation, whatever the threads do at the same time, and which object a
 * free ends is known from the addresses alone.
 *
 * With TRUTH_LOCK=1 the witness holds one lock around each call: the file is then the order of the
 * calls itself. */
#ifndef MALLOCTAPE_TRUTH_H
#define MALLOCTAPE_TRUTH_H

#include <stdint.h>

#include "common/call_kind.h"

#define TRUTH_MAGIC UINT64_C(0x3168747572545430)

/* The first page of the file. Records follow it. */
#define TRUTH_HEADER_BYTES 4096u

struct truth_header {
    uint64_t magic;
    uint64_t room;    /* for records */
    uint64_t tickets; /* taken; more than `room`: the rest is missing */
    uint64_t unready; /* calls before the witness could read its environment: not in the file */
};

/* An allocation has the kind of its call and `result` (0: failed); a free has `object`. A realloc
 * of an object is CALL_REALLOC_MOVED here, whether it moves or not, with both, and
 * TRUTH_REALLOC_DONE after it. free(NULL) and its like are no calls. */
enum truth_kind {
    TRUTH_THREAD = 60, /* a thread is seen for the first time: its number, and in `size` its id */
    TRUTH_REALLOC_DONE = 61 /* `object` is the ticket of the call, `result` as there */
};

enum truth_flag {
    TRUTH_RETURNED = 1,   /* the call */
    TRUTH_UNSURE = 2,     /* recording began, ended, paused or went on during the call */
    TRUTH_UNRECORDED = 4, /* nothing was recorded at the time */
};

struct truth_record {
    uint32_t thread; /* numbers of threads count from 1 */
    uint8_t kind;    /* 0: a call that its thread did not live to write down */
    uint8_t flags;
    uint16_t unused;
    uint64_t object, result; /* addresses */
    uint64_t size, alignment;
};

#endif
