#include "attach/inject.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attach/registers.h"
#include "attach/safe_place.h"
#include "attach/wait.h"
#include "common/error.h"

enum {
    STACK_BYTES = 1 << 20, /* of the mapped stack: constructors of libraries run on it */
    CODE_BYTES = 4096,
    ERRAND_OFFSET = 256, /* of its code in there, behind registers_calling */
    TEXTS = 3            /* PATH_MAX each, at the top of the stack; below them the errand */
};
/* The pause between two rounds over all threads. */
#define ROUND_NS UINT64_C(1000000)
/* A wait began at most this long ago if the thread was last seen this long ago, before it began. */
#define FRESH_NS (5 * ROUND_NS)
/* After this time without another one, a thread is taken whose wait will begin anew. */
#define RENEW_NS UINT64_C(2000000000)
/* A thread that runs has been looked at this often before. */
enum { LOOKS = 5 };
/* A waiting thread that was at no safe place is not stopped again in the same wait before. */
#define AGAIN_NS UINT64_C(100000000)

/* ---- the memory of the process ---- */

static bool memory_write(const struct inject *inject, uint64_t address, const void *from,
                         size_t bytes)
{
    struct iovec here = {(void *)(uintptr_t)from, bytes},
                 there = {(void *)(uintptr_t)address, bytes};
    return process_vm_writev(inject->target->process, &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

void inject_read_text(const struct inject *inject, uint64_t address, char *text, size_t bytes)
{
    size_t used = 0;
    while (used + 1 < bytes && target_read(inject->target, address + used, text + used, 1) == 1 &&
           text[used] != '\0')
        used++;
    text[used] = '\0';
}

/* ---- which thread ---- */

/* The best first. */
enum rank { RANK_KEPT, RANK_RUNS, RANK_RESTARTED, RANK_RENEWED, RANK_NONE };

struct candidate {
    pid_t thread;
    enum rank rank;
    struct wait wait;
};

/* What is remembered of a thread from round to round. */
struct seen {
    pid_t thread;
    unsigned looks;                    /* so often */
    bool is_fragile;                   /* it was in a call that must not be stopped */
    uint64_t count, counted_ns;        /* how often it had begun to wait, and when */
    uint64_t stack, code, rejected_ns; /* where it was no good; 0: never */
};

enum { CANDIDATES_MAX = 4096, SEEN_MAX = 4096 };
static struct candidate candidates[CANDIDATES_MAX];
static struct seen seen_threads[SEEN_MAX];

static struct seen *seen_of(pid_t thread)
{
    struct seen *seen = &seen_threads[thread % SEEN_MAX];
    if (seen->thread != thread) *seen = (struct seen){.thread = thread};
    return seen;
}

/* Whether the thread's wait has only just begun: then it hardly matters that its time begins
 * anew. */
static bool is_fresh(const struct inject *inject, pid_t thread, struct seen *seen)
{
    uint64_t count = 0;
    if (!wait_count(inject->target->process, thread, &count)) return false;
    const uint64_t now = stopped_thread_now_ns(), before_ns = seen->counted_ns;
    const bool has_begun = before_ns != 0 && count != seen->count;
    seen->count = count;
    seen->counted_ns = now;
    return has_begun && now - before_ns < FRESH_NS;
}

static enum rank rank_of(const struct inject *inject, pid_t thread, const struct wait *wait)
{
    struct seen *seen = seen_of(thread);
    const uint64_t now = stopped_thread_now_ns();
    seen->looks++;
    seen->is_fragile = seen->is_fragile || wait->kind == WAIT_FRAGILE;
    /* It may be about to wait in such a call. */
    if (wait->kind == WAIT_NONE)
        return seen->looks <= LOOKS                                     ? RANK_NONE
               : seen->is_fragile && now - inject->began_ns <= RENEW_NS ? RANK_NONE
                                                                        : RANK_RUNS;
    if (seen->rejected_ns != 0 && now - seen->rejected_ns < AGAIN_NS &&
        seen->stack == wait->stack && seen->code == wait->code)
        return RANK_NONE;
    switch (wait->kind) {
    case WAIT_KEPT: return wait->number == SYS_restart_syscall ? RANK_RESTARTED : RANK_KEPT;
    case WAIT_RENEWED:
        return is_fresh(inject, thread, seen) || now - inject->began_ns > RENEW_NS ? RANK_RENEWED
                                                                                   : RANK_NONE;
    default: return RANK_NONE;
    }
}

static bool candidate_take(struct inject *inject, const struct safe_places *places,
                           const struct candidate *candidate, int *error)
{
    if (stopped_thread_take(&inject->stopped, places, candidate->thread, &candidate->wait, error))
        return true;
    struct seen *seen = seen_of(candidate->thread);
    seen->stack = candidate->wait.stack;
    seen->code = candidate->wait.code;
    seen->rejected_ns = stopped_thread_now_ns();
    return false;
}

/* Looks at each thread once, and takes the best that is at a safe place. False: there is none. */
static bool threads_try(struct inject *inject, const struct safe_places *places, int *error)
{
    char path[64];
    struct dirent *entry;
    size_t count = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/task", (int)inject->target->process);
    DIR *directory = opendir(path);
    if (directory == NULL) {
        *error = ESRCH;
        return false;
    }
    while (!found && count < CANDIDATES_MAX && (entry = readdir(directory)) != NULL) {
        struct candidate *candidate = &candidates[count];
        candidate->thread = (pid_t)atoi(entry->d_name);
        if (candidate->thread <= 0) continue;
        wait_look(&candidate->wait, inject->target->process, candidate->thread);
        candidate->rank = rank_of(inject, candidate->thread, &candidate->wait);
        if (candidate->rank == RANK_KEPT)
            found = candidate_take(inject, places, candidate, error);
        else if (candidate->rank != RANK_NONE)
            count++;
    }
    closedir(directory);
    for (enum rank rank = RANK_RUNS; !found && rank < RANK_NONE; rank++)
        for (size_t i = 0; !found && i < count; i++)
            found =
                candidates[i].rank == rank && candidate_take(inject, places, &candidates[i], error);
    return found;
}

/* ---- calls ---- */

/* The mask of blocked signals during calls: all but SIGURG (registers.h) and faults. If a fault's
 * signal were blocked, the kernel would reset the program's handler for it. */
static uint64_t signals_of_calls(void)
{
    static const int open[] = {SIGSEGV, SIGTRAP, SIGBUS, SIGILL, SIGFPE, SIGURG};
    uint64_t blocked = UINT64_MAX;
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        blocked &= ~(UINT64_C(1) << (open[i] - 1));
    return blocked;
}

static bool signals_set(const struct inject *inject, uint64_t blocked)
{
    return ptrace(PTRACE_SETSIGMASK, inject->stopped.id, (void *)sizeof blocked, &blocked) == 0;
}

/* Lets the thread run until it stops for `signal` at `address`. Other signals are held
 * for later. False: as above. */
static bool run_until(struct inject *inject, int request, int signal, uint64_t address,
                      struct user_regs_struct *registers)
{
    int status;
    for (;;) {
        if (ptrace((enum __ptrace_request)request, inject->stopped.id, NULL, NULL) != 0) break;
        if (!stopped_thread_await(&inject->stopped, &status)) return false;
        if (stopped_thread_event(status) != 0) continue; /* an interrupt, or a group stop */
        if (!registers_get(inject->stopped.id, registers)) break;
        if (WSTOPSIG(status) == signal && registers_code(registers) == address) return true;
        if (WSTOPSIG(status) == SYSCALL_STOP) continue;
        /* A fault of the thread itself, which would recur forever. */
        if (WSTOPSIG(status) == SIGSEGV || WSTOPSIG(status) == SIGBUS ||
            WSTOPSIG(status) == SIGILL || WSTOPSIG(status) == SIGFPE ||
            WSTOPSIG(status) == SIGTRAP) {
            ptrace(PTRACE_DETACH, inject->stopped.id, NULL, (void *)(long)WSTOPSIG(status));
            break;
        }
        inject->held |= UINT64_C(1) << (WSTOPSIG(status) - 1);
    }
    inject->stopped.is_gone = true;
    return false;
}

/* Writes a frame into the process that ends at or below this address. */
static bool frame_put(struct inject *inject, uint64_t end)
{
    frame_make(&inject->frame, &inject->stopped.state, end, inject->restorer);
    return memory_write(inject, inject->frame.start, inject->frame.bytes, inject->frame.bytes_used);
}

/* Has the thread make a system call. If this process dies meanwhile, the C library's function that
 * contains the instruction returns into the frame.
 *
 * The thread is stopped on entry to the kernel and on exit, not by single steps: if this process
 * died during one, the thread would get SIGTRAP, which ends the program. */
static bool system_call(struct inject *inject, long number, const uint64_t arguments[6],
                        uint64_t *result)
{
    struct user_regs_struct registers = inject->stopped.state.registers;
    registers_to_system_call(&registers, inject->instruction, inject->spare_frame, inject->restorer,
                             number, arguments);
    if (!registers_put(inject->stopped.id, &registers)) return false;
    signals_set(inject, signals_of_calls());
    const uint64_t behind = inject->instruction + sizeof registers_system_call;
    if (!run_until(inject, PTRACE_SYSCALL, SYSCALL_STOP, behind, &registers) ||
        !run_until(inject, PTRACE_SYSCALL, SYSCALL_STOP, behind, &registers))
        return false;
    *result = registers_result(&registers);
    return true;
}

/* The address of a system call instruction in a function of the C library; 0: not found. */
static uint64_t system_call_find(const struct inject *inject, size_t libc)
{
    unsigned char code[64];
    const uint64_t function = target_function(inject->target, libc, REGISTERS_SYSTEM_CALL_IN);
    if (function == 0) return 0;
    const size_t bytes = target_read(inject->target, function, code, sizeof code);
    const unsigned char *at =
        memmem(code, bytes, registers_system_call, sizeof registers_system_call);
    return at != NULL ? function + (uint64_t)(at - code) : 0;
}

static bool memory_map(struct inject *inject, uint64_t bytes, uint64_t rights, uint64_t *mapped)
{
    const uint64_t arguments[6] = {0, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX, 0};
    if (system_call(inject, SYS_mmap, arguments, mapped) && *mapped < UINT64_MAX - 4096)
        return true;
    *mapped = 0;
    return false;
}

static void memory_unmap(struct inject *inject, uint64_t address, uint64_t bytes)
{
    const uint64_t arguments[6] = {address, bytes, 0, 0, 0, 0};
    uint64_t unused;
    if (address != 0) system_call(inject, SYS_munmap, arguments, &unused);
}

/* Writes also where the process itself cannot. */
static bool memory_force(const struct inject *inject, uint64_t address, const void *from,
                         size_t bytes)
{
    return pwrite(inject->memory, from, bytes, (off_t)address) == (ssize_t)bytes;
}

static bool code_write(const struct inject *inject)
{
    size_t bytes;
    const void *errand = errand_code(&bytes);
    return sizeof registers_calling <= ERRAND_OFFSET && bytes <= CODE_BYTES - ERRAND_OFFSET &&
           memory_force(inject, inject->code, registers_calling, sizeof registers_calling) &&
           memory_force(inject, inject->code + ERRAND_OFFSET, errand, bytes);
}

/* ---- memory that nothing uses ---- */

/* Puts a frame there. False: there is no such memory. */
static bool spare_begin(struct inject *inject)
{
    enum { ALIGNMENT = 128 }; /* may be lost by it */
    frame_make(&inject->frame, &inject->stopped.state, 0, inject->restorer);
    const size_t bytes = inject->frame.bytes_used + ALIGNMENT;
    const uint64_t spare = target_spare(inject->target, bytes);
    if (spare == 0 || bytes > sizeof inject->spare_kept ||
        target_read(inject->target, spare, inject->spare_kept, bytes) != bytes)
        return false;
    frame_make(&inject->frame, &inject->stopped.state, spare + bytes, inject->restorer);
    if (!memory_force(inject, inject->frame.start, inject->frame.bytes, inject->frame.bytes_used))
        return false;
    inject->spare = spare;
    inject->spare_bytes = bytes;
    inject->spare_frame = inject->frame.start;
    return true;
}

/* ---- the errand ---- */

static uint64_t text_place(const struct inject *inject, unsigned number)
{
    return inject->stack + STACK_BYTES - (uint64_t)(number + 1) * PATH_MAX;
}

/* *place: where it is then; 0 for NULL. */
static bool text_put(const struct inject *inject, unsigned number, const char *text,
                     uint64_t *place)
{
    *place = text != NULL ? text_place(inject, number) : 0;
    return text == NULL || memory_write(inject, *place, text, strnlen(text, PATH_MAX - 1) + 1);
}

static bool call_failed(const struct inject *inject, char *why, size_t why_bytes)
{
    return error_explain(why, why_bytes, "%s",
                         inject->stopped.is_gone ? "it has ended" : "its memory cannot be written");
}

bool inject_run(struct inject *inject, struct errand *errand, const char *path, const char *name,
                const char *argument, char *why, size_t why_bytes)
{
    struct user_regs_struct registers = inject->stopped.state.registers;
    const uint64_t place = (text_place(inject, TEXTS - 1) - sizeof *errand) & -UINT64_C(16);
    const uint64_t result = place - sizeof result;
    if (!text_put(inject, 0, path, &errand->path) || !text_put(inject, 1, name, &errand->name) ||
        !text_put(inject, 2, argument, &errand->argument) ||
        !memory_write(inject, place, errand, sizeof *errand) || !frame_put(inject, result))
        return call_failed(inject, why, why_bytes);
    registers_to_call(&registers, inject->code, inject->frame.start, inject->code + ERRAND_OFFSET,
                      place, 0, result);
    if (!registers_put(inject->stopped.id, &registers)) inject->stopped.is_gone = true;
    if (inject->stopped.is_gone ||
        !run_until(inject, PTRACE_CONT, SIGURG, inject->code + REGISTERS_CALLED, &registers))
        return call_failed(inject, why, why_bytes);
    return target_read(inject->target, place, errand, sizeof *errand) == sizeof *errand ||
           call_failed(inject, why, why_bytes);
}

bool inject_system_call(struct inject *inject, long number, const char *text,
                        const uint64_t arguments[6], uint64_t *result, char *why, size_t why_bytes)
{
    uint64_t words[6], place;
    memcpy(words, arguments, sizeof words);
    const bool good = text_put(inject, 0, text, &place);
    if (text != NULL) words[0] = place;
    return (good && system_call(inject, number, words, result)) ||
           call_failed(inject, why, why_bytes);
}

/* ---- the whole ---- */

/* One process at a time: two would put frames into the same memory. */
static bool lock_take(struct inject *inject, uint64_t end_ns)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d", (int)inject->target->process);
    inject->lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (inject->lock >= 0 && flock(inject->lock, LOCK_EX | LOCK_NB) != 0) {
        if (stopped_thread_now_ns() >= end_ns) return false;
        stopped_thread_rest(ROUND_NS);
    }
    return inject->lock >= 0;
}

static void files_close(struct inject *inject)
{
    if (inject->memory >= 0) close(inject->memory);
    if (inject->lock >= 0) close(inject->lock);
    inject->memory = inject->lock = -1;
}

static bool memory_open(struct inject *inject)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)inject->target->process);
    inject->memory = open(path, O_RDWR | O_CLOEXEC);
    return inject->memory >= 0;
}

/* Stops a thread. False: see `why`. */
static bool thread_find(struct inject *inject, const struct safe_places *places, uint64_t end_ns,
                        char *why, size_t why_bytes)
{
    int error = 0;
    bool found;
    while (!(found = threads_try(inject, places, &error)) && error == 0 &&
           stopped_thread_now_ns() < end_ns)
        stopped_thread_rest(ROUND_NS);
    if (found) return true;
    inject->is_denied = error == EPERM;
    if (error != 0)
        return error_explain(why, why_bytes, "%s",
                             error == ESRCH ? "it has ended" : strerror(error));
    return error_explain(why, why_bytes,
                         "no thread of it could be stopped without harm for %u s: all are in its "
                         "allocator or its dynamic linker, or in calls that would end early: try "
                         "again",
                         (unsigned)((end_ns - inject->began_ns) / 1000000000));
}

/* What is needed before a thread is stopped. */
static bool inject_prepare(struct inject *inject, struct safe_places *places, uint64_t end_ns,
                           char *why, size_t why_bytes)
{
    if (!safe_places_find(places, inject->target))
        return error_explain(why, why_bytes, "%s",
                             errno == ENOMEM ? strerror(errno)
                                             : "its C library is not glibc, or it has none");
    inject->instruction = system_call_find(inject, places->libc);
    inject->restorer = places->restorer;
    if (inject->instruction == 0 || inject->restorer == 0) {
        safe_places_free(places);
        return error_explain(why, why_bytes, "its memory cannot be read");
    }
    if (lock_take(inject, end_ns)) return true;
    safe_places_free(places);
    return error_explain(why, why_bytes,
                         inject->lock < 0 ? "it has ended" : "somebody else is attaching to it");
}

bool inject_begin(struct inject *inject, struct target *target, uint64_t patience_ns, char *why,
                  size_t why_bytes)
{
    struct safe_places places;
    memset(inject, 0, sizeof *inject);
    inject->target = target;
    inject->stopped.target = target;
    inject->memory = inject->lock = -1;
    inject->began_ns = stopped_thread_now_ns();
    const uint64_t end_ns = inject->began_ns + patience_ns;
    bool good = inject_prepare(inject, &places, end_ns, why, why_bytes);
    if (good) {
        good = thread_find(inject, &places, end_ns, why, why_bytes);
        safe_places_free(&places);
    }
    if (!good) {
        files_close(inject);
        return false;
    }
    if (memory_open(inject) && spare_begin(inject) &&
        memory_map(inject, STACK_BYTES, PROT_READ | PROT_WRITE, &inject->stack) &&
        memory_map(inject, CODE_BYTES, PROT_READ | PROT_EXEC, &inject->code) && code_write(inject))
        return true;
    inject_end(inject);
    return error_explain(why, why_bytes,
                         inject->stopped.is_gone ? "it has ended"
                                                 : "no memory for a stack can be mapped in it");
}

void inject_end(struct inject *inject)
{
    struct iovec vectors = {inject->stopped.state.vectors, inject->stopped.state.vectors_bytes};
    memory_unmap(inject, inject->stack, STACK_BYTES);
    memory_unmap(inject, inject->code, CODE_BYTES);
    if (!inject->stopped.is_gone) {
        registers_vectors_put(inject->stopped.id, &vectors, inject->stopped.state.vectors_kind);
        signals_set(inject, inject->stopped.state.blocked);
        registers_put(inject->stopped.id, &inject->stopped.state.registers);
        if (inject->spare != 0)
            memory_force(inject, inject->spare, inject->spare_kept, inject->spare_bytes);
        for (int signal = 1; signal <= 64; signal++)
            if (inject->held >> (signal - 1) & 1)
                syscall(SYS_tgkill, inject->target->process, inject->stopped.id, signal);
        stopped_thread_release(&inject->stopped);
        inject->stopped_ns = stopped_thread_now_ns() - inject->stopped.since_ns;
    }
    files_close(inject);
}
