/* write_c - one C11 file that makes the calls, and prints how much memory was resident: for a report of
 * a bug, to those who have nothing of ours.
 *
 *   table of calls, in the recorded order: { what, lane, step, object, size, alignment }
 *   program: a thread for each lane, which takes its calls of the table in turn
 *
 * An object has a number that no other has, and its calls are steps 0, 1, ...: a call waits for the
 * step before it, whichever thread makes that. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/text.h"
#include "convert/export_writer.h"

#define C_CALLS_MAX UINT64_C(100000)

#define WRITE_C_ERROR_LIST(X)                                                       \
    X(WRITE_C_TOO_MANY, "export_c_calls",                                           \
      "more than 100 000 calls: malloctape cut or cut --minimize makes it smaller") \
    X(WRITE_C_MEMORY, "export_c_memory", "no memory")
enum write_c_error { WRITE_C_ERROR_LIST(ERROR_LIST_ENUM) };
static const struct error_kind write_c_errors[] = {WRITE_C_ERROR_LIST(ERROR_LIST_KIND)};

/* The object in a register. */
struct write_c_object {
    uint64_t number;
    unsigned step; /* of its next call */
};

struct write_c {
    struct write_c_object *objects; /* by register */
    size_t room;
    uint64_t made; /* objects */
    uint32_t lanes;
};

enum { C_MALLOC, C_CALLOC, C_ALIGNED, C_REALLOC, C_FREE, C_END };

static const char c_head[] =
    "/* Made by malloctape export --to c.\n"
    " *\n"
    " *     cc -std=c11 -O1 -pthread bug.c -o bug && ./bug\n"
    " *     LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2 ./bug\n"
    " *\n"
    " * Calls are made one at a time, in the recorded order, each by its thread. With -DLOOSE threads\n"
    " * run freely, and wait only for objects that others make. A byte of each page is written. */\n"
    "#define _POSIX_C_SOURCE 200809L\n"
    "#include <pthread.h>\n"
    "#include <sched.h>\n"
    "#include <stdatomic.h>\n"
    "#include <stdio.h>\n"
    "#include <stdlib.h>\n"
    "#include <string.h>\n"
    "#include <unistd.h>\n"
    "\n"
    "enum { MALLOC, CALLOC, ALIGNED, REALLOC, FREE, THREAD_END };\n"
    "struct call {\n"
    "    unsigned char what;\n"
    "    unsigned short lane;\n"
    "    unsigned step, object;\n"
    "    unsigned long long size, alignment;\n"
    "};\n"
    "\n"
    "static const struct call calls[] = {\n";

static const char c_tail[] =
    "static void *objects[OBJECTS + 1];\n"
    "static atomic_uint steps[OBJECTS + 1];\n"
    "static atomic_ulong turn, lanes_left;\n"
    "\n"
    "static long kib_of(const char *key)\n"
    "{\n"
    "    char line[256];\n"
    "    long kib = 0;\n"
    "    FILE *status = fopen(\"/proc/self/status\", \"r\");\n"
    "    if (status == NULL) return 0;\n"
    "    while (fgets(line, sizeof line, status) != NULL)\n"
    "        if (strncmp(line, key, strlen(key)) == 0) kib = strtol(line + strlen(key), NULL, 10);\n"
    "    fclose(status);\n"
    "    return kib;\n"
    "}\n"
    "\n"
    "static void *touched(void *object, unsigned long long size)\n"
    "{\n"
    "    if (object == NULL) {\n"
    "        fputs(\"no memory\\n\", stderr);\n"
    "        exit(1);\n"
    "    }\n"
    "    for (unsigned long long at = 0; at < size; at += 4096)\n"
    "        ((volatile char *)object)[at] = 1;\n"
    "    return object;\n"
    "}\n"
    "\n"
    "static void do_call(const struct call *call)\n"
    "{\n"
    "    void **object = &objects[call->object];\n"
    "    const size_t size = (size_t)call->size;\n"
    "    while (atomic_load(&steps[call->object]) != call->step)\n"
    "        sched_yield();\n"
    "    switch (call->what) {\n"
    "    case MALLOC: *object = touched(malloc(size), size); break;\n"
    "    case CALLOC: *object = touched(calloc(1, size), size); break;\n"
    "    case ALIGNED:\n"
    "        if (posix_memalign(object, (size_t)call->alignment, size) != 0) *object = NULL;\n"
    "        touched(*object, size);\n"
    "        break;\n"
    "    case REALLOC: *object = touched(realloc(*object, size), size); break;\n"
    "    default: free(*object); break;\n"
    "    }\n"
    "    atomic_store(&steps[call->object], call->step + 1);\n"
    "}\n"
    "\n"
    "/* The place in the table where a lane goes on. */\n"
    "static size_t next_of[LANES];\n"
    "static unsigned lane_numbers[LANES];\n"
    "\n"
    "static void start(unsigned *lane);\n"
    "\n"
    "static void *run(void *of)\n"
    "{\n"
    "    unsigned *lane = of;\n"
    "    for (size_t i = next_of[*lane]; i < calls_count; i++) {\n"
    "        if (calls[i].lane != *lane) continue;\n"
    "#ifndef LOOSE\n"
    "        while (atomic_load(&turn) != i)\n"
    "            sched_yield();\n"
    "#endif\n"
    "        if (calls[i].what == THREAD_END) {\n"
    "            next_of[*lane] = i + 1;\n"
    "            atomic_store(&turn, i + 1);\n"
    "            start(lane);\n"
    "            return NULL;\n"
    "        }\n"
    "        do_call(&calls[i]);\n"
    "        atomic_store(&turn, i + 1);\n"
    "    }\n"
    "    atomic_fetch_sub(&lanes_left, 1);\n"
    "    for (;;) /* a thread that has not ended is there to the end, with what the allocator has for it */\n"
    "        pause();\n"
    "}\n"
    "\n"
    "static void start(unsigned *lane)\n"
    "{\n"
    "    pthread_t thread;\n"
    "    if (pthread_create(&thread, NULL, run, lane) != 0) {\n"
    "        fputs(\"no thread\\n\", stderr);\n"
    "        exit(1);\n"
    "    }\n"
    "    pthread_detach(thread);\n"
    "}\n"
    "\n"
    "int main(void)\n"
    "{\n"
    "    const long before = kib_of(\"VmRSS:\");\n"
    "    atomic_store(&lanes_left, LANES);\n"
    "    for (unsigned i = 0; i < LANES; i++) {\n"
    "        lane_numbers[i] = i;\n"
    "        start(&lane_numbers[i]);\n"
    "    }\n"
    "    while (atomic_load(&lanes_left) > 0)\n"
    "        sched_yield();\n"
    "    const long after = kib_of(\"VmRSS:\"), peak = kib_of(\"VmHWM:\");\n"
    "    printf(\"peak RSS %ld KiB, %ld KiB more than before the calls; at the end %ld KiB, %ld KiB more\\n\",\n"
    "           peak, peak - before, after, after - before);\n"
    "    return 0;\n"
    "}\n";

static bool write_c_text(struct export *export, const char *text, size_t bytes)
{
    return output_write(&export->output, text, bytes);
}

static bool write_c_open(struct export *export)
{
    export->state = calloc(1, sizeof(struct write_c));
    if (export->state == NULL)
        return error_set(&export->error, &write_c_errors[WRITE_C_MEMORY], ERROR_NO_OFFSET, NULL);
    return write_c_text(export, c_head, sizeof c_head - 1);
}

static int write_c_what(struct export *export, const struct export_call *call)
{
    if (call->shape >= SHAPE_FREE) {
        export->losses.kinds += call->kind != CALL_FREE;
        return C_FREE;
    }
    if (call->shape == SHAPE_REALLOC && !call->unknown) return C_REALLOC;
    if (call->shape == SHAPE_ALLOCATION_ALIGNED) {
        export->losses.kinds += call->kind != CALL_POSIX_MEMALIGN;
        return C_ALIGNED;
    }
    if (call->kind == CALL_CALLOC) return C_CALLOC;
    export->losses.kinds += call->kind != CALL_MALLOC;
    return C_MALLOC;
}

static bool write_c_row(struct export *export, int what, uint32_t lane, unsigned step,
                        uint64_t object, uint64_t size, uint64_t alignment)
{
    static const char *const names[] = {"MALLOC",  "CALLOC", "ALIGNED",
                                        "REALLOC", "FREE",   "THREAD_END"};
    char line[128];
    const int bytes =
        snprintf(line, sizeof line, "{%s,%" PRIu32 ",%u,%" PRIu64 ",%" PRIu64 "u,%" PRIu64 "u},\n",
                 names[what], lane, step, object, size, alignment);
    struct write_c *state = export->state;
    if (lane >= state->lanes) state->lanes = lane + 1;
    return write_c_text(export, line, (size_t)bytes);
}

/* posix_memalign() takes powers of two from the size of a pointer on. */
static uint64_t write_c_alignment(uint64_t alignment)
{
    uint64_t power = sizeof(void *);
    while (power < alignment && power < UINT64_C(1) << 40)
        power *= 2;
    return power;
}

static bool write_c_call(struct export *export, const struct export_call *call)
{
    struct write_c *state = export->state;
    if (export->calls > C_CALLS_MAX)
        return error_set(&export->error, &write_c_errors[WRITE_C_TOO_MANY], ERROR_NO_OFFSET, NULL);
    if (!array_reserve(&state->objects, &state->room, (size_t)call->object + 1,
                       sizeof *state->objects))
        return error_set(&export->error, &write_c_errors[WRITE_C_MEMORY], ERROR_NO_OFFSET, NULL);
    const int what = write_c_what(export, call);
    struct write_c_object *object = &state->objects[call->object];
    if (what < C_REALLOC) *object = (struct write_c_object){.number = state->made++};
    return write_c_row(export, what, call->lane, object->step++, object->number,
                       what == C_FREE                         ? 0
                       : call->size == 0 && what == C_REALLOC ? 1
                                                              : call->size,
                       what == C_ALIGNED ? write_c_alignment(call->alignment) : 0);
}

static bool write_c_thread_end(struct export *export, const struct export_call *where)
{
    return write_c_row(export, C_END, where->lane, 0, 0, 0, 0);
}

static bool write_c_finish(struct export *export)
{
    const struct write_c *state = export->state;
    char text[256];
    const int bytes = snprintf(
        text, sizeof text,
        "{THREAD_END,65535,0,0,0,0}};\n\n"
        "static const size_t calls_count = sizeof calls / sizeof *calls - 1; /* may be none */\n"
        "enum { OBJECTS = %" PRIu64 ", LANES = %" PRIu32 " };\n\n",
        state->made, state->lanes > 0 ? state->lanes : 1);
    return write_c_text(export, text, (size_t)bytes) &&
           write_c_text(export, c_tail, sizeof c_tail - 1);
}

static void write_c_close(struct export *export)
{
    struct write_c *state = export->state;
    if (state != NULL) free(state->objects);
    free(state);
    export->state = NULL;
}

const struct export_writer export_c = {
    .name = "c",
    .title = "a C program",
    .loses = "times, memory of the original, call stacks",
    .open = write_c_open,
    .call = write_c_call,
    .thread_end = write_c_thread_end,
    .finish = write_c_finish,
    .close = write_c_close,
};
