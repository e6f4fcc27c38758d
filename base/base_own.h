/* base_own - what the files of the base share (base.h).
 *
 *   base.c           lives, as the stream passes
 *   base_moments.c   which of the dead stay
 *   base_threads.c   threads and settings
 *   base_write.c     the instructions
 *   base_stacks.c    definitions and mappings */
#ifndef MALLOCTAPE_BASE_BASE_OWN_H
#define MALLOCTAPE_BASE_BASE_OWN_H

#include "base/base.h"

#define BASE_ALIVE UINT64_MAX

/* An object from its allocation, or a realloc, to its free, or the next realloc. */
struct base_life {
    uint64_t born, died; /* as numbers of instructions; died: BASE_ALIVE; 0: the entry is free */
    uint64_t born_ns, died_ns;
    uint64_t size, alignment, address;
    uint32_t stack, died_stack;
    uint32_t before,
        after; /* the lives of the same object, or BASE_NONE; of a free entry: the next */
    uint32_t thread, died_thread;
    uint8_t kind, died_kind; /* as the object was made; as it ended */
};

/* A thread that has made or ended something; without an id: what is in a lane before any begins. */
struct base_thread {
    uint64_t id;
    uint64_t began, ended; /* as numbers of instructions; ended: BASE_ALIVE */
    uint64_t began_ns, ended_ns;
    uint32_t lane;
    uint32_t next_free; /* of an entry that is free: the next one, or BASE_NONE */
    bool has_id, is_used, is_marked;
};

/* The latest call of its kind, of what stays set. */
struct base_setting {
    uint64_t at, ns, numbers[2];
    unsigned kind, count;
    uint32_t thread;
};

/* ---- base_moments.c ---- */

/* Whether a life that ends now was seen at a moment that is everybody's. */
static inline bool base_is_seen(const struct base *base, uint64_t born)
{
    return born < base->newest;
}

static inline unsigned base_class_of(uint64_t size)
{
    return (unsigned)histogram_bucket(size) / BASE_CLASS_PART;
}

static inline bool base_is_large(const struct base *base, uint64_t size)
{
    return size >= base->every / BASE_LARGE_PART;
}

/* Whether a life that ends now stays. */
static inline bool base_stays(const struct base *base, const struct base_life *life)
{
    return base_is_seen(base, life->born) || base_is_large(base, life->size) ||
           life->born < base->classes[base_class_of(life->size)].at;
}

/* What is alive is seen, from now on. */
void base_add_moment(struct base *base);

/* So much was allocated: it may be time for a moment. */
static inline void base_count_allocated(struct base *base, uint64_t bytes)
{
    base->allocated += bytes;
    if (__builtin_expect(base->allocated >= base->next, 0)) base_add_moment(base);
}

/* A base in the stream has ended: what is alive will take about as much to be replaced. */
void base_begin_moments(struct base *base);

/* Live bytes are at a new peak. */
void base_note_peak(struct base *base);

/* The bytes of a class are. */
void base_note_class_peak(struct base *base, struct base_class *of);

/* RSS at a tick. */
void base_note_rss(struct base *base, uint64_t rss_bytes);

/* Drops dead lives that no moment has seen. */
void base_prune(struct base *base);

/* One more life is dead and kept: there may be too many. */
void base_limit_dead(struct base *base);

/* ---- base.c ---- */

void base_drop_life(struct base *base, uint32_t life);

/* ---- base_threads.c ---- */

bool base_threads_open(struct base *base);
void base_threads_close(struct base *base);

/* The thread that runs in the current lane; BASE_NONE: no memory. */
uint32_t base_thread(struct base *base);
bool base_thread_begins(struct base *base, uint64_t id);
void base_thread_ends(struct base *base);

/* A call on the whole heap. False: no memory. */
bool base_set(struct base *base, unsigned kind, const uint64_t *numbers, unsigned count);

/* ---- base_stacks.c ---- */

void base_write_stacks(const struct stacks *stacks, struct instruction_writer *writer);

/* False: no memory. */
bool base_write_mappings(const struct mapping_table *table, struct instruction_writer *writer);

#endif
