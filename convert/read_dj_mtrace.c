/* read_dj_mtrace - what the dj/malloc branch of the GNU C library records: an array of records of a
 * 64-bit or a 32-bit process, in its byte order, which has to be little-endian.
 *
 *                   64-bit  32-bit
 *   thread, 4 bytes      0       0
 *   word, 4 bytes        4       4   bits 0 to 7: the type; from bit 8 on, which ways the call took
 *                                    inside the allocator, in the order of INSTRUCTION_WAY_LIST
 *   pointer ended        8       8   of posix_memalign: an error code
 *   pointer made        16      12
 *   size                24      16
 *   alignment           32      20
 *   bytes               64      36
 *
 * The first record has type 255, a pointer of 0x1234, and the size of a pointer as its size. A file
 * is written in windows of 64 MiB, which is not a multiple of 36 bytes. If recording was not
 * stopped, zeros follow. */
#include <inttypes.h>

#include "common/bytes.h"
#include "convert/formats.h"

enum { WINDOW_BYTES = 64 << 20, TYPE_NONE = 0, TYPE_MAGIC = 255, MAGIC_POINTER = 0x1234 };

struct layout {
    unsigned bytes, pointer_bytes;
    unsigned ended, made, size, alignment;
};
static const struct layout wide = {64, 8, 8, 16, 24, 32};
static const struct layout narrow = {36, 4, 8, 12, 16, 20};

static const uint8_t dj_mtrace_kinds[] = {
    [1] = CALL_MALLOC,   [2] = CALL_CALLOC, [3] = CALL_FREE,    [4] = CALL_REALLOC_MOVED,
    [5] = CALL_MEMALIGN, [6] = CALL_VALLOC, [7] = CALL_PVALLOC, [8] = CALL_POSIX_MEMALIGN};

static uint64_t field(const struct layout *layout, const uint8_t *record, unsigned at)
{
    return layout->pointer_bytes == 8 ? bytes_get64(record + at) : bytes_get32(record + at);
}

static bool is_magic(const struct layout *layout, const uint8_t *record)
{
    return record[4] == TYPE_MAGIC && field(layout, record, layout->ended) == MAGIC_POINTER &&
           field(layout, record, layout->size) == layout->pointer_bytes;
}

/* The layout of the file that begins here. NULL: neither. */
static const struct layout *layout_of(struct source *head)
{
    size_t bytes = source_peek(head, wide.bytes);
    if (bytes >= wide.bytes && is_magic(&wide, head->next)) return &wide;
    return bytes >= narrow.bytes && is_magic(&narrow, head->next) ? &narrow : NULL;
}

static bool dj_mtrace_recognize(struct source *head)
{
    return layout_of(head) != NULL;
}

static bool read_record(struct source *source, const struct layout *layout,
                        struct call_writer *writer)
{
    const uint8_t *at = source->next;
    unsigned type = at[4];
    if (type == TYPE_NONE || type == TYPE_MAGIC) return true;
    if (type >= sizeof dj_mtrace_kinds)
        return source_bad_bytes(source, source_offset(source),
                                "a record of type %u; expected 1 to 8", type);
    uint64_t ended = field(layout, at, layout->ended);
    struct call call = {.kind = dj_mtrace_kinds[type],
                        .ways = bytes_get32(at + 4) >> 8,
                        .began = field(layout, at, layout->made),
                        .size = field(layout, at, layout->size)};
    if (call.kind == CALL_FREE || call.kind == CALL_REALLOC_MOVED) call.ended = ended;
    if (call.kind == CALL_FREE) call.began = call.size = 0;
    if (call.kind == CALL_POSIX_MEMALIGN && ended != 0) call.began = 0;
    if (call.kind == CALL_MEMALIGN || call.kind == CALL_POSIX_MEMALIGN)
        call.alignment = field(layout, at, layout->alignment);
    call_writer_thread(writer, bytes_get32(at));
    return call_writer_put(writer, &call);
}

static bool read_dj_mtrace_file(struct source *source, struct call_writer *writer)
{
    const struct layout *layout = layout_of(source);
    if (layout == NULL)
        return source_bad_bytes(source, 0,
                                "expected a record of type 255, with which a file begins");
    size_t there;
    while ((there = source_peek(source, layout->bytes)) > 0) {
        uint64_t left = WINDOW_BYTES - source_offset(source) % WINDOW_BYTES;
        size_t hole = left < layout->bytes ? (size_t)left : 0;
        if (hole == 0 && there < layout->bytes)
            return source_bad_bytes(source, source_offset(source),
                                    "the file ends inside a record: %zu bytes of %u", there,
                                    layout->bytes);
        if (hole == 0 && !read_record(source, layout, writer)) return false;
        source_skip(source, hole == 0 ? layout->bytes : hole < there ? hole : there);
    }
    return !error_is_set(&source->error);
}

const struct format format_dj_mtrace = {
    .lacks = "times, kinds of call other than those of C",
    .threads = true,
    .parts = true,
    .recognize = dj_mtrace_recognize,
    .read = read_dj_mtrace_file,
};
