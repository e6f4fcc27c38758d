#include "replay/ahead.h"

#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/pages.h"
#include "replay/measure.h"

static const struct error_kind reader_ended = {"replay_reader_ended",
                                               "the process that reads ahead has ended"};

/* How often a waiting parent checks that the child is still alive. */
#define LOOK_NS 100000000u

struct ahead_slot {
    struct instruction_batch batch; /* in the room */
    bool good;                      /* has a batch; in the first one: the stream has been opened */
    struct instruction_reader reader;
    uint64_t file_offset;
    struct instruction_room room;
};

struct ahead_shared {
    sem_t filled, free; /* slots */
    char metadata[INSTRUCTION_METADATA_MAX + 1];
    struct ahead_slot slots[AHEAD_SLOTS]; /* the first one comes without a batch */
};

static bool stream_open(struct ahead *ahead, bool indices)
{
    if (!instruction_reader_open(&ahead->reader, &ahead->input)) return false;
    if (indices) instruction_reader_use_indices(&ahead->reader);
    return true;
}

/* ---- the child ---- */

/* The scheduler may put two processes that wake each other on one processor and leave them there. A
 * replay without an allocator then takes half as long again. So the child keeps off the parent's
 * processor. */
static void child_move(cpu_set_t cpus, int parents_cpu)
{
    if (parents_cpu >= 0) CPU_CLR((unsigned)parents_cpu, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
}

static _Noreturn void ahead_child_run(struct ahead *ahead, bool indices)
{
    struct ahead_shared *shared = ahead->shared;
    struct instruction_reader *reader = &ahead->reader;
    struct ahead_slot *slot = shared->slots;
    slot->good = stream_open(ahead, indices);
    if (slot->good) {
        memcpy(shared->metadata, reader->header.metadata, reader->header.metadata_bytes + 1);
        reader->header.metadata = shared->metadata;
    }
    for (uint32_t produced = 1;; produced++) {
        const bool last = !slot->good;
        slot->reader = *reader;
        slot->file_offset = input_file_offset(&ahead->input);
        sem_post(&shared->filled);
        if (last) _exit(0);
        while (sem_wait(&shared->free) != 0)
            continue;
        slot = &shared->slots[produced % ahead->slots];
        reader->room = &slot->room;
        slot->good = instruction_reader_next(reader, &slot->batch);
    }
}

/* ---- the parent ---- */

/* Starts a child that opens and reads the stream. False: there is none. */
static bool child_start(struct ahead *ahead, bool indices)
{
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0 || CPU_COUNT(&cpus) < 2) return false;
    ahead->shared = pages_map_shared(ahead->shared_bytes);
    if (ahead->shared == NULL) return false;
    sem_init(&ahead->shared->filled, 1, 0);
    sem_init(&ahead->shared->free, 1, ahead->slots - 1);
    signal(SIGCHLD, SIG_DFL); /* if it were ignored, a child could not be waited for */
    pid_t parent = getpid();
    int parents_cpu = sched_getcpu();
    ahead->child = _Fork();
    if (ahead->child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(0);
        child_move(cpus, parents_cpu);
        ahead_child_run(ahead, indices);
    }
    if (ahead->child > 0) return true;
    ahead->child = 0;
    pages_unmap(ahead->shared, ahead->shared_bytes);
    ahead->shared = NULL;
    return false;
}

bool ahead_open(struct ahead *ahead, const char *path, bool indices)
{
    struct instruction_batch none;
    *ahead = (struct ahead){.slots = indices ? AHEAD_SLOTS : AHEAD_SLOTS_REGISTERS,
                            .shared_bytes = sizeof(struct ahead_shared)};
    if (!input_open(&ahead->input, path)) {
        ahead->reader.state = INSTRUCTIONS_FAILED;
        ahead->reader.error = ahead->input.error;
        return false;
    }
    return child_start(ahead, indices) ? ahead_next(ahead, &none) : stream_open(ahead, indices);
}

static bool child_has_died(struct ahead *ahead)
{
    int status = 0;
    if (ahead->child != 0 && waitpid(ahead->child, &status, WNOHANG) == 0) return false;
    if (ahead->child != 0 && WIFSIGNALED(status)) ahead->killed_by = WTERMSIG(status);
    ahead->child = 0;
    return true;
}

/* False when no batch will come. */
static bool ahead_wait(struct ahead *ahead)
{
    sem_t *filled = &ahead->shared->filled;
    for (;;) {
        const struct timespec until = timespec_of_ns(measure_now_ns() + LOOK_NS);
        if (sem_clockwait(filled, CLOCK_MONOTONIC, &until) == 0) return true;
        if (child_has_died(ahead)) return sem_trywait(filled) == 0;
    }
}

bool ahead_next(struct ahead *ahead, struct instruction_batch *batch)
{
    struct instruction_reader *reader = &ahead->reader;
    if (ahead->shared == NULL) {
        bool more = instruction_reader_next(reader, batch);
        ahead->file_offset = input_file_offset(&ahead->input);
        return more;
    }
    if (ahead->taken > 0) sem_post(&ahead->shared->free);
    if (!ahead_wait(ahead)) {
        reader->state = INSTRUCTIONS_FAILED;
        return error_set(&reader->error, &reader_ended, ERROR_NO_OFFSET, "by signal %d",
                         ahead->killed_by);
    }
    const struct ahead_slot *slot = &ahead->shared->slots[ahead->taken++ % ahead->slots];
    *reader = slot->reader;
    ahead->file_offset = slot->file_offset;
    *batch = slot->batch;
    return slot->good;
}

void ahead_end(struct ahead *ahead)
{
    if (ahead->child == 0) return;
    kill(ahead->child, SIGKILL);
    while (waitpid(ahead->child, NULL, 0) < 0 && errno == EINTR)
        continue;
    ahead->child = 0;
}

void ahead_close(struct ahead *ahead)
{
    if (ahead->shared == NULL)
        instruction_reader_close(&ahead->reader);
    else
        pages_unmap(ahead->shared, ahead->shared_bytes);
    input_close(&ahead->input);
}
