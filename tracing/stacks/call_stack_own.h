/* call_stack_own - what the files of call stacks share: what a lane remembers of its stacks.
 *
 *   call_stack.c              the way out of the recorder, frames, stacks that recur
 *   call_stack_remembered.c   the latest stack: how its frames are checked, hashes, nodes
 *   call_stack_mixed.c        functions of an interpreter between them */
#ifndef MALLOCTAPE_CALL_STACK_OWN_H
#define MALLOCTAPE_CALL_STACK_OWN_H

#include "tracing/stacks/call_stack.h"
#include "tracing/stacks/interpreter.h"
#include "tracing/stacks/stack_table.h"

/* A frame, and the rule by which its caller's is found. */
struct frame {
    struct unwind_frame at;
    struct unwind_rule rule;
};

_Static_assert(sizeof(struct frame) == 32, "two in a cache line");

/* How many more frames are found of a stack that is too deep, as those of the next one may reach
 * further out. */
#define AHEAD          64u
#define FRESH_MAX      (STACKS_DEPTH_MAX + AHEAD)
/* Frames that are remembered: when stacks have grown up to the beginning of the arrays, at most
 * half of them are kept. */
#define REMEMBERED_MAX (3 * STACKS_DEPTH_MAX)
#define LAST           (REMEMBERED_MAX - 1)

/* How to check that a frame of the latest stack still has the same caller. */
enum check {
    CHECK_RETURN = 0,    /* by its return address */
    CHECK_RETURN_AND_BP, /* and by the caller's rbp, which a rule further out needs */
    CHECK_BY_RULE
};

/* At most this many of the innermost functions are the recorder's. */
#define OWN_MAX 16u
/* Each of the entry points that a program uses at the same time has a way of its own. */
#define WAYS    8u

/* A way out of the recorder. The frames of its functions have fixed sizes, so as long as these
 * return addresses are where they were, and frame pointers point to where they did, no rule is
 * needed. Positions are in bytes above rsp. */
struct way {
    uint32_t count;
    struct way_word {
        int32_t at; /* or: it is rbp itself */
        bool is_register;
        bool is_place; /* else a return address */
        uintptr_t value;
    } words[2 * OWN_MAX];
    /* Of the outermost of these frames: its end and its return address; and where the program's rbp
     * is, if it is not in rbp. */
    int32_t end, return_at, bp;
    bool saves_bp;
};

/* Frames that are not in the latest stack, from the inside to the outside. */
struct fresh {
    struct frame frame[FRESH_MAX + 1];
    uint32_t code[FRESH_MAX];
};

/* The codes of a stack with functions of an interpreter, and the hashes of the stacks from there
 * on. By `key`, of its native frames, and where the innermost frame of the interpreter's loop ends,
 * it can be found again; 0: it cannot. */
#define MIXED_MAX (STACKS_DEPTH_MAX + INTERPRETER_DEPTH_MAX)
struct mixed_stack {
    uint64_t key;
    uintptr_t loop_end;
    uint32_t count;
    uint32_t code[MIXED_MAX];
    uint64_t hash[MIXED_MAX];
};

/* The latest stack that was not known: its codes, from the outermost one on, and their nodes. */
struct stack_path {
    uint32_t count;
    enum stack_end how;
    uint32_t code[MIXED_MAX], node[MIXED_MAX];
};

/* A mixed stack that has been met lately, by a hash of its native frames and the interpreter's. */
struct mixed_node {
    uint64_t key;
    uint32_t node;
};
#define MIXED_NODES 1024u

/* A stack that recurs, and the words by which its frames were found: as long as they are unchanged,
 * it is the same; of a mixed one its native frames are. */
#define KNOWN_WORDS 96u
struct known {
    struct unwind_frame first; /* the innermost one; bp counts only if `needs_bp` */
    uintptr_t end;             /* the words lie between its sp and here */
    uint64_t mixed_key;        /* of the native frames of a mixed one; 0: it is none */
    uintptr_t loop_end;        /* of the innermost frame of the interpreter's loop in that */
    uint32_t generation;       /* 0: this is none */
    uint32_t node;             /* if it is not mixed */
    uint16_t count;
    bool needs_bp;
    uint16_t at[KNOWN_WORDS]; /* in words above sp */
    uintptr_t value[KNOWN_WORDS];
};
/* How many sets there are (as a logarithm), each for frames with the same hash; how many stacks are
 * in a set; and how many are watched for whether they recur (as a logarithm). */
#define KNOWN_BITS   5u
#define KNOWN_IN_SET 4u
#define MET_BITS     10u

/* The latest stack of a lane: the frames from `first` to `end`, from the inside to the outside.
 * Those from `end` on are of earlier stacks, and may no longer exist. The last entry of `frame` is
 * a sentinel. */
struct stack_walk {
    uint64_t time;      /* of the rules */
    uint32_t recording; /* of the nodes */
    uint32_t thread_id;
    uint32_t first, end; /* both REMEMBERED_MAX: there is none */
    enum stack_end how;
    uint32_t node;
    struct unwind_memory memory;
    struct frame frame[REMEMBERED_MAX + 1];
    uint8_t check[REMEMBERED_MAX];     /* enum check */
    bool needs_bp[REMEMBERED_MAX + 1]; /* what is further out depends on the frame's rbp */
    uint32_t code[REMEMBERED_MAX];
    uint64_t hash[REMEMBERED_MAX]; /* from `first` to `end`: of the stack from there on */
    struct fresh fresh;
    uint32_t latest_way;
    struct way ways[WAYS];
    struct stack_path path;
    /* Recurring stacks of this generation; and by a part of their hash, those seen once. */
    uint32_t generation;
    uint32_t replaced; /* by addition */
    uint32_t met[1u << MET_BITS];
    struct known known[1u << KNOWN_BITS][KNOWN_IN_SET];
    struct interpreter_stack interpreter;
    struct mixed_stack mixed;
    struct mixed_node mixed_nodes[MIXED_NODES];
};

/* Forgets the latest stack. No frame equals the sentinel. */
static inline void call_stack_forget(struct stack_walk *walk)
{
    walk->first = walk->end = REMEMBERED_MAX;
    walk->frame[REMEMBERED_MAX].at.sp = UINTPTR_MAX;
}

/* Makes room before the frame `at`: moves it and those further out, but at most half of all, to the
 * end. Returns where it is then. */
uint32_t call_stack_make_room(struct stack_walk *walk, uint32_t at);

/* Notes how to check the frames from `first` to `end`. */
void call_stack_note_checks(struct stack_walk *walk, uint32_t first, uint32_t end);

/* Hashes the same frames. `of_caller`: the hash of the stack that calls the outermost one. */
void call_stack_hash_frames(struct stack_walk *walk, uint32_t first, uint32_t end,
                            uint64_t of_caller);

/* The node of a stack of `count` codes, defined if it was not; 0: it has none. `hashes`: of the
 * stack from each of them on. Codes may be 0. */
uint32_t call_stack_node_of(struct malloctape_lane *lane, struct stack_walk *walk,
                            const uint32_t *codes, const uint64_t *hashes, uint32_t count,
                            enum stack_end how);

/* Whether the latest stack has code of the interpreter. */
bool call_stack_is_mixed(const struct stack_walk *walk);

/* The node of the latest stack and what the interpreter runs in it; 0: it has none. */
uint32_t call_stack_mix(struct malloctape_lane *lane, struct stack_walk *walk);

/* The node of a recurring mixed stack, of which the native frames are known; 0: it is another
 * one. */
uint32_t call_stack_mix_known(const struct malloctape_lane *lane, struct stack_walk *walk,
                              const struct known *known);

#endif
