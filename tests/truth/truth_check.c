/* truth_check - compares a recording with what a witness saw (truth.h).
 *
 *   truth_check [--spoil=WHAT] TRUTH RAW [ORDERED]
 *
 * Of each thread, the recording has the calls that the truth has, in their order: kind, size,
 * alignment, success, and the address, if it has addresses. Every free and realloc names the object
 * that it ended: by a place and a bound that mean the very call that made it, or no object where
 * that call was not recorded. What is missing is explained by the truth: calls while nothing was
 * recorded, and calls during which recording began or ended. ORDERED has the same calls of each
 * thread, and its registers name the same objects. Counted is how often two objects are alive there
 * at one address: never, if the order is that of the allocator. It is, but for pauses, during which
 * nothing has a sequence number.
 *
 * Prints what it compared. Exit status 1 and the first few mistakes when there are any, 2 when it
 * cannot compare.
 *
 * --spoil changes the recording in one place first, so that the result must be 1: see `spoils`
 * below. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/call_table.h"
#include "common/input.h"
#include "stream/instruction_reader.h"
#include "stream/raw_format.h"
#include "trace.h"
#include "truth_file.h"

enum { MISTAKES_SHOWN = 10 };

struct comparison {
    struct truth_file truth;
    struct trace trace;
    struct trace_call **recorded; /* by call of the truth; NULL: not in the recording */
    uint32_t *trace_thread;       /* by thread of the truth; 0: none; counted from 1 */
    uint64_t mistakes;
    uint64_t compared, allocations, frees, foreign, reallocs, failed, unknown;
    uint64_t explained;   /* made while nothing was recorded */
    uint64_t at_edges;    /* made while recording began, ended, ... and not recorded */
    uint64_t unwitnessed; /* recorded, but their thread did not live to tell the witness */
    uint64_t ordered;
    uint64_t overlaps; /* allocations, in the ordered stream, where another object is alive */
};

static void mistake(struct comparison *all, uint32_t call, const char *what, uint64_t got,
                    uint64_t wanted)
{
    const struct truth_record *record = &all->truth.records[call];
    if (++all->mistakes > MISTAKES_SHOWN) return;
    printf("call %" PRIu32 ", thread %" PRIu32 ", %s of %" PRIu64 " bytes: %s: %" PRIu64
           ", wanted %" PRIu64 "\n",
           call, record->thread, truth_is_call(record) ? call_names[record->kind] : "nothing",
           record->size, what, got, wanted);
}

/* --- calls --- */

static unsigned kind_of(const struct truth_record *record)
{
    bool in_place = record->kind == CALL_REALLOC_MOVED && record->object == record->result;
    return in_place ? CALL_REALLOC_IN_PLACE : record->kind;
}

static bool has_failed(const struct truth_record *record)
{
    return truth_is_failed_realloc(record) || (record->object == 0 && record->result == 0);
}

static bool is_same(const struct truth_record *record, const struct trace_call *call)
{
    return kind_of(record) == call->kind && has_failed(record) == (call->number == RAW_FAILED) &&
           record->size == call->size && record->alignment == call->alignment &&
           (call->address == 0 || record->result == call->address);
}

static bool may_be_missing(const struct truth_record *record)
{
    return !(record->flags & TRUTH_RETURNED) || (record->flags & TRUTH_UNSURE);
}

static void take(struct comparison *all, uint32_t call, struct trace_call *recorded)
{
    unsigned shape = call_shapes[recorded->kind];
    all->recorded[call] = recorded;
    all->compared++;
    all->failed += recorded->number == RAW_FAILED;
    all->allocations += recorded->began != 0;
    all->reallocs += shape == SHAPE_REALLOC;
    all->frees += shape >= SHAPE_FREE;
}

/* Behind the last call of the truth: one that a thread was in when the process ended. */
static void check_rest(struct comparison *all, const struct truth_thread *truth,
                       const struct trace_thread *trace, uint32_t at)
{
    bool is_allocation =
        at + 1 == trace->count && call_shapes[trace->calls[at].kind] <= SHAPE_ALLOCATION_ALIGNED;
    all->unwitnessed += is_allocation;
    if (at < trace->count && !is_allocation)
        mistake(all, truth->count ? truth->calls[truth->count - 1] : 0,
                "behind this call, calls that were never made", trace->count - at, 0);
}

static void check_thread(struct comparison *all, uint32_t number)
{
    static const struct trace_thread no_thread;
    const struct truth_thread *truth = &all->truth.threads[number];
    uint32_t found = all->trace_thread[number];
    const struct trace_thread *trace = found ? &all->trace.threads[found - 1] : &no_thread;
    uint32_t at = 0;
    uint64_t lost = 0;
    for (uint32_t i = 0; i < truth->count; i++) {
        uint32_t call = truth->calls[i];
        const struct truth_record *record = &all->truth.records[call];
        while (at < trace->count && trace->calls[at].number == RAW_LOST)
            lost += trace->calls[at++].size;
        if (record->flags & TRUTH_UNRECORDED) {
            all->explained++;
        } else if (lost > 0) {
            lost--;
        } else if (at < trace->count && is_same(record, &trace->calls[at])) {
            take(all, call, &trace->calls[at++]);
        } else if (may_be_missing(record)) {
            all->at_edges++;
        } else {
            mistake(all, call, at < trace->count ? "another call is recorded" : "not recorded",
                    at < trace->count ? trace->calls[at].kind : 0, record->kind);
            return;
        }
    }
    check_rest(all, truth, trace, at);
}

/* --- threads --- */

static void match_threads(struct comparison *all)
{
    for (uint32_t i = 0; i < all->trace.threads_count; i++) {
        struct trace_thread *trace = &all->trace.threads[i];
        for (uint32_t n = 1; n < all->truth.threads_count; n++) {
            if (all->truth.threads[n].id != trace->id) continue;
            if (trace->truth || all->trace_thread[n])
                truth_fail("threads", "two have had one thread id; which is which is not known");
            trace->truth = n;
            all->trace_thread[n] = i + 1;
        }
        if (!trace->truth && trace->count) {
            all->mistakes++;
            printf("thread id %" PRIu64 ": %" PRIu32 " calls of a thread that nobody saw\n",
                   trace->id, trace->count);
        }
    }
}

/* --- objects --- */

/* Where allocations that a bound counts were cut off at the end of the recording, the object is
 * unknown (FORMAT.md 4.4). */
static bool is_cut_off(const struct comparison *all, uint64_t object)
{
    return object != TRACE_NOBODY &&
           raw_allocations_count(object) > all->trace.allocations[raw_allocations_lane(object)];
}

static bool names_nothing(const struct comparison *all, uint64_t object)
{
    return object == TRACE_UNKNOWN || is_cut_off(all, object);
}

static void check_objects(struct comparison *all)
{
    for (uint32_t i = 0; i < all->truth.count; i++) {
        const struct trace_call *call = all->recorded[i];
        if (call == NULL || all->truth.records[i].object == 0) continue;
        uint32_t object = all->truth.ended[i];
        const struct trace_call *allocation =
            object == TRUTH_NO_OBJECT ? NULL : all->recorded[object];
        all->unknown += allocation == NULL;
        if (allocation != NULL && call->ended != allocation->began && !is_cut_off(all, call->ended))
            mistake(all, i, "another object", call->ended, allocation->began);
        if (allocation == NULL && !names_nothing(all, call->ended))
            mistake(all, i, "an object that was not recorded", call->ended, 0);
        if (allocation != NULL)
            all->foreign += all->truth.records[object].thread != all->truth.records[i].thread;
    }
}

/* --- the ordered stream --- */

struct ordered {
    struct comparison *all;
    uint32_t *thread_of; /* by lane */
    uint32_t *next;      /* by thread: its next call */
    uint32_t *objects;   /* by register */
    uint64_t objects_room;
    uint32_t lane;
    uint64_t unwitnessed; /* calls */
    struct live_table live;
};

/* The next recorded call of a thread. */
static uint32_t ordered_next(struct ordered *ordered, uint32_t number)
{
    const struct truth_thread *thread = &ordered->all->truth.threads[number];
    while (ordered->next[number] < thread->count) {
        uint32_t call = thread->calls[ordered->next[number]++];
        if (ordered->all->recorded[call] != NULL) return call;
    }
    return TRUTH_NO_OBJECT;
}

static void ordered_free(struct ordered *ordered, const struct instruction *one, uint32_t call)
{
    const struct truth_file *truth = &ordered->all->truth;
    uint32_t wanted = truth->ended[call];
    if (wanted != TRUTH_NO_OBJECT && ordered->all->recorded[wanted] == NULL)
        wanted = TRUTH_NO_OBJECT;
    uint32_t got =
        (one->opcode & INSTRUCTION_UNKNOWN) ? TRUTH_NO_OBJECT : ordered->objects[one->object];
    bool failed = truth_is_failed_realloc(&truth->records[call]);
    /* Nothing tells that it failed before another thread ended the object (ordering.md). */
    bool is_late = failed && got == TRUTH_NO_OBJECT;
    bool is_lost =
        got == TRUTH_NO_OBJECT && is_cut_off(ordered->all, ordered->all->recorded[call]->ended);
    if (got != wanted && !is_late && !is_lost)
        mistake(ordered->all, call, "ordered: another object", got, wanted);
    if (wanted != TRUTH_NO_OBJECT && !failed)
        live_take(&ordered->live, truth->records[call].object);
}

static void ordered_allocation(struct ordered *ordered, const struct instruction *one,
                               uint32_t call)
{
    ordered->objects[one->object] = call;
    uint32_t before = live_put(&ordered->live, ordered->all->truth.records[call].result, call);
    ordered->all->overlaps += before != TRUTH_NO_OBJECT;
}

static void ordered_call(struct ordered *ordered, const struct instruction *one)
{
    struct comparison *all = ordered->all;
    unsigned number = instruction_number(one);
    bool failed = (one->opcode & INSTRUCTION_FAILED) != 0;
    uint32_t call = ordered_next(ordered, ordered->thread_of[ordered->lane]);
    all->ordered++;
    if (call == TRUTH_NO_OBJECT) {
        if (++ordered->unwitnessed > all->unwitnessed)
            mistake(all, 0, "ordered: a call that was not recorded, in lane", ordered->lane, 0);
        return;
    }
    const struct truth_record *record = &all->truth.records[call];
    if (kind_of(record) != number || has_failed(record) != failed)
        mistake(all, call, "ordered: another call", number, kind_of(record));
    if (record->size != one->size) mistake(all, call, "ordered: size", one->size, record->size);
    if (record->object != 0) ordered_free(ordered, one, call);
    if (record->result != 0) ordered_allocation(ordered, one, call);
}

static void ordered_room(struct ordered *ordered, uint64_t registers)
{
    if (registers <= ordered->objects_room) return;
    ordered->objects_room = registers * 2;
    ordered->objects = realloc(ordered->objects, ordered->objects_room * sizeof *ordered->objects);
    if (ordered->objects == NULL) truth_fail("ordered", "out of memory");
}

/* Number 0, which has no calls, if there is none. */
static uint32_t thread_with_id(const struct comparison *all, uint64_t id)
{
    uint32_t number = all->truth.threads_count - 1;
    while (number > 0 && all->truth.threads[number].id != id)
        number--;
    return number;
}

static void ordered_instruction(struct ordered *ordered, const struct instruction_batch *batch,
                                const struct instruction *one)
{
    unsigned number = instruction_number(one);
    const uint64_t *operands = batch->operands + one->operand_at;
    if (number == INSTRUCTION_LANE)
        ordered->lane = (uint32_t)operands[0];
    else if (number == INSTRUCTION_THREAD_BEGIN)
        ordered->thread_of[ordered->lane] = thread_with_id(ordered->all, operands[0]);
    else if (number < CALL_KINDS && call_shapes[number] != SHAPE_HEAP)
        ordered_call(ordered, one);
}

static void check_ordered(struct comparison *all, const char *path)
{
    struct input input;
    struct instruction_reader reader;
    struct instruction_batch batch;
    struct ordered ordered = {.all = all,
                              .thread_of =
                                  truth_memory(INSTRUCTION_LANES_MAX, sizeof *ordered.thread_of),
                              .next = truth_memory(all->truth.threads_count, sizeof *ordered.next)};
    if (!input_open(&input, path) || !instruction_reader_open(&reader, &input))
        truth_fail(path, "cannot be read");
    while (instruction_reader_next(&reader, &batch)) {
        ordered_room(&ordered, batch.registers);
        struct instruction_walk walk = instruction_walk_over(&batch, batch.count);
        struct instruction one;
        while (instruction_walk_next(&walk, &one))
            ordered_instruction(&ordered, &batch, &one);
    }
    if (reader.state == INSTRUCTIONS_FAILED) truth_fail(path, "is damaged");
    if (all->ordered != all->compared + all->unwitnessed)
        mistake(all, 0, "ordered: calls", all->ordered, all->compared + all->unwitnessed);
    instruction_reader_close(&reader);
    input_close(&input);
    free(ordered.thread_of);
    free(ordered.next);
    free(ordered.objects);
    live_free(&ordered.live);
}

/* --- spoiled recordings --- */

/* In the middle of the longest thread: the first call from there on that is a free of an object of
 * its own kind. */
static struct trace_call *middle_free(struct trace_thread *thread, const struct trace_call * not )
{
    for (uint32_t i = thread->count / 2; i < thread->count; i++)
        if (call_shapes[thread->calls[i].kind] >= SHAPE_FREE && thread->calls[i].ended != 0 &&
            (not == NULL || (&thread->calls[i] > not &&thread->calls[i].ended != not ->ended)))
            return &thread->calls[i];
    truth_fail("--spoil", "the recording has nothing that could be spoiled");
}

static struct trace_call *middle_allocation(struct trace_thread *thread)
{
    for (uint32_t i = thread->count / 2; i < thread->count; i++)
        if (call_shapes[thread->calls[i].kind] == SHAPE_ALLOCATION) return &thread->calls[i];
    truth_fail("--spoil", "the recording has nothing that could be spoiled");
}

static void spoil_exchange(struct trace_thread *thread)
{
    struct trace_call *one = middle_free(thread, NULL);
    struct trace_call *other = middle_free(thread, one);
    uint64_t ended = one->ended;
    one->ended = other->ended;
    other->ended = ended;
}

static void spoil_unknown(struct trace_thread *thread)
{
    middle_free(thread, NULL)->ended = TRACE_UNKNOWN;
}

static void spoil_size(struct trace_thread *thread)
{
    middle_allocation(thread)->size++;
}

static void spoil_kind(struct trace_thread *thread)
{
    struct trace_call *call = middle_allocation(thread);
    call->kind = call->kind == CALL_MALLOC ? CALL_NEW : CALL_MALLOC;
    call->number = call->kind;
}

static void remove_call(struct trace_thread *thread, const struct trace_call *call)
{
    for (uint32_t i = (uint32_t)(call - thread->calls); i + 1 < thread->count; i++)
        thread->calls[i] = thread->calls[i + 1];
    thread->count--;
}

static void spoil_free_missing(struct trace_thread *thread)
{
    remove_call(thread, middle_free(thread, NULL));
}

static void spoil_allocation_missing(struct trace_thread *thread)
{
    remove_call(thread, middle_allocation(thread));
}

static void spoil_end_missing(struct trace_thread *thread)
{
    thread->count -= 100;
}

static void spoil_twice(struct trace_thread *thread)
{
    struct trace_call call = *middle_free(thread, NULL);
    remove_call(thread, &thread->calls[thread->count - 1]);
    for (uint32_t i = thread->count; i > thread->count / 2; i--)
        thread->calls[i] = thread->calls[i - 1];
    thread->calls[thread->count / 2] = call;
    thread->count++;
}

static const struct spoil {
    const char *name;
    void (*spoil)(struct trace_thread *thread);
} spoils[] = {
    {"exchange", spoil_exchange},
    {"unknown", spoil_unknown},
    {"size", spoil_size},
    {"kind", spoil_kind},
    {"freeing-missing", spoil_free_missing},
    {"allocation-missing", spoil_allocation_missing},
    {"end-missing", spoil_end_missing},
    {"twice", spoil_twice},
};

static void spoil(struct trace *trace, const char *name)
{
    struct trace_thread *longest = trace->threads;
    for (uint32_t i = 1; i < trace->threads_count; i++)
        if (trace->threads[i].count > longest->count) longest = &trace->threads[i];
    for (size_t i = 0; i < sizeof spoils / sizeof *spoils; i++) {
        if (strcmp(spoils[i].name, name) != 0) continue;
        if (trace->threads_count == 0 || longest->count < 1000)
            truth_fail("--spoil", "the recording is too short");
        spoils[i].spoil(longest);
        return;
    }
    truth_fail("--spoil: unknown name", name);
}

/* --- */

static void report(const struct comparison *all)
{
    printf("calls %" PRIu64 " allocations %" PRIu64 " frees %" PRIu64 " reallocs %" PRIu64
           " failed %" PRIu64 " of-other-threads %" PRIu64 " of-unknown-objects %" PRIu64
           " threads %" PRIu32 " ordered %" PRIu64 " overlaps %" PRIu64 "\n",
           all->compared, all->allocations, all->frees, all->reallocs, all->failed, all->foreign,
           all->unknown, all->trace.threads_count, all->ordered, all->overlaps);
    printf("before-witness %" PRIu64 " strangers %" PRIu64 " while-off %" PRIu64
           " at-edges %" PRIu64 " unwitnessed %" PRIu64 " heap-calls %" PRIu64 " lost %" PRIu64
           " mistakes %" PRIu64 "\n",
           all->truth.header->unready, all->truth.strangers, all->explained, all->at_edges,
           all->unwitnessed, all->trace.heap_calls, all->trace.lost, all->mistakes);
}

int main(int count, char **words)
{
    struct comparison all = {0};
    static const char option[] = "--spoil=";
    const char *spoiled = NULL;
    if (count > 1 && strncmp(words[1], option, sizeof option - 1) == 0) {
        spoiled = words[1] + sizeof option - 1;
        count--;
        words++;
    }
    if (count != 3 && count != 4) {
        fputs("usage: truth_check [--spoil=WHAT] TRUTH RAW [ORDERED]\n", stderr);
        return 2;
    }
    truth_file_open(&all.truth, words[1]);
    trace_read(&all.trace, words[2]);
    if (spoiled) spoil(&all.trace, spoiled);
    all.recorded = truth_memory(all.truth.count, sizeof(struct trace_call *));
    all.trace_thread = truth_memory(all.truth.threads_count, sizeof *all.trace_thread);
    match_threads(&all);
    for (uint32_t i = 1; i < all.truth.threads_count; i++)
        check_thread(&all, i);
    check_objects(&all);
    if (count == 4) check_ordered(&all, words[3]);
    report(&all);
    trace_free(&all.trace);
    truth_file_close(&all.truth);
    free(all.recorded);
    free(all.trace_thread);
    return all.mistakes == 0 && all.compared > 0 ? 0 : 1;
}
