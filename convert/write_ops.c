/* write_ops - WebKit's MallocBench: 24 bytes a call, little-endian.
 *
 *   0  4  operation: 0 malloc, 1 free, 2 realloc, 3 aligned
 *   4  2  thread
 *   6  2  logarithm of the alignment to the base 2
 *   8  8  slot of the object
 *   16 8  size */
#include "common/bytes.h"
#include "convert/export_writer.h"

enum { OPERATION_BYTES = 24, MALLOC = 0, FREE, REALLOC, ALIGNED };

/* The logarithm, rounded up. */
static unsigned logarithm(uint64_t alignment)
{
    return alignment <= 1 ? 0 : 64 - (unsigned)__builtin_clzll(alignment - 1);
}

static bool ops_call(struct export *export, const struct export_call *call)
{
    uint8_t at[OPERATION_BYTES] = {0};
    bool ends = call->shape >= SHAPE_FREE;
    bool aligned = call->shape == SHAPE_ALLOCATION_ALIGNED;
    bool moved = call->shape == SHAPE_REALLOC && !call->unknown;
    bytes_put32(at, ends ? FREE : moved ? REALLOC : aligned ? ALIGNED : MALLOC);
    bytes_put16(at + 4, (uint16_t)call->lane);
    bytes_put16(at + 6, aligned ? (uint16_t)logarithm(call->alignment) : 0);
    bytes_put64(at + 8, call->object);
    bytes_put64(at + 16, ends ? 0 : call->size);
    export->losses.kinds += call->kind != CALL_MALLOC && call->kind != CALL_FREE &&
                            call->kind != CALL_ALIGNED_ALLOC && !moved;
    return output_write(&export->output, at, sizeof at);
}

const struct export_writer export_ops = {
    .name = "ops",
    .title = "WebKit MallocBench .ops",
    .loses = "times, memory of the original, ends of threads",
    .call = ops_call,
};
