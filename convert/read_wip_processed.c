/* read_wip_processed - what the postprocess of malloc-trace-replay writes: 24 bytes an instruction,
 * little-endian, three words.
 *
 *   word 0: bits 0 to 7 the type, 8 to 63 a register
 *   0 malloc        size                  4 realloc         register of the result, size
 *   1 free                                5 switch thread   thread
 *   2 sized free    size                  6 kill the current thread
 *   3 memalign      size, alignment       7 time and processor
 *
 * That program writes all frees as sized ones, whatever they were, and at the end adds frees of
 * type 1 for what is left. */
#include <inttypes.h>

#include "common/bytes.h"
#include "convert/formats.h"

enum { INSTRUCTION_BYTES = 24 };
enum type { MALLOC, FREE, FREE_SIZED, MEMALIGN, REALLOC, SWITCH_THREAD, KILL_THREAD, TIME, TYPES };

/* It begins with a switch to the first thread. */
static bool wip_processed_recognize(struct source *head)
{
    return source_peek(head, 1) >= 2 * INSTRUCTION_BYTES &&
           bytes_get64(head->next) == SWITCH_THREAD && bytes_get64(head->next + 16) == 0 &&
           head->next[INSTRUCTION_BYTES] < TYPES;
}

static bool read_instruction(struct source *source, struct call_writer *writer)
{
    uint64_t word = bytes_get64(source->next);
    uint64_t first = bytes_get64(source->next + 8), second = bytes_get64(source->next + 16);
    uint64_t name = (word >> 8) + 1;
    switch (word & 255) {
    case MALLOC:
        return call_writer_put(writer,
                               &(struct call){.kind = CALL_MALLOC, .began = name, .size = first});
    case MEMALIGN:
        return call_writer_put(
            writer, &(struct call){
                        .kind = CALL_MEMALIGN, .began = name, .size = first, .alignment = second});
    case REALLOC:
        if (first == UINT64_MAX)
            return source_bad_bytes(source, source_offset(source), "a register out of range");
        return call_writer_put(writer, &(struct call){.kind = CALL_REALLOC_MOVED,
                                                      .ended = name,
                                                      .began = first + 1,
                                                      .size = second});
    case FREE:
    case FREE_SIZED:
        return call_writer_put(writer, &(struct call){.kind = CALL_FREE, .ended = name});
    case SWITCH_THREAD:
        if (first == UINT64_MAX)
            return source_bad_bytes(source, source_offset(source), "a thread out of range");
        call_writer_thread(writer, first);
        break;
    case KILL_THREAD: call_writer_thread_end(writer); break;
    case TIME: call_writer_time(writer, first, 0); break;
    default:
        return source_bad_bytes(source, source_offset(source),
                                "an instruction of type %" PRIu64 "; expected 0 to 7", word & 255);
    }
    return !error_is_set(&writer->error);
}

static bool read_wip_processed_file(struct source *source, struct call_writer *writer)
{
    size_t there;
    while ((there = source_peek(source, INSTRUCTION_BYTES)) >= INSTRUCTION_BYTES) {
        if (!read_instruction(source, writer)) return false;
        source_skip(source, INSTRUCTION_BYTES);
    }
    if (there > 0)
        return source_bad_bytes(source, source_offset(source),
                                "the file ends inside an instruction: %zu bytes of %d", there,
                                INSTRUCTION_BYTES);
    return !error_is_set(&source->error);
}

const struct format format_wip_processed = {
    .lacks =
        "kinds of call other than malloc, memalign, realloc and free; sizes are multiples of 8",
    .threads = true,
    .recognize = wip_processed_recognize,
    .read = read_wip_processed_file,
};
