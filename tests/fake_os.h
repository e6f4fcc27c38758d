/* fake_os - an operating system for the capture core in which everything can fail, and every run is
 * repeatable.
 *
 *   thread of the program (fiber) --malloctape_...()--> capture core --os_...()--> here
 *   writer thread (fiber) <-----os_thread_start()-------/                           |
 *                                   files, a clock, faults, the choice of the next fiber
 *
 * One thread plays all: at every call of this layer another fiber may go on, as the seed has it, so
 * a run is a function of its plan. Time passes only here. When all fibers wait for each other,
 * nothing ever happens any more: a hang, which is reported as such.
 *
 * With FAKE_THREADS a fiber is a thread of the real system. One runs at a time all the same, but
 * ThreadSanitizer does not know that (races_test.c).
 *
 * Files are memory files of the real system, because their mappings have to be shared with them. A
 * reader behind a pipe takes everything at once, until the plan stops it.
 *
 * One run in one process: the state of the capture core is static. */
#ifndef MALLOCTAPE_FAKE_OS_H
#define MALLOCTAPE_FAKE_OS_H

#include <stdbool.h>
#include <stdint.h>

/* What may fail: X(IDENTIFIER, name). */
#define FAKE_CALL_LIST(X)               \
    X(NONE, "nothing")                  \
    X(MEMORY, "memory")                 \
    X(DIRECTORY_OPEN, "directory_open") \
    X(LOOK, "look")                     \
    X(LOOK_AT, "look_at")               \
    X(CREATE, "create")                 \
    X(NAMELESS, "nameless")             \
    X(NAME, "name")                     \
    X(OPEN_WRITE, "open_write")         \
    X(OPEN_READ, "open_read")           \
    X(EMPTY, "empty")                   \
    X(RENAME, "rename")                 \
    X(REMOVE, "remove")                 \
    X(WRITE, "write")                   \
    X(WAIT_WRITABLE, "wait_writable")   \
    X(READ_START, "read_start")         \
    X(ALLOCATE, "allocate")             \
    X(MAP, "map")                       \
    X(COMMAND_START, "command_start")   \
    X(COMMAND_WAIT, "command_wait")     \
    X(THREAD_START, "thread_start")     \
    X(RUN_APART, "run_apart")           \
    X(EXEC, "exec")                     \
    X(READABLE, "readable")             \
    X(ANY, "any call")

enum fake_call {
#define FAKE_CALL_MEMBER(identifier, name) FAKE_##identifier,
    FAKE_CALL_LIST(FAKE_CALL_MEMBER)
#undef FAKE_CALL_MEMBER
        FAKE_CALLS
};

extern const char *const fake_call_names[FAKE_CALLS];

/* Instead of an error: a write takes one byte only, or none, or is refused for the moment; or
 * somebody has cut a file to nothing just before it is made longer. */
enum { FAKE_SHORT = 10000, FAKE_ZERO, FAKE_CUT };

struct fake_plan {
    uint64_t seed;
    /* One fault. */
    enum fake_call call;
    uint32_t number; /* it hits the call with this number, from 1 */
    bool lasting;    /* and all after it */
    /* An errno value, or one of the above; of COMMAND_WAIT also less than 0: an exit status. */
    int error;
    /* Faults by chance: in so many of 65 536 calls. */
    uint32_t chance;
    /* The process is killed at this call of any kind; 0: never. */
    uint64_t kill_at;
    uint64_t reader_comes_ns;   /* FIFO */
    uint64_t reader_stops_at;   /* bytes after which a reader does not read any more; 0: never */
    uint64_t reader_resumes_ns; /* after it has stopped; 0: never */
    bool reader_goes;           /* rather than stop */
    uint64_t usage_ns;          /* what it takes to say what other threads have used */
};

/* Whether the error can be one of the call. `index` counts from 0; 0 at the end of the list. */
int fake_error_of(enum fake_call call, unsigned index);

void fake_os_begin(const struct fake_plan *plan);

/* A file that is there already. */
void fake_file_put(const char *path, const char *text);
void fake_fifo_put(const char *path);

/* Another process makes a file as soon as somebody has looked whether it is there. */
void fake_file_appears(const char *path, const char *text);

/* A descriptor of the real system for what is at this path now, -1: nothing; and for what a reader
 * has got through a pipe. The position is at the start. */
int fake_file_get(const char *path);
int fake_reader_get(void);

/* The first path that begins with `prefix` and ends with `suffix`, NULL: none. */
const char *fake_file_find(const char *prefix, const char *suffix);

/* As many are there in a run, the ones that have ended included. */
enum { FAKE_FIBERS_MAX = 64 };

/* Runs `function` in a fiber of its own. Only before fake_os_run(), or from a fiber. */
void fake_fiber_start(void (*function)(void *), void *argument);

enum fake_end { FAKE_ENDED, FAKE_KILLED, FAKE_HANGS };

/* Until a fiber ends the process. */
enum fake_end fake_os_run(void);

/* Lets others go on, if the seed says so; to be called by the threads of the program now and
 * then. */
void fake_yield(void);
void fake_sleep(uint64_t ns);

uint32_t fake_calls(enum fake_call call); /* so far */
uint64_t fake_switches(void);             /* how often another fiber may have gone on, so far */
uint64_t fake_usage_ns(void);             /* what that has taken so far */
const char *fake_messages(void);          /* all that were written */
unsigned fake_open_descriptors(void);
uint32_t fake_random(void);

/* Ends the test itself: _exit() is the capture core's. */
void fake_exit(int status) __attribute__((noreturn));

#endif
