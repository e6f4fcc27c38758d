/* instruction_writer - writes an instruction stream (INSTRUCTIONS.md).
 *
 *   put_*() --> columns of one block --> output        a block: 16 384 instructions or a flush
 *
 *     struct instruction_header header = {.metadata = "program=x\n", .metadata_bytes = 10};
 *     instruction_writer_open(&writer, &output, &header);
 *     instruction_put_lane(&writer, lane);
 *     uint32_t name = instruction_put_allocation(&writer, CALL_MALLOC, 24, 0);
 *     instruction_put_free(&writer, CALL_FREE, name);
 *     instruction_writer_finish(&writer, INSTRUCTION_STATUS_COMPLETE);
 *     instruction_writer_close(&writer);
 *
 * The writer owns the registers: putting an allocation returns the register that it took, putting a
 * free gives the register back. A put function is a few stores. It cannot fail, and does not check
 * what its caller must know: that the kind has the shape, and that the register is in use.
 *
 * When the output fails or memory is missing, writer->error is set. From then on the writer writes
 * nothing, and registers mean nothing. The caller may ask instruction_writer_failed() now and then.
 *
 * The writer counts the bytes of live objects, which the stream states (4.3).
 *
 * A stream with call stacks (INSTRUCTION_FEATURE_STACKS) gets them from instruction_put_stack(),
 * and their definitions from instruction_put_definition().
 *
 * Memory: 1 MiB for the columns, 256 KiB for definitions and 12 bytes per register, from
 * pages_map(). One thread. */
#ifndef MALLOCTAPE_INSTRUCTION_WRITER_H
#define MALLOCTAPE_INSTRUCTION_WRITER_H

#include "common/error.h"
#include "common/output.h"
#include "stream/instruction.h"
#include "stream/stack_definition.h"
#include "stream/varint.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A live object. Sizes that do not fit are in `large_sizes`, which is hardly ever touched. */
struct writer_object {
    uint32_t index; /* index in registers.order */
    uint32_t size;  /* or WRITER_SIZE_LARGE */
};
#define WRITER_SIZE_LARGE UINT32_MAX

struct instruction_writer {
    size_t count;                  /* instructions in the block */
    uint8_t *opcodes, *low, *high; /* columns with a byte for each instruction (4.3) */
    uint8_t *operands_end;         /* where the next operand goes */
    uint8_t *addresses_end;        /* where the next address goes */
    uint8_t *stacks_end;           /* where the next stack goes */
    struct register_order registers;
    struct writer_object *objects; /* by register of a live object */
    uint64_t *large_sizes;         /* by register */
    uint64_t live_bytes;           /* asked for by live objects */
    uint64_t peak_bytes;           /* the most they were after an instruction of this block */
    uint64_t lane;                 /* the current one */
    struct original_statistics statistics; /* as the latest tick said them */
    uint64_t last_address;                 /* of the `addresses` column of this block */
    uint64_t features;                     /* those that add columns */
    bool in_base;                          /* INSTRUCTION_FEATURE_BASE, and no base_end yet */
    uint32_t stack;                        /* of the next call that brings or changes an object */
    uint8_t *definitions_end;              /* where the next definition goes */
    uint32_t definitions;                  /* how many there are */

    struct output *output;
    uint64_t objects_count; /* entries of `objects` */
    uint64_t large_sizes_count;
    uint8_t *block; /* the mapping: room for a block, and for the columns */
    uint8_t *operands_start, *addresses_start, *stacks_start, *definitions_start;
    struct instruction_totals
        totals; /* of the blocks written; instruction_writer_totals() for all */
    struct error error;
};

/* Writes the header. `output` stays the caller's, who closes it after instruction_writer_close().
 * Metadata of more than INSTRUCTION_METADATA_MAX bytes loses its last lines. False: see
 * writer->error. */
bool instruction_writer_open(struct instruction_writer *writer, struct output *output,
                             const struct instruction_header *header);

/* Ends the block, if there is one, and writes everything out: for when no more input is there yet.
 */
bool instruction_writer_flush(struct instruction_writer *writer);

/* Writes the last block and the end block. False if anything failed since the opening. */
bool instruction_writer_finish(struct instruction_writer *writer, enum instruction_status status);

/* Frees the memory. */
void instruction_writer_close(struct instruction_writer *writer);

/* What has been put so far. Ends the block. */
const struct instruction_totals *instruction_writer_totals(struct instruction_writer *writer);

static inline bool instruction_writer_failed(const struct instruction_writer *writer)
{
    return error_is_set(&writer->error);
}

/* For the functions below only: ends a full block. */
void instruction_writer_end_block(struct instruction_writer *writer);

/* ---- calls (5.1) ----
 *
 * `address` is where the original allocator put the object, a multiple of 8; used only when the
 * header has INSTRUCTION_FEATURE_ADDRESSES. */

static inline void instruction_put_operand(struct instruction_writer *writer, uint64_t operand)
{
    writer->operands_end = varint_put(writer->operands_end, operand);
}

/* The opcode, and the value that each instruction has (4.4). Its operands follow. */
static inline void instruction_put_opcode(struct instruction_writer *writer, unsigned opcode,
                                          uint64_t value)
{
    const size_t at = writer->count++;
    writer->opcodes[at] = (uint8_t)opcode;
    if (__builtin_expect(value >= INSTRUCTION_ESCAPE, 0)) {
        instruction_put_operand(writer, value);
        value = INSTRUCTION_ESCAPE;
    }
    writer->low[at] = (uint8_t)value;
    writer->high[at] = (uint8_t)(value >> 8);
}

/* For the functions below only. */
static inline void instruction_end_stack(struct instruction_writer *writer)
{
    writer->stacks_end = varint_put(writer->stacks_end, writer->stack);
    writer->stack = STACK_END;
}

/* The entry of a free in the column `stacks`. */
static inline void instruction_put_free_stack(struct instruction_writer *writer)
{
    if (__builtin_expect(writer->features & INSTRUCTION_FEATURE_FREE_STACKS, 0))
        instruction_end_stack(writer);
}

static inline void instruction_put_more(struct instruction_writer *writer, uint64_t address)
{
    if (writer->features & INSTRUCTION_FEATURE_ADDRESSES) {
        int64_t difference = (int64_t)(address - writer->last_address) / 8;
        writer->addresses_end = varint_put(writer->addresses_end, zigzag(difference));
        writer->last_address = address;
    }
    if (writer->features & INSTRUCTION_FEATURE_STACKS) instruction_end_stack(writer);
}

/* The entries of a call that brings or changes an object in the columns that features add. */
static inline void instruction_put_address(struct instruction_writer *writer, uint64_t address)
{
    if (__builtin_expect(writer->features != 0, 0)) instruction_put_more(writer, address);
}

static inline void instruction_put_end(struct instruction_writer *writer)
{
    if (__builtin_expect(writer->count == INSTRUCTION_BLOCK_MAX, 0))
        instruction_writer_end_block(writer);
}

/* Notes the size of an object that is live from now on, or has another one. */
static inline struct writer_object instruction_make_object(struct instruction_writer *writer,
                                                           uint32_t object, uint32_t index,
                                                           uint64_t size)
{
    const bool large = size >= WRITER_SIZE_LARGE;
    if (__builtin_expect(large, 0)) writer->large_sizes[object] = size;
    writer->live_bytes += size;
    if (writer->live_bytes > writer->peak_bytes) writer->peak_bytes = writer->live_bytes;
    return (struct writer_object){index, large ? WRITER_SIZE_LARGE : (uint32_t)size};
}

/* The size of an object, of which this is the entry. */
static inline uint64_t instruction_size(const struct instruction_writer *writer, uint32_t object,
                                        struct writer_object entry)
{
    if (__builtin_expect(entry.size == WRITER_SIZE_LARGE, 0)) return writer->large_sizes[object];
    return entry.size;
}

/* Takes a register for a new object. */
static inline uint32_t instruction_take_register(struct instruction_writer *writer, uint64_t size)
{
    struct register_order *registers = &writer->registers;
    const uint32_t index = (uint32_t)registers->live, taken = register_order_take(registers);
    writer->objects[taken] = instruction_make_object(writer, taken, index, size);
    if (registers->live > registers->high) registers->high = registers->live;
    return taken;
}

/* The position of a live object. */
static inline uint64_t instruction_position(const struct instruction_writer *writer,
                                            uint32_t object)
{
    return writer->registers.live - 1 - writer->objects[object].index;
}

/* The stack of the next call that brings or changes an object, or, with
 * INSTRUCTION_FEATURE_FREE_STACKS, frees one. */
static inline void instruction_put_stack(struct instruction_writer *writer, uint32_t node)
{
    writer->stack = node;
}

/* What is left to do for an allocation when its operands have been put. */
static inline uint32_t instruction_end_allocation(struct instruction_writer *writer, uint64_t size,
                                                  uint64_t address)
{
    instruction_put_address(writer, address);
    uint32_t taken = instruction_take_register(writer, size);
    instruction_put_end(writer);
    return taken;
}

/* ALLOCATION. Returns the register of the object. */
static inline uint32_t instruction_put_allocation(struct instruction_writer *writer,
                                                  enum call_kind kind, uint64_t size,
                                                  uint64_t address)
{
    instruction_put_opcode(writer, kind, size);
    return instruction_end_allocation(writer, size, address);
}

/* ALLOCATION or ALLOCATION_ALIGNED; `alignment` is ignored for the former. Returns the register of
 * the object. */
uint32_t instruction_put_allocation_with(struct instruction_writer *writer, enum call_kind kind,
                                         uint64_t size, uint64_t alignment, uint64_t address);

/* The same for a call that failed. */
void instruction_put_allocation_failed(struct instruction_writer *writer, enum call_kind kind,
                                       uint64_t size, uint64_t alignment);

/* REALLOC: the object keeps its register. */
static inline void instruction_put_realloc(struct instruction_writer *writer, enum call_kind kind,
                                           uint32_t object, uint64_t size, uint64_t address)
{
    instruction_put_opcode(writer, kind, instruction_position(writer, object));
    instruction_put_operand(writer, size);
    instruction_put_address(writer, address);
    const struct writer_object before = writer->objects[object];
    writer->live_bytes -= instruction_size(writer, object, before);
    writer->objects[object] = instruction_make_object(writer, object, before.index, size);
    instruction_put_end(writer);
}

/* A REALLOC that failed: the object stays as it is. */
void instruction_put_realloc_failed(struct instruction_writer *writer, uint32_t object,
                                    uint64_t size);

/* A REALLOC of an object whose allocation is not known. Returns the register of the new object. */
uint32_t instruction_put_realloc_unknown(struct instruction_writer *writer, enum call_kind kind,
                                         uint64_t size, uint64_t address);
void instruction_put_realloc_unknown_failed(struct instruction_writer *writer, uint64_t size);

/* What is left to do for a free when its operands have been put. */
static inline void instruction_end_free(struct instruction_writer *writer, uint32_t object)
{
    struct register_order *registers = &writer->registers;
    const struct writer_object ended = writer->objects[object];
    const uint64_t last = registers->live - 1;
    const uint32_t youngest = registers->order[last];
    instruction_put_free_stack(writer);
    writer->live_bytes -= instruction_size(writer, object, ended);
    /* register_order_release(), and the youngest one's new index. */
    registers->order[ended.index] = youngest;
    registers->order[last] = object;
    registers->live = last;
    writer->objects[youngest].index = ended.index;
    instruction_put_end(writer);
}

/* FREE. `object` is free from here on. */
static inline void instruction_put_free(struct instruction_writer *writer, enum call_kind kind,
                                        uint32_t object)
{
    instruction_put_opcode(writer, kind, instruction_position(writer, object));
    instruction_end_free(writer, object);
}

/* FREE_SIZED */
static inline void instruction_put_free_sized(struct instruction_writer *writer,
                                              enum call_kind kind, uint32_t object, uint64_t size)
{
    instruction_put_opcode(writer, kind, instruction_position(writer, object));
    instruction_put_operand(writer, size);
    instruction_end_free(writer, object);
}

/* A free of any shape; what the shape does not have is ignored. */
void instruction_put_free_with(struct instruction_writer *writer, enum call_kind kind,
                               uint32_t object, uint64_t size, uint64_t alignment);

/* The same for an object whose allocation is not known. */
void instruction_put_free_unknown(struct instruction_writer *writer, enum call_kind kind,
                                  uint64_t size, uint64_t alignment);

/* HEAP: `count` (0 to 2) numbers. */
void instruction_put_heap(struct instruction_writer *writer, enum call_kind kind, unsigned count,
                          const uint64_t *numbers);

/* With INSTRUCTION_FEATURE_MAPPINGS: records of mappings, in their order, which come after the
 * instructions so far and before the next one (4.7). */
struct mapping_record;
void instruction_put_mappings(struct instruction_writer *writer,
                              const struct mapping_record *records, size_t count);

/* The same of a residency, encoded (4.8), of at most INSTRUCTION_BLOCK_PAYLOAD_MAX bytes. */
void instruction_put_residency(struct instruction_writer *writer, const uint8_t *payload,
                               size_t bytes);

/* Which pages of the object that the next call makes or changes were ever resident (5.3). That call
 * must follow, with INSTRUCTION_TOUCHED_BYTES at least. */
struct touched;
void instruction_put_touched(struct instruction_writer *writer, const struct touched *touched);

/* The same, of `count` pairs of numbers as instruction_walk_touched() finds them; 0: not known. */
void instruction_put_touched_runs(struct instruction_writer *writer, const uint64_t *runs,
                                  size_t count);

/* A definition within the limits of stack_definition_is_valid(), in a stream with
 * INSTRUCTION_FEATURE_STACKS. It comes before the instructions of the block. */
void instruction_put_definition(struct instruction_writer *writer,
                                const struct stack_definition *definition);

/* ---- the base (4.9) ---- */

/* In a stream with INSTRUCTION_FEATURE_BASE, once: what was put so far is the base. Ends the block. */
void instruction_put_base_end(struct instruction_writer *writer);

/* ---- other instructions (5.3) ---- */

void instruction_put_lane_change(struct instruction_writer *writer, uint64_t lane);

/* The instructions that follow are of this lane. Cheap when it is the current one. */
static inline void instruction_put_lane(struct instruction_writer *writer, uint64_t lane)
{
    if (writer->lane != lane) instruction_put_lane_change(writer, lane);
}

void instruction_put_thread_begin(struct instruction_writer *writer, uint64_t thread);
void instruction_put_thread_end(struct instruction_writer *writer);
void instruction_put_thread_cache_deleted(struct instruction_writer *writer);
void instruction_put_tick(struct instruction_writer *writer, uint64_t elapsed_ns,
                          uint64_t rss_bytes, uint64_t heap_bytes);

/* The same with a usage (5.3) before it, and those of the statistics that have changed; or NULL. */
void instruction_put_tick_with_usage(struct instruction_writer *writer, uint64_t elapsed_ns,
                                     uint64_t rss_bytes, uint64_t heap_bytes,
                                     const struct original_usage *usage,
                                     const struct original_statistics *statistics);
/* Which ways the next call took inside the allocator: bits of INSTRUCTION_WAY_LIST. */
void instruction_put_path(struct instruction_writer *writer, uint64_t ways);
void instruction_put_lost(struct instruction_writer *writer, uint64_t lane, uint64_t events);

/* The next call, of an unknown object, frees or reallocates one that had been freed already. To be
 * followed by instruction_put_free_unknown() or instruction_put_realloc_unknown(). */
void instruction_put_freed_twice(struct instruction_writer *writer);

/* Nobody recorded the free of the object in the register: its place is taken by the next call. Puts
 * the free, too. */
void instruction_put_missed_free(struct instruction_writer *writer, uint32_t object);

#ifdef __cplusplus
}
#endif
#endif
