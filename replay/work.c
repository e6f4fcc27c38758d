#include "replay/work.h"

#include <string.h>

#include "common/pages.h"
#include "replay/calls.h"

#define JOB_INSTRUCTIONS (INSTRUCTION_BLOCK_MAX + INSTRUCTION_BATCH_SLACK)
#define JOB_OPERANDS     (INSTRUCTION_BLOCK_MAX * INSTRUCTION_OPERANDS_MAX)

_Static_assert(INSTRUCTION_BLOCK_MAX <= UINT16_MAX + 1, "a position fits");
_Static_assert(INSTRUCTION_LANES_MAX <= UINT16_MAX + 1, "a maker fits");

bool work_open(struct work *work, struct error *error)
{
    *work = (struct work){0};
    work->lanes = pages_map(INSTRUCTION_LANES_MAX * sizeof *work->lanes);
    if (work->lanes != NULL && slots_open(&work->slots)) return true;
    return error_set_system(error, "no memory for lanes");
}

void work_close(struct work *work)
{
    slots_close(&work->slots);
    pages_unmap(work->lanes, INSTRUCTION_LANES_MAX * sizeof *work->lanes);
    work->lanes = NULL;
}

bool work_job_open(struct work_job *job, struct error *error)
{
    *job = (struct work_job){
        .tasks = pages_map(INSTRUCTION_BLOCK_MAX * sizeof *job->tasks),
        .at = pages_map(JOB_INSTRUCTIONS * sizeof *job->at),
        .operands = pages_map(JOB_OPERANDS * sizeof *job->operands),
        .batch_index = pages_map(JOB_INSTRUCTIONS * sizeof *job->batch_index),
        .makers = pages_map(JOB_INSTRUCTIONS * sizeof *job->makers),
        .released = pages_map(INSTRUCTION_BLOCK_MAX * sizeof *job->released),
    };
    if (job->tasks != NULL && job->at != NULL && job->operands != NULL &&
        job->batch_index != NULL && job->makers != NULL && job->released != NULL)
        return true;
    return error_set_system(error, "no memory for queues");
}

void work_job_close(struct work_job *job)
{
    pages_unmap(job->tasks, INSTRUCTION_BLOCK_MAX * sizeof *job->tasks);
    pages_unmap(job->at, JOB_INSTRUCTIONS * sizeof *job->at);
    pages_unmap(job->operands, JOB_OPERANDS * sizeof *job->operands);
    pages_unmap(job->batch_index, JOB_INSTRUCTIONS * sizeof *job->batch_index);
    pages_unmap(job->makers, JOB_INSTRUCTIONS * sizeof *job->makers);
    pages_unmap(job->released, INSTRUCTION_BLOCK_MAX * sizeof *job->released);
}

/* Whether nobody carries an instruction out. */
static inline bool is_left_out(uint8_t opcode)
{
    return instruction_does[opcode] == INSTRUCTION_OTHER && call_actions[opcode] != ACTION_BORDER;
}

static inline bool is_border(uint8_t opcode)
{
    return opcode == INSTRUCTION_THREAD_BEGIN || opcode == INSTRUCTION_THREAD_END;
}

/* ---- first pass: tasks and their lengths ---- */

static struct work_task *work_task_of(struct work *work, struct work_job *job, uint32_t lane)
{
    struct work_lane *entry = &work->lanes[lane];
    if (entry->serial != work->serial) {
        entry->serial = work->serial;
        entry->task = job->tasks_count++;
        job->tasks[entry->task] = (struct work_task){.job = job, .lane = lane};
    }
    return &job->tasks[entry->task];
}

static void work_count(struct work *work, struct work_job *job,
                       const struct instruction_batch *batch, size_t from, size_t to)
{
    uint32_t lane = work->lane;
    struct work_task *task = NULL; /* of `lane`, once it is needed */
    for (size_t i = from; i < to; i++) {
        const uint8_t opcode = batch->opcodes[i];
        if (__builtin_expect(is_left_out(opcode), 0)) {
            if (opcode != INSTRUCTION_LANE) continue;
            lane = work->turn++->lane;
            task = NULL;
            continue;
        }
        if (task == NULL) task = work_task_of(work, job, lane);
        task->count++;
        task->borders += is_border(opcode);
    }
    uint32_t first = 0;
    for (uint32_t i = 0; i < job->tasks_count; i++) {
        job->tasks[i].first = first;
        first += job->tasks[i].count;
    }
}

/* ---- second pass: instructions, with slots ---- */

/* Ends an object in a lane, by `one`, the instruction at `index` of the job. */
static inline void work_end(struct work *work, struct work_job *job, uint32_t lane, uint32_t index,
                            struct slots_object object, struct work_instruction *one)
{
    if (!slots_end(&work->slots, &work->lanes[lane].slots, object.slot))
        job->released[job->released_count++] = object.slot;
    job->makers[index] = object.maker;
    one->slot = object.slot;
    one->generation = object.generation;
}

static void work_copy_operands(struct work_job *job, const struct instruction_batch *batch,
                               const struct instruction *one)
{
    const uint64_t *from = &batch->operands[one->operand_at];
    for (unsigned i = 0; i < one->operands; i++)
        job->operands[job->operands_filled++] = from[i];
}

/* Behind the operands of a large object: how many runs of its pages are known, and these. The
 * instructions that say them are not copied, so there is room. */
static void work_put_touched(struct work_job *job, const struct instruction_walk *walk,
                             const struct instruction *one)
{
    const uint64_t *runs;
    const size_t count = instruction_walk_touched(walk, one, &runs);
    job->operands[job->operands_filled++] = count;
    for (size_t i = 0; i < 2 * count; i++)
        job->operands[job->operands_filled++] = runs[i];
}

/* A realloc has no operands in the stream; here it gets one: its new slot. */
static void work_sort_realloc(struct work *work, struct work_job *job, uint32_t lane,
                              uint32_t index, struct slots_object *object,
                              struct work_instruction *one)
{
    const struct slots_object old = *object;
    /* In this order: the new slot must not be the old one. */
    *object = slots_take(&work->slots, &work->lanes[lane].slots, lane);
    work_end(work, job, lane, index, old, one);
    job->operands[job->operands_filled++] = shared_operand(object->slot, object->generation);
}

/* Turns an instruction of the batch into the one at `index` of the job, with slots. */
static inline void work_sort_one(struct work *work, struct work_job *job,
                                 const struct instruction_walk *walk, uint32_t lane, uint32_t index,
                                 const struct instruction *one)
{
    struct slots_object *const objects = work->slots.objects, *object;
    struct work_instruction *const to = &job->at[index];
    *to = (struct work_instruction){.opcode = one->opcode,
                                    .generation = one->operands,
                                    .operand_at = (uint16_t)job->operands_filled,
                                    .size = one->size};
    if (one->operands > 0) work_copy_operands(job, walk->batch, one);
    switch (call_actions[one->opcode]) {
    case ACTION_ALLOCATE:
    case ACTION_ALLOCATE_ALIGNED:
        object = &objects[one->object];
        *object = slots_take(&work->slots, &work->lanes[lane].slots, lane);
        to->slot = object->slot;
        to->generation = object->generation;
        if (one->size >= INSTRUCTION_TOUCHED_BYTES) work_put_touched(job, walk, one);
        break;
    case ACTION_FREE:
    case ACTION_FREE_SIZED: work_end(work, job, lane, index, objects[one->object], to); break;
    case ACTION_REALLOC:
        work_sort_realloc(work, job, lane, index, &objects[one->object], to);
        if (one->size >= INSTRUCTION_TOUCHED_BYTES) work_put_touched(job, walk, one);
        break;
    default: break;
    }
}

static void work_sort(struct work *work, struct work_job *job, struct instruction_walk *walk)
{
    uint32_t lane = work->lane;
    struct work_task *task = NULL; /* of `lane`, once it is needed */
    uint32_t at = 0;               /* the task's next free entry */
    struct instruction one;
    while (instruction_walk_next(walk, &one)) {
        if (__builtin_expect(is_left_out(one.opcode), 0)) {
            if (one.opcode != INSTRUCTION_LANE) continue;
            if (task != NULL) task->at = at;
            lane = (uint32_t)walk->batch->operands[one.operand_at];
            task = NULL;
            continue;
        }
        if (task == NULL) {
            task = &job->tasks[work->lanes[lane].task];
            at = task->at;
        }
        uint32_t index = task->first + at++;
        work_sort_one(work, job, walk, lane, index, &one);
        job->batch_index[index] = (uint16_t)(walk->at - 1);
    }
    if (task != NULL) task->at = at;
    work->lane = lane;
}

void work_fill(struct work *work, struct work_job *job, const struct instruction_batch *batch,
               size_t from, size_t to)
{
    for (uint32_t i = 0; i < job->released_count; i++)
        slots_give_to_all(&work->slots, job->released[i]);
    job->released_count = 0;
    job->tasks_count = 0;
    job->operands_filled = 0;
    job->number = batch->number;
    job->offset = batch->offset;
    work->serial++;
    if (from == 0) {
        work->walk = instruction_walk_over(batch, 0);
        work->turn = batch->turns;
    }
    work->walk.end = to;
    work_count(work, job, batch, from, to);
    work_sort(work, job, &work->walk);
    /* Until here `at` was the index at which to put the next instruction. */
    for (uint32_t i = 0; i < job->tasks_count; i++)
        job->tasks[i].at = 0;
    job->unfinished = job->tasks_count;
}
