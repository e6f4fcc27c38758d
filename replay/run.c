#include "replay/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "common/call_table.h"
#include "common/pages.h"
#include "common/progress.h"
#include "replay/lane_peaks.h"
#include "replay/lane_shares.h"
#include "replay/looks.h"
#include "replay/replay_thread.h"
#include "replay/snapshot.h"
#include "stream/metadata.h"

static const struct error_kind no_addresses = {
    "replay_no_addresses",
    "addresses cannot be verified: the recording has none (record --addresses)"};
static const struct error_kind engine_addresses = {"replay_engine_addresses",
                                                   "addresses cannot be verified with this engine"};
static const struct error_kind engine_snapshot = {"replay_engine_snapshot",
                                                  "this engine cannot write a snapshot"};

/* The replay's own cost is measured once in this many blocks. */
#define OWN_COST_EVERY 16

_Static_assert(LOOKS_MARKS >= 2 * (THREAD_JOBS + 1),
               "two for each slice that is handed over: it may end with a tick and with a batch");

struct run {
    const struct policy *policy;
    const struct engine *engine;
    struct engine_state state;
    struct report *report;
    struct promises promises;
    struct latency latency;
    struct lane_shares shares; /* only in a replay that calls no allocator */
    struct lane_peaks peaks;   /* with policy->lane_peaks */
    struct progress progress;
    struct ahead *ahead;

    uint64_t
        handed_over_ns; /* when the first slice since the last drain was handed over; 0: none */
    bool warm;          /* the warm-up is over */
    uint64_t base_realigned, base_reallocs, base_moved; /* in the base: not counted */
    uint64_t batches;
    uint64_t slices; /* that were handed to the engine */
    uint64_t now_ns; /* when the latest one ended, or was handed over */
    struct looks looks;
    bool follows; /* --snapshot, and batches have registers */
    struct snapshot_row snapshot_row;
    uint64_t release_next_calls, release_next_ns; /* when memory is given back again */
    struct series_row row; /* the original's time and memory, by the latest tick */
    unsigned vm_size_at;   /* of the statistics */
};

/* ---- time ---- */

/* Has the engine carry out a slice. Returns as engine->run() does. */
static size_t run_slice(struct run *run, const struct instruction_batch *batch, size_t from,
                        size_t to)
{
    struct measurement *measured = &run->report->measurement;
    uint64_t begin = measure_now_ns();
    size_t done = run->engine->run(&run->state, batch, from, to);
    run->now_ns = measure_now_ns();
    run->slices++;
    if (run->engine->drain == NULL)
        measured->wall_ns += run->now_ns - begin;
    else if (run->handed_over_ns == 0)
        run->handed_over_ns = begin;
    return done;
}

/* Waits for what has been handed over. */
static bool run_drain(struct run *run)
{
    if (run->handed_over_ns == 0) return true;
    bool good = run->engine->drain(&run->state);
    run->now_ns = measure_now_ns();
    run->report->measurement.wall_ns += run->now_ns - run->handed_over_ns;
    run->handed_over_ns = 0;
    return good;
}

/* What a whole batch costs without the allocator. */
static void run_own_cost(struct run *run, const struct instruction_batch *batch, uint64_t calls)
{
    struct measurement *measured = &run->report->measurement;
    if (run->engine->run_null == NULL || run->batches++ % OWN_COST_EVERY != 0) return;
    uint64_t begin = measure_now_ns();
    run->engine->run_null(&run->state, batch);
    measured->own_ns += measure_now_ns() - begin;
    measured->own_calls += calls;
}

/* Discards what was measured, where the warm-up ends or with the stream. */
static bool run_end_warmup(struct run *run, uint64_t calls)
{
    struct measurement *measured = &run->report->measurement;
    if (!run_drain(run)) return false;
    run->warm = true;
    measured->wall_ns = 0;
    measured->warmup_calls = calls;
    latency_clear(&run->latency);
    return true;
}

/* Has the allocator give memory back, in the timed part. Threads of the engine go on meanwhile. */
static void run_release(struct run *run)
{
    struct measurement *measured = &run->report->measurement;
    if (run->report->release_means == NULL) return;
    uint64_t begin = measure_now_ns();
    heap_release(run->report->allocator);
    uint64_t took = measure_now_ns() - begin;
    run->report->releases++;
    measured->release_ns += took;
    if (run->engine->drain == NULL) measured->wall_ns += took;
}

static void run_release_by_time(struct run *run)
{
    const uint64_t every = run->policy->release_every_ns;
    if (every == 0 || run->row.original_ns < run->release_next_ns) return;
    run_release(run);
    run->release_next_ns = run->row.original_ns / every * every + every;
}

/* Waits until the original's time, stretched, has come. */
static void run_wait(struct run *run)
{
    double after_ns = (double)run->row.original_ns / run->policy->speed;
    const struct timespec until =
        timespec_of_ns(run->report->measurement.started_ns + (uint64_t)after_ns);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}

/* ---- memory ---- */

/* What is known at the end of the latest slice. */
static struct series_row run_run_row(const struct run *run, uint64_t calls, uint64_t live_bytes)
{
    const struct measurement *measured = &run->report->measurement;
    struct series_row row = run->row;
    row.event = calls;
    row.live_bytes = live_bytes;
    row.elapsed_ns = run->now_ns - measured->started_ns;
    row.wall_ns = measured->wall_ns;
    if (run->handed_over_ns != 0) row.wall_ns += run->now_ns - run->handed_over_ns;
    return row;
}

/* Sets a mark at the end of the latest slice, for a look as soon as that has been carried out. */
static void run_mark(struct run *run, uint64_t calls, uint64_t live_bytes, bool tick)
{
    const struct engine *engine = run->engine;
    const struct series_row row = run_run_row(run, calls, live_bytes);
    looks_mark(&run->looks, run->slices, &row, tick);
    uint64_t done = engine->carried_out != NULL ? engine->carried_out(&run->state) : run->slices;
    looks_take(&run->looks, done, &row, run->now_ns);
    if (run->policy->shown_time != SHOWN_TIME_REAL) shown_clock_set(run->looks.shown_ns);
}

/* How far the allocator's time advances at a tick: by the original's time, or by its processor time
 * (`cpu_before_ns` at the previous tick) if that is less. */
static uint64_t run_shown_ns(const struct run *run, uint64_t ns, uint64_t cpu_before_ns)
{
    const struct original *original = &run->report->original;
    const uint64_t cpu_ns = original->user_ns + original->system_ns - cpu_before_ns;
    return run->policy->shown_time == SHOWN_TIME_CPU && original->has_usage && cpu_ns < ns ? cpu_ns
                                                                                           : ns;
}

/* A tick has just been carried out; `calls_before` calls came before its batch. */
static void run_tick(struct run *run, const struct instruction_batch *batch,
                     const struct instruction_tick *tick, uint64_t calls_before)
{
    const uint64_t *operands = &batch->operands[tick->operand_at];
    struct original *original = &run->report->original;
    struct original_usage usage;
    bool has_usage = instruction_batch_usage(batch, tick, &usage);
    const uint64_t cpu_ns = original->user_ns + original->system_ns;
    original_add(original, operands[0], operands[1], has_usage ? &usage : NULL);
    struct original_statistics *statistics = &run->report->statistics;
    instruction_batch_statistics(batch, tick, statistics);
    if (run->vm_size_at < statistics->count)
        run->row.original_vm_size_bytes = statistics->values[run->vm_size_at];
    run->row.shown_ns += run_shown_ns(run, operands[0], cpu_ns);
    run->row.original_ns = original->now_ns;
    run->row.original_rss_bytes = operands[1];
    run->row.original_net_rss_bytes =
        has_usage && usage.recorder_bytes > 0 ? original->net_bytes : 0;
    run->row.original_heap_bytes = operands[2];
    run_mark(run, calls_before + tick->calls, tick->live_bytes, true);
    run_release_by_time(run);
    if (run->policy->speed > 0) run_wait(run);
}

/* ---- one batch ---- */

/* The index at which the warm-up ends; SIZE_MAX when that is not in this batch, of `calls` calls.
 */
static size_t run_warm_at(const struct run *run, const struct instruction_batch *batch,
                          uint64_t calls_before, uint64_t calls)
{
    uint64_t warmup = run->policy->warmup_calls;
    if (run->warm || calls_before + calls < warmup) return SIZE_MAX;
    return instruction_batch_after_call(batch, warmup - calls_before);
}

/* The index at which memory is given back next, counted in calls; SIZE_MAX: not in this batch. */
static size_t run_release_at(const struct run *run, const struct instruction_batch *batch,
                             uint64_t calls_before)
{
    if (run->policy->release_every_calls == 0) return SIZE_MAX;
    size_t at = instruction_batch_after_call(batch, run->release_next_calls - calls_before);
    return at < batch->count ? at : SIZE_MAX;
}

/* Carries out a batch up to `end`, in slices. Returns the index of the first instruction that was
 * not carried out. */
static size_t run_slices(struct run *run, const struct instruction_batch *batch, size_t end,
                         size_t warm_at, uint64_t calls_before)
{
    const struct instruction_tick *tick = batch->ticks, *ticks_end = tick + batch->ticks_count;
    size_t release_at = run_release_at(run, batch, calls_before);
    for (size_t from = 0, to; from < end; from = to) {
        to = tick < ticks_end && tick->at < end ? tick->at + 1 : end;
        if (from < warm_at && warm_at < to) to = warm_at;
        if (from < release_at && release_at < to) to = release_at;
        size_t done = run_slice(run, batch, from, to);
        if (done < to) return done;
        if (tick < ticks_end && tick->at + 1 == to) run_tick(run, batch, tick++, calls_before);
        if (to == release_at) {
            run_release(run);
            run->release_next_calls += run->policy->release_every_calls;
            release_at = run_release_at(run, batch, calls_before);
        }
        if (to == warm_at && !run_end_warmup(run, run->policy->warmup_calls)) return to;
    }
    return end;
}

static void run_allocation_failed(struct run *run, const struct instruction_batch *batch, size_t at)
{
    struct instruction_walk walk = instruction_walk_over(batch, at + 1);
    struct instruction one = {.opcode = 0};
    while (instruction_walk_next(&walk, &one))
        continue;
    engine_set_allocation_error(&run->state.error, &run->promises, one.opcode, one.size,
                                batch->number + at, batch->offset);
}

/* Subtracts the instructions from `from` on from the totals: the reader counts whole blocks. */
static void run_take_back(struct instruction_totals *totals, const struct instruction_batch *batch,
                          size_t from)
{
    for (size_t i = from; i < batch->count; i++)
        engine_take_back(totals, batch->opcodes[i]);
}

/* Carries out a batch. `before`: the totals of the stream before it. False: the replay has ended,
 * by the limit or, if run->state.error is set, by a failure. */
static bool run_batch(struct run *run, const struct instruction_batch *batch,
                      const struct instruction_totals *before)
{
    const struct policy *policy = run->policy;
    struct instruction_totals *totals = &run->report->totals;
    size_t end = batch->count;
    *totals = run->ahead->reader.totals;
    latency_count(&run->latency, &run->latency.list);
    if (!run->engine->prepare(&run->state, batch)) {
        run_take_back(totals, batch, 0);
        return false;
    }
    if (run->shares.calls != NULL) lane_shares_add(&run->shares, batch);
    if (run->peaks.lanes != NULL && !lane_peaks_add(&run->peaks, batch, &run->state.error))
        return false;
    uint64_t calls = totals->calls - before->calls;
    run_own_cost(run, batch, calls);
    bool limited = totals->calls >= policy->limit_calls;
    if (limited) end = instruction_batch_after_call(batch, policy->limit_calls - before->calls);
    size_t done =
        run_slices(run, batch, end, run_warm_at(run, batch, before->calls, calls), before->calls);
    if (done == batch->count) run_mark(run, totals->calls, run->ahead->reader.objects.bytes, false);
    if (done < end && !error_is_set(&run->state.error)) run_allocation_failed(run, batch, done);
    run_take_back(totals, batch, done);
    if (run->follows) snapshot_row_follow(&run->snapshot_row, batch, done, &run->state.error);
    if (policy->verify_addresses)
        address_check_batch(&run->report->address_check, batch, done, &run->state.error);
    return done == end && !limited && !error_is_set(&run->state.error);
}

/* ---- the base (INSTRUCTIONS.md 4.9) ---- */

/* Carries out a batch of the base, as fast as it goes: nothing of it is timed or counted. The
 * allocator is shown the time, as what dies of age has done so by now. */
static bool run_base_batch(struct run *run, const struct instruction_batch *batch)
{
    const struct instruction_tick *tick = batch->ticks, *const ticks_end =
                                                            tick + batch->ticks_count;
    if (!run->engine->prepare(&run->state, batch)) return false;
    if (run->peaks.lanes != NULL && !lane_peaks_add(&run->peaks, batch, &run->state.error))
        return false;
    for (size_t from = 0, to; from < batch->count; from = to) {
        to = tick < ticks_end ? tick->at + 1 : batch->count;
        const size_t done = run->engine->run(&run->state, batch, from, to);
        run->slices++;
        if (done < to && !error_is_set(&run->state.error)) run_allocation_failed(run, batch, done);
        if (done < to) return false;
        if (tick == ticks_end) continue;
        instruction_batch_statistics(batch, tick, &run->report->statistics);
        run->row.shown_ns += batch->operands[tick++->operand_at];
        if (run->policy->shown_time != SHOWN_TIME_REAL) shown_clock_set(run->row.shown_ns);
    }
    latency_count(&run->latency, &run->latency.list);
    if (run->follows)
        snapshot_row_follow(&run->snapshot_row, batch, batch->count, &run->state.error);
    return !error_is_set(&run->state.error);
}

/* Measuring begins where the base has ended. */
static bool run_end_base(struct run *run)
{
    const struct instruction_reader *reader = &run->ahead->reader;
    if (run->engine->drain != NULL && !run->engine->drain(&run->state)) return false;
    run->engine->count(&run->state);
    run->base_realigned = run->state.realigned;
    run->base_reallocs = run->state.reallocs;
    run->base_moved = run->state.moved;
    latency_clear(&run->latency);
    measure_restart(&run->report->measurement);
    looks_restart(&run->looks, reader->objects.bytes);
    run->looks.shown_ns = run->row.shown_ns;
    run->report->totals = reader->totals;
    return true;
}

/* Makes what was there, before the first call. */
static bool run_base(struct run *run)
{
    const struct instruction_reader *reader = &run->ahead->reader;
    struct instruction_batch batch;
    const bool has_base = reader->in_base;
    while (reader->in_base && ahead_next(run->ahead, &batch)) {
        run->report->totals = reader->totals;
        if (!run_base_batch(run, &batch)) return false;
    }
    return !has_base || run_end_base(run);
}

/* ---- the whole stream ---- */

static bool run_batches(struct run *run)
{
    const struct instruction_reader *reader = &run->ahead->reader;
    struct instruction_batch batch;
    if (!run_base(run)) return false;
    while (reader->totals.calls < run->policy->limit_calls) {
        struct instruction_totals before = reader->totals;
        if (!ahead_next(run->ahead, &batch)) break;
        if (!run_batch(run, &batch, &before)) break;
        progress_show(&run->progress, reader->totals.calls, run->ahead->file_offset);
    }
    bool drained = run_drain(run) && (run->warm || run_end_warmup(run, run->report->totals.calls));
    return drained && !error_is_set(&run->state.error);
}

/* Opens what --verify-addresses needs. */
static bool run_open_address_check(struct run *run)
{
    struct error *error = &run->state.error;
    if (!run->engine->indices || !run->engine->calls_allocator)
        return error_set(error, &engine_addresses, ERROR_NO_OFFSET, NULL);
    if (!(run->ahead->reader.header.features & INSTRUCTION_FEATURE_ADDRESSES))
        return error_set(error, &no_addresses, ERROR_NO_OFFSET, NULL);
    if (!address_check_open(&run->report->address_check, error)) return false;
    run->state.addresses = run->report->address_check.addresses;
    return true;
}

/* Writes the file of --snapshot, before the engine frees anything. */
static bool run_write_snapshot(struct run *run, const char *path)
{
    struct error *error = &run->state.error;
    const uint64_t live = run->report->totals.live;
    if (path == NULL) return true;
    void **addresses = pages_map((live + 1) * sizeof *addresses);
    if (addresses == NULL) return error_set_system(error, "no memory for addresses");
    for (uint64_t i = 0; i < live; i++)
        addresses[i] = run->engine->address_of(
            &run->state, run->follows ? run->snapshot_row.entries[i].object : i);
    const bool done = snapshot_write(path, addresses, live, error);
    pages_unmap(addresses, (live + 1) * sizeof *addresses);
    return done;
}

/* Opens what is needed for measuring. */
static bool run_open(struct run *run, const struct options *options)
{
    struct report *report = run->report;
    bool calls = run->engine->calls_allocator;
    if (!looks_open(&run->looks, calls ? report->allocator : NULL, run->policy->program_has,
                    &report->memory, &report->series, &run->state.error) ||
        !latency_open(&run->latency, &run->state.error))
        return false;
    report->heap_source = run->looks.heap.source;
    if (run->policy->verify_addresses && !run_open_address_check(run)) return false;
    if (options->snapshot != NULL && !calls)
        return error_set(&run->state.error, &engine_snapshot, ERROR_NO_OFFSET, NULL);
    if (!calls && !lane_shares_open(&run->shares, &run->state.error)) return false;
    if (run->policy->lane_peaks && !lane_peaks_open(&run->peaks, &run->state.error)) return false;
    run->follows = options->snapshot != NULL && !run->engine->indices;
    run->warm = run->policy->warmup_calls == 0;
    run->release_next_calls = run->policy->release_every_calls;
    run->release_next_ns = run->policy->release_every_ns;
    if (calls && options->release_every != NULL)
        report->release_means = heap_release_means(report->allocator);
    if (run->policy->shown_time != SHOWN_TIME_REAL) shown_clock_start();
    report->measurement.base_rss_bytes = looks_begin(&run->looks);
    report->measurement.base_net_bytes = report->memory.end.rss_bytes;
    progress_open(&run->progress, REPLAY_PROGRAM, "events", run->ahead->input.fd, !options->quiet);
    resident_add(&run->looks.resident, run->ahead->shared, run->ahead->shared_bytes);
    const struct instruction_header *header = &run->ahead->reader.header;
    run->state.own_sizes = metadata_value(header->metadata, header->metadata_bytes, "own",
                                          &run->state.own_sizes_bytes);
    run->vm_size_at = statistics_index(header->metadata, header->metadata_bytes, STATISTIC_VM_SIZE);
    if (!run->engine->open(&run->state)) return false;
    run->looks.heap.own_bytes = run->state.own_heap_bytes;
    return true;
}

bool run_stream(const struct options *options, struct ahead *ahead, struct report *report)
{
    const struct instruction_reader *reader = &ahead->reader;
    const struct instruction_header *header = &reader->header;
    static struct policy policy;
    static struct run run;
    policy = options->policy;
    policy.page_bytes = metadata_page_bytes(header->metadata, header->metadata_bytes);
    if (policy.page_bytes == 0) policy.page_bytes = 4096;
    run = (struct run){
        .policy = &policy,
        .engine = options->engine,
        .state = {.allocator = report->allocator,
                  .policy = &policy,
                  .promises = &run.promises,
                  .latency = &run.latency,
                  .totals = &report->totals},
        .ahead = ahead,
        .report = report,
    };
    promises_open(&run.promises, options->policy.check);
    bool opened = run_open(&run, options);
    bool good = opened && run_batches(&run);
    measure_end(&report->measurement);
    report->cache_switching = run.state.cache_switching;
    report->caches = run.state.caches;
    if (opened) {
        const struct series_row last =
            run_run_row(&run, report->totals.calls, reader->objects.bytes);
        if (good) looks_take(&run.looks, run.slices, &last, run.now_ns); /* of threads: drained */
        looks_end(&run.looks, &last);
        heap_break(&report->break_from, &report->break_to);
        good = good && run_write_snapshot(&run, options->snapshot);
        if (good && run.policy->free_at_end && run.engine->free_all != NULL)
            report->freed_at_end = run.engine->free_all(&run.state);
        snapshot_row_close(&run.snapshot_row);
        run.engine->finish(&run.state);
        report->realigned = run.state.realigned - run.base_realigned;
        report->untouched = run.state.untouched;
        report->reallocs = run.state.reallocs - run.base_reallocs;
        report->moved = run.state.moved - run.base_moved;
        progress_close(&run.progress);
        if (!report->cache_switching && report->caches[0] != '\0')
            fprintf(stderr, "%s: thread caches are %s\n", REPLAY_PROGRAM, report->caches);
    }
    promises_close(&run.promises);
    latency_count(&run.latency, &run.latency.list);
    latency_calibrate(&run.latency);
    report->latency = run.latency;
    looks_close(&run.looks);
    if (run.shares.calls != NULL) {
        report->busy_threads = lane_shares_busy(&run.shares);
        report->auto_engine = lane_shares_engine(&run.shares)->name;
    }
    lane_shares_close(&run.shares);
    if (run.peaks.lanes != NULL) report->lane_peaks_bytes = lane_peaks_bytes(&run.peaks);
    lane_peaks_close(&run.peaks);
    report->limited = report->totals.calls >= run.policy->limit_calls;
    if (!good) {
        report->status = REPORT_FAILED;
        report->error = run.state.error;
    } else if (reader->state != INSTRUCTIONS_END && !report->limited) {
        report->status = reader->state == INSTRUCTIONS_CUT ? REPORT_CUT : REPORT_FAILED;
        report->error = reader->error;
    }
    return opened;
}
