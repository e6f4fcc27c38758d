/* thin_expand - what a thinned trace stands for.
 *
 *   objects that stay, alike (thin_class.h)     b1      b2        b3        their births, on a clock of
 *                                              |       |         |          calls that are to be there
 *   as many as they stand for                ' ' ' ''  '  ' '  '   '   '    each half the way to its neighbours
 *
 * Copies at one moment would make peaks that never were, and come and go as blocks, which leave no holes.
 * Deaths are spread likewise, by deaths, and reallocs in proportion. Sizes of copies are those of objects
 * nearby in the class. A class of which all objects stay is as it was. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/call_table.h"
#include "common/pages.h"
#include "cut/small_trace.h"
#include "cut/thin.h"
#include "cut/thin_class.h"
#include "stream/metadata.h"

#define THIN_LOPSIDED  4.0 /* times the way to the nearer neighbour: no further to the other */
#define THIN_TURNS     9   /* objects whose sizes take turns */
#define THIN_SIZE_MOST (UINT64_C(1) << 48)

/* Where an object's copies begin, or end: from `least` up to `most`. */
struct thin_span {
    double at, least, most;
};

struct thin_object {
    uint32_t first, count; /* its copies: numbers, and how many */
    uint32_t calls;        /* of the object */
    uint32_t alike;        /* where it is in `alike` */
    struct thin_span born, died;
    bool is_born;
    uint64_t born_bytes, died_bytes; /* bytes allocated until then; UINT64_MAX: never */
};

struct thin_expansion {
    struct small_trace trace; /* as it is */
    struct small_trace whole; /* as it is to be; all but calls and objects belongs to `trace` */
    struct thin_object *objects;
    double weights[THIN_CLASSES];
    uint32_t *alike;        /* objects by class, in the order of birth */
    uint32_t *place;        /* by call: how many calls will come before it */
    uint32_t *least, *most; /* by call: places that are within the life of its thread */
    uint64_t calls;         /* that are to be there */
    uint64_t copies;        /* objects, likewise */
};

static bool thin_reserve_expansion(struct thin_expansion *state)
{
    const size_t calls = (state->trace.count + 1) * sizeof(uint32_t);
    state->objects = pages_map((state->trace.objects_count + 1) * sizeof *state->objects);
    state->alike = pages_map((state->trace.objects_count + 1) * sizeof *state->alike);
    state->place = pages_map(calls);
    state->least = pages_map(calls);
    state->most = pages_map(calls);
    return state->objects != NULL && state->alike != NULL && state->place != NULL &&
           state->least != NULL && state->most != NULL;
}

static void thin_free_expansion(struct thin_expansion *state)
{
    const size_t calls = (state->trace.count + 1) * sizeof(uint32_t);
    pages_unmap(state->objects, (state->trace.objects_count + 1) * sizeof *state->objects);
    pages_unmap(state->alike, (state->trace.objects_count + 1) * sizeof *state->alike);
    pages_unmap(state->place, calls);
    pages_unmap(state->least, calls);
    pages_unmap(state->most, calls);
    pages_unmap(state->whole.calls, state->whole.calls_capacity * sizeof *state->whole.calls);
    pages_unmap(state->whole.objects, state->whole.objects_capacity * sizeof *state->whole.objects);
    small_trace_free(&state->trace);
}

static bool thin_is_thread(const struct small_call *call)
{
    return call->kind == INSTRUCTION_THREAD_BEGIN || call->kind == INSTRUCTION_THREAD_END;
}

/* ---- how many, and where ---- */

/* How often each object is to be there, and each call's place: the middle of its copies, if they were all
 * there at once, less those of the object's own that came before: the life of a copy has none of them.
 * False: they are too many. */
static bool thin_number(struct thin_expansion *state)
{
    const struct small_trace *trace = &state->trace;
    double owed[THIN_CLASSES] = {0};
    for (uint64_t i = 0; i < trace->objects_count; i++) {
        const unsigned class = thin_class_of(&trace->objects[i]);
        owed[class] += state->weights[class];
        const uint32_t count = (uint32_t)(owed[class] + 0.5);
        owed[class] -= count;
        state->objects[i] = (struct thin_object){.first = (uint32_t)state->copies, .count = count};
        state->copies += count;
    }
    for (uint64_t at = 0; at < trace->count && state->calls < UINT32_MAX; at++) {
        const uint32_t number = trace->calls[at].object;
        state->place[at] = (uint32_t)state->calls;
        if (number == SMALL_NONE) {
            state->calls++;
            continue;
        }
        struct thin_object *object = &state->objects[number];
        state->place[at] += object->count / 2 - object->calls++ * (object->count - 1);
        state->calls += object->count;
    }
    return state->copies < SMALL_NONE && state->calls < UINT32_MAX;
}

/* When each object begins and ends, on a clock of bytes that are to be allocated. */
static void thin_follow_whole(struct thin_expansion *state)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < state->trace.objects_count; i++)
        state->objects[i].born_bytes = state->objects[i].died_bytes = UINT64_MAX;
    for (uint64_t at = 0; at < state->trace.count; at++) {
        const struct small_call *call = &state->trace.calls[at];
        if (call->object == SMALL_NONE) continue;
        struct thin_object *object = &state->objects[call->object];
        if (shape_is_free(call_shapes[call->kind]))
            object->died_bytes = bytes;
        else
            bytes += call->size * object->count;
        if (object->born_bytes == UINT64_MAX) object->born_bytes = bytes - call->size;
    }
}

/* One begins, or ends, `latest` being the one before it of its class and lane; plus one, 0: none. */
static void thin_meet(struct thin_expansion *state, uint32_t *latest, uint64_t at, bool is_end)
{
    const uint32_t number = state->trace.calls[at].object;
    struct thin_object *object = &state->objects[number];
    struct thin_span *span = is_end ? &object->died : &object->born;
    *span = (struct thin_span){state->place[at], NAN, NAN};
    if (*latest > 0) {
        struct thin_object *other = &state->objects[*latest - 1];
        struct thin_span *before = is_end ? &other->died : &other->born;
        before->most = span->least = (before->at + span->at) / 2;
    }
    *latest = number + 1;
}

/* The first and the last have a neighbour on one side only. */
static void thin_close(struct thin_span *span)
{
    double before = span->at - span->least, after = span->most - span->at;
    if (isnan(before)) before = isnan(after) ? 0 : after;
    if (isnan(after)) after = before;
    span->least = span->at - fmin(before, THIN_LOPSIDED * after);
    span->most = span->at + fmin(after, THIN_LOPSIDED * before);
}

/* Where the copies of each object begin and end. False: no memory. */
static bool thin_spread(struct thin_expansion *state)
{
    const struct small_trace *trace = &state->trace;
    uint32_t *latest = pages_map(2 * THIN_STRATA * sizeof *latest);
    if (latest == NULL) return false;
    thin_follow_whole(state);
    for (uint64_t at = 0; at < trace->count; at++) {
        const struct small_call *call = &trace->calls[at];
        if (call->object == SMALL_NONE) continue;
        const struct small_object *made = &trace->objects[call->object];
        struct thin_object *object = &state->objects[call->object];
        const uint32_t stratum = thin_stratum(made, object->born_bytes, object->died_bytes);
        const bool is_end = shape_is_free(call_shapes[call->kind]);
        if (is_end || !object->is_born)
            thin_meet(state, &latest[stratum + THIN_STRATA * is_end], at, is_end);
        object->is_born = true;
    }
    for (uint64_t i = 0; i < trace->objects_count; i++) {
        thin_close(&state->objects[i].born);
        if (state->objects[i].died_bytes != UINT64_MAX) thin_close(&state->objects[i].died);
    }
    pages_unmap(latest, 2 * THIN_STRATA * sizeof *latest);
    return true;
}

/* The places that each call may have: within the life of the thread, as what begins and ends a thread
 * stays where it is, and neither before nor behind what that allows the other calls of its object. */
static bool thin_bound(struct thin_expansion *state)
{
    const struct small_trace *trace = &state->trace;
    const size_t bytes = (trace->lanes + trace->objects_count) * sizeof(uint32_t);
    uint32_t *lanes = pages_map(bytes), *objects = lanes + trace->lanes;
    if (lanes == NULL) return false;
    for (uint64_t at = 0; at < trace->count; at++) {
        const struct small_call *call = &trace->calls[at];
        if (thin_is_thread(call)) lanes[call->lane] = state->place[at];
        if (call->object == SMALL_NONE) continue;
        if (lanes[call->lane] > objects[call->object]) objects[call->object] = lanes[call->lane];
        state->least[at] = objects[call->object];
    }
    memset(lanes, 0xff, bytes);
    for (uint64_t at = trace->count; at-- > 0;) {
        const struct small_call *call = &trace->calls[at];
        if (thin_is_thread(call)) lanes[call->lane] = state->place[at];
        if (call->object == SMALL_NONE) continue;
        if (lanes[call->lane] < objects[call->object]) objects[call->object] = lanes[call->lane];
        state->most[at] = objects[call->object];
    }
    pages_unmap(lanes, bytes);
    return true;
}

/* ---- the calls ---- */

static void thin_list_alike(struct thin_expansion *state)
{
    const struct small_trace *trace = &state->trace;
    uint32_t ends[THIN_CLASSES + 1] = {0};
    for (uint64_t i = 0; i < trace->objects_count; i++)
        ends[thin_class_of(&trace->objects[i]) + 1]++;
    for (size_t i = 0; i < THIN_CLASSES; i++)
        ends[i + 1] += ends[i];
    for (uint64_t i = 0; i < trace->objects_count; i++) {
        state->objects[i].alike = ends[thin_class_of(&trace->objects[i])]++;
        state->alike[state->objects[i].alike] = (uint32_t)i;
    }
}

/* A size of a call in a copy: those of the objects before and behind in its class take turns. */
static uint64_t thin_size(const struct thin_expansion *state, const struct small_call *call,
                          uint32_t copy)
{
    const struct small_object *own = &state->trace.objects[call->object];
    const struct thin_object *object = &state->objects[call->object];
    const int64_t at = (int64_t)object->alike + (int64_t)(copy % THIN_TURNS) - THIN_TURNS / 2;
    if (object->count == 1 || at < 0 || at >= (int64_t)state->trace.objects_count)
        return call->size;
    const struct small_object *other = &state->trace.objects[state->alike[at]];
    const uint64_t size = thin_size_of(own), wanted = thin_size_of(other);
    if (thin_class_of(other) != thin_class_of(own) || other->alignment != own->alignment ||
        size == wanted || size > THIN_SIZE_MOST)
        return call->size;
    return (uint64_t)((double)call->size * (double)wanted / (double)size + 0.5);
}

/* How far from where the object's own is. */
static double thin_shift(const struct thin_span *span, double share)
{
    return span->least + share * (span->most - span->least) - span->at;
}

/* The place of a call in one of its object's copies. */
static uint32_t thin_place(const struct thin_expansion *state, uint64_t at, uint32_t copy)
{
    const struct thin_object *object = &state->objects[state->trace.calls[at].object];
    if (object->count == 1) return state->place[at];
    const double share = (copy + 0.5) / object->count, middle = state->place[at];
    const double begin = object->born.at;
    const bool ends = object->died_bytes != UINT64_MAX;
    const double end = ends ? object->died.at : (double)state->calls;
    const double lived = end > begin ? (middle - begin) / (end - begin) : 0;
    double place = middle + (1 - lived) * thin_shift(&object->born, share);
    if (ends) place += lived * thin_shift(&object->died, share);
    place = fmin(fmax(place, state->least[at]), state->most[at]);
    return (uint32_t)fmin(fmax(place, 0), (double)(state->calls - 1));
}

/* Goes over all calls, in the order of the trace, which stays where places are equal. Counts how many
 * have each place; or, with `to`, puts each into the next room that its place has. `reached`, by copy:
 * the place of its latest call, which no later one goes before. */
static void thin_pass(const struct thin_expansion *state, uint32_t *rooms, uint32_t *reached,
                      struct small_call *to)
{
    const struct small_trace *trace = &state->trace;
    memset(reached, 0, state->copies * sizeof *reached);
    for (uint64_t at = 0; at < trace->count; at++) {
        struct small_call call = trace->calls[at];
        const bool has_object = call.object != SMALL_NONE;
        const struct thin_object *object = has_object ? &state->objects[call.object] : NULL;
        for (uint32_t i = 0; i < (has_object ? object->count : 1); i++) {
            uint32_t place = has_object ? thin_place(state, at, i) : state->place[at];
            if (has_object) {
                call.object = object->first + i;
                if (place < reached[call.object]) place = reached[call.object];
                reached[call.object] = place;
            }
            if (to != NULL && has_object) call.size = thin_size(state, &trace->calls[at], i);
            if (to != NULL)
                to[rooms[place]++] = call;
            else
                rooms[place]++;
        }
    }
}

static bool thin_make_calls(struct thin_expansion *state)
{
    uint32_t *rooms = pages_map((state->calls + 1) * sizeof *rooms);
    uint32_t *reached = pages_map((state->copies + 1) * sizeof *reached), sum = 0;
    const bool good = rooms != NULL && reached != NULL;
    if (good) {
        thin_pass(state, rooms, reached, NULL);
        for (uint64_t i = 0; i < state->calls; i++) {
            const uint32_t count = rooms[i];
            rooms[i] = sum;
            sum += count;
        }
        thin_pass(state, rooms, reached, state->whole.calls);
        state->whole.count = state->calls;
    }
    pages_unmap(rooms, (state->calls + 1) * sizeof *rooms);
    pages_unmap(reached, (state->copies + 1) * sizeof *reached);
    return good;
}

/* Makes the whole. False: no memory. */
static bool thin_widen(struct thin_expansion *state)
{
    const struct small_trace *trace = &state->trace;
    if (!thin_reserve_expansion(state) || !thin_number(state)) return false;
    struct small_trace *whole = &state->whole;
    *whole = *trace;
    whole->calls_capacity = state->calls + 1;
    whole->objects_count = state->copies;
    whole->objects_capacity = state->copies + 1;
    whole->calls = pages_map(whole->calls_capacity * sizeof *whole->calls);
    whole->objects = pages_map(whole->objects_capacity * sizeof *whole->objects);
    if (whole->calls == NULL || whole->objects == NULL) return false;
    for (uint64_t i = 0; i < trace->objects_count; i++)
        for (uint32_t copy = 0; copy < state->objects[i].count; copy++)
            whole->objects[state->objects[i].first + copy] = trace->objects[i];
    thin_list_alike(state);
    return thin_spread(state) && thin_bound(state) && thin_make_calls(state);
}

/* ---- all of it ---- */

/* The weights that the trace says it has. */
static bool thin_read_weights(struct thin_expansion *state)
{
    const char *metadata = state->trace.metadata;
    char *text = metadata_copy(metadata, strlen(metadata), "thin.weights");
    for (size_t i = 0; i < THIN_CLASSES; i++)
        state->weights[i] = 1;
    for (char *at = text, *end; at != NULL; at = end) {
        const unsigned long class = strtoul(at, &end, 10);
        if (end == at || class >= THIN_CLASSES) break;
        const double weight = strtod(end, &end);
        if (weight >= 1 && weight <= THIN_WEIGHT_MAX) state->weights[class] = weight;
    }
    free(text);
    return text != NULL;
}

bool thin_expand(const char *path, const char *output, char *why, size_t why_bytes)
{
    struct thin_expansion state = {.calls = 0};
    struct input input;
    char thin[64];
    if (!input_open(&input, path)) {
        error_text(&input.error, why, why_bytes);
        return false;
    }
    bool good = small_trace_read(&state.trace, &input, why, why_bytes);
    input_close(&input);
    if (good) {
        const char *metadata = state.trace.metadata;
        snprintf(thin, sizeof thin, "thin=%.4f\n", metadata_thin(metadata, strlen(metadata)));
        good = (thin_read_weights(&state) && thin_widen(&state)) ||
               error_explain(why, why_bytes, "no memory for all objects");
    }
    good = good && small_trace_write(&state.whole, NULL, 0, thin, output, why, why_bytes);
    thin_free_expansion(&state);
    return good;
}
