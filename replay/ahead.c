#include "replay/ahead.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/atomic.h"
#include "common/pages.h"

/* How often a waiting parent looks whether the child still lives. */
#define AHEAD_LOOK_NS 100000000

/* Waking a process takes about as long as decoding half a batch, so one wakes the other for several
 * batches at once: half of the slots. With all slots each would wait for the other. A parent that
 * has got fewer batches looks again after this time, because the child may wait for a live pipe. */
#define AHEAD_LINGER_NS 1000000
static uint32_t wake_batches(const struct ahead *ahead)
{
    return ahead->slots / 2;
}

/* So often one looks at the other's counter before it sleeps: for about 10 us, which is less than
 * waking up takes. */
#define AHEAD_SPINS 200

#define CACHE_LINE 64u

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

struct ahead_counter {
    uint32_t value;
    uint32_t sleeping; /* 1 while somebody sleeps */
    uint32_t wanted;   /* the value at which the sleeper is to be woken */
    char apart[CACHE_LINE - 12];
};

struct ahead_shared {
    struct ahead_counter produced, released;
    struct ahead_slot slots[AHEAD_SLOTS];
};

/* ---- counters ---- */

static uint32_t counter_get(const struct ahead_counter *counter)
{
    return atomic_load_seq_cst(&counter->value);
}

/* Wakes who sleeps, whatever is wanted. */
static void counter_wake(struct ahead_counter *counter)
{
    if (atomic_exchange_seq_cst(&counter->sleeping, 0) != 0)
        syscall(SYS_futex, &counter->value, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void counter_grow(struct ahead_counter *counter)
{
    uint32_t value = counter->value + 1;
    atomic_store_seq_cst(&counter->value, value);
    if (atomic_load_seq_cst(&counter->sleeping) != 0 &&
        (int32_t)(value - atomic_load_relaxed(&counter->wanted)) >= 0)
        counter_wake(counter);
}

/* Waits while the counter is `value`. Once asleep, until it has grown by `growth`, for at most
 * `most_ns`. */
static void counter_wait(struct ahead_counter *counter, uint32_t value, uint32_t growth,
                         long most_ns)
{
    const struct timespec timeout = {.tv_nsec = most_ns};
    for (unsigned spin = 0; spin < AHEAD_SPINS; spin++) {
        if (counter_get(counter) != value) return;
        __builtin_ia32_pause();
    }
    atomic_store_relaxed(&counter->wanted, value + growth);
    atomic_store_seq_cst(&counter->sleeping, 1);
    syscall(SYS_futex, &counter->value, FUTEX_WAIT, value, &timeout, NULL, 0);
}

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
static void child_move(const cpu_set_t *cpus, int parents_cpu)
{
    cpu_set_t others = *cpus;
    if (parents_cpu >= 0) CPU_CLR((unsigned)parents_cpu, &others);
    sched_setaffinity(0, sizeof others, &others);
}

static _Noreturn void child_run(const struct ahead *ahead)
{
    struct ahead_shared *shared = ahead->shared;
    for (uint32_t produced = 0;; produced++) {
        uint32_t released;
        while (produced - (released = counter_get(&shared->released)) == ahead->slots)
            counter_wait(&shared->released, released, wake_batches(ahead), AHEAD_LOOK_NS);
        struct ahead_slot *slot = &shared->slots[produced % ahead->slots];
        slot_fill(slot, ahead->reader);
        counter_grow(&shared->produced);
        if (!slot->has_batch) {
            counter_wake(&shared->produced);
            _exit(0);
        }
    }
}

/* ---- the parent ---- */

void ahead_open(struct ahead *ahead, struct instruction_reader *reader, bool indices,
                const cpu_set_t *cpus)
{
    *ahead =
        (struct ahead){.reader = reader, .slots = indices ? AHEAD_SLOTS : AHEAD_SLOTS_REGISTERS};
    if (CPU_COUNT(cpus) < 2) return;
    ahead->shared = pages_map_shared(sizeof *ahead->shared);
    if (ahead->shared == NULL) return;
    pid_t parent = getpid();
    int parents_cpu = sched_getcpu();
    ahead->child = _Fork();
    if (ahead->child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(0);
        child_move(cpus, parents_cpu);
        child_run(ahead);
    }
    if (ahead->child > 0) return;
    ahead->child = 0;
    pages_unmap(ahead->shared, sizeof *ahead->shared);
    ahead->shared = NULL;
}

static bool child_has_died(struct ahead *ahead)
{
    if (ahead->child == 0 || waitpid(ahead->child, NULL, WNOHANG) != ahead->child) return false;
    ahead->child = 0;
    return true;
}

/* False when no batch will come. */
static bool ahead_wait(struct ahead *ahead)
{
    struct ahead_counter *produced = &ahead->shared->produced;
    /* The first batch takes longer; waiting for it by looking would be added to every replay. */
    uint32_t growth = ahead->taken == 0 ? 1 : wake_batches(ahead);
    long most_ns = AHEAD_LINGER_NS;
    while (counter_get(produced) == ahead->taken) {
        counter_wait(produced, ahead->taken, growth, most_ns);
        if (counter_get(produced) == ahead->taken && child_has_died(ahead) &&
            counter_get(produced) == ahead->taken)
            return false;
        growth = 1;
        most_ns = AHEAD_LOOK_NS;
    }
    return true;
}

bool ahead_next(struct ahead *ahead, struct instruction_batch *batch)
{
    struct instruction_reader *reader = ahead->reader;
    if (ahead->shared == NULL) {
        bool more = instruction_reader_next(reader, batch);
        ahead->file_offset = input_file_offset(reader->input);
        return more;
    }
    if (ahead->taken > 0) counter_grow(&ahead->shared->released);
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
    if (ahead->shared != NULL) pages_unmap(ahead->shared, sizeof *ahead->shared);
    ahead->shared = NULL;
}
