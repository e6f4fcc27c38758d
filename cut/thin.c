#include "cut/thin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "common/call_table.h"
#include "common/pages.h"
#include "cut/small_trace.h"
#include "reading/ordered.h"
#include "stream/metadata.h"

#define MOMENTS         4096u
#define THIN_CLASSES    520u /* of sizes */
#define THIN_WEIGHT_MAX 1e6

struct thinning {
    struct small_trace trace;
    uint64_t *born, *died;        /* by object: bytes allocated until then */
    uint32_t *calls;              /* by object */
    uint64_t bytes;               /* allocated in all */
    uint64_t peak;                /* bytes allocated when most were alive */
    uint64_t *bits;               /* by object: it stays */
    double factor;                /* one object stands for so many, on average */
    double weights[THIN_CLASSES]; /* the same of each class of sizes */
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
    uint64_t live = 0, most = 0;
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
        if (live <= most) continue;
        most = live;
        state->peak = state->bytes;
    }
    pages_unmap(sizes, (trace->objects_count + 1) * sizeof *sizes);
    return true;
}

/* Whether an object was alive at one of the moments, the peak, or the end. */
static bool thin_is_seen(const struct thinning *state, uint64_t object)
{
    const uint64_t born = state->born[object], died = state->died[object];
    const double each = (double)state->bytes / (MOMENTS + 1);
    if (died == UINT64_MAX || (born < state->peak && state->peak <= died)) return true;
    return (uint64_t)((double)born / each) != (uint64_t)((double)died / each);
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

/* The class of a size: sizes of a class are alike, to one eighth. */
static unsigned thin_class(uint64_t size)
{
    if (size < 16) return (unsigned)size;
    const unsigned bits = 63u - (unsigned)__builtin_clzll(size);
    return bits * 8 + (unsigned)(size >> (bits - 3) & 7);
}

/* So many of each class may stay that `wanted` calls do: all of one that has fewer. Sets the weights. */
static void thin_weigh(struct thinning *state, double wanted)
{
    double calls[THIN_CLASSES] = {0}, low = 0, high = wanted + 1;
    for (uint64_t i = 0; i < state->trace.objects_count; i++)
        if (thin_is_seen(state, i))
            calls[thin_class(state->trace.objects[i].first_size)] += state->calls[i];
    for (unsigned turn = 0; turn < 64; turn++) {
        const double middle = (low + high) / 2;
        double sum = 0;
        for (size_t i = 0; i < THIN_CLASSES; i++)
            sum += calls[i] < middle ? calls[i] : middle;
        *(sum > wanted ? &high : &low) = middle;
    }
    for (size_t i = 0; i < THIN_CLASSES; i++)
        state->weights[i] = calls[i] > low && low > 0 ? calls[i] / low : 1;
}

/* Of each class one of as many as its weight says, in the order of birth. */
static void thin_sample(struct thinning *state)
{
    double waiting[THIN_CLASSES]; /* since the latest one that stays */
    for (size_t i = 0; i < THIN_CLASSES; i++)
        waiting[i] = state->weights[i] / 2;
    for (uint64_t i = 0; i < state->trace.objects_count; i++) {
        if (!thin_is_seen(state, i)) continue;
        const unsigned class = thin_class(state->trace.objects[i].first_size);
        waiting[class] += 1;
        if (waiting[class] < state->weights[class]) continue;
        waiting[class] -= state->weights[class];
        thin_keep(state, i);
    }
}

/* Chooses about 1 / divisor of the calls. */
static void thin_choose(struct thinning *state, uint64_t divisor)
{
    const uint64_t wanted = small_trace_calls(&state->trace) / divisor;
    const uint64_t calls = thin_count(state);
    state->factor = calls > wanted && wanted > 0 ? (double)calls / (double)wanted : 1;
    thin_weigh(state, (double)wanted);
    thin_sample(state);
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

/* ---- as many again ---- */

/* How often each object is to be there, and from which number on. */
struct thin_copies {
    uint32_t *first, *count;
};

/* Returns how many calls there will be. */
static uint64_t thin_count_copies(const struct thinning *state, struct thin_copies *copies,
                                  uint64_t *objects)
{
    const struct small_trace *trace = &state->trace;
    double owed[THIN_CLASSES] = {0};
    uint64_t calls = 0;
    *objects = 0;
    for (uint64_t i = 0; i < trace->objects_count; i++) {
        const unsigned class = thin_class(trace->objects[i].first_size);
        owed[class] += state->weights[class];
        copies->count[i] = (uint32_t)(owed[class] + 0.5);
        owed[class] -= copies->count[i];
        copies->first[i] = (uint32_t)*objects;
        *objects += copies->count[i];
    }
    for (uint64_t i = 0; i < trace->count; i++)
        calls += trace->calls[i].object == SMALL_NONE ? 1 : copies->count[trace->calls[i].object];
    return calls;
}

/* Each call as often as its object is to be there. */
static void thin_copy(const struct small_trace *trace, const struct thin_copies *copies,
                      struct small_trace *to)
{
    for (uint64_t at = 0; at < trace->count; at++) {
        const struct small_call *call = &trace->calls[at];
        if (call->object == SMALL_NONE) to->calls[to->count++] = *call;
        for (uint32_t i = 0; call->object != SMALL_NONE && i < copies->count[call->object]; i++) {
            const uint32_t object = copies->first[call->object] + i;
            to->calls[to->count] = *call;
            to->calls[to->count++].object = object;
            to->objects[object] = trace->objects[call->object];
        }
    }
}

static bool thin_expand_trace(struct thinning *state)
{
    struct small_trace *trace = &state->trace, wide = *trace;
    const size_t bytes = (trace->objects_count + 1) * sizeof(uint32_t);
    struct thin_copies copies = {pages_map(bytes), pages_map(bytes)};
    bool good = copies.first != NULL && copies.count != NULL;
    if (good) {
        wide.calls_capacity = thin_count_copies(state, &copies, &wide.objects_count) + 1;
        wide.objects_capacity = wide.objects_count + 1;
        wide.count = 0;
        wide.calls = pages_map(wide.calls_capacity * sizeof *wide.calls);
        wide.objects = pages_map(wide.objects_capacity * sizeof *wide.objects);
        good = wide.objects_count < SMALL_NONE && wide.calls != NULL && wide.objects != NULL;
    }
    if (good) {
        thin_copy(trace, &copies, &wide);
        pages_unmap(trace->calls, trace->calls_capacity * sizeof *trace->calls);
        pages_unmap(trace->objects, trace->objects_capacity * sizeof *trace->objects);
        *trace = wide;
    }
    pages_unmap(copies.first, bytes);
    pages_unmap(copies.count, bytes);
    return good;
}

/* The weights that the trace says it has. */
static void thin_read_weights(struct thinning *state, char *thin, size_t thin_bytes)
{
    const char *metadata = state->trace.metadata;
    char *text = metadata_copy(metadata, strlen(metadata), "thin.weights");
    char *factor = metadata_copy(metadata, strlen(metadata), "thin"), *at = text;
    const bool is_thin = text != NULL && factor != NULL && *text != '\0';
    for (size_t i = 0; i < THIN_CLASSES; i++)
        state->weights[i] = 1;
    for (char *end; is_thin; at = end) {
        const unsigned long class = strtoul(at, &end, 10);
        if (end == at || class >= THIN_CLASSES) break;
        const double weight = strtod(end, &end);
        if (weight >= 1 && weight <= THIN_WEIGHT_MAX) state->weights[class] = weight;
    }
    if (is_thin) snprintf(thin, thin_bytes, "thin=%.40s\n", factor);
    free(text);
    free(factor);
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

bool thin_expand(const char *path, const char *output, char *why, size_t why_bytes)
{
    struct thinning state = {.factor = 1};
    struct input input;
    char thin[64] = "";
    if (!input_open(&input, path)) {
        error_text(&input.error, why, why_bytes);
        return false;
    }
    bool good = small_trace_read(&state.trace, &input, why, why_bytes);
    input_close(&input);
    if (good) {
        thin_read_weights(&state, thin, sizeof thin);
        good = thin_expand_trace(&state) || error_explain(why, why_bytes, "no memory");
    }
    good = good && small_trace_write(&state.trace, NULL, 0, thin, output, why, why_bytes);
    small_trace_free(&state.trace);
    return good;
}

/* ---- all of it ---- */

static int thin_write(struct thinning *state, const struct thin_options *options)
{
    char lines[THIN_CLASSES * 24 + 64], why[512];
    const uint64_t before = small_trace_calls(&state->trace);
    thin_choose(state, options->divisor);
    const struct small_change chosen = {.what = SMALL_SELECT, .bits = state->bits};
    uint64_t left = 0;
    for (uint64_t i = 0; i < state->trace.objects_count; i++)
        if (state->bits[i / 64] >> i % 64 & 1) left += state->calls[i];
    if (left == 0 || before < options->divisor)
        return cli_fail(&cli_cut, "%s: --thin %" PRIu64 " leaves nothing of %" PRIu64 " calls",
                        options->trace, options->divisor, before);
    thin_lines(state, lines, sizeof lines);
    if (!small_trace_write(&state->trace, &chosen, 1, lines, options->output, why, sizeof why))
        return cli_fail(&cli_cut, "%s", why);
    if (!options->quiet)
        fprintf(stderr,
                "%" PRIu64 " of %" PRIu64
                " calls are left: objects alive at one of %u moments, one of %.1f of them\n",
                left, before, MOMENTS, state->factor);
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
    else if (thin_is_said(state.trace.metadata, strlen(state.trace.metadata)))
        status = cli_fail(&cli_cut, "%s: has been thinned already", options->trace);
    else if (!thin_reserve(&state) || !thin_follow(&state))
        status = cli_fail(&cli_cut, "%s: no memory", options->trace);
    else
        status = thin_write(&state, options);
    thin_free(&state);
    return status;
}
