/* read_wl - workload files of the dj/malloc branch (wl.h): the calls of each thread in a region of
 * its own.
 *
 * SYNC_W and SYNC_R define all order across threads. Beyond that, threads take turns of TURN
 * operations. */
#include <inttypes.h>
#include <stdlib.h>

#include "convert/formats.h"
#include "convert/wl.h"

enum { TURN = 32, OPERANDS_MAX = 3, OPERATIONS_REMEMBERED = 4 << 20 };

/* Operands of each operation. */
static const uint8_t operand_counts[WL_OPERATIONS] = {
    [WL_MALLOC] = 2,   [WL_CALLOC] = 2,        [WL_REALLOC] = 3,    [WL_FREE] = 1,
    [WL_SYNC_W] = 1,   [WL_SYNC_R] = 1,        [WL_ALLOC_PTRS] = 1, [WL_ALLOC_SYNCS] = 1,
    [WL_NTHREADS] = 1, [WL_START_THREAD] = 1,  [WL_MEMALIGN] = 3,   [WL_VALLOC] = 2,
    [WL_PVALLOC] = 2,  [WL_POSIX_MEMALIGN] = 3};

static const uint8_t wl_kinds[WL_OPERATIONS] = {
    [WL_MALLOC] = CALL_MALLOC,         [WL_CALLOC] = CALL_CALLOC,
    [WL_REALLOC] = CALL_REALLOC_MOVED, [WL_FREE] = CALL_FREE,
    [WL_MEMALIGN] = CALL_MEMALIGN,     [WL_VALLOC] = CALL_VALLOC,
    [WL_PVALLOC] = CALL_PVALLOC,       [WL_POSIX_MEMALIGN] = CALL_POSIX_MEMALIGN};

struct operation {
    unsigned code;
    uint64_t operands[OPERANDS_MAX];
};

struct region {
    const uint8_t *at; /* the next operation; NULL: done */
    uint64_t awaited;  /* the sync that it waits for, or 0 */
};

struct workload {
    struct source *source;
    struct call_writer *writer;
    const uint8_t *start, *end;
    uint64_t pointers, syncs;
    struct region *regions;
    uint64_t regions_count, regions_started;
    uint8_t *written, *waited_for; /* bits, by sync */
};

/* ---- operations ---- */

static bool bad(const struct workload *workload, const uint8_t *at, const char *message,
                uint64_t number)
{
    char text[120];
    snprintf(text, sizeof text, message, number);
    return source_bad_bytes(workload->source, (uint64_t)(at - workload->start), "%s", text);
}

static bool read_integer(const struct workload *workload, const uint8_t **at, uint64_t *value)
{
    const uint8_t *from = *at, *byte = from;
    *value = 0;
    do {
        if (byte == workload->end) return bad(workload, from, "the file ends inside an integer", 0);
        if (*value >> 57 != 0) return bad(workload, from, "an integer of more than 64 bits", 0);
        *value = *value << 7 | (*byte & 127);
    } while (*byte++ & 128);
    *at = byte;
    return true;
}

static bool read_wl_operation(const struct workload *workload, const uint8_t **at,
                              struct operation *operation)
{
    const uint8_t *from = *at;
    if (from >= workload->end) return bad(workload, from, "the file ends without DONE", 0);
    operation->code = *(*at)++;
    if (operation->code >= WL_OPERATIONS)
        return bad(workload, from, "operation %" PRIu64 "; expected 0 to 15", operation->code);
    for (unsigned i = 0; i < operand_counts[operation->code]; i++)
        if (!read_integer(workload, at, &operation->operands[i])) return false;
    return true;
}

/* ---- the main region ---- */

/* Limits counts: each sync takes at least two operations of two bytes, each thread two bytes and a
 * region. */
static bool read_count(struct workload *workload, const uint8_t *at,
                       const struct operation *operation)
{
    uint64_t count = operation->operands[0];
    uint64_t bytes = (uint64_t)(workload->end - workload->start);
    switch (operation->code) {
    case WL_ALLOC_PTRS: workload->pointers = count; return true;
    case WL_ALLOC_SYNCS:
        if (workload->written != NULL || count > bytes / 4)
            return bad(workload, at, "%" PRIu64 " syncs are more than fit into the file", count);
        workload->syncs = count;
        workload->written = calloc(count / 8 + 1, 1);
        workload->waited_for = calloc(count / 8 + 1, 1);
        if (workload->written != NULL && workload->waited_for != NULL) return true;
        break;
    default:
        if (workload->regions != NULL || count > INSTRUCTION_LANES_MAX)
            return bad(workload, at, "%" PRIu64 " threads; at most 65536", count);
        workload->regions_count = count;
        workload->regions = calloc(count + 1, sizeof *workload->regions);
        if (workload->regions != NULL) return true;
    }
    return error_set_system(&workload->source->error, "no memory");
}

static bool start_region(struct workload *workload, const uint8_t *at, uint64_t offset)
{
    if (workload->regions_started == workload->regions_count)
        return bad(workload, at, "more threads than %" PRIu64, workload->regions_count);
    if (offset >= (uint64_t)(workload->end - workload->start))
        return bad(workload, at, "a thread begins at %" PRIu64 ", after the end of the file",
                   offset);
    workload->regions[workload->regions_started++].at = workload->start + offset;
    return true;
}

static bool read_main(struct workload *workload)
{
    const uint8_t *at = workload->start;
    struct operation operation;
    do {
        const uint8_t *from = at;
        if (!read_wl_operation(workload, &at, &operation)) return false;
        switch (operation.code) {
        case WL_NOP:
        case WL_DONE: break;
        case WL_ALLOC_PTRS:
        case WL_ALLOC_SYNCS:
        case WL_NTHREADS:
            if (!read_count(workload, from, &operation)) return false;
            break;
        case WL_START_THREAD:
            if (!start_region(workload, from, operation.operands[0])) return false;
            break;
        default:
            return bad(workload, from, "operation %" PRIu64 " in the main region", operation.code);
        }
    } while (operation.code != WL_DONE);
    return true;
}

/* ---- the threads ---- */

static bool has_bit(const uint8_t *bits, uint64_t at)
{
    return (bits[at / 8] >> at % 8 & 1) != 0;
}

/* Sets a sync and wakes the thread that waits for it. */
static void write_sync(struct workload *workload, uint64_t sync)
{
    workload->written[sync / 8] |= (uint8_t)(1u << sync % 8);
    if (!has_bit(workload->waited_for, sync)) return;
    for (uint64_t i = 0; i < workload->regions_started; i++)
        if (workload->regions[i].awaited == sync + 1) workload->regions[i].awaited = 0;
}

static bool wl_put_call(struct workload *workload, const uint8_t *from,
                        const struct operation *operation)
{
    const uint64_t *operands = operation->operands;
    struct call call = {.kind = wl_kinds[operation->code]};
    switch (operation->code) {
    case WL_FREE: call.ended = operands[0]; break;
    case WL_REALLOC:
        call.began = operands[0];
        call.ended = operands[1];
        call.size = operands[2];
        break;
    case WL_MEMALIGN:
    case WL_POSIX_MEMALIGN:
        call.began = operands[0];
        call.alignment = operands[1];
        call.size = operands[2];
        break;
    default: call.began = operands[0]; call.size = operands[1];
    }
    /* Index 0 is NULL, so n pointers have the indices up to n. */
    uint64_t highest = call.began > call.ended ? call.began : call.ended;
    if (highest > workload->pointers)
        return bad(workload, from, "pointer %" PRIu64 " is beyond ALLOC_PTRS", highest);
    return call_writer_put(workload->writer, &call);
}

/* One operation of a thread. */
static bool take_operation(struct workload *workload, struct region *region)
{
    struct operation operation;
    const uint8_t *from = region->at;
    if (!read_wl_operation(workload, &region->at, &operation)) return false;
    uint64_t sync = operation.operands[0];
    switch (operation.code) {
    case WL_NOP: return true;
    case WL_DONE:
        region->at = NULL;
        call_writer_thread_end(workload->writer);
        return true;
    case WL_SYNC_W:
    case WL_SYNC_R:
        if (sync > workload->syncs || workload->written == NULL)
            return bad(workload, from, "sync %" PRIu64 " is beyond ALLOC_SYNCS", sync);
        if (operation.code == WL_SYNC_W) {
            write_sync(workload, sync);
        } else if (!has_bit(workload->written, sync)) {
            workload->waited_for[sync / 8] |= (uint8_t)(1u << sync % 8);
            region->awaited = sync + 1;
        }
        return true;
    case WL_ALLOC_PTRS:
    case WL_ALLOC_SYNCS:
    case WL_NTHREADS:
    case WL_START_THREAD:
        return bad(workload, from, "operation %" PRIu64 " belongs to the main region",
                   operation.code);
    default: return wl_put_call(workload, from, &operation);
    }
}

/* All threads together may not have more operations than there are bytes: else regions overlap. */
static bool run_threads(struct workload *workload)
{
    uint64_t operations = 0, operations_max = (uint64_t)(workload->end - workload->start);
    bool moved = true;
    while (moved) {
        moved = false;
        for (uint64_t i = 0; i < workload->regions_started; i++) {
            struct region *region = &workload->regions[i];
            if (region->at == NULL || region->awaited != 0) continue;
            call_writer_thread(workload->writer, i + 1);
            moved = true;
            for (int turn = 0; turn < TURN && region->at != NULL && region->awaited == 0; turn++) {
                if (++operations > operations_max)
                    return bad(workload, region->at, "the regions of threads overlap", 0);
                if (operations % OPERATIONS_REMEMBERED == 0) source_forget(workload->source);
                if (!take_operation(workload, region)) return false;
            }
        }
    }
    for (uint64_t i = 0; i < workload->regions_started; i++)
        if (workload->regions[i].awaited != 0)
            return bad(workload, workload->regions[i].at,
                       "SYNC_R %" PRIu64 ", to which no SYNC_W comes",
                       workload->regions[i].awaited - 1);
    return true;
}

/* ---- the format ---- */

static bool wl_recognize(struct source *head)
{
    struct workload workload = {.source = head, .start = head->next, .end = head->end};
    static const uint8_t expected[] = {WL_ALLOC_PTRS, WL_ALLOC_SYNCS, WL_NTHREADS};
    const uint8_t *at = head->next;
    struct operation operation;
    for (unsigned i = 0; i < sizeof expected; i++)
        if (!read_wl_operation(&workload, &at, &operation) || operation.code != expected[i])
            return false;
    return true;
}

static bool read_wl_file(struct source *source, struct call_writer *writer)
{
    if (!source_map(source)) return false;
    struct workload workload = {
        .source = source, .writer = writer, .start = source->next, .end = source->end};
    bool good = read_main(&workload) && run_threads(&workload);
    free(workload.regions);
    free(workload.written);
    free(workload.waited_for);
    return good;
}

const struct format format_wl = {
    .lacks = "order across threads beyond its syncs, times, kinds of call other than those of C",
    .threads = true,
    .recognize = wl_recognize,
    .read = read_wl_file,
};
