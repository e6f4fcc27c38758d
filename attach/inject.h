/* inject - makes one thread of a running process call functions.
 *
 *     if (inject_begin(&inject, &target, patience_ns, why, sizeof why)) {
 *         good = inject_call(&inject, dlopen, text, RTLD_NOW, &result, why, sizeof why);
 *         inject_end(&inject);
 *     }
 *
 * The thread is stopped (ptrace(2)) at a place where it can call dlopen() (safe_place.h), makes the
 * calls on a stack that is mapped for that, with signals blocked, and goes on where it was, with
 * all registers as they were. The other threads run meanwhile, so they release locks that a call
 * waits for.
 *
 * If this process dies, the thread finishes its call and goes back to where it was by itself
 * (frame.h); what was mapped stays.
 *
 * One thread of this process. */
#ifndef MALLOCTAPE_ATTACH_INJECT_H
#define MALLOCTAPE_ATTACH_INJECT_H

#include "attach/frame.h"
#include "attach/target.h"

/* At most this many threads at a time may have been asked to stop and not have stopped yet. */
enum { INJECT_LATE_MAX = 64 };

struct inject {
    struct target *target;
    pid_t thread;
    struct frame_state state; /* where it was */
    struct frame frame;
    uint64_t instruction, restorer;     /* code in the process: a system call; rt_sigreturn(2) */
    uint64_t stack, code;               /* in the process; 0: not mapped */
    uint64_t held;                      /* signals that came meanwhile */
    uint64_t stopped_at_ns, stopped_ns; /* since when; how long, after inject_end() */
    pid_t late[INJECT_LATE_MAX];        /* 0: none */
    bool is_gone;                       /* the process has ended meanwhile */
    bool is_denied;                     /* the system does not permit tracing it */
    bool is_stuck;                      /* the call waited for a lock in vain */
};

/* Waits up to `patience_ns` for a thread at a safe place. False: see `why`; the process is as it
 * was. */
bool inject_begin(struct inject *inject, struct target *target, uint64_t patience_ns, char *why,
                  size_t why_bytes);

/* Calls function(text, number), with a copy of `text` unless that is NULL. False: see `why`; the
 * process has ended, or the function waits too long for a lock. */
bool inject_call(struct inject *inject, uint64_t function, const char *text, uint64_t number,
                 uint64_t *result, char *why, size_t why_bytes);

/* Makes a system call. Unless `text` is NULL, the first argument is a copy of it. *result is what
 * the kernel returns (-errno for an error). False: as above. */
bool inject_system_call(struct inject *inject, long number, const char *text,
                        const uint64_t arguments[6], uint64_t *result, char *why, size_t why_bytes);

/* Reads a text of the process. */
void inject_read_text(const struct inject *inject, uint64_t address, char *text, size_t bytes);

void inject_end(struct inject *inject);

#endif
