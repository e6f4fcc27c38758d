/* base - what is alive in an ordered stream, and what has worn its heap: from which a trace can begin
 * at any point (INSTRUCTIONS.md 4.9).
 *
 *   batch of instructions --> base_take() --> lives: an entry for each object, alive or dead
 *   definitions, mappings --> base_take_...()
 *                             base_write() --> instruction_writer: the base, up to its base_end
 *
 *     moments    |        |        |        |
 *     lives   --------------------------------------->  alive: kept
 *                   ----------                          dead, but lived across a moment: kept
 *                           ---                         dead, and never seen at one: dropped
 *
 * Between moments evenly spaced in bytes allocated, each is where live bytes were at a peak; when there are more than `moments_max`, every second
 * one goes, and with it the dead that lived across none of those that are left. The latest peak of
 * live bytes is one besides, and the tick at which RSS has moved most; and, for objects of about one size
 * (a class, of which each doubling has eight), the latest peak of their bytes. Large ones stay, however short
 * they lived: those of a BASE_LARGE_PART of the bytes between two moments. Of a base in the stream itself
 * (a part of a part) all lives stay, with as few moments as they need.
 *
 * A realloc ends one life and begins another of the same object, unless the first one was seen at no
 * moment: then it is as if the object had been made as it is now.
 *
 *   row[i], i < live     the life of the object with index i (instruction_reader.h), or BASE_NONE
 *   lives in use  ==  entries of `row` that have one + dead
 *   a dead life   :   it is large, or there is a moment m with born < m <= died
 *
 * Memory: 96 bytes for each object alive and each dead one that is kept, from pages_map(); the latter
 * are at most `dead_max`, for which moments go if they must. 8 bytes a node and 16 a code of call
 * stacks. While base_write() runs, 24 bytes for each of the lives more.
 * Errors: false or errno where it says so: no memory. Threads: one at a time. */
#ifndef MALLOCTAPE_BASE_BASE_H
#define MALLOCTAPE_BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/histogram.h"
#include "reading/mapping_table.h"
#include "stream/instruction_reader.h"
#include "stream/instruction_writer.h"
#include "stream/stacks.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BASE_MOMENTS_MAX  512u /* unless asked for otherwise; and the room for them is twice that */
#define BASE_MOMENTS_ROOM (2 * BASE_MOMENTS_MAX)
#define BASE_NONE         UINT32_MAX
#define BASE_CLASS_PART   4u /* classes of histogram.h are one here */
#define BASE_CLASSES      (HISTOGRAM_BUCKETS / BASE_CLASS_PART)
#define BASE_LARGE_PART   256u

struct base_limits {
    unsigned moments;  /* 0: BASE_MOMENTS_MAX; else 1 up to that; BASE_NO_MOMENTS */
    uint64_t dead_max; /* lives; 0: no limit */

    /* Which objects are taken, by the call that makes them; NULL: all. Of those that are not, there
     * is only a place in the row. */
    bool (*takes)(void *of, uint32_t lane, uint64_t size, uint32_t stack);
    void *of;
};
#define BASE_NO_MOMENTS UINT32_MAX /* only what is alive */

struct base_life;
struct base_thread;
struct base_setting;

struct base {
    uint64_t live;        /* objects */
    uint64_t dead;        /* lives that are kept although they have ended */
    uint64_t calls;       /* so far, those of a base in the stream left out */
    uint64_t ns;          /* of the latest tick, since recording began */
    uint32_t lane;        /* the current one */
    struct stacks stacks; /* all that has been defined */
    struct mapping_table mappings;

    /* From here on: base*.c only. */
    struct base_limits limits;
    struct base_life *lives;
    uint64_t lives_end, lives_capacity;
    uint32_t lives_free; /* the first free entry, or BASE_NONE */
    uint32_t *row;       /* by index: the life */
    uint64_t row_capacity;
    struct instruction_walk walk; /* of the present batch */
    const struct instruction_tick *tick;
    uint64_t at; /* instructions so far */

    uint64_t moments[BASE_MOMENTS_ROOM]; /* ascending */
    unsigned moments_count, moments_max;
    uint64_t newest;                /* of all moments */
    uint64_t peak_at, peak_bytes;   /* live bytes: the latest peak, and what the next one exceeds */
    uint64_t local_at, local_bytes; /* the same since the latest moment */
    uint64_t live_bytes;
    uint64_t moved_at, moved_most;   /* RSS at a tick */
    uint64_t allocated, next, every; /* bytes: so far, at the next moment, between two */
    struct base_class {
        uint64_t bytes, most; /* alive; and what the next peak exceeds */
        uint64_t at;          /* the latest peak */
    } classes[BASE_CLASSES];
    uint64_t dead_pruned; /* lives, after the latest pruning */

    struct base_thread *threads; /* of lives; and those that run */
    size_t threads_count, threads_room, threads_pruned;
    uint32_t threads_free; /* the first free entry, or BASE_NONE */
    uint32_t *running;     /* by lane: the thread, or BASE_NONE */

    struct base_setting *settings;
    size_t settings_count, settings_room;

    uint64_t rss_bytes, heap_bytes; /* by the latest tick */
    bool has_usage;
    struct original_usage usage;
    struct original_statistics statistics;
};

/* `page_bytes`: of the recorded machine, or 0. False: no memory. */
bool base_open(struct base *base, const struct base_limits *limits, uint64_t page_bytes);
void base_close(struct base *base);

/* Takes the instructions from index `from` up to `to` - 1 of a batch with indices. Batches come one
 * after another, and pieces of one too, from 0 on. False: no memory; the base may only be closed. */
bool base_take(struct base *base, const struct instruction_batch *batch, size_t from, size_t to);

/* What is defined, and mapped, as the reader hands it out. The first: NULL, or what is wrong. */
const char *base_take_definition(struct base *base, const struct stack_definition *definition);
void base_take_mapping(struct base *base, const struct mapping_record *record);

/* Writes all that was taken as the base of a stream that has INSTRUCTION_FEATURE_BASE and has nothing
 * yet, its base_end included. `registers` gets those of the live objects, by index, or
 * INSTRUCTION_NO_REGISTER of one that was not taken: it has room for `base->live`. The writer's current lane is then base->lane. The base stays as it is and can go on.
 * False: no memory. */
bool base_write(const struct base *base, struct instruction_writer *writer, uint32_t *registers);

/* Only what is alive, in no order and as if one thread had made it when recording began: for sums by call
 * stack. It takes a sixth of the time. False: no memory. */
bool base_write_live(const struct base *base, struct instruction_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
