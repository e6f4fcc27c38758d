/* path - how far into the allocator a call of a recording had to go.
 *
 * Records before and after a call tell: sequence numbers of entries into structures, and what
 * happened inside (FORMAT.md 3). A record is about either the lane's next call or its latest one
 * (path_is_of_latest()). A call without any was served by the thread's cache. */
#ifndef MALLOCTAPE_READING_PATH_H
#define MALLOCTAPE_READING_PATH_H

#include <stdbool.h>

#include "stream/raw_decoder.h"

/* Bits; the first three are in order of depth. */
enum {
    PATH_CENTRAL = 1,
    PATH_PAGE_HEAP = 2,
    PATH_SYSTEM = 4,
    PATH_WAITED = 8,
    PATH_SPLIT = 16,
    PATH_MERGED = 32,
    PATHS = 64,
    PATH_BEYOND_CACHE = PATH_CENTRAL | PATH_PAGE_HEAP | PATH_SYSTEM,
    PATH_LETTERS = 8 /* with the end of the string */
};

/* How deep a call had to go. */
enum path_depth { DEPTH_CACHE, DEPTH_CENTRAL, DEPTH_PAGE_HEAP, DEPTH_SYSTEM, DEPTHS };

static inline enum path_depth path_depth(unsigned path)
{
    const unsigned beyond = path & PATH_BEYOND_CACHE;
    return beyond ? (enum path_depth)(32 - __builtin_clz(beyond)) : DEPTH_CACHE;
}

/* The bits that a record adds to the path of its call; 0: none. */
static inline unsigned path_of_record(const struct record *record)
{
    if (record->number == RAW_INSIDE) {
        switch (record->structure) {
        case RAW_INSIDE_SBRK:
        case RAW_INSIDE_MMAP:
        case RAW_INSIDE_RELEASE: return PATH_SYSTEM;
        case RAW_INSIDE_REUSE: return 0;
        case RAW_INSIDE_SPLIT: return PATH_SPLIT;
        case RAW_INSIDE_MERGE: return PATH_MERGED;
        default: return PATH_WAITED;
        }
    }
    if (record->number != RAW_SEQUENCE_BEFORE && record->number != RAW_SEQUENCE_AFTER) return 0;
    return record->structure == RAW_STRUCTURE_PAGE_HEAP ? PATH_PAGE_HEAP : PATH_CENTRAL;
}

/* Whether a record is about the latest call, or something the thread did after it; else it is about
 * the next call. */
static inline bool path_is_of_latest(const struct record *record)
{
    return record->number == RAW_SEQUENCE_AFTER ||
           (record->number == RAW_INSIDE && record->operand != 0);
}

/* Formats a path: "T------" for the thread's cache alone, else a letter for each bit: "-CPSWDM". */
static inline void path_letters(char letters[PATH_LETTERS], unsigned path)
{
    static const char bits[] = "CPSWDM";
    letters[0] = path & PATH_BEYOND_CACHE ? '-' : 'T';
    for (unsigned i = 0; i < sizeof bits - 1; i++)
        letters[i + 1] = path >> i & 1 ? bits[i] : '-';
    letters[PATH_LETTERS - 1] = '\0';
}

#endif
