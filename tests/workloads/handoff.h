/* handoff.h - what the program handoff and the check of its recording
 * (tests/tools/handoff_check.cc) agree on. */
#ifndef MALLOCTAPE_HANDOFF_H
#define MALLOCTAPE_HANDOFF_H

#include <malloc.h>
#include <stdint.h>

enum { HANDOFF_THREADS_MAX = 16 };

/* Around what a thread does: sizes that nothing else asks for. */
#define HANDOFF_BEGIN_BYTES UINT64_C(770000)
#define HANDOFF_END_BYTES   UINT64_C(880000)

/* An object: bits 63..48 the thread, 47..0 how many that thread had made before. */
static inline uint64_t handoff_id(uint64_t thread, uint64_t number)
{
    return thread << 48 | number;
}

/* Set in a log where the object was reallocated, not freed. */
#define HANDOFF_LOG_REALLOC (UINT64_C(1) << 63)

/* 8 bytes and more. Objects of one thread that follow one another, and objects of several threads
 * with the same number, differ in size; and mostly they are of few size classes, so that addresses
 * are used again soon. */
static inline uint64_t handoff_size(uint64_t id)
{
    uint64_t thread = id >> 48;
    uint64_t number = id & ((UINT64_C(1) << 48) - 1);
    uint64_t unlike = (number * HANDOFF_THREADS_MAX + thread) % 2039;
    if (number % 16 == 5) return 8;                 /* the smallest class */
    if (number % 1024 == 7) return 300000 + unlike; /* straight from the page heap */
    return number % 4 == 0 ? 8 + unlike : 1025 + unlike % 127;
}

#endif
