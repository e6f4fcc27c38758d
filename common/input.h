/* input - a byte source over a file descriptor, LZ4 or plain, that never seeks.
 *
 *   fd --read--> [packed] --LZ4F--> [buffer: next .. end] --> the reader of a format
 *   fd --read---------------------> [buffer: next .. end]        (plain data)
 *
 * The first four bytes decide: if they begin an LZ4 frame or a skippable frame, the whole input is
 * LZ4 (any number of frames after one another); anything else is passed through. The reader looks
 * at bytes with input_peek(), which makes them contiguous, and moves on with input_skip():
 *
 *     size_t there = input_peek(&input, 16);
 *     if (there < 16) ... input.state says why: INPUT_END, INPUT_CUT or INPUT_FAILED
 *     ... parse input.next[0 .. 15] ...
 *     input_skip(&input, 16);
 *
 * Invariants   buffer <= next <= end;  INPUT_SLACK readable bytes after `end`
 *              state != INPUT_MORE: the bytes between next and end are all there will ever be
 * Blocking     input_peek() reads only while fewer than the wanted bytes are there, so a reader on
 *              a live pipe gets what has arrived.
 * Memory       from pages_map() only, LZ4's own included; bounded by INPUT_PEEK_MAX and two LZ4
 *              blocks.
 * Threads      one. */
#ifndef MALLOCTAPE_INPUT_H
#define MALLOCTAPE_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The most a reader may ask for at once: the formats bound a block to 1 MiB and a header. */
#define INPUT_PEEK_MAX (4u * 1024 * 1024)

/* Readable bytes after `end`, with any values: a reader may decode a block's integers of up to 9
 * bytes (16 384 instructions) without checking for the end at each, and check afterwards that it
 * was not passed. */
#define INPUT_SLACK (160u * 1024)

#define INPUT_ERROR_LIST(X)                                                      \
    X(INPUT_LZ4_DAMAGED, "lz4_damaged", "the LZ4 data is damaged")               \
    X(INPUT_LZ4_CUT, "lz4_cut", "the input ends inside an LZ4 frame")            \
    X(INPUT_LZ4_TRAILING, "lz4_trailing", "something else follows an LZ4 frame") \
    X(INPUT_LZ4_LEGACY, "lz4_legacy", "the LZ4 legacy format (lz4 -l) is not supported")
enum input_error { INPUT_ERROR_LIST(ERROR_LIST_ENUM) };
extern const struct error_kind input_errors[];

enum input_state {
    INPUT_MORE,  /* there may be more */
    INPUT_END,   /* a clean end: of plain data, or after an LZ4 frame */
    INPUT_CUT,   /* the file ends inside an LZ4 frame; what was decoded is valid */
    INPUT_FAILED /* damage or a system error: see `error` */
};

struct input {
    const uint8_t *next, *end; /* the bytes that can be looked at */
    enum input_state state;
    bool lz4;           /* decided once the first bytes have been read */
    bool has_checksums; /* set by the reader, whose format has its own: LZ4's are not checked */
    struct error error; /* set with INPUT_CUT and INPUT_FAILED */

    /* From here on: input.c only. */
    uint64_t end_offset; /* offset of `end` in the decoded stream */
    int fd;
    bool owned, file_ended;
    uint8_t *buffer;                         /* NULL: nothing has been read yet */
    uint8_t *packed;                         /* compressed bytes; plain data never comes here */
    const uint8_t *packed_next, *packed_end; /* those not yet decoded */
    uint64_t packed_end_offset;              /* offset of packed_end in the file */
    size_t packed_wanted;                    /* the most that the decoder gets at once: input.c */
    bool in_frame;                           /* between the first and the last byte of a frame */
    void *decoder;                           /* LZ4F_dctx */
};

/* Opens `path` for reading; "-" or NULL is the standard input. False: see input->error. */
bool input_open(struct input *input, const char *path);

/* Takes a descriptor that stays the caller's. */
void input_open_fd(struct input *input, int fd);

/* Makes `bytes` (at most INPUT_PEEK_MAX) bytes available at input->next and returns how many there
 * are: at least `bytes`, or fewer if the state is no longer INPUT_MORE. Earlier values of next and
 * end become invalid. */
size_t input_peek_slow(struct input *input, size_t bytes);
static inline size_t input_peek(struct input *input, size_t bytes)
{
    size_t there = (size_t)(input->end - input->next);
    return there >= bytes ? there : input_peek_slow(input, bytes);
}

/* `bytes` is at most what input_peek() returned. */
static inline void input_skip(struct input *input, size_t bytes)
{
    input->next += bytes;
}

/* Offset of input->next in the decoded stream: what `lz4 -d` would have written before it. */
static inline uint64_t input_offset(const struct input *input)
{
    return input->end_offset - (uint64_t)(input->end - input->next);
}

/* Offset in the file of the first byte that has not been decoded. */
uint64_t input_file_offset(const struct input *input);

void input_close(struct input *input);

#ifdef __cplusplus
}
#endif
#endif
