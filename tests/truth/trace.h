/* trace - a recording, read: the calls of each thread.
 *
 * One thread; memory for all of it. */
#ifndef MALLOCTAPE_TRUTH_TRACE_H
#define MALLOCTAPE_TRUTH_TRACE_H

#include <stdbool.h>
#include <stdint.h>

/* No recorded object; a place and a bound at which nobody was allocated. */
#define TRACE_UNKNOWN UINT64_C(0)
#define TRACE_NOBODY  UINT64_MAX

struct trace_call {
    uint8_t number; /* of the record (FORMAT.md 3); RAW_LOST: `size` calls are missing here */
    uint8_t kind;
    uint64_t size, alignment;
    uint64_t ended;     /* raw_allocations(): whose allocation, and which; TRACE_UNKNOWN */
    uint64_t began;     /* the same; 0: none */
    uint64_t address;   /* 0: not recorded */
    uint32_t place;     /* of the object that began, */
    uint32_t end_place; /* and of the one that ended */
};

struct trace_thread {
    uint64_t id;
    uint32_t truth; /* the number of the thread there; for truth_check */
    uint32_t count, room;
    struct trace_call *calls;
};

struct trace {
    struct trace_thread *threads;
    uint32_t threads_count;
    uint64_t *allocations; /* by lane: how many are in the stream */
    uint64_t heap_calls, lost;
};

/* Prints what is wrong and ends the program if the stream is damaged. One that was cut is read to
 * its end. */
void trace_read(struct trace *trace, const char *path);
void trace_free(struct trace *trace);

#endif
