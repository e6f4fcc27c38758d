/* residency - what of a process's address space was resident at one time: a chunk (FORMAT.md 4.6) or
 * a block (INSTRUCTIONS.md 4.8). The encoding is the same.
 *
 *     at = residency_put(at, &residency);                    then `areas` times, ascending:
 *     at = residency_put_area(at, &area, &end);
 *
 *     wrong = residency_take(&at, end, &residency);
 *     for (...) wrong = residency_take_area(&at, end, &latest, &area);
 *     while (residency_run_take(&area, &run)) ...
 *
 * Memory in, memory out: the recorder writes it in other people's programs. */
#ifndef MALLOCTAPE_RESIDENCY_H
#define MALLOCTAPE_RESIDENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(number, IDENTIFIER, "name"): why it was looked at. */
#define RESIDENCY_WHY_LIST(X) \
    X(0, LOOK, "look")        \
    X(1, PEAK, "peak")        \
    X(2, SYNC, "sync")        \
    X(3, END, "end")

enum residency_why {
#define RESIDENCY_WHY_ENUM(number, identifier, name) RESIDENCY_##identifier = (number),
    RESIDENCY_WHY_LIST(RESIDENCY_WHY_ENUM)
#undef RESIDENCY_WHY_ENUM
};

struct residency {
    uint64_t since_start_ns;
    uint32_t why;        /* enum residency_why */
    bool is_brief;       /* of sizes, only `resident` is known */
    uint32_t page_bytes; /* the unit of addresses and runs */
    uint64_t areas;
};

#define RESIDENCY_NAME_BYTES_MAX 4096u

enum residency_protection {
    RESIDENCY_READ = 1,
    RESIDENCY_WRITE = 2,
    RESIDENCY_EXECUTE = 4,
    RESIDENCY_SHARED = 8
};

/* An area of the address space, as the kernel keeps it. */
struct residency_area {
    uint64_t start, end; /* in pages */
    uint32_t protection; /* enum residency_protection */
    bool is_recorder;    /* it is the recorder's own */
    bool is_heap;        /* recorded objects are in it, or were */
    bool has_file;
    bool has_runs;
    bool same_file; /* device, inode and name are those of the area before */
    /* KiB, as the kernel says them. */
    uint64_t resident, proportional, unshared, anonymous, huge, swapped, locked;
    uint64_t offset, device, inode; /* with has_file; the offset in bytes */
    const char *name;               /* a path, "[heap]", ...; not ended by a zero byte */
    uint32_t name_bytes;            /* 0: it has none */
    /* With has_runs: how many pairs of lengths follow, in pages: not resident, resident. What comes
     * behind the last one is not. */
    uint64_t runs;
    const uint8_t *run_at, *run_end;
};

struct residency_run {
    uint64_t skipped, resident; /* pages */
};

#define RESIDENCY_BYTES_MAX      64u
#define RESIDENCY_AREA_BYTES_MAX (16u * 9u + 16u + RESIDENCY_NAME_BYTES_MAX)
#define RESIDENCY_RUN_BYTES_MAX  (2u * 9u + 16u)

uint8_t *residency_put(uint8_t *at, const struct residency *residency);

/* Writes an area but for its runs, which residency_put_run() writes after it. */
uint8_t *residency_put_area(uint8_t *at, const struct residency_area *area, uint64_t *latest_end);
uint8_t *residency_put_run(uint8_t *at, const struct residency_run *run);

/* NULL: good; else what is wrong. VARINT_SLACK bytes after `end` may be touched. `area`: the one
 * before, or all zero. */
const char *residency_take(const uint8_t **at, const uint8_t *end, struct residency *residency);
const char *residency_take_area(const uint8_t **at, const uint8_t *end, uint64_t *latest_end,
                                struct residency_area *area);

/* Whether all of a payload, from `at` to `end`, is good: NULL, or what is wrong. */
const char *residency_check(const uint8_t *at, const uint8_t *end);

/* The next run of an area that was taken. False: there is none. */
bool residency_run_take(struct residency_area *area, struct residency_run *run);

/* NULL: undefined. */
const char *residency_why_name(unsigned why);

#ifdef __cplusplus
}
#endif
#endif
