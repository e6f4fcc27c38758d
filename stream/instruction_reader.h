/* instruction_reader - reads an instruction stream (INSTRUCTIONS.md), block by block.
 *
 *   input --block--> check --columns--> decode --> batch of struct instruction --> engine, dump
 *
 *     if (!instruction_reader_open(&reader, &input)) ... reader.error
 *     while (instruction_reader_next(&reader, &batch)) ... batch.at[0 .. batch.count - 1]
 *     switch (reader.state) ... INSTRUCTIONS_END, INSTRUCTIONS_CUT or INSTRUCTIONS_FAILED
 *
 * The reader checks everything that INSTRUCTIONS.md 8 asks for before it hands out a batch: its
 * user need not check registers, lanes or operands. An allocation comes with the register that it
 * takes. A block with a mistake is refused as a whole.
 *
 * The reader counts the totals (5.2), the bytes that live objects asked for, and their peak.
 *
 * A user that needs no lasting names can have indices instead of registers. Then the reader follows
 * no object, which is several times as fast and takes no memory per object. It takes the live bytes
 * from the stream (4.3) without comparing them with its own count, and its number of registers may
 * be too high by up to one group of instructions (instruction_reader.c).
 *
 * Memory: 12 bytes per register, unless there are none, and one batch, from pages_map(). One
 * thread. */
#ifndef MALLOCTAPE_INSTRUCTION_READER_H
#define MALLOCTAPE_INSTRUCTION_READER_H

#include "common/error.h"
#include "common/input.h"
#include "stream/instruction.h"
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
      "a position where no live object stands (INSTRUCTIONS.md 4.5)")                             \
    X(INSTRUCTION_ERROR_OPERAND, "instructions_operand",                                          \
      "an operand out of range (INSTRUCTIONS.md 5)")                                              \
    X(INSTRUCTION_ERROR_DEFINITION, "instructions_definition",                                    \
      "a definition of call stacks that cannot be (INSTRUCTIONS.md 4.6)")                         \
    X(INSTRUCTION_ERROR_TOTALS, "instructions_totals",                                            \
      "the totals do not match (INSTRUCTIONS.md 6)")                                              \
    X(INSTRUCTION_ERROR_TRAILING, "instructions_trailing",                                        \
      "something follows the end block (INSTRUCTIONS.md 6)")
enum instruction_error { INSTRUCTION_ERROR_LIST(ERROR_LIST_ENUM) };
extern const struct error_kind instruction_errors[];

/* What an instruction has no register for: other instructions, failed allocations, unknown
 * frees. */
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

/* What an opcode, flags included, does to the number of live objects if the instruction is plain:
 * if nothing belongs to it but its value, and that is small (4.4). */
enum instruction_effect {
    INSTRUCTION_NOT_PLAIN = 0,
    INSTRUCTION_PLAIN_ALLOCATION = 1, /* the value is the size */
    INSTRUCTION_PLAIN_FREE = -1       /* the value is the position */
};
extern const int8_t instruction_effects[256];

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

/* In batch->opcodes, a plain opcode with a large value has both flags. In a stream only
 * realloc_moved may have both, and that is never plain. */
#define INSTRUCTION_LARGE (INSTRUCTION_FAILED | INSTRUCTION_UNKNOWN)

/* Entries behind a batch, of no particular value. Users that look ahead may read them; the reader
 * writes them, because it copies whole groups. */
#define INSTRUCTION_BATCH_SLACK 32

/* Where the reader puts a batch: most of it is touched only when it is needed. */
struct instruction_room {
    uint16_t values[INSTRUCTION_BLOCK_MAX + INSTRUCTION_BATCH_SLACK];
    uint8_t opcodes[INSTRUCTION_BLOCK_MAX + INSTRUCTION_BATCH_SLACK];
    struct instruction at[INSTRUCTION_BLOCK_MAX];
    uint64_t operands[INSTRUCTION_BLOCK_MAX * INSTRUCTION_OPERANDS_MAX];
    uint64_t addresses[INSTRUCTION_BLOCK_MAX];
    uint32_t stacks[INSTRUCTION_BLOCK_MAX];
    struct instruction_tick ticks[INSTRUCTION_BLOCK_MAX];
};

/* One block. Belongs to the reader, valid until the next call. `at` has all instructions; with
 * indices it has only those that are not plain, one after another, and `values` has the values of
 * the others. */
struct instruction_batch {
    size_t count;           /* instructions */
    const uint8_t *opcodes; /* `count`, and INSTRUCTION_BATCH_SLACK more */
    const uint16_t *values; /* likewise */
    const struct instruction *at;
    size_t at_count;
    const uint64_t *operands;
    const uint64_t
        *addresses; /* one per instruction, 0 where it has none; NULL without feature bit 0 */
    const uint32_t *stacks; /* nodes (FORMAT.md 2.8), one per instruction, 0: none; NULL without
                               feature bit 1, or if nobody asked for them */
    const struct instruction_tick *ticks; /* in ascending order */
    size_t ticks_count;
    uint64_t number;    /* of the first instruction in the stream, from 0 */
    uint64_t offset;    /* of the block in the stream */
    uint64_t registers; /* every `object` in this batch and before is less */
};

/* The opcode as in the stream, without INSTRUCTION_LARGE. */
uint8_t instruction_batch_opcode(const struct instruction_batch *batch, size_t index);

/* The opcode and the size of an instruction of a batch; with indices it takes time. */
struct instruction instruction_batch_find(const struct instruction_batch *batch, size_t index);

enum instruction_state {
    INSTRUCTIONS_MORE,
    INSTRUCTIONS_END,   /* behind a good end block */
    INSTRUCTIONS_CUT,   /* no end block; see error for where */
    INSTRUCTIONS_FAILED /* see error */
};

/* The objects that are alive between two instructions. */
struct live_objects {
    struct register_order registers; /* with indices: `live` and `high` only */
    uint64_t *sizes;                 /* by register: of its latest object */
    uint64_t sizes_count;            /* entries of `sizes`; every register is less */
    uint64_t bytes;                  /* asked for by live objects */
    uint64_t peak_bytes;             /* the most there ever were at once */
};

struct instruction_reader {
    enum instruction_state state;
    struct error error;                 /* set with CUT and FAILED */
    struct instruction_header header;   /* metadata ends with a zero byte */
    struct instruction_totals totals;   /* of what has been handed out */
    struct live_objects objects;        /* `bytes` and `peak_bytes` are for everybody */
    enum instruction_status end_status; /* with INSTRUCTIONS_END */

    struct instruction_room *room; /* where the next batch goes: the reader's own, or another one */

    /* Set before the first block is read, or NULL: takes what the stream defines (4.6), which is
     * within its limits. NULL, or what is wrong with it: stacks_define() does. Batches have stacks
     * only if it is set. */
    const char *(*define)(void *context, const struct stack_definition *definition);
    void *define_context;
    uint64_t definitions_offset; /* for it: of the block in the stream */

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

/* Changes those of the statistics that are said anew before a tick; `count` grows as far as they
 * go. */
void instruction_batch_statistics(const struct instruction_batch *batch,
                                  const struct instruction_tick *tick,
                                  struct original_statistics *statistics);

#ifdef __cplusplus
}
#endif
#endif
