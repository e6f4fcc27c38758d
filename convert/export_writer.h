/* export_writer - what `malloctape export` passes to the writers of other tools' formats; a file each.
 *
 *   trace --instruction_reader--> export.c --struct export_call--> write_NAME.c --> OUT
 *
 * A writer says once what its format cannot hold at all (`loses`), and counts what it leaves out or
 * changes in single calls (struct export_losses). Objects are known by their registers: small
 * numbers, each of one live object. */
#ifndef MALLOCTAPE_CONVERT_EXPORT_WRITER_H
#define MALLOCTAPE_CONVERT_EXPORT_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/output.h"
#include "reading/objects.h"
#include "stream/instruction_reader.h"
#include "symbols/code_names.h"
#include "symbols/stack_sums.h"

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

/* Stands for a missing stack. */
#define EXPORT_NO_STACK "(no stack)"

/* The call stacks of a trace, when all of it has been read. */
struct export_code {
    const struct stacks *stacks;
    const struct code_names *names;
    const struct stack_tally *tally; /* for writers without call() */
    const char *program;
    const char *stacks_path;    /* --stacks */
    enum stack_measure measure; /* --measure */
    bool is_bytes;
    bool by_line; /* --by */
    uint64_t sample_bytes; /* mean distance of two samples; 1: all calls have stacks */
    uint64_t start_ns;     /* since the epoch; 0: unknown */
    uint64_t duration_ns, peak_rss_bytes;
    bool has_mapped; /* stacks have mapped something that was resident */
};

/* Numbers of calls; `threads`: threads that had to continue one that had ended. */
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
    const char *unit;  /* what `calls` counts; NULL: calls */
    const char *loses; /* what the format cannot hold; empty if nothing */
    bool packed;       /* it compresses by itself, and writes to the output's descriptor */
    /* Each may be NULL, except one of `call`, `object` and `code`. False: see export->error, or the
     * output's. Heap calls and failed calls are not passed. A writer with object() gets the
     * objects, but no calls; one with code() gets the call stacks at the end, and calls if it has
     * call(). For one with object() and code(), stacks are optional: it gets them only with
     * --stacks. */
    bool (*open)(struct export *export);
    bool (*object)(struct export *export, const struct object *object);
    bool (*call)(struct export *export, const struct export_call *call);
    bool (*thread_end)(struct export *export, const struct export_call *where);
    bool (*code)(struct export *export, const struct export_code *code);
    bool (*finish)(struct export *export);
    void (*close)(struct export *export); /* frees what open() allocated; also after a failure */
};

extern const struct export_writer export_avro, export_c, export_folded, export_heaptrack,
    export_memory_replay, export_mtrace, export_ops, export_pprof, export_rep, export_wl;

#endif
