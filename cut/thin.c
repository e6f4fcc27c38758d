#include "cut/thin.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "common/call_table.h"
#include "common/pages.h"
#include "cut/small_trace.h"
#include "cut/thin_class.h"
#include "reading/ordered.h"
#include "stream/metadata.h"

#define MOMENTS           4096u
#define FACTOR_WITH_PEAKS 16 /* at most, if what was alive at peaks between them is to stay, too */

struct thinning {
    struct small_trace trace;
    uint64_t *born, *died; /* by object: bytes allocated until then */
    uint32_t *calls;       /* by object */
    uint64_t bytes;        /* allocated in all */
    /* Between two moments: bytes allocated when most were alive; 0: nothing was allocated. */
    uint64_t peaks[MOMENTS + 2];
    size_t highest;                                  /* of these peaks */
    bool has_peaks;                                  /* more than that one */
    uint64_t *bits;                                  /* by object: it stays */
    double factor;                                   /* one object stands for so many, on average */
    double weights[THIN_CLASSES];                    /* the same of each class of sizes */
    uint64_t live[THIN_CLASSES], most[THIN_CLASSES]; /* bytes alive of each class; most of them */
    uint64_t alive[THIN_CLASSES], crowd[THIN_CLASSES]; /* objects, likewise */
};

static bool thin_reserve(struct thinning *state)
{
    const size_t count = state->trace.objects_count + 1;
    state->born = pages_map(count * sizeof *state->born);
    state->died = pages_map(count * sizeof *state->died);
    state->calls = pages_map(count * sizeof *state->calls);
    state->bits = pages_map(count / 8 + sizeof *state->bits);
    return state->born != NULL && state->died != NULL && state->calls != NULL &&
           state->bits != NULL;
}

static void thin_free(struct thinning *state)
{
    const size_t count = state->trace.objects_count + 1;
    pages_unmap(state->born, count * sizeof *state->born);
    pages_unmap(state->died, count * sizeof *state->died);
    pages_unmap(state->calls, count * sizeof *state->calls);
    pages_unmap(state->bits, count / 8 + sizeof *state->bits);
    small_trace_free(&state->trace);
}

/* ---- lives ---- */

static bool thin_is_free(const struct small_call *call)
{
    return shape_is_free(call_shapes[call->kind]);
}

/* Between which two moments that is. Sizes that a file only claims may be more in all than a number holds. */
static size_t thin_interval(const struct thinning *state, uint64_t bytes)
{
    return (size_t)fmin((double)bytes / ((double)state->bytes + 1) * (MOMENTS + 1), MOMENTS + 1);
}

static void thin_sum(struct thinning *state)
{
    for (uint64_t i = 0; i < state->trace.count; i++) {
        const struct small_call *call = &state->trace.calls[i];
        if (call->object != SMALL_NONE && !thin_is_free(call)) state->bytes += call->size;
    }
}

/* When each object begins and ends, on a clock of bytes allocated. False: no memory. */
static bool thin_follow(struct thinning *state)
{
    const struct small_trace *trace = &state->trace;
    uint64_t bytes = 0, live = 0, most[MOMENTS + 2] = {0};
    uint64_t *sizes = pages_map((trace->objects_count + 1) * sizeof *sizes);
    if (sizes == NULL) return false;
    thin_sum(state);
    for (uint64_t i = 0; i < trace->count; i++) {
        const struct small_call *call = &trace->calls[i];
        if (call->object == SMALL_NONE) continue;
        const unsigned class = thin_class_of(&trace->objects[call->object]);
        live -= sizes[call->object];
        state->live[class] -= sizes[call->object];
        state->alive[class] -= sizes[call->object] > 0;
        state->died[call->object] = thin_is_free(call) ? bytes : UINT64_MAX;
        sizes[call->object] = 0;
        if (state->calls[call->object]++ == 0) state->born[call->object] = bytes;
        if (thin_is_free(call)) continue;
        bytes += call->size;
        live += sizes[call->object] = call->size;
        state->live[class] += call->size;
        state->alive[class] += call->size > 0;
        if (state->alive[class] > state->crowd[class]) state->crowd[class] = state->alive[class];
        if (state->live[class] > state->most[class]) state->most[class] = state->live[class];
        const size_t interval = thin_interval(state, bytes);
        if (live <= most[interval]) continue;
        most[interval] = live;
        state->peaks[interval] = bytes;
        if (live > most[state->highest]) state->highest = interval;
    }
    pages_unmap(sizes, (trace->objects_count + 1) * sizeof *sizes);
    return true;
}

/* Whether an object was alive at one of the moments, the peak or those between two, or the end. */
static bool thin_is_seen(const struct thinning *state, uint64_t object)
{
    const uint64_t born = state->born[object], died = state->died[object];
    if (died == UINT64_MAX) return true;
    const size_t interval = thin_interval(state, born);
    const uint64_t peak = state->peaks[interval];
    return interval != thin_interval(state, died) || (born < peak && peak <= died);
}

static uint64_t thin_count(const struct thinning *state)
{
    uint64_t calls = 0;
    for (uint64_t i = 0; i < state->trace.objects_count; i++)
        if (thin_is_seen(state, i)) calls += state->calls[i];
    return calls;
}

/* ---- the choice ---- */

static void thin_keep(struct thinning *state, uint64_t object)
{
    state->bits[object / 64] |= UINT64_C(1) << object % 64;
}

/* What of the calls each class is to have: half goes to the classes in equal parts, half by what memory
 * depends on, their most bytes, and more if an object takes more calls. `calls`: what they have. */
static void thin_divide(const struct thinning *state, double calls[THIN_CLASSES],
                        double parts[THIN_CLASSES])
{
    double objects[THIN_CLASSES] = {0}, classes = 0, all = 0;
    for (uint64_t i = 0; i < state->trace.objects_count; i++)
        if (thin_is_seen(state, i)) {
            const unsigned class = thin_class_of(&state->trace.objects[i]);
            calls[class] += state->calls[i];
            objects[class]++;
        }
    for (size_t i = 0; i < THIN_CLASSES; i++) {
        if (objects[i] == 0) continue;
        parts[i] = (double)state->most[i] * sqrt(calls[i] / objects[i]);
        all += parts[i];
        classes++;
    }
    for (size_t i = 0; i < THIN_CLASSES; i++)
        if (objects[i] > 0) parts[i] = 0.5 / classes + (all > 0 ? 0.5 * parts[i] / all : 0);
}

/* As many of each class may stay as makes `wanted` calls: all of one that has fewer. Sets the weights. */
static void thin_weigh(struct thinning *state, double wanted)
{
    double calls[THIN_CLASSES] = {0}, parts[THIN_CLASSES] = {0}, low = 0, high = 1;
    thin_divide(state, calls, parts);
    for (size_t i = 0; i < THIN_CLASSES; i++)
        if (calls[i] > 0) high = fmax(high, calls[i] / parts[i]);
    for (unsigned turn = 0; turn < 64; turn++) {
        const double middle = (low + high) / 2;
        double sum = 0;
        for (size_t i = 0; i < THIN_CLASSES; i++)
            sum += fmin(calls[i], middle * parts[i]);
        *(sum > wanted ? &high : &low) = middle;
    }
    for (size_t i = 0; i < THIN_CLASSES; i++) {
        const double stay = high * parts[i];
        state->weights[i] = stay > 0 && calls[i] > stay * (1 + 1e-9) ? calls[i] / stay : 1;
    }
}

static uint32_t thin_stratum_of(const struct thinning *state, uint64_t object)
{
    const struct small_object *made = &state->trace.objects[object];
    return thin_stratum(made, state->born[object], state->died[object]);
}

/* Of each class one of as many as its weight says: those that live alike, of a lane, in the order of
 * birth, and one such stratum after the other, so that as many are alive as ought to be at any time.
 * False: no memory. */
static bool thin_sample(struct thinning *state)
{
    double *waiting = pages_map(THIN_STRATA * sizeof *waiting); /* since the latest that stays */
    if (waiting == NULL) return false;
    for (uint64_t i = 0; i < state->trace.objects_count; i++)
        if (thin_is_seen(state, i)) waiting[thin_stratum_of(state, i)]++;
    for (size_t class = 0; class < THIN_CLASSES; class++) {
        double before = state->weights[class] / 2;
        for (size_t i = 0; i < THIN_LIVES * THIN_LANES; i++) {
            double *at = &waiting[class * THIN_LIVES * THIN_LANES + i];
            const double count = *at;
            *at = fmod(before, state->weights[class]);
            before += count;
        }
    }
    for (uint64_t i = 0; i < state->trace.objects_count; i++) {
        if (!thin_is_seen(state, i)) continue;
        const double weight = state->weights[thin_class_of(&state->trace.objects[i])];
        double *at = &waiting[thin_stratum_of(state, i)];
        *at += 1;
        if (*at < weight) continue;
        *at -= weight;
        thin_keep(state, i);
    }
    pages_unmap(waiting, THIN_STRATA * sizeof *waiting);
    return true;
}

/* No object stands for more than were alive at once: its copies would be, if others of its class live
 * no longer. */
static void thin_limit(struct thinning *state)
{
    for (size_t i = 0; i < THIN_CLASSES; i++)
        state->weights[i] = fmin(state->weights[i], fmax(1, (double)state->crowd[i]));
}

/* Only the highest peak counts: where so few can stay, long lives need the room. */
static void thin_forget_peaks(struct thinning *state)
{
    const uint64_t highest = state->peaks[state->highest];
    memset(state->peaks, 0, sizeof state->peaks);
    state->peaks[state->highest] = highest;
    state->has_peaks = false;
}

/* Chooses about 1 / divisor of the calls. */
static bool thin_choose(struct thinning *state, uint64_t divisor)
{
    const uint64_t wanted = small_trace_calls(&state->trace) / divisor;
    uint64_t calls = thin_count(state);
    state->has_peaks = true;
    if (calls / FACTOR_WITH_PEAKS > wanted) {
        thin_forget_peaks(state);
        calls = thin_count(state);
    }
    state->factor = calls > wanted && wanted > 0 ? (double)calls / (double)wanted : 1;
    thin_weigh(state, (double)wanted);
    const bool good = thin_sample(state);
    thin_limit(state);
    return good;
}

/* The metadata that say what was left out. */
static void thin_lines(const struct thinning *state, char *lines, size_t bytes)
{
    size_t used = (size_t)snprintf(lines, bytes, "thin=%.4f\nthin.weights=", state->factor);
    for (unsigned i = 0; i < THIN_CLASSES; i++)
        if (state->weights[i] > 1)
            used += (size_t)snprintf(lines + used, bytes - used, "%u %.3f ", i, state->weights[i]);
    snprintf(lines + used, bytes - used, "\n");
}

static bool thin_is_said(const char *metadata, size_t bytes)
{
    char *weights = metadata_copy(metadata, bytes, "thin.weights");
    const bool is_said = weights != NULL && *weights != '\0';
    free(weights);
    return is_said;
}

bool thin_is(const char *path)
{
    struct instruction_reader reader;
    struct input input;
    if (!input_open(&input, path)) return false;
    bool is_thin = instruction_reader_open(&reader, &input);
    is_thin = is_thin && thin_is_said(reader.header.metadata, reader.header.metadata_bytes);
    instruction_reader_close(&reader);
    input_close(&input);
    return is_thin;
}

/* ---- all of it ---- */

static int thin_write(struct thinning *state, const struct thin_options *options)
{
    char lines[THIN_CLASSES * 24 + 64], why[512];
    const uint64_t before = small_trace_calls(&state->trace);
    if (!thin_choose(state, options->divisor))
        return cli_fail(&cli_cut, "%s: no memory", options->trace);
    const struct small_change chosen = {.what = SMALL_SELECT, .bits = state->bits};
    uint64_t left = 0;
    for (uint64_t i = 0; i < state->trace.objects_count; i++)
        if (state->bits[i / 64] >> i % 64 & 1) left += state->calls[i];
    if (left == 0 || before < options->divisor)
        return cli_fail(&cli_cut, "%s: --thin %" PRIu64 " leaves nothing of %" PRIu64 " calls",
                        options->trace, options->divisor, before);
    lines[0] = '\0';
    if (left < before) thin_lines(state, lines, sizeof lines);
    if (!small_trace_write(&state->trace, &chosen, 1, lines, options->output, why, sizeof why))
        return cli_fail(&cli_cut, "%s", why);
    if (!options->quiet && state->factor > 1)
        fprintf(stderr,
                "%" PRIu64 " of %" PRIu64
                " calls are left: of objects alive at one of %u moments, one of %.2f\n",
                left, before, state->has_peaks ? 2 * MOMENTS : MOMENTS, state->factor);
    else if (!options->quiet)
        fprintf(stderr,
                "%" PRIu64 " of %" PRIu64
                " calls are left: all objects alive at one of %u moments\n",
                left, before, state->has_peaks ? 2 * MOMENTS : MOMENTS);
    return state->trace.is_cut ? PROGRAM_CUT : PROGRAM_OK;
}

int thin_run(const struct thin_options *options)
{
    struct thinning state = {.factor = 1};
    struct ordered ordered;
    struct error error = {0};
    char why[512];
    int status;
    if (!ordered_open(&ordered, options->trace, cli_cut.name, &error))
        return cli_data_error(&cli_cut, options->trace, &error);
    const bool good = small_trace_read(&state.trace, ordered.input, why, sizeof why);
    if (ordered_close(&ordered, good) == PROGRAM_CUT) state.trace.is_cut = true;
    if (!good)
        status = cli_fail(&cli_cut, "%s: %s", options->trace, why);
    else if (thin_is_said(state.trace.metadata, strlen(state.trace.metadata)))
        status = cli_fail(&cli_cut, "%s: has been thinned already", options->trace);
    else if (!thin_reserve(&state) || !thin_follow(&state))
        status = cli_fail(&cli_cut, "%s: no memory", options->trace);
    else
        status = thin_write(&state, options);
    thin_free(&state);
    return status;
}
