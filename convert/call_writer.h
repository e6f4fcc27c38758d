/* call_writer - takes the calls of another tool's file, one after another, and writes an
 * instruction stream.
 *
 *   reader of a format --struct call--> call_writer --> instruction_writer --> p.lz4
 *
 *     call_writer_thread(&writer, 17);
 *     call_writer_put(&writer, &(struct call){CALL_MALLOC, .began = address, .size = 24});
 *     call_writer_put(&writer, &(struct call){CALL_FREE, .ended = address});
 *     call_writer_finish(&writer);
 *
 * An object is known by its name in the file: an address, or an index plus one. If several threads
 * have written the file, its order is not always the real one: an object may be allocated at an
 * address whose free comes only later in the file. Then that call is held back until the free, with
 * all later calls of its thread; if the file has no threads, that call alone. If the free does not
 * come (CALLS_HELD_MAX calls are held, or the file ends), the older object stays alive, without a
 * name. Nothing is invented: every call of the file is one call of the stream, except frees of
 * NULL.
 *
 * Each thread has a lane; that of a thread that has ended is given to a later one.
 *
 * The first failure (output, memory, too many threads) stays in `error`, and later calls are
 * dropped.
 *
 * Memory: names.h for each live object, the calls that are held, and 24 bytes for each thread that
 * there ever was. One thread. */
#ifndef MALLOCTAPE_CALL_WRITER_H
#define MALLOCTAPE_CALL_WRITER_H

#include "common/output.h"
#include "convert/names.h"
#include "stream/instruction_writer.h"

#define CALLS_HELD_MAX 65536u

/* How far apart ticks are, in the time of the file. */
#define CALL_TICK_NS UINT64_C(10000000)

#define CALL_WRITER_ERROR_LIST(X)                                                          \
    X(CALL_WRITER_THREADS, "convert_threads", "more than 65 536 threads at the same time") \
    X(CALL_WRITER_SIZE, "convert_size", "an object of 2^64-1 bytes")
enum call_writer_error { CALL_WRITER_ERROR_LIST(ERROR_LIST_ENUM) };
extern const struct error_kind call_writer_errors[];

/* A call as a file has it. */
struct call {
    uint8_t kind;          /* enum call_kind; CALL_REALLOC_MOVED: any kind of realloc */
    uint64_t ended, began; /* names, or 0: of the object freed or moved, and of the one allocated */
    uint64_t size, alignment;
    uint64_t ways;  /* inside the allocator (INSTRUCTION_WAY_LIST); 0: not known */
    uint32_t stack; /* of the object allocated; STACK_END: not known */
};

struct call_writer_counts {
    uint64_t failed;        /* allocations and reallocs that returned no object */
    uint64_t unknown;       /* frees and reallocs of objects whose allocation is not in the file */
    uint64_t held;          /* allocations that came before the free of their address */
    uint64_t never_freed;   /* objects without a free in the file, though their address is reused */
    uint64_t others;        /* calls of other processes, which the reader leaves out */
    uint64_t beyond;        /* calls beyond the number that the file gives; set by the reader */
    uint64_t frees_of_null; /* left out: they do nothing */
};

struct thread;
struct held_call;

struct call_writer {
    bool has_threads; /* set before the first call */
    struct call_writer_counts counts;
    uint64_t peak_live_bytes; /* the most that live objects asked for */
    struct error error;
    struct instruction_writer instructions;

    /* From here on: call_writer.c only. */
    struct names names, thread_names;
    struct thread *threads;
    size_t threads_room;
    uint32_t threads_count, thread; /* the current one */
    uint32_t lanes;                 /* ever used */
    uint32_t *lanes_free, lanes_free_count;
    struct held_call *held; /* CALLS_HELD_MAX + 1 entries, or NULL before the first; 0 means none */
    uint32_t held_count, held_used, held_unused;
    uint32_t oldest, youngest; /* of the held calls */
    uint64_t *changed;         /* names that calls wait for and whose state has changed */
    size_t changed_first, changed_count;
    uint64_t first_ns, latest_ns, ticked_ns; /* of the file */
    uint64_t rss;
    bool timed;
};

/* Writes the header. `output` stays the caller's. `stacks`: the file has call stacks, whose
 * definitions the reader writes to writer->instructions. False: see writer->error. */
bool call_writer_open(struct call_writer *writer, struct output *output, const char *metadata,
                      bool stacks);

/* Sets the current thread: the calls that follow are its. */
void call_writer_thread(struct call_writer *writer, uint64_t id);

/* The current thread has ended. */
void call_writer_thread_end(struct call_writer *writer);

/* False: see writer->error. */
bool call_writer_put(struct call_writer *writer, const struct call *call);

/* Whether an object of this name is alive, by the calls written so far. */
bool call_writer_is_live(const struct call_writer *writer, uint64_t name);

/* The time in the file, in nanoseconds since any origin: becomes a tick from time to time. Times
 * that go back are ignored. `rss`: 0: not known. */
void call_writer_time(struct call_writer *writer, uint64_t ns, uint64_t rss);

/* Writes held calls and the end. False if anything has failed since the opening. */
bool call_writer_finish(struct call_writer *writer);

/* Writes held calls, but no end: the stream counts as truncated. */
void call_writer_cut(struct call_writer *writer);

void call_writer_close(struct call_writer *writer);

#endif
