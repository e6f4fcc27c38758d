#include "replay/ahead.h"

#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/pages.h"
#include "replay/measure.h"

/* How often a waiting parent looks whether the child still lives. */
#define LOOK_NS 100000000u

struct ahead_slot {
    struct instruction_batch batch; /* in the room */
    /* Of the child's reader and its input, after it had read this batch, or had not. */
    bool has_batch;
    enum instruction_state state;
    enum instruction_status end_status;
    struct error error;
    struct instruction_totals totals;
    uint64_t live_bytes, peak_bytes;
    uint64_t file_offset;
    struct instruction_room room;
};

struct ahead_shared {
    sem_t filled, free; /* slots */
    struct ahead_slot slots[AHEAD_SLOTS];
};

/* ---- the child ---- */

static void slot_fill(struct ahead_slot *slot, struct instruction_reader *reader)
{
    reader->room = &slot->room;
    slot->has_batch = instruction_reader_next(reader, &slot->batch);
    slot->state = reader->state;
    slot->end_status = reader->end_status;
    slot->error = reader->error;
    slot->totals = reader->totals;
    slot->live_bytes = reader->objects.bytes;
    slot->peak_bytes = reader->objects.peak_bytes;
    slot->file_offset = input_file_offset(reader->input);
}

/* The scheduler may put two processes that wake each other on one processor and leave them there. A
 * replay without an allocator then takes half as long again. So the child keeps off the parent's
 * processor. */
static void child_move(cpu_set_t cpus, int parents_cpu)
{
    if (parents_cpu >= 0) CPU_CLR((unsigned)parents_cpu, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
}

static _Noreturn void child_run(const struct ahead *ahead)
{
    struct ahead_shared *shared = ahead->shared;
    for (uint32_t produced = 0;; produced++) {
        struct ahead_slot *slot = &shared->slots[produced % ahead->slots];
        while (sem_wait(&shared->free) != 0)
            continue;
        slot_fill(slot, ahead->reader);
        const bool last = !slot->has_batch;
        sem_post(&shared->filled);
        if (last) _exit(0);
    }
}

/* ---- the parent ---- */

void ahead_open(struct ahead *ahead, struct instruction_reader *reader, bool indices)
{
    cpu_set_t cpus;
    *ahead = (struct ahead){.reader = reader,
                            .slots = indices ? AHEAD_SLOTS : AHEAD_SLOTS_REGISTERS,
                            .shared_bytes = sizeof(struct ahead_shared)};
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0 || CPU_COUNT(&cpus) < 2) return;
    ahead->shared = pages_map_shared(ahead->shared_bytes);
    if (ahead->shared == NULL) return;
    sem_init(&ahead->shared->filled, 1, 0);
    sem_init(&ahead->shared->free, 1, ahead->slots);
    signal(SIGCHLD, SIG_DFL); /* if it is ignored, nobody can wait for a child */
    pid_t parent = getpid();
    int parents_cpu = sched_getcpu();
    ahead->child = _Fork();
    if (ahead->child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(0);
        child_move(cpus, parents_cpu);
        child_run(ahead);
    }
    if (ahead->child > 0) {
        input_close(reader->input);
        return;
    }
    ahead->child = 0;
    pages_unmap(ahead->shared, ahead->shared_bytes);
    ahead->shared = NULL;
}

static bool child_has_died(struct ahead *ahead)
{
    if (ahead->child != 0 && waitpid(ahead->child, NULL, WNOHANG) == 0) return false;
    ahead->child = 0;
    return true;
}

/* False when no batch will come. */
static bool ahead_wait(struct ahead *ahead)
{
    sem_t *filled = &ahead->shared->filled;
    for (;;) {
        const uint64_t until_ns = measure_now_ns() + LOOK_NS;
        const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u),
                                       .tv_nsec = (long)(until_ns % 1000000000u)};
        if (sem_clockwait(filled, CLOCK_MONOTONIC, &until) == 0) return true;
        if (child_has_died(ahead)) return sem_trywait(filled) == 0;
    }
}

bool ahead_next(struct ahead *ahead, struct instruction_batch *batch)
{
    struct instruction_reader *reader = ahead->reader;
    if (ahead->shared == NULL) {
        bool more = instruction_reader_next(reader, batch);
        ahead->file_offset = input_file_offset(reader->input);
        return more;
    }
    if (ahead->taken > 0) sem_post(&ahead->shared->free);
    if (!ahead_wait(ahead)) {
        reader->state = INSTRUCTIONS_FAILED;
        errno = ECHILD;
        return error_set_system(&reader->error, "the process that reads ahead has ended");
    }
    const struct ahead_slot *slot = &ahead->shared->slots[ahead->taken % ahead->slots];
    ahead->taken++;
    reader->state = slot->state;
    reader->end_status = slot->end_status;
    reader->error = slot->error;
    reader->totals = slot->totals;
    reader->objects.bytes = slot->live_bytes;
    reader->objects.peak_bytes = slot->peak_bytes;
    ahead->file_offset = slot->file_offset;
    *batch = slot->batch;
    return slot->has_batch;
}

void ahead_close(struct ahead *ahead)
{
    if (ahead->child > 0) {
        kill(ahead->child, SIGKILL);
        while (waitpid(ahead->child, NULL, 0) < 0 && errno == EINTR)
            continue;
        ahead->child = 0;
    }
    if (ahead->shared != NULL) pages_unmap(ahead->shared, ahead->shared_bytes);
    ahead->shared = NULL;
}
