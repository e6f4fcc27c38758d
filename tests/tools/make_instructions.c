/* make_instructions - writes an instruction stream of a known shape, for tests and measurements.
 *
 *   make_instructions churn EVENTS [SLOTS]     one lane; a random slot is freed and filled again,
 *                                              16 to 527 bytes
 *   make_instructions lanes EVENTS [LANES]     churn spread over lanes, a lane change every 1 to 16
 *                                              calls; threads end and begin now and then
 *   make_instructions pairs EVENTS [LANES]     objects that any lane ends or changes, each of
 *                                              another size; all are ended by a free_sized that
 *                                              says it (pairs_stub.c). Of up to 500 lanes, each
 *                                              thread makes a call
 *   make_instructions places EVENTS [FRESH]    with addresses: an object is freed and made again,
 *                                              one time in FRESH (never) at an address that was
 *                                              never used
 *   make_instructions idle OBJECTS [SIZE]      so many objects of SIZE (40 000) bytes; then all but
 *                                              one in 16 are freed, and for 5 s, with a tick every
 *                                              10 ms, the program does next to nothing
 *   make_instructions lull OBJECTS [SIZE]      the same for 500 s, with a tick every second
 *   make_instructions kinds                    every kind of call and every other instruction, once
 *                                              or twice
 *   make_instructions alignments               alignments that tcmalloc takes and others refuse
 *   make_instructions empty EVENTS             aligned objects of 0 bytes, ended by an operator delete
 *                                              that says so, among others of 8 to 71 bytes
 *   make_instructions huge KIND [ALIGNMENT]    a call (malloc, new, ...) that cannot succeed,
 *                                              recorded as one that did
 *   make_instructions metadata FILE            a thousand calls, of a header with that metadata
 *   make_instructions hopeless LANES           each lane ends what the one before makes, and the
 *                                              first one makes nothing: its malloc cannot succeed
 *
 * The same arguments always give the same bytes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/call_table.h"
#include "stream/instruction_writer.h"

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void make_churn(struct instruction_writer *writer, uint64_t events, uint64_t slots)
{
    uint32_t *objects = calloc(slots, sizeof *objects);
    uint64_t state = 88172645463325252u;
    if (objects == NULL) exit(1);
    for (uint64_t slot = 0; slot < slots; slot++)
        objects[slot] = instruction_put_allocation(writer, CALL_MALLOC,
                                                   16 + (random_next(&state) >> 20) % 512, 0);
    for (uint64_t event = slots; event + 1 < events; event += 2) {
        uint64_t slot = (random_next(&state) >> 20) % slots;
        instruction_put_free(writer, CALL_FREE, objects[slot]);
        objects[slot] = instruction_put_allocation(writer, CALL_MALLOC,
                                                   16 + (random_next(&state) >> 20) % 512, 0);
    }
    free(objects);
}

/* 16 MiB, of which 1 MiB the recorder's, and 18 MiB at most; 7 of 10 ms used. */
static void put_tick(struct instruction_writer *writer)
{
    static uint64_t ticks;
    ticks++;
    const struct original_usage usage = {1 << 20, ticks * 5000000, ticks * 2000000, 18 << 20};
    instruction_put_tick_with_usage(writer, 10000000, 1 << 24, 1 << 23, &usage, NULL);
}

static void make_lanes(struct instruction_writer *writer, uint64_t events, uint64_t lanes)
{
    enum { SLOTS = 1000 };
    uint32_t *objects = calloc(SLOTS, sizeof *objects);
    uint64_t state = 88172645463325252u, thread = 1000;
    if (objects == NULL) exit(1);
    for (uint64_t lane = 0; lane < lanes; lane++) {
        instruction_put_lane(writer, lane);
        instruction_put_thread_begin(writer, thread++);
    }
    for (uint64_t slot = 0; slot < SLOTS; slot++)
        objects[slot] = instruction_put_allocation(writer, CALL_MALLOC, 100, 0);
    for (uint64_t event = 0; event < events;) {
        uint64_t run = 1 + (random_next(&state) >> 20) % 16;
        instruction_put_lane(writer, (random_next(&state) >> 20) % lanes);
        if ((random_next(&state) >> 20) % 1024 == 0) {
            instruction_put_thread_cache_deleted(writer);
            instruction_put_thread_end(writer);
            instruction_put_thread_begin(writer, thread++);
        }
        for (; run > 0 && event < events; run--, event += 2) {
            uint64_t slot = (random_next(&state) >> 20) % SLOTS;
            instruction_put_free(writer, CALL_FREE, objects[slot]);
            objects[slot] = instruction_put_allocation(writer, CALL_MALLOC,
                                                       16 + (random_next(&state) >> 20) % 512, 0);
        }
        if (event % 10000 < 32) put_tick(writer);
    }
    free(objects);
}

/* An object of `pairs` and its size, which another one has once in 4093 times. */
struct pair {
    uint32_t name;
    uint64_t size;
};

static struct pair pair_make(struct instruction_writer *writer, uint64_t *made)
{
    uint64_t size = 16 + (*made)++ % 4093;
    return (struct pair){instruction_put_allocation(writer, CALL_MALLOC, size, 0), size};
}

static void pair_change(struct instruction_writer *writer, uint64_t *made, struct pair *pair)
{
    pair->size = 16 + (*made)++ % 4093;
    instruction_put_realloc(writer, CALL_REALLOC_MOVED, pair->name, pair->size, 0);
}

static void pair_end(struct instruction_writer *writer, struct pair pair)
{
    instruction_put_free_sized(writer, CALL_FREE_SIZED, pair.name, pair.size);
}

/* As programs do, a lane at times makes many objects and ends them at once. Then it leaves one for
 * another object, and the next lane, which has had less to do, ends that. */
static void make_pairs(struct instruction_writer *writer, uint64_t events, uint64_t lanes)
{
    enum { OBJECTS = 500, LOOPS = 1000 };
    struct pair objects[OBJECTS];
    uint64_t state = 88172645463325252u, thread = 1000, made = 0, lane, at = 0, loops = 0;
    for (lane = 0; lane < lanes; lane++) {
        instruction_put_lane(writer, lane);
        instruction_put_thread_begin(writer, thread++);
    }
    for (at = 0; at < OBJECTS; at++) {
        instruction_put_lane(writer, at % lanes);
        objects[at] = pair_make(writer, &made);
    }
    while (made * 2 < events) {
        uint64_t what = random_next(&state) >> 20;
        lane = loops > 0 ? (lane + 1) % lanes : (random_next(&state) >> 20) % lanes;
        at = loops > 0 ? at : what / 1024 % OBJECTS;
        loops = loops == 0 && what % 8 == 0 ? what / 8 % LOOPS : 0;
        instruction_put_lane(writer, lane);
        if (what % 256 == 1) {
            instruction_put_thread_end(writer);
            instruction_put_thread_begin(writer, thread++);
        }
        for (uint64_t i = 0; i < loops; i++)
            pair_end(writer, pair_make(writer, &made));
        if (what % 16 == 2) {
            pair_change(writer, &made, &objects[at]);
        } else {
            struct pair old = objects[at];
            objects[at] = pair_make(writer, &made);
            pair_end(writer, old);
        }
    }
    for (at = 0; at < OBJECTS; at++)
        pair_end(writer, objects[at]);
}

static void make_places(struct instruction_writer *writer, uint64_t events, uint64_t fresh)
{
    uint64_t address = 0x10000;
    for (uint64_t made = 0; 2 * made < events; made++) {
        if (fresh > 0 && made % fresh == fresh - 1) address += 128;
        uint32_t object = instruction_put_allocation(writer, CALL_MALLOC, 100, address);
        instruction_put_free(writer, CALL_FREE, object);
    }
}

static void make_idle(struct instruction_writer *writer, uint64_t count, uint64_t size,
                      uint64_t tick_ns)
{
    enum { LEFT = 16, TICKS = 500, CALLS = 40 };
    uint32_t *objects = calloc(count, sizeof *objects), object;
    if (objects == NULL) exit(1);
    for (uint64_t i = 0; i < count; i++)
        objects[i] = instruction_put_allocation(writer, CALL_MALLOC, size, 0);
    for (uint64_t i = 0; i < count; i++)
        if (i % LEFT != 0) instruction_put_free(writer, CALL_FREE, objects[i]);
    for (unsigned tick = 0; tick < TICKS; tick++) {
        const struct original_usage usage = {1 << 20, tick * UINT64_C(100000), 0, 18 << 20};
        instruction_put_tick_with_usage(writer, tick_ns, 1 << 24, 1 << 23, &usage, NULL);
        for (unsigned call = 0; call < CALLS; call++) {
            object = instruction_put_allocation(writer, CALL_MALLOC, size, 0);
            instruction_put_free(writer, CALL_FREE, object);
        }
    }
    free(objects);
}

/* One call of `kind` on the object `*object`, or one that makes it. */
static void make_call(struct instruction_writer *writer, enum call_kind kind, uint32_t *object)
{
    switch (call_shapes[kind]) {
    case SHAPE_ALLOCATION: *object = instruction_put_allocation(writer, kind, 100, 0); break;
    case SHAPE_ALLOCATION_ALIGNED:
        *object = instruction_put_allocation_with(writer, kind, 128, 64, 0);
        break;
    case SHAPE_REALLOC: instruction_put_realloc(writer, kind, *object, 200, 0); break;
    case SHAPE_FREE: instruction_put_free(writer, kind, *object); break;
    case SHAPE_FREE_SIZED: instruction_put_free_sized(writer, kind, *object, 100); break;
    case SHAPE_FREE_ALIGNED: instruction_put_free_with(writer, kind, *object, 0, 64); break;
    case SHAPE_FREE_SIZED_ALIGNED: instruction_put_free_with(writer, kind, *object, 128, 64); break;
    default: break;
    }
}

/* A call that makes an object which `kind` may end. */
static enum call_kind make_partner(enum call_kind kind)
{
    switch (kind) {
    case CALL_DELETE:
    case CALL_DELETE_NOTHROW:
    case CALL_DELETE_SIZED: return CALL_NEW;
    case CALL_DELETE_ARRAY:
    case CALL_DELETE_ARRAY_NOTHROW:
    case CALL_DELETE_ARRAY_SIZED: return CALL_NEW_ARRAY;
    case CALL_DELETE_ALIGNED:
    case CALL_DELETE_ALIGNED_NOTHROW:
    case CALL_DELETE_SIZED_ALIGNED: return CALL_NEW_ALIGNED;
    case CALL_DELETE_ARRAY_ALIGNED:
    case CALL_DELETE_ARRAY_ALIGNED_NOTHROW:
    case CALL_DELETE_ARRAY_SIZED_ALIGNED: return CALL_NEW_ARRAY_ALIGNED;
    case CALL_FREE_ALIGNED_SIZED: return CALL_ALIGNED_ALLOC;
    case CALL_NEW:
    case CALL_NEW_NOTHROW: return CALL_DELETE;
    case CALL_NEW_ARRAY:
    case CALL_NEW_ARRAY_NOTHROW: return CALL_DELETE_ARRAY;
    case CALL_NEW_ALIGNED:
    case CALL_NEW_ALIGNED_NOTHROW: return CALL_DELETE_ALIGNED;
    case CALL_NEW_ARRAY_ALIGNED:
    case CALL_NEW_ARRAY_ALIGNED_NOTHROW: return CALL_DELETE_ARRAY_ALIGNED;
    default: return call_shapes[kind] >= SHAPE_REALLOC ? CALL_MALLOC : CALL_FREE;
    }
}

static void make_kinds(struct instruction_writer *writer)
{
    uint32_t object = 0, other;
    uint64_t numbers[2] = {1, UINT64_C(32) << 20};
    instruction_put_thread_begin(writer, 4711);
    for (unsigned number = 1; number < CALL_KINDS; number++) {
        enum call_kind kind = (enum call_kind)number;
        uint8_t shape = call_shapes[kind];
        bool allocation = shape == SHAPE_ALLOCATION || shape == SHAPE_ALLOCATION_ALIGNED;
        if (shape == SHAPE_UNDEFINED || shape == SHAPE_HEAP) continue;
        if (!allocation) make_call(writer, make_partner(kind), &object);
        make_call(writer, kind, &object);
        if (allocation) make_call(writer, make_partner(kind), &object);
        if (shape == SHAPE_REALLOC) instruction_put_free(writer, CALL_FREE, object);
    }
    instruction_put_heap(writer, CALL_RELEASE_MEMORY, 1, numbers);
    instruction_put_heap(writer, CALL_THREAD_IDLE, 0, numbers);
    instruction_put_heap(writer, CALL_THREAD_BUSY, 0, numbers);
    instruction_put_heap(writer, CALL_SET_PROPERTY, 2, numbers);
    instruction_put_allocation_failed(writer, CALL_MALLOC, UINT64_MAX, 0);
    instruction_put_allocation_failed(writer, CALL_POSIX_MEMALIGN, 100, 3);
    instruction_put_free_unknown(writer, CALL_FREE, 0, 0);
    instruction_put_free_unknown(writer, CALL_DELETE_SIZED_ALIGNED, 64, 64);
    object = instruction_put_realloc_unknown(writer, CALL_REALLOC_MOVED, 300, 0);
    other = instruction_put_realloc_unknown(writer, CALL_REALLOC_IN_PLACE, 200, 0);
    instruction_put_realloc_failed(writer, object, UINT64_C(1) << 60);
    instruction_put_realloc_unknown_failed(writer, UINT64_C(1) << 60);
    instruction_put_freed_twice(writer);
    instruction_put_free_unknown(writer, CALL_FREE_SIZED, 64, 0);
    instruction_put_lane(writer, 1);
    instruction_put_thread_begin(writer, 4712);
    instruction_put_allocation(writer, CALL_CALLOC, 300, 0);
    instruction_put_tick(writer, 10000000, 1 << 24, 1 << 23);
    instruction_put_lost(writer, 1, 17);
    instruction_put_thread_cache_deleted(writer);
    instruction_put_thread_end(writer);
    instruction_put_lane(writer, 0);
    instruction_put_free(writer, CALL_FREE, object);
    instruction_put_missed_free(writer, other);
}

static void make_alignments(struct instruction_writer *writer)
{
    static const struct {
        enum call_kind kind;
        uint64_t size, alignment;
    } calls[] = {{CALL_MEMALIGN, 10, 0},       {CALL_MEMALIGN, 10, 3},
                 {CALL_ALIGNED_ALLOC, 10, 3},  {CALL_ALIGNED_ALLOC, 100, 48},
                 {CALL_POSIX_MEMALIGN, 24, 8}, {CALL_POSIX_MEMALIGN, 24, 4}};
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        const uint64_t size = calls[i].size, alignment = calls[i].alignment;
        uint32_t object =
            instruction_put_allocation_with(writer, calls[i].kind, size, alignment, 0);
        instruction_put_free(writer, CALL_FREE, object);
        object = instruction_put_allocation_with(writer, calls[i].kind, size, alignment, 0);
        instruction_put_free_with(writer, CALL_FREE_ALIGNED_SIZED, object, size, alignment);
    }
}

static void make_empty(struct instruction_writer *writer, uint64_t events)
{
    enum { OBJECTS = 64 };
    uint32_t empty[4], others[OBJECTS];
    uint64_t state = 88172645463325252u;
    for (uint64_t made = 0; made < events; made += 2 * (4 + OBJECTS)) {
        for (unsigned i = 0; i < 4; i++)
            empty[i] = instruction_put_allocation_with(
                writer, i % 2 ? CALL_NEW_ALIGNED : CALL_NEW_ARRAY_ALIGNED, 0, 16 << i, 0);
        for (unsigned i = 0; i < OBJECTS; i++)
            others[i] = instruction_put_allocation(writer, CALL_MALLOC,
                                                   8 + (random_next(&state) >> 20) % 64, 0);
        for (unsigned i = 0; i < 4; i++)
            instruction_put_free_with(
                writer, i % 2 ? CALL_DELETE_SIZED_ALIGNED : CALL_DELETE_ARRAY_SIZED_ALIGNED,
                empty[i], 0, 16 << i);
        for (unsigned i = 0; i < OBJECTS; i++)
            instruction_put_free(writer, CALL_FREE, others[i]);
    }
}

/* The number of a call; 0 when there is none of that name. */
static unsigned find_kind(const char *name)
{
    for (unsigned kind = 1; kind < CALL_KINDS; kind++)
        if (call_names[kind] != NULL && strcmp(call_names[kind], name) == 0) return kind;
    return 0;
}

static void make_huge(struct instruction_writer *writer, enum call_kind kind, uint64_t alignment)
{
    const uint64_t size = UINT64_C(1) << 62;
    instruction_put_allocation(writer, CALL_MALLOC, 100, 0);
    if (call_shapes[kind] == SHAPE_ALLOCATION_ALIGNED)
        instruction_put_allocation_with(writer, kind, size, alignment, 0);
    else
        instruction_put_allocation(writer, kind, size, 0);
}

static void make_hopeless(struct instruction_writer *writer, uint64_t lanes)
{
    enum { BEFORE = 1000 };
    const uint64_t size = UINT64_C(1) << 62;
    uint32_t name = 0;
    for (uint64_t lane = 0; lane < lanes; lane++) {
        instruction_put_lane(writer, lane);
        if (lane > 0) {
            instruction_put_free(writer, CALL_FREE, name);
        } else {
            for (int i = 0; i < BEFORE; i++)
                instruction_put_allocation(writer, CALL_MALLOC, 100, 0);
            instruction_put_allocation(writer, CALL_MALLOC, size, 0);
        }
        name = instruction_put_allocation(writer, CALL_MALLOC, 100, 0);
    }
}

/* Returns how long it is. */
static size_t read_metadata(const char *path, char *metadata)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) exit(1);
    const size_t bytes = fread(metadata, 1, INSTRUCTION_METADATA_MAX, file);
    fclose(file);
    return bytes;
}

int main(int argc, char **argv)
{
    static char metadata[INSTRUCTION_METADATA_MAX] = "program=make_instructions\npid=1\n";
    const char *what = argc > 1 ? argv[1] : "";
    const bool is_of_file = strcmp(what, "metadata") == 0 && argc > 2;
    const struct instruction_header header = {
        .metadata_bytes = is_of_file ? read_metadata(argv[2], metadata) : strlen(metadata),
        .metadata = metadata,
        .features = strcmp(what, "places") == 0 ? INSTRUCTION_FEATURE_ADDRESSES : 0,
    };
    uint64_t events = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    uint64_t more = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    struct output output;
    struct instruction_writer writer;

    if (!output_open(&output, "-") || !instruction_writer_open(&writer, &output, &header)) return 1;
    if (is_of_file) {
        make_churn(&writer, 1000, 100);
    } else if (strcmp(what, "churn") == 0) {
        make_churn(&writer, events, more > 0 ? more : 10000);
    } else if (strcmp(what, "lanes") == 0) {
        make_lanes(&writer, events, more > 0 ? more : 4);
    } else if (strcmp(what, "places") == 0) {
        make_places(&writer, events, more);
    } else if (strcmp(what, "pairs") == 0) {
        make_pairs(&writer, events, more > 0 ? more : 4);
    } else if (strcmp(what, "idle") == 0) {
        make_idle(&writer, events, more > 0 ? more : 40000, 10000000);
    } else if (strcmp(what, "lull") == 0) {
        make_idle(&writer, events, more > 0 ? more : 40000, 1000000000);
    } else if (strcmp(what, "hopeless") == 0) {
        make_hopeless(&writer, events);
    } else if (strcmp(what, "alignments") == 0) {
        make_alignments(&writer);
    } else if (strcmp(what, "empty") == 0) {
        make_empty(&writer, events);
    } else if (strcmp(what, "kinds") == 0) {
        make_kinds(&writer);
    } else if (strcmp(what, "huge") == 0 && argc > 2 && find_kind(argv[2]) != 0) {
        make_huge(&writer, (enum call_kind)find_kind(argv[2]), more > 0 ? more : 64);
    } else {
        fprintf(
            stderr,
            "usage: make_instructions churn|lanes|pairs|places|kinds|alignments|empty|huge|hopeless|"
            "metadata [EVENTS|KIND|FILE [SLOTS|LANES|FRESH|ALIGNMENT]]\n");
        return 2;
    }
    bool good = instruction_writer_finish(&writer, INSTRUCTION_STATUS_COMPLETE);
    instruction_writer_close(&writer);
    if (!output_close(&output) || !good) {
        error_print(stderr, "make_instructions", NULL, &writer.error);
        return 1;
    }
    return 0;
}
