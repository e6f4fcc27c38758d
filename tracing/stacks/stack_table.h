/* stack_table - the numbers of a recording's modules, codes and nodes (FORMAT.md 2.8), and the
 * rules by which code is unwound.
 *
 *   an address where a function goes on --stack_table_code()--> its rule, and its code
 *   the codes of a stack --stack_table_of_call(), _child()----> its node
 *
 * One for the process. What has no number yet gets one, and is defined in the lane of the calling
 * thread before another thread can find it. Two threads may do so at the same time: then the same
 * thing has two numbers.
 *
 * Rules and codes are kept as long as their objects are loaded. dlclose() notices an object that
 * the program unloads; one that the C library unloads is noticed by what comes in its place.
 *
 * Threads   any that has a lane, also in signal handlers. There are no locks.
 * Memory    512 KiB of rules, of which what is used becomes resident, and the maps. A forked child
 *           finds all of it empty. */
#ifndef MALLOCTAPE_STACK_TABLE_H
#define MALLOCTAPE_STACK_TABLE_H

#include "tracing/data/lane.h"
#include "tracing/stacks/unwind.h"

/* Who is told of modules. */
struct stack_table_watcher {
    /* One has been seen for the first time. If it is an interpreter, its language; else NULL. */
    const char *(*seen)(struct unwind_memory *memory, const struct unwind_object *object,
                        uint32_t module);
    void (*unloaded)(uint32_t module);
};

/* Begins an empty one, for a recording in which nobody records yet. False: there is no memory. */
bool stack_table_begin(const struct stack_table_watcher *watcher);

/* Changes whenever something may have been unloaded: rules found at another time must not be used.
 * 0: something is being unloaded now, or this is a forked child, which has no table. */
uint64_t stack_table_time(void);

/* Made by the linker: where this library is. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

/* Whether code is of the recorder itself, or the allocator in its library. */
static inline bool stack_table_is_own(uintptr_t pc)
{
    return pc - (uintptr_t)__ehdr_start < (uintptr_t)(_end - __ehdr_start);
}

struct stack_code {
    struct unwind_rule rule;
    uint32_t number; /* 0: stack_table_is_own() */
};

/* The rule and the number of the code that goes on at `pc`. False: it has no number, as there is no
 * memory or no room in the lane. */
bool stack_table_code(struct malloctape_lane *lane, struct unwind_memory *memory, uintptr_t pc,
                      struct stack_code *code);

/* Functions of source code that an interpreter runs (interpreter.h). What is known of a file or of
 * a function has a hash, by which its number is found: of the file's module, or of the code. False:
 * it has none yet. */
bool stack_table_of_source(uint64_t hash, uint32_t *number);

/* Defines a module of source code. Its number is STACK_MODULE_NONE if there are too many. False:
 * there is no room in the lane. */
bool stack_table_define_source(struct malloctape_lane *lane, uint64_t hash, const char *language,
                               const char *path, uint32_t path_bytes, uint32_t *number);

struct stack_table_function {
    uint32_t module;
    uint32_t first_line, line; /* 0: unknown */
};

/* Defines a function, at a line. False: as above, or there are too many codes. */
bool stack_table_define_function(struct malloctape_lane *lane, uint64_t hash,
                                 const struct stack_table_function *function, const char *name,
                                 uint32_t name_bytes, uint32_t *number);

/* A stack is looked up by a hash of its codes, from the outermost one on, which begins with how the
 * stack ends. In one of 30 million recordings of a million stacks, two of these have the same
 * hash. */
static inline uint64_t stack_table_hash_of_end(enum stack_end end)
{
    return (uint64_t)end << 32; /* codes are less */
}

static inline uint64_t stack_table_hash(uint64_t of_caller, uint32_t code)
{
    uint64_t hash = (of_caller ^ code) * UINT64_C(0x9fb21c651e98df25);
    return hash ^ hash >> 32;
}

/* The node of this stack of a call; 0: it is not known. */
uint32_t stack_table_of_call(uint64_t hash);
/* It will be asked for soon. */
void stack_table_will_ask(uint64_t hash);

/* The node of a code that `parent` calls; 0: it is not known. */
uint32_t stack_table_child(uint32_t parent, uint32_t code);

/* Defines nodes that are not known: a code called by `parent`, one called by that, and so on.
 * Returns the last one; 0: as above. */
uint32_t stack_table_define(struct malloctape_lane *lane, uint32_t parent, uint32_t count,
                            const uint32_t *codes);

/* Notes that a call has this stack. */
void stack_table_call(uint64_t hash, uint32_t node);

/* Called before and after an unloading. The second records in the lane, which may be NULL, what is
 * no longer there. */
void stack_table_unloading(void);
void stack_table_unloaded(struct malloctape_lane *lane);

#endif
