/* life.h - what the program life leaves behind when it is killed. */
#ifndef MALLOCTAPE_LIFE_H
#define MALLOCTAPE_LIFE_H

#include <stdint.h>

/* Of one thread: its calls of malloc and free. begun - done is 0, or 1 in the middle of a call. */
struct life_count {
    uint64_t thread_id;
    uint64_t begun;
    uint64_t done;
};

#endif
