/* formats - the formats of other tools that malloctape can read: one table, a file for each.
 *
 *   source --read_NAME.c--> call_writer
 *
 * A reader gets the source at its first byte and passes every call to the writer. It reports errors
 * with source_bad_line() or source_bad_bytes() and returns false; earlier calls stay. It must check
 * every count in the file before it allocates memory for it. */
#ifndef MALLOCTAPE_FORMATS_H
#define MALLOCTAPE_FORMATS_H

#include "convert/call_writer.h"
#include "convert/source.h"

/* How many bytes are read to recognize a format, or all if there are fewer. */
#define FORMAT_HEAD_BYTES 4096u

/* In the order in which they are tried: X(identifier, "name of --from", "title for people"). */
#define FORMAT_LIST(X)                                                          \
    X(wip_raw, "wip_raw", "raw trace of gperftools' wip-malloc-tracing")        \
    X(dj_mtrace, "dj_mtrace", ".mtrace of glibc's dj/malloc")                   \
    X(wip_processed, "wip_processed", "processed trace of malloc-trace-replay") \
    X(wl, "wl", ".wl, a workload of glibc's dj/malloc")                         \
    X(mtrace_text, "mtrace", "mtrace(3) of the GNU C library")                  \
    X(memory_replay, "memory_replay", "Android memory_replay")                  \
    X(heaptrack, "heaptrack", "heaptrack")                                      \
    X(microbench, "microbench", "MallocMicrobench")                             \
    X(rep, "rep", "CS:APP .rep")                                                \
    X(logalloc, "logalloc", "Firefox logalloc")                                 \
    X(ops, "ops", "WebKit MallocBench .ops")

struct format {
    const char *lacks; /* what the format does not have; empty if nothing */
    bool threads;      /* the format says which thread made a call */
    bool stacks;       /* it has call stacks */
    bool parts;        /* names are addresses, so a file can continue another one */
    /* Whether the file that begins with `head` is in this format. NULL: it cannot be recognized. */
    bool (*recognize)(struct source *head);
    bool (*read)(struct source *source, struct call_writer *writer);
};

#define FORMAT_DECLARE(identifier, name, title) extern const struct format format_##identifier;
FORMAT_LIST(FORMAT_DECLARE)
#undef FORMAT_DECLARE

struct format_entry {
    const char *name, *title;
    const struct format *format;
};

extern const struct format_entry formats[]; /* ends with an entry without a name */

/* NULL: there is no format of that name. */
const struct format_entry *format_find(const char *name);

/* By the first bytes. NULL: not recognized. */
const struct format_entry *format_recognize(struct source *source);

#endif
