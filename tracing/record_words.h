/* record_words - how many words a record takes in a slot (FORMAT.md 7), for who writes chunks and who reads
 * the spool. */
#ifndef MALLOCTAPE_RECORD_WORDS_H
#define MALLOCTAPE_RECORD_WORDS_H

#include "../common/call_kind.h"
#include "raw_format.h"

/* `shape` is that of the number, SHAPE_UNDEFINED for what is not a call. 0: the number is undefined. */
static inline uint32_t record_words(uint32_t number, uint32_t shape)
{
    static const uint8_t words[SHAPE_HEAP + 1] = {
        [SHAPE_BIRTH] = 1,
        [SHAPE_BIRTH_ALIGNED] = 2,
        [SHAPE_REALLOC] = 2,
        [SHAPE_DEATH] = 1,
        [SHAPE_DEATH_SIZED] = 2,
        [SHAPE_DEATH_ALIGNED] = 2,
        [SHAPE_DEATH_SIZED_ALIGNED] = 3,
        [SHAPE_HEAP] = 3,
    };
    if (shape != SHAPE_UNDEFINED) return words[shape];
    switch (number) {
    case RAW_THREAD_BEGIN:
    case RAW_THREAD_END:
    case RAW_THREAD_CACHE_DELETED:
    case RAW_STAMP_BEFORE:
    case RAW_STAMP_AFTER: return 1;
    case RAW_LOST:
    case RAW_LOST_STAMPS: return 2;
    case RAW_FAILED: return 4;
    default: return 0;
    }
}

#endif
