/* interpreter - the functions that an interpreter runs in the calling thread, for its call stack.
 *
 *   a module is seen ---------interpreter_watcher----> it is an interpreter of a known version
 *   the frames of a stack ----interpreter_frames()---> functions, innermost first, in runs; a hash
 *   a stack of another hash --interpreter_numbers()--> the codes of its functions
 *
 * One native function of the interpreter runs any number of its language's functions: they are a
 * run, and its `mark` is an address in the frame of that native function. So the runs of a stack
 * are put between its native frames by their addresses (call_stack_mixed.c).
 *
 * What is read belongs to the calling thread, and stays: what runs is held by its frame. A thread
 * that has the interpreter's lock reads it as it is, once everything has been found in its place by
 * reading copies (unwind_memory.h), if the innermost run's mark is where the innermost native frame
 * of the interpreter's loop has it. Where it is not, a library such as greenlet is just exchanging
 * what is on the stack, or another interpreter runs in the thread: then what the loop has there is
 * read by copies, if that can be told. A thread without the lock reads copies.
 *
 * No address of a function is remembered from one stack to the next: a hash of what is recorded of
 * it stands for it, read anew each time. So one that dies, and another one in its place, are never
 * confused.
 *
 * A file for each language is behind this (interpreter_own.h). There may be one interpreter at a
 * time in a process: the first that is seen.
 *
 * Threads   any that has a lane; there are no locks, and nothing allocates. */
#ifndef MALLOCTAPE_INTERPRETER_H
#define MALLOCTAPE_INTERPRETER_H

#include "common/atomic.h"
#include "tracing/stacks/stack_table.h"

/* Functions and runs of one stack. */
#define INTERPRETER_DEPTH_MAX 256u
#define INTERPRETER_RUNS_MAX  64u

struct interpreter_run {
    uintptr_t mark;
    uint32_t end; /* how many functions there are up to the end of this run */
};

/* The number of a function that has been met lately, by a hash. */
struct interpreter_number {
    uint64_t key;
    uint32_t number;
};
#define INTERPRETER_NUMBERS 512u

/* What has been read of a function's code in this stack. */
struct interpreter_read {
    uintptr_t code;
    uint64_t hash;
    uint32_t first;
};
#define INTERPRETER_READS 16u

#define INTERPRETER_TEXT_MAX 512u

/* A lane's, of which interpreter_...c uses what it needs; all zero at first. */
struct interpreter_memory {
    struct interpreter_number numbers[INTERPRETER_NUMBERS];
    struct interpreter_read reads[INTERPRETER_READS];
    uint8_t text[INTERPRETER_TEXT_MAX]; /* to work in, as stacks are small */
};

struct interpreter_function {
    uintptr_t code;
    int64_t at;   /* this byte of its instructions */
    uint64_t key; /* a hash of what is recorded of it there */
};

struct interpreter_stack {
    uint32_t count, runs;
    bool is_deeper; /* it goes on, but this is too much */
    bool is_cut;    /* something further out could not be read */
    bool is_placed; /* read as it is: the innermost mark is where the loop has it */
    uint64_t key;   /* a hash of all of it, and of the marks */
    struct interpreter_function function[INTERPRETER_DEPTH_MAX];
    uint32_t code[INTERPRETER_DEPTH_MAX]; /* filled by interpreter_numbers() */
    struct interpreter_run run[INTERPRETER_RUNS_MAX];
    struct interpreter_memory memory;
};

/* Begins a recording, in which nobody records yet. */
void interpreter_begin(void);

/* Notices the interpreter among the modules, and when it is unloaded. */
extern const struct stack_table_watcher interpreter_watcher;

/* Where the interpreter's code is: a stack without it has no functions of the interpreter. */
struct interpreter_range {
    uintptr_t start, end;
};
extern struct interpreter_range interpreter_range; /* empty: there is none */

/* Where the function that runs functions is, of an interpreter that has such a one; and what of it
 * the compiler has put elsewhere, once that has been met (the end is written last). */
extern struct interpreter_range interpreter_loop, interpreter_loop_rest;

/* The native frames of the interpreter, from the innermost one to that of its loop. */
#define INTERPRETER_NATIVE_MAX 64u
struct interpreter_native {
    uint32_t count;
    bool has_loop; /* the last one is its loop's */
    struct interpreter_native_frame {
        uintptr_t pc, from, end;
    } frame[INTERPRETER_NATIVE_MAX];
};

static inline bool interpreter_has(const struct interpreter_range *range, uintptr_t pc)
{
    return pc - range->start < range->end - range->start;
}

static inline bool interpreter_is_loop(uintptr_t pc)
{
    struct interpreter_range rest;
    rest.end = atomic_load_acquire(&interpreter_loop_rest.end);
    rest.start = atomic_load_relaxed(&interpreter_loop_rest.start);
    return interpreter_has(&interpreter_loop, pc) || (rest.end && interpreter_has(&rest, pc));
}

/* Finds them. The calling thread's stack has a frame in `interpreter_range`. */
void interpreter_frames(const struct malloctape_lane *lane, struct unwind_memory *memory,
                        const struct interpreter_native *native, struct interpreter_stack *stack);

/* The numbers of the functions that have just been found. False: there is no room in the lane. */
bool interpreter_numbers(struct malloctape_lane *lane, struct unwind_memory *memory,
                         struct interpreter_stack *stack);

#endif
