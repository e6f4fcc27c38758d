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
 * for in vain. If this process dies, the thread goes on with the call that it is in; then it is lost
 * in it: so inject_begin() to inject_end() should be short, and signals that end this process be
 * blocked.
 *
 * One thread of this process. */
#ifndef MALLOCTAPE_ATTACH_INJECT_H
#define MALLOCTAPE_ATTACH_INJECT_H

#include <sys/user.h>

#include "attach/target.h"

/* AVX-512 and what comes after it. */
#define INJECT_VECTOR_BYTES 16384

struct inject {
    struct target *target;
    pid_t thread;
    struct user_regs_struct registers;
    unsigned char vectors[INJECT_VECTOR_BYTES];
    size_t vectors_bytes;
    uint64_t blocked;                   /* signals */
    uint64_t stack;                     /* in the process */
    uint64_t held;                      /* signals that came meanwhile */
    uint64_t stopped_at_ns, stopped_ns; /* how long, behind inject_end() */
    bool is_gone;                       /* the process has ended meanwhile */
};

/* Waits up to so long for a thread at a safe place. False: `why`; the process is as it was. */
bool inject_begin(struct inject *inject, struct target *target, uint64_t patience_ns, char *why,
                  size_t why_bytes);

/* Calls function(text, number), in a copy of `text` unless that is NULL. False: `why`; the process
 * has ended. */
bool inject_call(struct inject *inject, uint64_t function, const char *text, uint64_t number,
                 uint64_t *result, char *why, size_t why_bytes);

/* A text of the process. */
void inject_read_text(const struct inject *inject, uint64_t address, char *text, size_t bytes);

void inject_end(struct inject *inject);

#endif
