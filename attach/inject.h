/* inject - makes one thread of a running process run an errand (errand.h).
 *
 *     if (inject_begin(&inject, &target, patience_ns, why, sizeof why)) {
 *         good = inject_run(&inject, &errand, path, name, argument, why, sizeof why);
 *         inject_end(&inject);
 *     }
 *
 * A thread is chosen whose stop leaves no mark (wait.h), at a place where it can call dlopen()
 * (safe_place.h). It is stopped (ptrace(2)), makes the calls on a stack that is mapped for that,
 * with signals blocked, and goes on where it was, with all registers as they were; a wait goes on,
 * too. Its own stack is not written to: that may be any small piece of memory. The other threads
 * run meanwhile.
 *
 * If this process dies, the thread finishes the errand and goes back to where it was by itself
 * (frame.h); what was mapped stays.
 *
 * One thread of this process. */
#ifndef MALLOCTAPE_ATTACH_INJECT_H
#define MALLOCTAPE_ATTACH_INJECT_H

#include "attach/errand.h"
#include "attach/frame.h"
#include "attach/stopped_thread.h"
#include "attach/target.h"

struct inject {
    struct target *target;
    struct stopped_thread stopped;
    struct frame frame;
    uint64_t instruction, restorer; /* code in the process: a system call; rt_sigreturn(2) */
    uint64_t spare, spare_frame;    /* memory that nothing uses (target.h), with a frame; 0: none */
    unsigned char spare_kept[FRAME_BYTES_MAX]; /* what was there */
    size_t spare_bytes;
    uint64_t stack, code; /* mapped in the process; 0: not yet */
    uint64_t held;        /* signals that came meanwhile */
    uint64_t began_ns;    /* inject_begin() */
    uint64_t stopped_ns;  /* how long the thread was stopped, after inject_end() */
    int memory, lock;     /* files: the process's memory, a lock on its directory */
    bool is_denied;       /* the system does not permit tracing it */
};

/* Waits up to `patience_ns` for a thread at a safe place. False: see `why`; the process is as it
 * was. */
bool inject_begin(struct inject *inject, struct target *target, uint64_t patience_ns, char *why,
                  size_t why_bytes);

/* Runs the errand with copies of these texts, each NULL or shorter than PATH_MAX, and gets its
 * results. Once begun it is finished, however long that takes. False: see `why`. */
bool inject_run(struct inject *inject, struct errand *errand, const char *path, const char *name,
                const char *argument, char *why, size_t why_bytes);

/* Makes a system call. Unless `text` is NULL, the first argument is a copy of it. *result is what
 * the kernel returns (-errno for an error). False: as above. */
bool inject_system_call(struct inject *inject, long number, const char *text,
                        const uint64_t arguments[6], uint64_t *result, char *why, size_t why_bytes);

/* Reads a text of the process. */
void inject_read_text(const struct inject *inject, uint64_t address, char *text, size_t bytes);

void inject_end(struct inject *inject);

#endif
