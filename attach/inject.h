/* inject - lets one thread of a process that runs call functions there.
 *
 *     if (inject_begin(&inject, &target, patience_ns, why, sizeof why)) {
 *         good = inject_call(&inject, dlopen, text, RTLD_NOW, &result, why, sizeof why);
 *         inject_end(&inject);
 *     }
 *
 * The thread is stopped (ptrace(2)) at a place where it can call dlopen() (safe_place.h), calls on a
 * stack that is mapped for that, with its signals blocked, and goes on where it was, with all
 * registers as they were. The other threads run meanwhile, so no lock that one of them has is waited
 * for in vain.
 *
 * If this process dies, the thread ends the call that it is in and goes back to where it was by
 * itself (frame.h); what was mapped stays.
 *
 * One thread of this process. */
#ifndef MALLOCTAPE_ATTACH_INJECT_H
#define MALLOCTAPE_ATTACH_INJECT_H

#include "attach/frame.h"
#include "attach/target.h"

/* Threads that could not be stopped at once, at a time. */
enum { INJECT_LATE_MAX = 64 };

struct inject {
    struct target *target;
    pid_t thread;
    struct frame_state state; /* where it was */
    struct frame frame;
    uint64_t instruction, restorer;     /* in the C library: a system call; rt_sigreturn(2) */
    uint64_t stack, code;               /* in the process; 0: not mapped */
    uint64_t held;                      /* signals that came meanwhile */
    uint64_t stopped_at_ns, stopped_ns; /* how long, behind inject_end() */
    pid_t late[INJECT_LATE_MAX];        /* 0: none */
    bool is_gone;                       /* the process has ended meanwhile */
    bool is_denied;                     /* the system does not let it be traced */
    bool is_stuck;                      /* the call waited for a lock in vain */
};

/* Waits up to so long for a thread at a safe place. False: `why`; the process is as it was. */
bool inject_begin(struct inject *inject, struct target *target, uint64_t patience_ns, char *why,
                  size_t why_bytes);

/* Calls function(text, number), with a copy of `text` unless that is NULL. False: `why`; the process
 * has ended, or the function waits for a lock for too long. */
bool inject_call(struct inject *inject, uint64_t function, const char *text, uint64_t number,
                 uint64_t *result, char *why, size_t why_bytes);

/* A system call of the thread; `text`, unless that is NULL, is copied for its first argument. The
 * result goes to *result, as the kernel gives it. False: as above. */
bool inject_system_call(struct inject *inject, long number, const char *text,
                        const uint64_t arguments[6], uint64_t *result, char *why, size_t why_bytes);

/* A text of the process. */
void inject_read_text(const struct inject *inject, uint64_t address, char *text, size_t bytes);

void inject_end(struct inject *inject);

#endif
