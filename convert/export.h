/* export - what `malloctape export` gives to those who write another tool's format; a file each.
 *
 *   trace --instruction_reader--> export.c --struct export_call--> write_NAME.c --> OUT
 *
 * A writer says once what its format cannot hold at all (`loses`), and counts what it leaves out or
 * changes, call by call (struct export_losses). Objects are known by their registers: small
 * numbers, each of one live object. */
#ifndef MALLOCTAPE_EXPORT_H
#define MALLOCTAPE_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/output.h"
#include "stream/instruction_reader.h"
#include "symbols/code_names.h"
#include "symbols/stack_tally.h"
#include "trace/objects.h"

struct export_call {
    unsigned kind, shape; /* common/call_kind.h */
    bool failed, unknown; /* INSTRUCTIONS.md 5.1 */
    uint32_t lane;
    uint64_t thread; /* the id of the thread in that lane */
    uint32_t object; /* its register; INSTRUCTION_NO_REGISTER */
    uint64_t size, alignment;
    uint64_t ns;    /* since recording began, to within a tick; ascending */
    uint32_t stack; /* FORMAT.md 2.8; 0: none */
};

/* What stands for a stack where there is none. */
#define EXPORT_NO_STACK "(no stack)"

/* The call stacks of a trace, when all of it was read. */
struct export_code {
    const struct stacks *stacks;
    const struct code_names *names;
    const struct stack_tally *tally; /* of a writer without call() */
    const char *program;
    const char *stacks_path;    /* --stacks */
    enum stack_measure measure; /* --measure */
    bool is_bytes;
    uint64_t sample_bytes; /* from one sample to the next, in the mean; 1: all calls have stacks */
    uint64_t start_ns;     /* since the epoch; 0: unknown */
    uint64_t duration_ns, peak_rss_bytes;
};

/* Calls, but for `threads`: those that go on as one that ended. */
struct export_losses {
    uint64_t failed, unknown, unknown_reallocs, heap, kinds, alignments, threads, switches;
};

struct export
{
    struct output output;
    struct export_losses losses;
    uint64_t calls; /* written, or objects, or stacks */
    struct error error;
    void *state; /* the writer's own */
};

struct export_writer {
    const char *name, *title;
    const char *unit;  /* what is counted: NULL: calls */
    const char *loses; /* what the format cannot hold; empty if nothing */
    bool packed;       /* it compresses by itself, and writes to the descriptor of the output */
    /* Each may be NULL, but `call`, `object` or `code`. False: export->error, or that of the output.
     * Heap calls and failed ones do not come. A writer that has object() gets the objects, and no
     * calls; one that has code() gets the call stacks in the end, and calls if it has call(). One
     * that has object() and code() needs no stacks, and gets them only with --stacks. */
    bool (*open)(struct export *export);
    bool (*object)(struct export *export, const struct object *object);
    bool (*call)(struct export *export, const struct export_call *call);
    bool (*thread_end)(struct export *export, const struct export_call *where);
    bool (*code)(struct export *export, const struct export_code *code);
    bool (*finish)(struct export *export);
    void (*close)(struct export *export); /* frees what open() took, after a failure too */
};

extern const struct export_writer export_avro, export_folded, export_heaptrack,
    export_memory_replay, export_mtrace, export_ops, export_pprof, export_rep, export_wl;

#endif
