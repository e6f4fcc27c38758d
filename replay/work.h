/* work - a job: a slice of the stream, sorted by lane into tasks.
 *
 *   slice   a1 a2 | b1 | a3 | c1 c2 | b2          in the global order
 *   job     a1 a2 a3 | b1 b2 | c1 c2              one task for each lane that occurs
 *
 * In a job, instructions name slots instead of registers (slots.h), because threads share objects.
 * Those of a task are contiguous, as each task is read by a thread of its own. Instructions that
 * nobody carries out are left out: lane, tick and lost.
 *
 * The dispatcher fills a job and hands it over, threads carry it out, and it is filled again. While
 * it is handed over:
 *
 *   unfinished == tasks that are not completely carried out; at 0 the dispatcher has the job back
 *   task->at    only the thread of task->lane changes it; nobody changes anything else */
#ifndef MALLOCTAPE_REPLAY_WORK_H
#define MALLOCTAPE_REPLAY_WORK_H

#include "common/error.h"
#include "replay/slots.h"
#include "stream/instruction_reader.h"

struct work_job;

struct work_instruction {
    uint8_t opcode;      /* as in the stream, flags included */
    uint8_t generation;  /* of the slot; for a HEAP call, the number of its operands */
    uint16_t operand_at; /* index in job->operands of the first one, if there are any */
    uint32_t slot;
    uint64_t size;
};

/* What a job has for one lane. */
struct work_task {
    struct work_job *job;
    uint32_t lane;
    uint32_t first;   /* index of its first instruction in the job */
    uint32_t count;   /* instructions */
    uint32_t at;      /* of these, carried out */
    uint32_t borders; /* thread_begin and thread_end among them */
};

struct work_job {
    uint32_t unfinished; /* atomic */
    uint32_t tasks_count;
    struct work_task *tasks;
    struct work_instruction *at;
    uint64_t *operands;
    uint16_t *batch_index; /* by index in `at`: the index in the batch */
    uint16_t *makers;      /* by index in `at`: the lane that makes the object that ends here */
    uint64_t number;       /* of the batch in the stream */
    uint64_t offset;

    /* Used only by the dispatcher. */
    uint32_t *released; /* slots that are free for all once the job has been carried out */
    uint32_t released_count;
    uint32_t operands_filled;
};

/* The dispatcher's view of a lane. */
struct work_lane {
    struct slots_lane slots;
    uint32_t task; /* its task in the job being filled; valid if `serial` is the job's */
    uint64_t serial;
};

struct work {
    struct slots slots;
    struct work_lane *lanes;
    uint32_t lane;   /* of the next instruction */
    uint64_t serial; /* of the job that is being filled, from 1 */
    /* In the current batch, after what is in jobs: */
    struct instruction_walk walk;
    const struct instruction_turn *turn; /* the next one */
};

bool work_open(struct work *work, struct error *error);
void work_close(struct work *work);

bool work_job_open(struct work_job *job, struct error *error);
void work_job_close(struct work_job *job);

/* Fills a job with the instructions `from` to `to` - 1 of a batch. The jobs of a batch must follow
 * each other, beginning at 0; no thread may still have the job; and there must be room for its
 * registers and slots. */
void work_fill(struct work *work, struct work_job *job, const struct instruction_batch *batch,
               size_t from, size_t to);

#endif
