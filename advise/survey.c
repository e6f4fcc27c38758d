#include "advise/survey.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/pages.h"
#include "launch/process.h"

struct survey_object {
    uint64_t size, made; /* made: the number of the call */
    uint32_t site;
    uint16_t lane;
    bool counts; /* it was not there before the trace began */
};

/* What a thread did last. */
struct survey_lane {
    uint32_t object; /* that it made last; or NO_REGISTER */
    uint64_t made;   /* the number of that call */
    bool is_latest;  /* that was its latest call */
    bool freed;      /* its latest call was a free */
};

struct survey_pass {
    struct survey *survey;
    struct survey_object *objects; /* by register */
    uint64_t capacity;
    uint32_t *site_of; /* by node: 1 and its site */
    uint64_t nodes;
    struct survey_lane *lanes;
    uint32_t lane;
    uint64_t bytes, epoch;
    bool in_base, good;
};

#define SURVEY_LANES_BYTES (INSTRUCTION_LANES_MAX * sizeof(struct survey_lane))

static void majority_add(struct survey_majority *of, uint64_t value)
{
    if (of->votes == 0) {
        of->same = of->value == value ? of->same : 0;
        of->value = value;
    }
    of->same += of->value == value;
    of->votes += of->value == value ? 1 : UINT64_MAX;
}

/* The site of a node; NULL: no memory. */
static struct survey_site *survey_site(struct survey_pass *pass, uint32_t node)
{
    struct survey *survey = pass->survey;
    if (node >= pass->nodes) node = STACK_END;
    uint32_t *at = &pass->site_of[node];
    if (*at == 0) {
        if (!array_reserve(&survey->sites, &survey->room, survey->count + 1, sizeof *survey->sites))
            return NULL;
        survey->sites[survey->count] = (struct survey_site){.node = node};
        *at = (uint32_t)++survey->count;
    }
    return &survey->sites[*at - 1];
}

static void survey_add_live(struct survey_pass *pass, struct survey_site *site, uint64_t size)
{
    live_begin(&site->live, pass->epoch, size);
    pass->bytes += size;
    if (pass->bytes <= pass->survey->peak_bytes) return;
    pass->survey->peak_bytes = pass->bytes;
    pass->epoch++;
}

static void survey_take_live(struct survey_pass *pass, struct survey_site *site, uint64_t size)
{
    live_end(&site->live, pass->epoch, size);
    pass->bytes -= size;
}

/* The site of the object that the thread made last, while it lives: what is made then may be a part of
 * it. */
static uint32_t survey_site_before(const struct survey_pass *pass, const struct survey_lane *lane)
{
    if (lane->object == INSTRUCTION_NO_REGISTER) return SURVEY_NONE;
    const struct survey_object *before = &pass->objects[lane->object];
    return before->made == lane->made ? before->site : SURVEY_NONE;
}

static void survey_begin(struct survey_pass *pass, const struct instruction *one, uint32_t node)
{
    struct survey_site *site = survey_site(pass, node);
    struct survey_lane *lane = &pass->lanes[pass->lane];
    pass->good = pass->good && site != NULL;
    if (site == NULL) return;
    const uint32_t at = (uint32_t)(site - pass->survey->sites),
                   before = survey_site_before(pass, lane);
    pass->objects[one->object] = (struct survey_object){one->size, pass->survey->calls, at,
                                                        (uint16_t)pass->lane, !pass->in_base};
    survey_add_live(pass, site, one->size);
    if (pass->in_base) return;
    pass->survey->objects++;
    site->made++;
    site->bytes += one->size;
    if (one->size > site->greatest) site->greatest = one->size;
    majority_add(&site->size, one->size);
    majority_add(&site->before, before);
    *lane = (struct survey_lane){one->object, pass->survey->calls, true, false};
}

static void survey_grow(struct survey_site *site, uint64_t from, uint64_t to)
{
    if (to <= from) return;
    site->grown_objects++;
    site->grown_bytes += to - from;
    if (to > site->greatest) site->greatest = to;
}

static void survey_resize(struct survey_pass *pass, const struct instruction *one)
{
    struct survey_object *object = &pass->objects[one->object];
    struct survey_site *site = &pass->survey->sites[object->site];
    survey_take_live(pass, site, object->size);
    survey_add_live(pass, site, one->size);
    if (!pass->in_base) survey_grow(site, object->size, one->size);
    object->size = one->size;
    pass->lanes[pass->lane].is_latest = pass->lanes[pass->lane].freed = false;
}

/* Whether the thread's latest call made a larger object at the same stack: a copy of this one. */
static bool survey_is_copied(const struct survey_pass *pass, const struct survey_object *freed)
{
    const struct survey_lane *lane = &pass->lanes[pass->lane];
    if (!lane->is_latest) return false;
    const struct survey_object *copy = &pass->objects[lane->object];
    return copy->site == freed->site && copy->size > freed->size &&
           copy->size >= freed->size + freed->size / 2;
}

static void survey_end(struct survey_pass *pass, const struct instruction *one)
{
    const struct survey_object *object = &pass->objects[one->object];
    struct survey_site *site = &pass->survey->sites[object->site];
    struct survey_lane *lane = &pass->lanes[pass->lane];
    survey_take_live(pass, site, object->size);
    if (!pass->in_base && object->counts) {
        site->freed++;
        pass->survey->freed++;
        site->soon += pass->survey->calls - object->made <= SURVEY_SOON_CALLS;
        site->in_rows += lane->freed;
        if (survey_is_copied(pass, object))
            survey_grow(site, object->size, pass->objects[lane->object].size);
    }
    pass->objects[one->object].site = SURVEY_NONE;
    lane->is_latest = false;
    lane->freed = true;
}

static void survey_other(struct survey_pass *pass, const struct instruction_batch *batch,
                         const struct instruction *one)
{
    const uint64_t *operands = batch->operands + one->operand_at;
    if (instruction_number(one) == INSTRUCTION_LANE) pass->lane = (uint32_t)operands[0];
    if (instruction_number(one) == INSTRUCTION_TICK && !pass->in_base)
        pass->survey->ns += operands[0];
}

static bool survey_take_batch(struct survey_pass *pass, const struct instruction_batch *batch,
                              uint64_t calls_max)
{
    struct instruction_walk walk = instruction_walk_over(batch, batch->count);
    struct instruction one;
    const uint64_t before = pass->capacity;
    pass->in_base = batch->is_base;
    if (!pages_reserve(&pass->objects, &pass->capacity, batch->registers, INSTRUCTION_BLOCK_MAX,
                       sizeof *pass->objects))
        return false;
    for (uint64_t i = before; i < pass->capacity; i++)
        pass->objects[i].site = SURVEY_NONE;
    while (pass->good && pass->survey->calls < calls_max && instruction_walk_next(&walk, &one)) {
        const unsigned does = instruction_does[one.opcode];
        instruction_walk_fetch(&walk, pass->objects, sizeof *pass->objects);
        pass->survey->calls += does != INSTRUCTION_OTHER && !pass->in_base;
        switch (does) {
        case INSTRUCTION_BEGINS: survey_begin(pass, &one, instruction_walk_stack(&walk)); break;
        case INSTRUCTION_RESIZES: survey_resize(pass, &one); break;
        case INSTRUCTION_ENDS: survey_end(pass, &one); break;
        case INSTRUCTION_OTHER: survey_other(pass, batch, &one); break;
        default: break;
        }
    }
    return pass->good;
}

static const char *survey_ignore(void *of, const struct stack_definition *definition)
{
    (void)of;
    (void)definition;
    return NULL;
}

/* What is known only at the end. */
static void survey_finish(struct survey_pass *pass)
{
    struct survey *survey = pass->survey;
    for (uint64_t i = 0; i < pass->capacity; i++) {
        const struct survey_object *object = &pass->objects[i];
        if (object->site != SURVEY_NONE && object->made > survey->calls / 2)
            survey->sites[object->site].late++;
    }
    for (size_t i = 0; i < survey->count; i++)
        live_settle(&survey->sites[i].live, pass->epoch);
}

static bool survey_open(struct survey_pass *pass, const struct change_trace *trace)
{
    pass->nodes = trace->stacks.nodes_end + 1;
    pass->site_of = calloc(pass->nodes, sizeof *pass->site_of);
    pass->lanes = pages_map(SURVEY_LANES_BYTES);
    for (uint32_t i = 0; pass->lanes != NULL && i < INSTRUCTION_LANES_MAX; i++)
        pass->lanes[i] = (struct survey_lane){.object = INSTRUCTION_NO_REGISTER};
    return pass->site_of != NULL && pass->lanes != NULL;
}

bool survey_read(struct survey *survey, const struct change_trace *trace, char *why,
                 size_t why_bytes)
{
    struct survey_pass pass = {.survey = survey, .good = true};
    struct instruction_reader reader;
    struct instruction_batch batch;
    struct input input;
    const uint64_t calls_max = trace->calls_max > 0 ? trace->calls_max : UINT64_MAX;
    *survey = (struct survey){.count = 0};
    bool good = change_trace_read(trace, &reader, &input, survey_ignore, NULL);
    if (!good) error_text(&reader.error, why, why_bytes);
    if (good && !(good = survey_open(&pass, trace))) error_explain(why, why_bytes, "no memory");
    while (good && pass.good && survey->calls < calls_max && !process_interrupted() &&
           instruction_reader_next(&reader, &batch))
        pass.good = survey_take_batch(&pass, &batch, calls_max);
    if (good && process_interrupted()) good = error_explain(why, why_bytes, CHANGE_INTERRUPTED);
    if (good && !pass.good) good = error_explain(why, why_bytes, "no memory for objects");
    if (good) survey_finish(&pass);
    survey->is_cut = good && reader.state == INSTRUCTIONS_CUT;
    free(pass.site_of);
    pages_unmap(pass.lanes, SURVEY_LANES_BYTES);
    pages_unmap(pass.objects, pass.capacity * sizeof *pass.objects);
    instruction_reader_close(&reader);
    input_close(&input);
    return good;
}

void survey_free(struct survey *survey)
{
    free(survey->sites);
    *survey = (struct survey){.count = 0};
}
