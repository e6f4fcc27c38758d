#include "tests/fuzz/fuzz_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static void stop(const char *what)
{
    perror(what);
    exit(1);
}

uint8_t *fuzz_copy(const uint8_t *data, size_t bytes)
{
    static uint8_t *copy;
    free(copy);
    copy = malloc(bytes + 1);
    if (copy == NULL) stop("malloc");
    memcpy(copy, data, bytes);
    return copy;
}

static uint32_t get32(const uint8_t *data)
{
    uint32_t value;
    memcpy(&value, data, sizeof value);
    return value;
}

/* The checksum of two ranges, put behind the first one. */
static void seal(uint8_t *header, size_t covered, const uint8_t *payload, size_t payload_bytes)
{
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, header, covered);
    if (payload_bytes > 0) XXH3_64bits_update(&state, payload, payload_bytes);
    uint32_t checksum = (uint32_t)XXH3_64bits_digest(&state);
    memcpy(header + covered, &checksum, sizeof checksum);
}

/* A header with metadata, then parts with a payload each; lengths and checksums at these
 * offsets. */
struct layout {
    size_t header_bytes, metadata_length, header_checksum;
    size_t part_bytes, payload_length, part_checksum;
};

static void seal_stream(uint8_t *data, size_t bytes, const struct layout *layout)
{
    if (bytes < layout->header_bytes) return;
    size_t at = layout->header_bytes + get32(data + layout->metadata_length);
    if (at > bytes) return;
    seal(data, layout->header_checksum, data + layout->header_bytes, at - layout->header_bytes);
    while (bytes - at >= layout->part_bytes) {
        size_t payload = get32(data + at + layout->payload_length);
        if (payload > bytes - at - layout->part_bytes) return;
        seal(data + at, layout->part_checksum, data + at + layout->part_bytes, payload);
        at += layout->part_bytes + payload;
    }
}

void fuzz_seal_raw(uint8_t *data, size_t bytes)
{
    static const struct layout raw = {64, 12, 60, 36, 8, 32};
    seal_stream(data, bytes, &raw);
}

void fuzz_seal_instructions(uint8_t *data, size_t bytes)
{
    static const struct layout instructions = {36, 12, 32, 16, 4, 12};
    seal_stream(data, bytes, &instructions);
}

void fuzz_seal_spool(uint8_t *data, size_t bytes)
{
    if (bytes >= 52) seal(data, 48, NULL, 0);
}

static int files[2] = {-1, -1};

int fuzz_file(unsigned which, const uint8_t *data, size_t bytes)
{
    if (files[which] < 0) files[which] = memfd_create("fuzz", MFD_CLOEXEC);
    if (files[which] < 0) stop("memfd_create");
    if (ftruncate(files[which], 0) != 0) stop("ftruncate");
    for (size_t written = 0; written < bytes;) {
        ssize_t more = pwrite(files[which], data + written, bytes - written, (off_t)written);
        if (more < 0) stop("pwrite");
        written += (size_t)more;
    }
    if (lseek(files[which], 0, SEEK_SET) != 0) stop("lseek");
    return files[which];
}

const char *fuzz_file_name(unsigned which)
{
    static char names[2][32];
    snprintf(names[which], sizeof names[which], "/proc/self/fd/%d", files[which]);
    return names[which];
}
