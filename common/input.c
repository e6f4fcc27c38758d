#include "common/input.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define LZ4F_STATIC_LINKING_ONLY /* for the constructor that takes an allocator */
#include <lz4frame.h>

#include "common/pages.h"

/* One read: large enough to make the system call cheap, small enough to stay in a second-level
 * cache. */
#define INPUT_READ_BYTES (256u * 1024)

/* The largest pipe that an ordinary user may have: `lz4 -d` writes 4 MiB at once, and can decode
 * the next ones while the pipe is being read. */
#define INPUT_PIPE_BYTES (1024 * 1024)

/* Compressed bytes read at once, unless a block has more. */
#define INPUT_PACKED_BYTES (128u * 1024)

/* No LZ4 block has more bytes, compressed or not. */
#define LZ4_BLOCK_BYTES_MAX (4u * 1024 * 1024)

/* Room for a whole block after bytes that are fewer than a reader wants. */
#define INPUT_BUFFER_BYTES (INPUT_PEEK_MAX + LZ4_BLOCK_BYTES_MAX)

/* The most that the decoder gets at once: a block with its checksum, or a header. */
#define INPUT_PACKED_MAX (LZ4_BLOCK_BYTES_MAX + 64u)

#define LZ4_MAGIC           0x184d2204u
#define LZ4_MAGIC_SKIPPABLE 0x184d2a50u /* the low four bits are free */
#define LZ4_MAGIC_LEGACY    0x184c2102u

const struct error_kind input_errors[] = {INPUT_ERROR_LIST(ERROR_LIST_KIND)};

/* ---- memory ---- */

/* Allocates for LZ4F. The size is stored before the block, because munmap() needs it. */
static void *input_lz4_allocate(void *state, size_t bytes)
{
    (void)state;
    size_t total = bytes + 64;
    size_t *at = pages_map(total);
    if (at == NULL) return NULL;
    *at = total;
    return (char *)at + 64;
}

static void input_lz4_free(void *state, void *at)
{
    (void)state;
    if (at == NULL) return;
    size_t *start = (size_t *)(void *)((char *)at - 64);
    pages_unmap(start, *start);
}

/* ---- opening and closing ---- */

void input_open_fd(struct input *input, int fd)
{
    *input = (struct input){.fd = fd};
    /* If a limit refuses this, the pipe stays as it is. */
    fcntl(fd, F_SETPIPE_SZ, INPUT_PIPE_BYTES);
}

bool input_open(struct input *input, const char *path)
{
    const bool standard = path == NULL || strcmp(path, "-") == 0;
    const int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        *input = (struct input){.fd = -1, .state = INPUT_FAILED};
        return error_set_system(&input->error, "cannot open");
    }
    input_open_fd(input, fd);
    input->owned = !standard;
    return true;
}

void input_close(struct input *input)
{
    if (input->decoder != NULL) LZ4F_freeDecompressionContext(input->decoder);
    pages_unmap(input->packed, INPUT_PACKED_MAX);
    pages_unmap(input->buffer, INPUT_BUFFER_BYTES + INPUT_SLACK);
    if (input->owned) close(input->fd);
    *input = (struct input){.fd = -1, .state = INPUT_END};
}

static bool input_fail(struct input *input)
{
    input->state = INPUT_FAILED;
    return false;
}

/* Where more bytes are to be put. */
static uint8_t *input_end(const struct input *input)
{
    return input->buffer + (input->end - input->buffer);
}

/* ---- the descriptor ---- */

/* One read(). False at the end of the file and after a failure. */
static bool input_read(struct input *input, uint8_t *to, size_t room, size_t *got)
{
    for (;;) {
        ssize_t bytes = read(input->fd, to, room);
        if (bytes > 0) {
            *got = (size_t)bytes;
            return true;
        }
        if (bytes == 0) {
            input->file_ended = true;
            return false;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            struct pollfd one = {.fd = input->fd, .events = POLLIN};
            poll(&one, 1, -1);
        } else if (errno != EINTR) {
            error_set_system(&input->error, "cannot read");
            return input_fail(input);
        }
    }
}

/* ---- LZ4 ---- */

static uint32_t input_magic(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static bool input_magic_is_lz4(uint32_t magic)
{
    return magic == LZ4_MAGIC || (magic & 0xfffffff0u) == LZ4_MAGIC_SKIPPABLE;
}

static size_t input_packed_left(const struct input *input)
{
    return (size_t)(input->packed_end - input->packed_next);
}

/* Reads more compressed bytes, after those that are left. False: there are none. */
static bool input_refill_packed(struct input *input)
{
    const size_t left = input_packed_left(input);
    const size_t room =
        input->packed_wanted > INPUT_PACKED_BYTES ? input->packed_wanted : INPUT_PACKED_BYTES;
    memmove(input->packed, input->packed_next, left);
    input->packed_next = input->packed;
    input->packed_end = input->packed + left;
    size_t got;
    if (!input_read(input, input->packed + left, room - left, &got)) return false;
    input->packed_end += got;
    input->packed_end_offset += got;
    return true;
}

/* At a frame boundary: is there another frame? Sets the state when there is none. */
static bool input_begin_frame(struct input *input)
{
    while (input_packed_left(input) < 4)
        if (!input_refill_packed(input)) break;
    if (input->state == INPUT_FAILED) return false;
    size_t left = input_packed_left(input);
    if (left == 0) {
        input->state = INPUT_END;
        return false;
    }
    if (left >= 4 && input_magic_is_lz4(input_magic(input->packed_next))) {
        input->in_frame = true;
        input->packed_wanted = LZ4F_HEADER_SIZE_MIN;
        return true;
    }
    if (left < 4) {
        error_set(&input->error, &input_errors[INPUT_LZ4_CUT], input->end_offset,
                  "file offset 0x%" PRIx64, input_file_offset(input));
        input->state = INPUT_CUT;
        return false;
    }
    error_set(&input->error, &input_errors[INPUT_LZ4_TRAILING], input->end_offset,
              "file offset 0x%" PRIx64, input_file_offset(input));
    return input_fail(input);
}

#define LZ4_BLOCK_HEADER_BYTES 4u

/* Decodes one block, or a header. The decoder gets one block at a time, because if one is damaged,
 * what the same call has decoded before is lost. It gets the whole block and room for all its
 * output, because otherwise it would copy the data. */
static void input_fill_lz4(struct input *input, size_t room)
{
    if (!input->in_frame && !input_begin_frame(input)) return;
    while (input_packed_left(input) < input->packed_wanted && input_refill_packed(input))
        continue;
    if (input->state == INPUT_FAILED) return;
    const LZ4F_decompressOptions_t options = {.skipChecksums = input->has_checksums};
    size_t decoded = room;
    size_t consumed = input_packed_left(input);
    if (consumed > input->packed_wanted) consumed = input->packed_wanted;
    size_t hint = LZ4F_decompress(input->decoder, input_end(input), &decoded, input->packed_next,
                                  &consumed, &options);
    if (LZ4F_isError(hint)) {
        error_set(&input->error, &input_errors[INPUT_LZ4_DAMAGED], input->end_offset,
                  "%s, file offset 0x%" PRIx64, LZ4F_getErrorName(hint), input_file_offset(input));
        input_fail(input);
        return;
    }
    input->packed_next += consumed;
    input->end += decoded;
    input->end_offset += decoded;
    /* The hint counts the rest of a block and the header of the next one, or the rest of a header
     * or of a skippable frame. */
    input->packed_wanted = hint > LZ4_BLOCK_HEADER_BYTES ? hint - LZ4_BLOCK_HEADER_BYTES : hint;
    if (input->packed_wanted > INPUT_PACKED_MAX) input->packed_wanted = INPUT_PACKED_MAX;
    if (hint == 0) {
        input->in_frame = false;
    } else if (input->file_ended && decoded == 0 && consumed == 0) {
        error_set(&input->error, &input_errors[INPUT_LZ4_CUT], input->end_offset,
                  "file offset 0x%" PRIx64, input_file_offset(input));
        input->state = INPUT_CUT;
    }
}

/* Makes the bytes that were read for detection the first compressed bytes. */
static bool input_start_lz4(struct input *input)
{
    LZ4F_CustomMem memory = {input_lz4_allocate, NULL, input_lz4_free, NULL};
    input->packed = pages_map(INPUT_PACKED_MAX);
    input->decoder = LZ4F_createDecompressionContext_advanced(memory, LZ4F_VERSION);
    if (input->packed == NULL || input->decoder == NULL) {
        error_set_system(&input->error, "no memory to decode LZ4");
        return input_fail(input);
    }
    size_t there = (size_t)(input->end - input->next);
    memcpy(input->packed, input->next, there);
    input->packed_next = input->packed;
    input->packed_end = input->packed + there;
    input->packed_end_offset = there;
    input->next = input->end = input->buffer;
    input->end_offset = 0;
    input->lz4 = true;
    return true;
}

/* ---- the buffer ---- */

static void input_fill_plain(struct input *input, size_t room)
{
    size_t got;
    if (input_read(input, input_end(input), room, &got)) {
        input->end += got;
        input->end_offset += got;
    } else if (input->state != INPUT_FAILED) {
        input->state = INPUT_END;
    }
}

/* Reads enough to detect the kind of input. */
static void input_start(struct input *input)
{
    size_t there;
    input->buffer = pages_map(INPUT_BUFFER_BYTES + INPUT_SLACK);
    if (input->buffer == NULL) {
        error_set_system(&input->error, "no memory for a buffer");
        input_fail(input);
        return;
    }
    input->next = input->end = input->buffer;
    /* No more than fits into `packed`, where these bytes go if they are compressed. */
    while ((there = (size_t)(input->end - input->next)) < 4 && input->state == INPUT_MORE)
        input_fill_plain(input, INPUT_PACKED_BYTES - there);
    if (there < 4) return;
    uint32_t magic = input_magic(input->next);
    if (input_magic_is_lz4(magic)) {
        input_start_lz4(input);
    } else if (magic == LZ4_MAGIC_LEGACY) {
        error_set(&input->error, &input_errors[INPUT_LZ4_LEGACY], 0, NULL);
        input_fail(input);
        input->end = input->next;
        input->end_offset = 0;
    }
}

static void input_move_to_front(struct input *input)
{
    size_t left = (size_t)(input->end - input->next);
    if (input->next != input->buffer) memmove(input->buffer, input->next, left);
    input->next = input->buffer;
    input->end = input->buffer + left;
}

size_t input_peek_slow(struct input *input, size_t bytes)
{
    if (bytes > INPUT_PEEK_MAX) bytes = INPUT_PEEK_MAX;
    if (input->buffer == NULL && input->state == INPUT_MORE) input_start(input);
    if (input->state == INPUT_MORE) input_move_to_front(input);
    const size_t at_once = bytes > INPUT_READ_BYTES ? bytes : INPUT_READ_BYTES;
    size_t there;
    while ((there = (size_t)(input->end - input->next)) < bytes && input->state == INPUT_MORE) {
        if (input->lz4)
            input_fill_lz4(input, INPUT_BUFFER_BYTES - there);
        else
            input_fill_plain(input, at_once - there);
    }
    return there;
}

uint64_t input_file_offset(const struct input *input)
{
    if (!input->lz4) return input_offset(input);
    return input->packed_end_offset - (uint64_t)(input->packed_end - input->packed_next);
}
