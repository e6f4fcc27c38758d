/* instruction_reader - reads an instruction stream (INSTRUCTIONS.md), block by block.
 *
 *   input --block--> check --columns--> decode --> batch --walk--> struct instruction, one by one
 *
 *     if (!instruction_reader_open(&reader, &input)) ... reader.error
 *     while (instruction_reader_next(&reader, &batch)) {
 *         struct instruction_walk walk = instruction_walk_over(&batch, batch.count);
 *         while (instruction_walk_next(&walk, &one))
 *             switch (instruction_does[one.opcode]) {
 *             case INSTRUCTION_BEGINS:  ... one.object, one.size
 *             case INSTRUCTION_ENDS:    ... one.object
 *             ...
 *     switch (reader.state) ... INSTRUCTIONS_END, INSTRUCTIONS_CUT or INSTRUCTIONS_FAILED
 *
 * The reader checks everything that INSTRUCTIONS.md 8 asks for before it hands out a batch: its
 * user need not check registers, lanes or operands. A block with a mistake is refused as a whole.
 *
 * An instruction is the same to its user whatever bytes it had: an opcode, an object, a size,
 * operands. What an opcode does to the objects is in one table, instruction_does. `object` is one
 * of two names:
 *
 *   a register  lasts as long as the object; an allocation comes with the one that it takes
 *   an index    in the row of live objects (4.5), for users that need no lasting names. An
 *               allocation appends its object, so its index is the number of objects before it;
 *               when an object ends, the last one of the row takes its index:
 *
 *                   BEGINS   row[one.object] = ...
 *                   ENDS     ... row[one.object]; row[one.object] = row[walk.live]
 *                   RESIZES  ... row[one.object]
 *
 * With indices the reader follows no object, which is several times as fast and takes no memory per
 * object. It takes the live bytes from the stream (4.3) without comparing them with its own count,
 * and its number of registers may be too high by up to one group of instructions
 * (instruction_reader.c).
 *
 * Beside the walk, a batch has columns with an entry for each instruction (opcodes, addresses,
 * stacks), for users that ask for one thing of many instructions, and lists of what is rare (ticks,
 * turns). The walk makes an instruction of 3 bytes, or of a record where these do not hold it.
 * Columns of objects and sizes would be read as easily, but cost more to bring to another processor
 * than all the rest (docs/decisions/).
 *
 * The reader counts the totals (5.2), the bytes that live objects asked for, and their peak.
 *
 * Memory: 12 bytes per register, unless there are none, and one batch, from pages_map(). One
 * thread. */
#ifndef MALLOCTAPE_INSTRUCTION_READER_H
#define MALLOCTAPE_INSTRUCTION_READER_H

#include "common/error.h"
#include "common/input.h"
#include "stream/instruction.h"
#include "stream/mapping.h"
#include "stream/residency.h"
#include "stream/stack_definition.h"

#ifdef __cplusplus
extern "C" {
#endif

#define INSTRUCTION_ERROR_LIST(X)                                                                 \
    X(INSTRUCTION_ERROR_CUT, "instructions_cut",                                                  \
      "the stream ends without an end block (INSTRUCTIONS.md 6)")                                 \
    X(INSTRUCTION_ERROR_MAGIC, "instructions_magic",                                              \
      "not an instruction stream (INSTRUCTIONS.md 4.1)")                                          \
    X(INSTRUCTION_ERROR_VERSION, "instructions_version",                                          \
      "an unknown major version (INSTRUCTIONS.md 4.1)")                                           \
    X(INSTRUCTION_ERROR_FEATURE, "instructions_feature",                                          \
      "an unknown feature bit (INSTRUCTIONS.md 4.1)")                                             \
    X(INSTRUCTION_ERROR_LIMIT, "instructions_limit",                                              \
      "a length beyond its limit (INSTRUCTIONS.md 4)")                                            \
    X(INSTRUCTION_ERROR_CHECKSUM, "instructions_checksum",                                        \
      "the checksum does not match (INSTRUCTIONS.md 2.3)")                                        \
    X(INSTRUCTION_ERROR_BLOCK_MAGIC, "instructions_block_magic",                                  \
      "no block where one should begin (INSTRUCTIONS.md 4.2)")                                    \
    X(INSTRUCTION_ERROR_COLUMNS, "instructions_columns",                                          \
      "the columns and the instructions do not match (INSTRUCTIONS.md 4.3)")                      \
    X(INSTRUCTION_ERROR_OPCODE, "instructions_opcode", "an undefined opcode (INSTRUCTIONS.md 5)") \
    X(INSTRUCTION_ERROR_POSITION, "instructions_position",                                        \
      "a position without a live object (INSTRUCTIONS.md 4.5)")                                   \
    X(INSTRUCTION_ERROR_OPERAND, "instructions_operand",                                          \
      "an operand out of range (INSTRUCTIONS.md 5)")                                              \
    X(INSTRUCTION_ERROR_DEFINITION, "instructions_definition",                                    \
      "an invalid definition of call stacks (INSTRUCTIONS.md 4.6)")                               \
    X(INSTRUCTION_ERROR_MAPPING, "instructions_mapping",                                          \
      "a mapping that cannot be read (INSTRUCTIONS.md 4.7)")                                      \
    X(INSTRUCTION_ERROR_RESIDENCY, "instructions_residency",                                      \
      "a residency that cannot be read (INSTRUCTIONS.md 4.8)")                                    \
    X(INSTRUCTION_ERROR_BASE, "instructions_base",                                                \
      "a base that does not end once, with its block (INSTRUCTIONS.md 4.9)")                      \
    X(INSTRUCTION_ERROR_TOTALS, "instructions_totals",                                            \
      "the totals do not match (INSTRUCTIONS.md 6)")                                              \
    X(INSTRUCTION_ERROR_TRAILING, "instructions_trailing",                                        \
      "something follows the end block (INSTRUCTIONS.md 6)")
enum instruction_error { INSTRUCTION_ERROR_LIST(ERROR_LIST_ENUM) };
extern const struct error_kind instruction_errors[];

/* `object` of instructions without one: other instructions, failed allocations, unknown frees. */
#define INSTRUCTION_NO_REGISTER UINT32_MAX

/* One instruction, decoded. Its operands, but for a size, are batch->operands[operand_at ...]: the
 * alignment, the numbers of a HEAP call, or the operands of 5.3. */
struct instruction {
    uint8_t opcode;      /* as in the stream, flags included */
    uint8_t operands;    /* how many */
    uint16_t operand_at; /* the index of the first one */
    uint32_t object;     /* register, or index, or INSTRUCTION_NO_REGISTER */
    uint64_t size;       /* of ALLOCATION, REALLOC and sized frees; else 0 */
};

static inline unsigned instruction_number(const struct instruction *instruction)
{
    return instruction->opcode & INSTRUCTION_NUMBER_MASK;
}

/* What an instruction does to the objects, by its opcode. */
enum instruction_does {
    INSTRUCTION_CALLS,   /* nothing: the call failed, its object is unknown, or it has none */
    INSTRUCTION_BEGINS,  /* it makes an object */
    INSTRUCTION_ENDS,    /* it ends one */
    INSTRUCTION_RESIZES, /* a realloc of one, which keeps its register and its index */
    INSTRUCTION_OTHER    /* it is no call (5.3) */
};
extern const uint8_t instruction_does[256];

#define INSTRUCTION_NO_USAGE SIZE_MAX

/* Where a tick stands in its batch, and what lies before it. */
struct instruction_tick {
    size_t at;           /* index */
    size_t operand_at;   /* in batch->operands */
    size_t usage_at;     /* in batch->operands, of the usage before it; INSTRUCTION_NO_USAGE */
    size_t changed_at;   /* in batch->operands, of the first statistic before it */
    size_t changed;      /* how many there are */
    size_t calls;        /* in the batch, before it */
    uint64_t live_bytes; /* asked for by the objects alive there */
};

/* From instruction `at` of its batch on, calls are of another lane. */
struct instruction_turn {
    uint32_t at, lane;
};

/* Entries after the end of a batch, of no particular value: the walk may look ahead, and the reader
 * copies whole groups. */
#define INSTRUCTION_BATCH_SLACK 32

/* Where the reader puts a batch: most of it is touched only when it is needed. */
struct instruction_room {
    uint8_t opcodes[INSTRUCTION_BLOCK_MAX + INSTRUCTION_BATCH_SLACK];
    uint16_t values[INSTRUCTION_BLOCK_MAX + INSTRUCTION_BATCH_SLACK];
    struct instruction records[INSTRUCTION_BLOCK_MAX];
    uint64_t operands[INSTRUCTION_BLOCK_MAX * INSTRUCTION_OPERANDS_MAX];
    uint64_t addresses[INSTRUCTION_BLOCK_MAX];
    uint32_t stacks[INSTRUCTION_BLOCK_MAX];
    struct instruction_tick ticks[INSTRUCTION_BLOCK_MAX];
    struct instruction_turn turns[INSTRUCTION_BLOCK_MAX];
};

/* One block. Belongs to the reader, valid until the next call. */
struct instruction_batch {
    size_t count;              /* instructions */
    const uint8_t *opcodes;    /* as in the stream, flags included */
    const uint64_t *addresses; /* 0: it has none, or an unknown one; NULL without feature bit 0 */
    const uint64_t *operands;  /* of all instructions, one after another */
    const uint32_t *stacks;    /* nodes (FORMAT.md 2.8), 0: none; NULL without feature bit 1, or if
                               nobody asked for them */
    const struct instruction_tick *ticks; /* in ascending order */
    size_t ticks_count;
    const struct instruction_turn *turns; /* likewise */
    size_t turns_count;
    uint64_t number;    /* of the first instruction in the stream, from 0 */
    uint64_t offset;    /* of the block in the stream */
    uint64_t registers; /* every `object` in this batch and before is less */
    bool is_base;       /* it is a part of the base (4.9): what is in it does not count */

    /* instruction_walk only. */
    const uint16_t *values; /* as in the stream; INSTRUCTION_ESCAPE: there is a record */
    const struct instruction *records;
    uint64_t live; /* objects before the batch */
};

/* ---- the instructions of a batch, one after another ---- */

struct instruction_walk {
    size_t at;     /* the index of the next one */
    uint64_t live; /* objects before that one */

    const struct instruction_batch *batch;
    const uint16_t *values;           /* of the batch */
    const struct instruction *record; /* the next one that is not in the columns */
    size_t end;
};

/* The first `count` instructions. */
static inline struct instruction_walk instruction_walk_over(const struct instruction_batch *batch,
                                                            size_t count)
{
    struct instruction_walk walk = {0, batch->live, batch, batch->values, batch->records, count};
    return walk;
}

/* The next instruction. The caller knows its opcode, and what that does: where these are constants
 * at compile time, little code is left of this. */
static inline __attribute__((always_inline)) struct instruction instruction_walk_take(
    struct instruction_walk *walk, unsigned opcode, unsigned does)
{
    const uint64_t value = walk->values[walk->at++];
    struct instruction one = {0, 0, 0, 0, 0};
    if (does == INSTRUCTION_ENDS) walk->live--;
    if (__builtin_expect(value == INSTRUCTION_ESCAPE, 0)) {
        one = *walk->record++;
    } else if (does == INSTRUCTION_ENDS) {
        one.object = (uint32_t)(walk->live - value);
    } else {
        one.object = (uint32_t)walk->live;
        one.size = value;
    }
    if (does == INSTRUCTION_BEGINS) walk->live++;
    one.opcode = (uint8_t)opcode; /* also of a record, so that the compiler knows it */
    return one;
}

/* False: there is none. */
static inline bool instruction_walk_next(struct instruction_walk *walk, struct instruction *one)
{
    if (walk->at == walk->end) return false;
    const unsigned opcode = walk->batch->opcodes[walk->at];
    *one = instruction_walk_take(walk, opcode, instruction_does[opcode]);
    return true;
}

/* The call stack of the instruction before (INSTRUCTIONS.md 4.6); 0: it has none. */
static inline uint32_t instruction_walk_stack(const struct instruction_walk *walk)
{
    return walk->batch->stacks != NULL ? walk->batch->stacks[walk->at - 1] : 0;
}

/* Which pages of the object were ever resident that the instruction before, *one, has made or changed
 * (INSTRUCTIONS.md 5.3, *touched*). Returns how many runs there are, two numbers each; 0: not known. */
static inline size_t instruction_walk_touched(const struct instruction_walk *walk,
                                              const struct instruction *one, const uint64_t **runs)
{
    const uint8_t *call = &walk->batch->opcodes[walk->at - 1];
    size_t count = 0;
    if (one->size < INSTRUCTION_TOUCHED_BYTES) return 0;
    while (count + 1 < walk->at && call[-1 - (ptrdiff_t)count] == INSTRUCTION_TOUCHED)
        count++;
    /* Each of these has a record, and so has a size as large. */
    *runs = &walk->batch->operands[walk->record[-1 - (ptrdiff_t)count].operand_at];
    return count;
}

/* The index that the instruction this many further on, up to INSTRUCTION_BATCH_SLACK, will use if
 * the row has as many objects then as now: for prefetching. */
static inline uint64_t instruction_walk_ahead(const struct instruction_walk *walk,
                                              unsigned instructions)
{
    const size_t at = walk->at + instructions;
    const bool ends = instruction_does[walk->batch->opcodes[at]] == INSTRUCTION_ENDS;
    return walk->live - 1 - (walk->batch->values[at] & -(uint64_t)ends);
}

/* The same with registers, for a table of what the caller knows of each: with many objects alive, one waits
 * for memory more than for anything else. Inline, as gcc leaves out calls of functions that do nothing but
 * prefetch. */
static inline __attribute__((always_inline)) void instruction_walk_fetch(
    const struct instruction_walk *walk, const void *table, size_t entry_bytes)
{
    enum { AHEAD = 24 };
    if (walk->end - walk->at <= AHEAD) return;
    const uint64_t object = walk->record[AHEAD].object;
    __builtin_prefetch((const void *)((uintptr_t)table + object * entry_bytes), 1);
}

/* The index that the record this many further on has, the same way: what has a record is often the end
 * of an old object. */
static inline uint64_t instruction_walk_record_ahead(const struct instruction_walk *walk,
                                                     unsigned records)
{
    const ptrdiff_t at = walk->record - walk->batch->records + (ptrdiff_t)records;
    return at < INSTRUCTION_BLOCK_MAX ? walk->batch->records[at].object : UINT32_MAX;
}

/* The index after the `calls`th call of a batch, counted from 1; batch->count when it has fewer.
 */
size_t instruction_batch_after_call(const struct instruction_batch *batch, uint64_t calls);

/* Whether a batch is the last one of the base (4.9). */
static inline bool instruction_batch_ends_base(const struct instruction_batch *batch)
{
    return batch->is_base && batch->opcodes[batch->count - 1] == INSTRUCTION_BASE_END;
}

enum instruction_state {
    INSTRUCTIONS_MORE,
    INSTRUCTIONS_END,   /* after a good end block */
    INSTRUCTIONS_CUT,   /* no end block; see error for where */
    INSTRUCTIONS_FAILED /* see error */
};

/* The objects that are alive between two instructions. */
struct live_objects {
    struct register_order registers; /* with indices: `live` and `high` only */
    uint64_t *sizes;                 /* by register: of its latest object */
    uint64_t sizes_count;            /* entries of `sizes`; every register is less */
    uint64_t bytes;                  /* asked for by live objects */
    uint64_t peak_bytes;             /* the most there ever were at once, from the base's end on */
};

struct instruction_reader {
    enum instruction_state state;
    struct error error;                 /* set with CUT and FAILED */
    struct instruction_header header;   /* metadata ends with a zero byte */
    struct instruction_totals totals;   /* of what has been handed out */
    struct live_objects objects;        /* `bytes` and `peak_bytes` are for everybody */
    enum instruction_status end_status; /* with INSTRUCTIONS_END */
    bool in_base;                       /* a base (4.9) has begun, and not ended */

    struct instruction_room *room; /* where the next batch goes: the reader's own, or another one */

    /* Set before the first block is read, or NULL: takes what the stream defines (4.6), which is
     * within its limits. Returns NULL, or what is wrong with it, as stacks_define() does. Batches
     * have stacks only if it is set. */
    const char *(*define)(void *context, const struct stack_definition *definition);
    void *define_context;
    uint64_t definitions_offset; /* for it: of the block in the stream */

    /* The same: take what the program has done to its address space (4.7), and what of that was
     * resident (4.8), in order: all batches before have been returned, and the next has not. The name
     * of a file, and the areas, which residency_take_area() reads from `at`, are valid during the
     * call. */
    void (*mapping)(void *context, const struct mapping_record *record);
    void (*residency)(void *context, const struct residency *residency, const uint8_t *at,
                      const uint8_t *end);
    void *mappings_context;
    uint64_t mappings_offset;

    /* From here on: instruction_reader.c only. */
    struct input *input;
    struct instruction_room *own_room;
    bool indices; /* batches have them instead of registers */
    char *metadata;
};

/* Reads the header. `input` stays the caller's. False: see state and error. */
bool instruction_reader_open(struct instruction_reader *reader, struct input *input);

/* Call before the first block is read. From then on `object` is an index in the row of live objects
 * (4.5). An allocation appends its object, whose index is the number of objects before it. The last
 * object takes the index of one that is freed. */
void instruction_reader_use_indices(struct instruction_reader *reader);

/* Reads a block. False when there is none, or no good one: see state. */
bool instruction_reader_next(struct instruction_reader *reader, struct instruction_batch *batch);

void instruction_reader_close(struct instruction_reader *reader);

/* What the usage before a tick says. False: there is none. */
bool instruction_batch_usage(const struct instruction_batch *batch,
                             const struct instruction_tick *tick, struct original_usage *usage);

/* Updates the statistics that have new values before a tick; `count` grows if there are more of
 * them. */
void instruction_batch_statistics(const struct instruction_batch *batch,
                                  const struct instruction_tick *tick,
                                  struct original_statistics *statistics);

#ifdef __cplusplus
}
#endif
#endif
