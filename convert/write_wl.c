/* write_wl - workload files of the dj/malloc branch (wl.h): a region for each thread, and pairs of
 * sync operations that keep the order of threads where they share objects.
 *
 *   call --> region of its thread --chunks of 4 KiB--> a file without a name --> OUT
 *
 * A pointer's index belongs to the thread that used it last. When another one uses it, a SYNC_W
 * goes to the end of the former's region and a SYNC_R into the latter's, unless an earlier pair of
 * these two came after that use. Such a pair also comes before the first call of each thread except
 * the first. Indices are reused by the thread that freed them; when many are unused, a thread takes
 * over all those that another has freed.
 *
 * Threads that share no object may then run at any relative speed, so other objects would be alive
 * at the same time than were. So the calls are divided into windows: within one, whatever the order
 * of calls of different threads, live bytes differ from the trace's by at most a hundredth of their
 * peak. At its end one thread waits for all the others, and they wait for it before their next
 * calls.
 *
 * There are at most as many regions as a stream has lanes: beyond 65 536, a thread continues in the
 * region of one that has ended.
 *
 * Memory: 24 bytes for each object alive at once and some thousands, 8 for each chunk, 24 for each
 * pair of threads that hand objects to each other, and a chunk for each thread. */
#include "convert/wl.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/array.h"
#include "convert/convert_files.h"
#include "convert/export_writer.h"
#include "convert/names.h"

enum { CHUNK_BYTES = 4096, OPERATION_BYTES_MAX = 1 + 3 * WL_INTEGER_BYTES, PAGE_BYTES = 4096 };

/* Unused indices are left to the threads that freed them, unless there are this many more of them
 * than live objects. */
enum { INDICES_UNUSED_MIN = 4096 };

struct chunk {
    uint32_t number, bytes; /* its number in the file, and its length */
};

struct region {
    uint8_t *buffer; /* what is not in a chunk yet; NULL: nothing */
    uint32_t used;
    uint32_t chunks_count;
    size_t chunks_room;
    struct chunk *chunks;
    uint64_t bytes;  /* in all */
    uint32_t writes; /* SYNC_W in it */
    uint32_t unused; /* the index that it freed last; 0: none */
    uint32_t next_ended;

    /* In the window `window`: how many bytes its calls add to live bytes; the minimum and
     * maximum. */
    uint64_t window;
    int64_t added, least, most;
};

/* What is known of an index. */
struct pointer {
    uint32_t region, writes; /* the one that used it last, and how many SYNC_W that had then */
    uint32_t next_unused;
    uint64_t size; /* of the object */
};

struct window {
    uint64_t number; /* from 1 */
    uint32_t first;  /* the region that has waited for those of the window before */
    uint32_t *active, active_count;
    size_t active_room;
    uint64_t ranges, widest; /* most - least of the regions: the sum, and the greatest */
};

struct state {
    int file;
    uint32_t chunks;
    struct region *regions;
    uint32_t regions_count;
    size_t regions_room;
    uint32_t *region_of; /* by lane: the region plus one; 0: none */
    uint32_t ended;      /* the region whose thread ended last, plus one; 0: none */
    uint32_t last;       /* the region of the latest call */
    uint32_t last_freer;
    struct pointer *pointers; /* by index */
    size_t pointers_count, pointers_room;
    uint64_t live, unused;
    uint32_t *index_of; /* by register */
    size_t index_of_room;
    struct window window;
    uint64_t live_bytes, peak_bytes;
    uint64_t syncs;
    struct names pairs; /* of regions; `object`: the latest SYNC_W that was waited for */
};

static bool wl_fail(struct export *export, const char *what)
{
    return error_set_system(&export->error, "%s", what);
}

/* array_reserve() that sets the error. */
static bool wl_reserve(struct export *export, void *at, size_t *room, size_t count, size_t bytes)
{
    return array_reserve(at, room, count, bytes) || wl_fail(export, "no memory");
}

/* ---- regions ---- */

/* Writes the buffer to the file as a chunk. */
static bool region_flush(struct export *export, struct region *region)
{
    struct state *state = export->state;
    if (region->used == 0) return true;
    if (!wl_reserve(export, &region->chunks, &region->chunks_room, region->chunks_count + 1,
                    sizeof *region->chunks))
        return false;
    off_t at = (off_t)state->chunks * CHUNK_BYTES;
    if (pwrite(state->file, region->buffer, region->used, at) != (ssize_t)region->used)
        return wl_fail(export, "cannot write a temporary file");
    region->chunks[region->chunks_count++] = (struct chunk){state->chunks++, region->used};
    region->used = 0;
    return true;
}

static uint8_t *put_integer(uint8_t *to, uint64_t value)
{
    unsigned groups = 1;
    while (groups < WL_INTEGER_BYTES && value >> (7 * groups) != 0)
        groups++;
    while (groups-- > 1)
        *to++ = (uint8_t)(value >> (7 * groups) | 128);
    *to++ = (uint8_t)(value & 127);
    return to;
}

static bool region_put(struct export *export, uint32_t number, unsigned operation, unsigned count,
                       const uint64_t *operands)
{
    struct region *region = &((struct state *)export->state)->regions[number];
    if (region->used + OPERATION_BYTES_MAX > CHUNK_BYTES && !region_flush(export, region))
        return false;
    if (region->buffer == NULL && (region->buffer = malloc(CHUNK_BYTES)) == NULL)
        return wl_fail(export, "no memory");
    uint8_t *start = region->buffer + region->used, *to = start;
    *to++ = (uint8_t)operation;
    for (unsigned i = 0; i < count; i++)
        to = put_integer(to, operands[i]);
    region->used += (uint32_t)(to - start);
    region->bytes += (uint64_t)(to - start);
    return true;
}

/* ---- order ---- */

/* Makes `after` wait for what `before` had done by the time that it had `writes` SYNC_W. */
static bool sync_regions(struct export *export, uint32_t before, uint32_t writes, uint32_t after)
{
    struct state *state = export->state;
    if (before == after) return true;
    struct name *pair = names_put(&state->pairs, ((uint64_t)after << 32 | before) + 1);
    if (pair == NULL) return wl_fail(export, "no memory");
    if (pair->object > writes) return true;
    pair->object = ++state->regions[before].writes;
    state->syncs++;
    return region_put(export, before, WL_SYNC_W, 1, &state->syncs) &&
           region_put(export, after, WL_SYNC_R, 1, &state->syncs);
}

/* Before the region uses this index: makes it wait for the previous user. */
static bool use_pointer(struct export *export, uint32_t region, uint32_t index)
{
    struct state *state = export->state;
    struct pointer *pointer = &state->pointers[index];
    if (!sync_regions(export, pointer->region, pointer->writes, region)) return false;
    pointer->region = region;
    pointer->writes = state->regions[region].writes;
    return true;
}

/* ---- threads ---- */

/* The next region, from 1; 0: no memory. */
static uint32_t new_region(struct export *export)
{
    struct state *state = export->state;
    if (!wl_reserve(export, &state->regions, &state->regions_room, state->regions_count + 1,
                    sizeof *state->regions))
        return 0;
    return ++state->regions_count;
}

/* Takes the region of a thread that has ended, when there are as many regions as lanes. If a lane
 * has no region then, there must be a region without a lane. */
static uint32_t region_of_ended(struct export *export)
{
    struct state *state = export->state;
    const uint32_t region = state->ended;
    state->ended = state->regions[region - 1].next_ended;
    export->losses.threads++;
    return region;
}

static bool add_region(struct export *export, uint32_t lane)
{
    struct state *state = export->state;
    const uint32_t region =
        state->regions_count < INSTRUCTION_LANES_MAX ? new_region(export) : region_of_ended(export);
    if (region == 0) return false;
    state->region_of[lane] = region;
    return region == 1 ||
           sync_regions(export, state->last, state->regions[state->last].writes, region - 1);
}

/* Writes what the region has to the file; more may still follow. */
static bool close_region(struct export *export, struct region *region)
{
    if (!region_flush(export, region)) return false;
    free(region->buffer);
    region->buffer = NULL;
    return true;
}

static bool wl_thread_end(struct export *export, const struct export_call *where)
{
    struct state *state = export->state;
    uint32_t region = state->region_of[where->lane];
    if (region == 0) return true;
    state->region_of[where->lane] = 0;
    state->regions[region - 1].next_ended = state->ended;
    state->ended = region;
    return close_region(export, &state->regions[region - 1]);
}

/* ---- windows ---- */

/* Before a call of the region: its first one in this window must come after all calls of the
 * previous window. */
static bool enter_window(struct export *export, uint32_t number)
{
    struct state *state = export->state;
    struct window *window = &state->window;
    struct region *region = &state->regions[number];
    if (region->window == window->number) return true;
    if (!wl_reserve(export, &window->active, &window->active_room, window->active_count + 1,
                    sizeof *window->active))
        return false;
    window->active[window->active_count++] = number;
    region->window = window->number;
    region->added = region->least = region->most = 0;
    return window->number == 1 ||
           sync_regions(export, window->first, state->regions[window->first].writes, number);
}

static bool wl_end_window(struct export *export, uint32_t first)
{
    struct state *state = export->state;
    struct window *window = &state->window;
    bool good = true;
    for (uint32_t i = 0; i < window->active_count && good; i++)
        good = sync_regions(export, window->active[i], state->regions[window->active[i]].writes,
                            first);
    window->first = first;
    window->number++;
    window->active_count = 0;
    window->ranges = window->widest = 0;
    return good;
}

/* Puts a call of the region that adds `added` bytes into this window, or begins the next one.
 * Whatever the order of calls, live bytes are off by at most the sum of the regions' ranges. */
static bool enter_window_with(struct export *export, uint32_t number, int64_t added)
{
    struct state *state = export->state;
    struct window *window = &state->window;
    state->live_bytes += (uint64_t)added;
    if (state->live_bytes > state->peak_bytes) state->peak_bytes = state->live_bytes;
    for (;;) {
        if (!enter_window(export, number)) return false;
        struct region *region = &state->regions[number];
        int64_t after = (int64_t)((uint64_t)region->added + (uint64_t)added);
        int64_t least = after < region->least ? after : region->least;
        int64_t most = after > region->most ? after : region->most;
        uint64_t range = (uint64_t)most - (uint64_t)least;
        uint64_t ranges =
            window->ranges - ((uint64_t)region->most - (uint64_t)region->least) + range;
        uint64_t widest = range > window->widest ? range : window->widest;
        if (ranges - widest > state->peak_bytes / 100 && window->active_count > 1) {
            if (!wl_end_window(export, number)) return false;
            continue;
        }
        region->added = after;
        region->least = least;
        region->most = most;
        window->ranges = ranges;
        window->widest = widest;
        return true;
    }
}

/* ---- indices ---- */

/* Takes over all indices that another region has freed and not reused. */
static void take_over_unused(struct state *state, uint32_t region)
{
    uint32_t from = state->last_freer;
    for (uint32_t i = 0; i < state->regions_count && state->regions[from].unused == 0; i++)
        from = (from + 1) % state->regions_count;
    state->regions[region].unused = state->regions[from].unused;
    if (from != region) state->regions[from].unused = 0;
}

/* 0: no memory. */
static uint32_t take_index(struct export *export, uint32_t region)
{
    struct state *state = export->state;
    if (state->regions[region].unused == 0 && state->unused > state->live + INDICES_UNUSED_MIN)
        take_over_unused(state, region);
    uint32_t index = state->regions[region].unused;
    state->live++;
    if (index != 0) {
        state->regions[region].unused = state->pointers[index].next_unused;
        state->unused--;
        return index;
    }
    if (!wl_reserve(export, &state->pointers, &state->pointers_room, state->pointers_count + 1,
                    sizeof *state->pointers))
        return 0;
    index = (uint32_t)state->pointers_count++;
    state->pointers[index] = (struct pointer){.region = region};
    return index;
}

static void give_back_index(struct state *state, uint32_t region, uint32_t index)
{
    state->pointers[index].next_unused = state->regions[region].unused;
    state->regions[region].unused = index;
    state->last_freer = region;
    state->live--;
    state->unused++;
}

/* ---- calls ---- */

static bool wl_put_allocation(struct export *export, uint32_t region,
                              const struct export_call *call)
{
    struct state *state = export->state;
    if (!wl_reserve(export, &state->index_of, &state->index_of_room, (size_t)call->object + 1,
                    sizeof *state->index_of))
        return false;
    uint32_t index = take_index(export, region);
    if (index == 0 || !use_pointer(export, region, index)) return false;
    state->index_of[call->object] = index;
    state->pointers[index].size = call->size;
    unsigned kind = call->kind;
    bool pages = kind == CALL_VALLOC || kind == CALL_PVALLOC;
    if (call->shape == SHAPE_ALLOCATION_ALIGNED || pages) {
        export->losses.kinds += kind != CALL_MEMALIGN;
        uint64_t operands[] = {index, pages ? PAGE_BYTES : call->alignment, call->size};
        return region_put(export, region, WL_MEMALIGN, 3, operands);
    }
    if (kind == CALL_REALLOC_NULL || call->shape == SHAPE_REALLOC)
        return region_put(export, region, WL_REALLOC, 3, (uint64_t[]){index, 0, call->size});
    export->losses.kinds += kind != CALL_MALLOC && kind != CALL_CALLOC;
    return region_put(export, region, kind == CALL_CALLOC ? WL_CALLOC : WL_MALLOC, 2,
                      (uint64_t[]){index, call->size});
}

/* Puts a free, or a realloc of an object that the trace knows. */
static bool put_end_of_object(struct export *export, uint32_t region,
                              const struct export_call *call)
{
    struct state *state = export->state;
    uint32_t index = state->index_of[call->object];
    if (!use_pointer(export, region, index)) return false;
    if (call->shape == SHAPE_REALLOC) {
        state->pointers[index].size = call->size;
        return region_put(export, region, WL_REALLOC, 3, (uint64_t[]){index, index, call->size});
    }
    export->losses.kinds += call->kind != CALL_FREE;
    give_back_index(state, region, index);
    return region_put(export, region, WL_FREE, 1, (uint64_t[]){index});
}

static bool wl_call(struct export *export, const struct export_call *call)
{
    struct state *state = export->state;
    if (state->region_of[call->lane] == 0 && !add_region(export, call->lane)) return false;
    uint32_t region = state->region_of[call->lane] - 1;
    state->last = region;
    bool begins = call->shape < SHAPE_REALLOC || call->unknown;
    uint64_t before = begins ? 0 : state->pointers[state->index_of[call->object]].size;
    uint64_t after = call->shape <= SHAPE_REALLOC ? call->size : 0;
    if (!enter_window_with(export, region, (int64_t)(after - before))) return false;
    return begins ? wl_put_allocation(export, region, call)
                  : put_end_of_object(export, region, call);
}

/* ---- the file ---- */

static bool wl_open(struct export *export)
{
    struct state *state = export->state = calloc(1, sizeof *state);
    if (state == NULL) return wl_fail(export, "no memory");
    state->file = file_temporary(&export->error);
    if (state->file < 0) return false;
    state->pointers_count = 1; /* 0 is NULL */
    state->window.number = 1;
    state->region_of = calloc(INSTRUCTION_LANES_MAX, sizeof *state->region_of);
    return state->region_of != NULL || wl_fail(export, "no memory");
}

/* Puts the main region, assuming that it has `bytes` bytes. Returns its end in `to`. */
static uint8_t *put_main(const struct state *state, uint8_t *to, uint64_t bytes)
{
    *to++ = WL_ALLOC_PTRS;
    to = put_integer(to, state->pointers_count);
    *to++ = WL_ALLOC_SYNCS;
    to = put_integer(to, state->syncs + 1);
    *to++ = WL_NTHREADS;
    to = put_integer(to, state->regions_count);
    for (uint32_t i = 0; i < state->regions_count; i++) {
        *to++ = WL_START_THREAD;
        to = put_integer(to, bytes);
        bytes += state->regions[i].bytes;
    }
    *to++ = WL_DONE;
    return to;
}

/* The main region contains offsets that depend on its length, and whose lengths vary: tries longer
 * ones until it fits. */
static bool write_main(struct export *export)
{
    const struct state *state = export->state;
    size_t room = (4 + (size_t)state->regions_count) * (1 + WL_INTEGER_BYTES);
    uint8_t *text = malloc(room);
    if (text == NULL) return wl_fail(export, "no memory");
    uint64_t bytes = 0, before;
    do {
        before = bytes;
        bytes = (uint64_t)(put_main(state, text, before) - text);
    } while (bytes != before);
    bool written = output_write(&export->output, text, (size_t)bytes);
    free(text);
    return written;
}

static bool write_region(struct export *export, const struct region *region)
{
    const struct state *state = export->state;
    uint8_t chunk[CHUNK_BYTES];
    for (uint32_t i = 0; i < region->chunks_count; i++) {
        ssize_t bytes = region->chunks[i].bytes;
        off_t at = (off_t)region->chunks[i].number * CHUNK_BYTES;
        if (pread(state->file, chunk, (size_t)bytes, at) != bytes)
            return wl_fail(export, "cannot read a temporary file");
        if (!output_write(&export->output, chunk, (size_t)bytes)) return false;
    }
    return true;
}

static bool wl_finish(struct export *export)
{
    struct state *state = export->state;
    bool good = true;
    for (uint32_t i = 0; i < state->regions_count && good; i++)
        good = region_put(export, i, WL_DONE, 0, NULL) && close_region(export, &state->regions[i]);
    good = good && write_main(export);
    for (uint32_t i = 0; i < state->regions_count && good; i++)
        good = write_region(export, &state->regions[i]);
    return good;
}

static void wl_close(struct export *export)
{
    struct state *state = export->state;
    if (state == NULL) return;
    for (uint32_t i = 0; i < state->regions_count; i++) {
        free(state->regions[i].buffer);
        free(state->regions[i].chunks);
    }
    if (state->file >= 0) close(state->file);
    free(state->regions);
    free(state->region_of);
    free(state->pointers);
    free(state->index_of);
    free(state->window.active);
    names_free(&state->pairs);
    free(state);
}

const struct export_writer export_wl = {
    .name = "wl",
    .title = ".wl, a workload of glibc's dj/malloc",
    .loses = "order across threads that no object forces, times, memory of the original",
    .open = wl_open,
    .call = wl_call,
    .thread_end = wl_thread_end,
    .finish = wl_finish,
    .close = wl_close,
};
