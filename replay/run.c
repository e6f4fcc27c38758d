#include "replay/run.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/call_table.h"

#define REPLAY_ERROR_LIST(X)                        \
    X(REPLAY_ERROR_ALLOCATION, "replay_allocation", \
      "an allocation failed that had not failed when it was recorded")
enum replay_error { REPLAY_ERROR_LIST(ERROR_LIST_ENUM) };
static const struct error_kind replay_errors[] = {REPLAY_ERROR_LIST(ERROR_LIST_KIND)};

struct run {
    const struct policy *policy;
    const struct engine *engine;
    struct engine_state state;
    struct instruction_reader *reader;
    struct report *report;
    uint64_t
        handed_over_ns; /* the clock at the first slice that has not been waited for; 0: none */
};

/* ---- totals of what was carried out ---- */

/* Takes the instructions of a batch from `from` on out of the totals: the reader counts whole blocks. */
static void totals_take_back(struct instruction_totals *totals,
                             const struct instruction_batch *batch, size_t from)
{
    for (size_t i = from; i < batch->count; i++) {
        const struct instruction *one = &batch->at[i];
        unsigned number = instruction_number(one), shape = call_shapes[number];
        bool failed = one->opcode & INSTRUCTION_FAILED, unknown = one->opcode & INSTRUCTION_UNKNOWN;
        bool birth = shape == SHAPE_BIRTH || shape == SHAPE_BIRTH_ALIGNED;
        totals->instructions--;
        if (number < CALL_KINDS) {
            totals->calls--;
            totals->by_kind[number]--;
        }
        if (!failed && (birth || (shape == SHAPE_REALLOC && unknown)))
            totals->live--;
        else if (!birth && shape != SHAPE_REALLOC && shape != SHAPE_HEAP && !unknown &&
                 number < CALL_KINDS)
            totals->live++;
        totals->lane_changes -= number == INSTRUCTION_LANE;
        totals->threads -= number == INSTRUCTION_THREAD_BEGIN;
        totals->ticks -= number == INSTRUCTION_TICK;
    }
}

/* The index behind the `calls`th call of a batch, counted from 1; batch->count when it has fewer. */
static size_t batch_behind_call(const struct instruction_batch *batch, uint64_t calls)
{
    size_t at = 0;
    while (at < batch->count && calls > 0)
        calls -= instruction_number(&batch->at[at++]) < CALL_KINDS;
    return at;
}

/* ---- one batch ---- */

static void run_set_allocation_error(struct run *run, const struct instruction_batch *batch,
                                     size_t at)
{
    const struct instruction *one = &batch->at[at];
    error_set(&run->state.error, &replay_errors[REPLAY_ERROR_ALLOCATION], batch->offset,
              "instruction %" PRIu64 ": %s of %" PRIu64 " bytes", batch->number + at,
              call_names[instruction_number(one)], one->size);
}

/* Has the engine carry out a slice. Returns as engine->run() does. */
static size_t run_slice(struct run *run, const struct instruction_batch *batch, size_t from,
                        size_t to)
{
    struct measurement *measured = &run->report->measurement;
    uint64_t begin = measure_now_ns();
    size_t done = run->engine->run(&run->state, batch, from, to);
    if (run->engine->drain == NULL)
        measured->wall_ns += measure_now_ns() - begin;
    else if (run->handed_over_ns == 0)
        run->handed_over_ns = begin;
    return done;
}

/* Waits for what has been handed over. */
static bool run_drain(struct run *run)
{
    if (run->handed_over_ns == 0) return true;
    bool good = run->engine->drain(&run->state);
    run->report->measurement.wall_ns += measure_now_ns() - run->handed_over_ns;
    run->handed_over_ns = 0;
    return good;
}

/* Carries out a batch, of which `calls_before` calls of the stream come before it. False: the replay has ended, by
 * the limit or, if run->state.error is set, by a failure. */
static bool run_batch(struct run *run, const struct instruction_batch *batch, uint64_t calls_before)
{
    const struct policy *policy = run->policy;
    struct instruction_totals *totals = &run->report->totals;
    size_t end = batch->count;
    *totals = run->reader->totals;
    if (!run->engine->prepare(&run->state, batch)) {
        totals_take_back(totals, batch, 0);
        return false;
    }
    bool limited = totals->calls >= policy->limit_calls;
    if (limited) end = batch_behind_call(batch, policy->limit_calls - calls_before);
    size_t done = run_slice(run, batch, 0, end);
    if (done < end && !error_is_set(&run->state.error)) run_set_allocation_error(run, batch, done);
    totals_take_back(totals, batch, done);
    return done == end && !limited;
}

/* ---- the whole stream ---- */

static bool run_batches(struct run *run)
{
    struct instruction_batch batch;
    for (;;) {
        uint64_t calls_before = run->reader->totals.calls;
        if (calls_before >= run->policy->limit_calls) break;
        if (!instruction_reader_next(run->reader, &batch)) break;
        if (!run_batch(run, &batch, calls_before)) break;
    }
    bool drained = run_drain(run);
    return drained && !error_is_set(&run->state.error);
}

static void run_say_no_switching(const struct options *options, const struct report *report)
{
    if (!report->engine->calls_allocator || report->cache_switching) return;
    if (options->switching_forbidden)
        fprintf(stderr,
                REPLAY_PROGRAM ": thread caches are not switched: NO_THREAD_CACHE_SWITCH is set\n");
    else
        fprintf(stderr,
                REPLAY_PROGRAM
                ": thread caches are not switched: %s has no set_malloc_thread_cache()\n",
                report->allocator->name);
}

void run_stream(const struct options *options, struct instruction_reader *reader,
                struct report *report)
{
    struct run run = {
        .policy = &options->policy,
        .engine = options->engine,
        .state = {.allocator = report->allocator, .policy = &options->policy},
        .reader = reader,
        .report = report,
    };
    bool good = run.engine->open(&run.state);
    report->cache_switching = run.state.cache_switching;
    if (good) {
        good = run_batches(&run);
        run.engine->finish(&run.state);
        run_say_no_switching(options, report);
    }
    report->limited = report->totals.calls >= run.policy->limit_calls;
    if (!good) {
        report->status = REPORT_FAILED;
        report->error = run.state.error;
    } else if (reader->state != INSTRUCTIONS_END && !report->limited) {
        report->status = reader->state == INSTRUCTIONS_CUT ? REPORT_CUT : REPORT_FAILED;
        report->error = reader->error;
    }
}
