#include "cut/thin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "common/call_table.h"
#include "common/numbers.h"
#include "common/pages.h"
#include "cut/small_trace.h"
#include "reading/ordered.h"

#define MOMENTS_MOST    4096u
#define MOMENTS_SAMPLED 64u         /* if objects have to be sampled, too */
#define LEFT_LEAST      (10u << 20) /* bytes alive at the peak that say something of the whole */
#define LARGE_BYTES     32768u      /* from here on an object is made smaller instead of left out */

struct thinning {
    struct small_trace trace;
    uint64_t *born, *died; /* by object: bytes allocated until then */
    uint32_t *calls;       /* by object */
    uint64_t bytes;        /* allocated in all */
    uint64_t peak;         /* bytes allocated when most were alive */
    uint64_t most;         /* bytes alive then */
    uint64_t *bits;        /* by object: it stays */
    double factor;         /* one object stands for so many */
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

/* When each object begins and ends, on a clock of bytes allocated. False: no memory. */
static bool thin_follow(struct thinning *state)
{
    const struct small_trace *trace = &state->trace;
    uint64_t live = 0;
    uint64_t *sizes = pages_map((trace->objects_count + 1) * sizeof *sizes);
    if (sizes == NULL) return false;
    for (uint64_t i = 0; i < trace->count; i++) {
        const struct small_call *call = &trace->calls[i];
        if (call->object == SMALL_NONE) continue;
        live -= sizes[call->object];
        if (thin_is_free(call)) {
            state->died[call->object] = state->bytes;
            sizes[call->object] = 0;
        } else {
            if (state->calls[call->object] == 0) state->born[call->object] = state->bytes;
            state->bytes += call->size;
            state->died[call->object] = UINT64_MAX;
            live += sizes[call->object] = call->size;
        }
        state->calls[call->object]++;
        if (live <= state->most) continue;
        state->most = live;
        state->peak = state->bytes;
    }
    pages_unmap(sizes, (trace->objects_count + 1) * sizeof *sizes);
    return true;
}

/* Whether an object was alive at one of so many moments, the peak, or the end. */
static bool thin_is_seen(const struct thinning *state, uint64_t object, uint64_t moments)
{
    const uint64_t born = state->born[object], died = state->died[object];
    const double each = (double)state->bytes / (double)(moments + 1);
    if (died == UINT64_MAX || (born < state->peak && state->peak <= died)) return true;
    return (uint64_t)((double)born / each) != (uint64_t)((double)died / each);
}

static uint64_t thin_count(const struct thinning *state, uint64_t moments)
{
    uint64_t calls = 0;
    for (uint64_t i = 0; i < state->trace.objects_count; i++)
        if (thin_is_seen(state, i, moments)) calls += state->calls[i];
    return calls;
}

/* ---- the choice ---- */

static void thin_keep(struct thinning *state, uint64_t object)
{
    state->bits[object / 64] |= UINT64_C(1) << object % 64;
}

/* The class of a size: sizes of a class are alike, to one eighth. */
static unsigned thin_class(uint64_t size)
{
    if (size < 16) return (unsigned)size;
    const unsigned bits = 63u - (unsigned)__builtin_clzll(size);
    return bits * 8 + (unsigned)(size >> (bits - 3) & 7);
}

/* Every F-th of each class, and the large ones. */
static void thin_sample(struct thinning *state, uint64_t moments)
{
    static double waiting[64 * 8 + 8]; /* by class: since the latest one that stays */
    for (size_t i = 0; i < sizeof waiting / sizeof *waiting; i++)
        waiting[i] = state->factor / 2;
    for (uint64_t i = 0; i < state->trace.objects_count; i++) {
        const struct small_object *object = &state->trace.objects[i];
        if (!thin_is_seen(state, i, moments)) continue;
        double *since = &waiting[thin_class(object->first_size)];
        *since += 1;
        if (object->last_size < LARGE_BYTES && *since < state->factor) continue;
        if (object->last_size < LARGE_BYTES) *since -= state->factor;
        thin_keep(state, i);
    }
}

/* Chooses about 1 / divisor of the calls. Returns the number of moments. */
static uint64_t thin_choose(struct thinning *state, uint64_t divisor)
{
    const uint64_t wanted = small_trace_calls(&state->trace) / divisor;
    uint64_t moments = MOMENTS_MOST, calls;
    while ((calls = thin_count(state, moments)) > wanted && moments > MOMENTS_SAMPLED)
        moments /= 4;
    state->factor = calls > wanted && wanted > 0 ? (double)calls / (double)wanted : 1;
    thin_sample(state, moments);
    return moments;
}

/* Large objects get their share of the size. */
static void thin_shrink(struct thinning *state)
{
    struct small_trace *trace = &state->trace;
    for (uint64_t i = 0; i < trace->count; i++) {
        struct small_call *call = &trace->calls[i];
        if (call->object == SMALL_NONE || trace->objects[call->object].last_size < LARGE_BYTES)
            continue;
        call->size = (uint64_t)((double)call->size / state->factor);
        if (call->size == 0) call->size = 1;
    }
}

/* ---- all of it ---- */

/* What the whole is told by gets lost in what allocators set aside for each class of sizes. */
static void thin_warn(const struct thinning *state, uint64_t divisor)
{
    const double left = (double)state->most / state->factor;
    if (state->factor <= 1 || left >= LEFT_LEAST) return;
    const double honest = (double)divisor * left / LEFT_LEAST;
    const double all = (double)divisor / state->factor; /* nothing but short lives goes */
    fprintf(stderr,
            "of %.1f MiB alive at the peak %.1f are left: too few to tell the memory of the whole; "
            "--thin %.0f is about what this trace can bear\n",
            (double)state->most / MIB, left / MIB,
            honest > all ? honest
            : all < 1    ? 1
                         : all);
}

static int thin_write(struct thinning *state, const struct thin_options *options)
{
    char lines[64], why[512];
    const uint64_t before = small_trace_calls(&state->trace);
    const uint64_t moments = thin_choose(state, options->divisor);
    const struct small_change chosen = {.what = SMALL_SELECT, .bits = state->bits};
    uint64_t left = 0;
    for (uint64_t i = 0; i < state->trace.objects_count; i++)
        if (state->bits[i / 64] >> i % 64 & 1) left += state->calls[i];
    if (state->factor > 1) thin_shrink(state);
    snprintf(lines, sizeof lines, "thin=%.4f\n", state->factor);
    if (!small_trace_write(&state->trace, &chosen, 1, lines, options->output, why, sizeof why))
        return cli_fail(&cli_cut, "%s", why);
    if (!options->quiet)
        fprintf(stderr,
                "%" PRIu64 " of %" PRIu64 " calls are left: objects alive at one of %" PRIu64
                " moments, one of %.1f of them\n",
                left, before, moments, state->factor);
    if (!options->quiet) thin_warn(state, options->divisor);
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
    ordered_close(&ordered, good);
    if (!good)
        status = cli_fail(&cli_cut, "%s: %s", options->trace, why);
    else if (!thin_reserve(&state) || !thin_follow(&state))
        status = cli_fail(&cli_cut, "%s: no memory", options->trace);
    else
        status = thin_write(&state, options);
    thin_free(&state);
    return status;
}
