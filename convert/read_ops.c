/* read_ops - WebKit's MallocBench: 24 bytes a call, little-endian.
 *
 *   0  4  operation: 0 malloc, 1 free, 2 realloc, 3 aligned
 *   4  2  thread
 *   6  2  logarithm of the alignment to the base 2
 *   8  8  slot of the object
 *   16 8  size
 *
 * The format cannot be recognized by its bytes. */
#include <inttypes.h>

#include "common/bytes.h"
#include "convert/formats.h"

enum { OPERATION_BYTES = 24, LOGARITHM_MAX = 63 };

static const uint8_t ops_kinds[] = {CALL_MALLOC, CALL_FREE, CALL_REALLOC_MOVED, CALL_ALIGNED_ALLOC};

static bool read_ops_operation(struct source *source, struct call_writer *writer)
{
    const uint8_t *at = source->next;
    uint64_t offset = source_offset(source);
    uint32_t operation = bytes_get32(at);
    unsigned logarithm = bytes_get16(at + 6);
    uint64_t slot = bytes_get64(at + 8);
    if (operation >= sizeof ops_kinds)
        return source_bad_bytes(source, offset, "operation %" PRIu32 "; expected 0 to 3",
                                operation);
    if (logarithm > LOGARITHM_MAX || slot == UINT64_MAX)
        return source_bad_bytes(source, offset, "an alignment or a slot out of range");
    struct call call = {.kind = ops_kinds[operation]};
    if (call.kind == CALL_FREE || call.kind == CALL_REALLOC_MOVED) call.ended = slot + 1;
    if (call.kind != CALL_FREE) {
        call.began = slot + 1;
        call.size = bytes_get64(at + 16);
    }
    if (call.kind == CALL_ALIGNED_ALLOC) call.alignment = UINT64_C(1) << logarithm;
    call_writer_thread(writer, bytes_get16(at + 4));
    return call_writer_put(writer, &call);
}

static bool read_ops_file(struct source *source, struct call_writer *writer)
{
    size_t there;
    while ((there = source_peek(source, OPERATION_BYTES)) >= OPERATION_BYTES) {
        if (!read_ops_operation(source, writer)) return false;
        source_skip(source, OPERATION_BYTES);
    }
    if (there > 0)
        return source_bad_bytes(source, source_offset(source),
                                "the file ends inside an operation: %zu bytes of %d", there,
                                OPERATION_BYTES);
    return !error_is_set(&source->error);
}

const struct format format_ops = {
    .lacks = "times, kinds of call other than those of C",
    .threads = true,
    .read = read_ops_file,
};
