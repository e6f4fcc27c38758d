/* interpreter_python - CPython from 3.11 on (interpreter.h).
 *
 *   the calling thread's state
 *      |  3.11, 3.12: _PyCFrame, on the stack of a native frame --previous--> that of one further out
 *      |  3.13: none; the outermost frame of a run lies on the stack itself
 *      v
 *   _PyInterpreterFrame --previous--> ... --previous--> the caller's
 *      | code object: file, qualified name, first line, table of lines
 *      | the instruction that it is in
 *
 * Where things are in these structures each version has for itself; 3.13 says so in _PyRuntime. */
#include "tracing/stacks/interpreter.h"

#include "common/atomic.h"
#include "tracing/data/notice.h"
#include "tracing/os/os.h"
#include "tracing/stacks/python_code.h"
#include "tracing/stacks/stack_table.h"
#include "tracing/stacks/unwind_symbol.h"

#include <string.h>

struct interpreter_range interpreter_range, interpreter_loop, interpreter_loop_rest;

/* Whether what is read has been found in its place. */
enum python_trust { PYTHON_UNTRIED, PYTHON_TRUSTED, PYTHON_REFUSED };
/* After so many stacks that could not be read it is refused. */
#define PYTHON_TRIES_MAX 1024u

/* Of a state's status: its thread has the lock. */
#define PYTHON_ACTIVE UINT64_C(16)

/* What is read of a frame. */
#define PYTHON_FRAME_BYTES 72u

enum python_state { PYTHON_NONE, PYTHON_BEGINS, PYTHON_THERE };

/* Whoever takes it out of NONE fills it, and stores THERE (release). */
static struct {
    uint32_t state;  /* enum python_state */
    uint32_t module; /* of the interpreter */
    uint32_t trust;  /* enum python_trust */
    uint32_t tries;  /* in vain */
    struct python_layout layout;
    uintptr_t mark_below;   /* how far the mark of a run is below the end of the native frame of its
                               loop (before `trust`); 0: not known */
    uintptr_t code_type;    /* what code objects are (release, before `trust`); 0: not known yet */
    void *(*current)(void); /* the state of the thread that has the lock; of 3.12 on, if it is the
                                 calling one. NULL: it may allocate */
    void *(*of_thread)(void); /* the calling thread's first state */
    struct python_hashing hashing;
} python;

/* ---- which version it is ---- */

static const struct python_layout python_layouts[] = {
    {.version = 0x030b,
     .state_frames = 56,
     .state_thread = 160,
     .cframe_current = 8,
     .cframe_previous = 16,
     .frame = {.code = 32, .previous = 48, .instruction = 56, .owner = 69, .is_entry = 68},
     .code = {.first_line = 72, .instructions = 184, .first_traceable = 168},
     .text_bytes = 48,
     .wide_text_bytes = 72},
    {.version = 0x030c,
     .state_frames = 56,
     .state_thread = 144,
     .state_status = 24,
     .cframe_current = 0,
     .cframe_previous = 8,
     .frame = {.code = 0, .previous = 8, .instruction = 56, .owner = 70},
     .code = {.first_line = 68, .instructions = 192, .first_traceable = 176},
     .text_bytes = 40,
     .wide_text_bytes = 56},
    {.version = 0x030d,
     .state_frames = 72,
     .state_thread = 160,
     .state_status = 32,
     .frame = {.code = 0, .previous = 8, .instruction = 56, .owner = 70},
     .code = {.first_line = 68, .instructions = 200, .first_traceable = 184},
     .text_bytes = 40,
     .wide_text_bytes = 56}};

/* What 3.13 says of itself at the beginning of _PyRuntime, by their places there: whether the layout
 * is that of the table. */
static bool python_says_so(struct unwind_memory *memory, const struct unwind_object *object,
                           uintptr_t runtime, const struct python_layout *layout)
{
    enum {
        COOKIE = 0,
        FREE_THREADED = 2,
        STATE_FRAMES = 23,
        FRAME_PREVIOUS = 29,
        FRAME_CODE = 30,
        FRAME_INSTRUCTION = 31,
        FRAME_OWNER = 33,
        CODE_FIRST_LINE = 39,
        CODE_INSTRUCTIONS = 43,
        WORDS = 44
    };
    uint64_t says[WORDS];
    return unwind_read(memory, object, runtime, says, sizeof says) &&
           memcmp(&says[COOKIE], "xdebugpy", 8) == 0 && says[FREE_THREADED] == 0 &&
           says[STATE_FRAMES] == layout->state_frames &&
           says[FRAME_PREVIOUS] == layout->frame.previous &&
           says[FRAME_CODE] == layout->frame.code &&
           says[FRAME_INSTRUCTION] == layout->frame.instruction &&
           says[FRAME_OWNER] == layout->frame.owner &&
           says[CODE_FIRST_LINE] == layout->code.first_line &&
           says[CODE_INSTRUCTIONS] == layout->code.instructions;
}

static const struct python_layout *python_layout_of(struct unwind_memory *memory,
                                                    const struct unwind_object *object,
                                                    uint32_t version, uintptr_t runtime)
{
    for (uint32_t i = 0; i < sizeof python_layouts / sizeof *python_layouts; i++) {
        const struct python_layout *layout = &python_layouts[i];
        if (layout->version != version >> 16) continue;
        return layout->cframe_previous || python_says_so(memory, object, runtime, layout) ? layout
                                                                                          : NULL;
    }
    return NULL;
}

static void python_say_unknown(uint32_t version)
{
    if (version)
        notice_text("call stacks: functions of Python %lu.%lu are not seen: only those of 3.11 to "
                    "3.13 are, built with the global lock",
                    (uint64_t)(version >> 24), (uint64_t)(version >> 16 & 0xff));
    else
        notice_text(
            "call stacks: functions of this Python are not seen: only those of 3.11 to 3.13 "
            "are");
}

/* The functions that are called. False: it is no interpreter of a version that is known. */
static bool python_fill(struct unwind_memory *memory, const struct unwind_object *object)
{
    struct unwind_symbols symbols;
    uint32_t version = 0;
    if (!unwind_symbols_open(memory, object, &symbols)) return false;
    const uintptr_t runtime =
        unwind_symbol(memory, object, &symbols, "_PyRuntime", UNWIND_SYMBOL_DATA, NULL);
    if (!runtime) return false;
    const uintptr_t says =
        unwind_symbol(memory, object, &symbols, "Py_Version", UNWIND_SYMBOL_DATA, NULL);
    if (says && !unwind_read(memory, object, says, &version, sizeof version)) return false;
    const struct python_layout *layout = python_layout_of(memory, object, version, runtime);
    const uintptr_t of_thread = unwind_symbol(
        memory, object, &symbols, "PyGILState_GetThisThreadState", UNWIND_SYMBOL_FUNCTION, NULL);
    uintptr_t current = unwind_symbol(memory, object, &symbols, "_PyThreadState_UncheckedGet",
                                      UNWIND_SYMBOL_FUNCTION, NULL);
    if (!current)
        current = unwind_symbol(memory, object, &symbols, "PyThreadState_GetUnchecked",
                                UNWIND_SYMBOL_FUNCTION, NULL);
    if (layout == NULL || !current || !of_thread) {
        python_say_unknown(version);
        return false;
    }
    uintptr_t bytes = 0;
    const uintptr_t loop = unwind_symbol(memory, object, &symbols, "_PyEval_EvalFrameDefault",
                                         UNWIND_SYMBOL_FUNCTION, &bytes);
    atomic_store_relaxed(&interpreter_loop.start, loop);
    atomic_store_relaxed(&interpreter_loop.end, loop + bytes);
    python.layout = *layout;
    /* Of 3.12 on it is in a variable of the thread. That of a library may be made when it is first
     * used, by malloc(): in the middle of the call that is being recorded. */
    python.current = layout->state_status && object->path ? NULL : (void *(*)(void))current;
    python.of_thread = (void *(*)(void))of_thread;
    python.hashing = (struct python_hashing){
        .hash = (intptr_t(*)(void *))unwind_symbol(memory, object, &symbols, "PyObject_Hash",
                                                   UNWIND_SYMBOL_FUNCTION, NULL),
        .bytes = unwind_symbol(memory, object, &symbols, "PyBytes_Type", UNWIND_SYMBOL_DATA, NULL),
        .text =
            unwind_symbol(memory, object, &symbols, "PyUnicode_Type", UNWIND_SYMBOL_DATA, NULL)};
    return true;
}

void interpreter_begin(void)
{
    interpreter_range.start = interpreter_range.end = 0;
    interpreter_loop.start = interpreter_loop.end = 0;
    interpreter_loop_rest.start = interpreter_loop_rest.end = 0;
    python.state = PYTHON_NONE;
    python.trust = PYTHON_UNTRIED;
    python.tries = 0;
    python.code_type = 0;
    python.mark_below = 0;
}

static const char *python_look(struct unwind_memory *memory, const struct unwind_object *object,
                               uint32_t module)
{
    uint32_t none = PYTHON_NONE;
    if (!atomic_swap_once(&python.state, &none, PYTHON_BEGINS)) return NULL;
    if (!python_fill(memory, object)) {
        atomic_store_release(&python.state, PYTHON_NONE);
        return NULL;
    }
    python.module = module;
    python.trust = PYTHON_UNTRIED;
    python.tries = 0;
    python.code_type = 0;
    python.mark_below = 0;
    atomic_store_relaxed(&interpreter_range.start, object->start);
    atomic_store_release(&python.state, PYTHON_THERE);
    atomic_store_release(&interpreter_range.end, object->end);
    return PYTHON_LANGUAGE;
}

static void python_unloaded(uint32_t module)
{
    if (atomic_load_acquire(&python.state) != PYTHON_THERE || python.module != module) return;
    atomic_store_relaxed(&interpreter_range.end, atomic_load_relaxed(&interpreter_range.start));
    atomic_store_release(&python.state, PYTHON_NONE);
}

const struct stack_table_watcher interpreter_watcher = {.seen = python_look,
                                                        .unloaded = python_unloaded};

/* ---- a stack ---- */

/* Learns what code objects are, by the name of their type. */
static bool python_learn_type(struct python_reader *reader, uintptr_t object)
{
    uintptr_t type, name;
    char text[sizeof "code"];
    if (reader->is_direct || !python_word(reader, object + PYTHON_TYPE, &type) ||
        !python_word(reader, type + PYTHON_TYPE_NAME, &name) ||
        !python_read(reader, name, text, sizeof text) || memcmp(text, "code", sizeof text) != 0)
        return false;
    reader->code_type = type;
    atomic_store_release(&python.code_type, type);
    return true;
}

/* Where a walk is. */
struct python_walk {
    struct python_reader reader;
    struct interpreter_stack *stack;
    const struct interpreter_native *native;
    uint32_t reads;     /* of code objects */
    bool is_placed;     /* the mark of the innermost run has been looked at, */
    uint32_t placed_at; /* and is where this native frame would have it */
};

enum python_step { PYTHON_ON, PYTHON_ENDS_RUN, PYTHON_CUT, PYTHON_NOT_THERE };

struct python_frame {
    uintptr_t code, previous, instruction;
    uint8_t owner;
    uint8_t is_entry; /* 0 or not; it ends a run */
};

static inline struct python_frame python_frame_at(const struct python_layout *layout, uintptr_t at)
{
    return (struct python_frame){
        .code = python_at(at, layout->frame.code),
        .previous = python_at(at, layout->frame.previous),
        .instruction = python_at(at, layout->frame.instruction),
        .owner = ((const uint8_t *)at)[layout->frame.owner],
        .is_entry = ((const uint8_t *)at)[layout->frame.is_entry],
    };
}

static inline bool python_read_frame(struct python_reader *reader, uintptr_t at,
                                     struct python_frame *frame)
{
    const struct python_layout *layout = &python.layout;
    if (!python_is_object(at)) return false;
    if (reader->is_direct) {
        *frame = python_frame_at(layout, at);
        return true;
    }
    /* The callers' frames mostly lie below. */
    const uint8_t *piece = unwind_memory_piece_below(reader->memory, at, PYTHON_FRAME_BYTES);
    if (piece != NULL) *frame = python_frame_at(layout, (uintptr_t)piece);
    return piece != NULL;
}

/* By copies: of what recurs in a stack once. False: it cannot be read, or is no code object. */
static __attribute__((noinline)) bool python_read_code(struct python_walk *walk, uintptr_t code,
                                                       uint64_t *hash, uint32_t *traceable)
{
    struct interpreter_read *reads = walk->stack->memory.reads;
    const uint32_t count = walk->reads < INTERPRETER_READS ? walk->reads : INTERPRETER_READS;
    for (uint32_t i = 0; i < count; i++)
        if (reads[i].code == code) {
            *hash = reads[i].hash;
            *traceable = reads[i].first;
            return true;
        }
    if (!(walk->reader.code_type || python_learn_type(&walk->reader, code)) ||
        !python_code_hash(&walk->reader, code, hash, traceable))
        return false;
    reads[walk->reads++ % INTERPRETER_READS] =
        (struct interpreter_read){.code = code, .hash = *hash, .first = *traceable};
    return true;
}

/* Adds the function of a frame. One whose first instructions have not been carried out is not there
 * yet for Python, and some such frames never are; but the innermost one may allocate. */
static inline enum python_step python_add(struct python_walk *walk,
                                          const struct python_frame *frame)
{
    struct interpreter_stack *stack = walk->stack;
    uint64_t hash;
    uint32_t traceable;
    if (!(walk->reader.is_direct &&
          python_code_hash_direct(&walk->reader, frame->code, &hash, &traceable)) &&
        !python_read_code(walk, frame->code, &hash, &traceable))
        return PYTHON_CUT;
    const int64_t at =
        (int64_t)(frame->instruction - (frame->code + python.layout.code.instructions));
    if (frame->owner != PYTHON_OF_GENERATOR && at < 2 * (int64_t)traceable && stack->count > 0)
        return PYTHON_ON;
    if (stack->count == INTERPRETER_DEPTH_MAX) {
        stack->is_deeper = true;
        return PYTHON_CUT;
    }
    const uint64_t key = python_mix(hash, (uint64_t)at);
    stack->function[stack->count++] =
        (struct interpreter_function){.code = frame->code, .at = at, .key = key};
    stack->key = python_mix(stack->key, key);
    return PYTHON_ON;
}

/* The mark of the innermost run, before what is there is read. False: it is not in its place. */
static bool python_place(struct python_walk *walk, uintptr_t mark)
{
    const struct interpreter_native *native = walk->native;
    uint32_t i = 0;
    if (walk->is_placed || atomic_load_acquire(&python.trust) != PYTHON_TRUSTED) return true;
    const uintptr_t below = atomic_load_relaxed(&python.mark_below);
    walk->is_placed = true;
    while (i < native->count && native->frame[i].end != mark + below)
        i++;
    walk->placed_at = i;
    /* Of a loop whose rarely used code lies elsewhere, or is further out than is known here. */
    if (i + 1 != native->count || !native->has_loop) walk->reader.is_direct = false;
    return i < native->count || !native->has_loop;
}

/* Of a frame that ends a run on the stack. */
static bool python_place_frame(struct python_walk *walk, uintptr_t frame)
{
    return python.layout.cframe_previous || !unwind_memory_is_stack(walk->reader.memory, frame) ||
           python_place(walk, frame);
}

/* One frame, and the one further out. */
static inline enum python_step python_step(struct python_walk *walk, uintptr_t *at)
{
    const bool has_entries = python.layout.frame.is_entry;
    struct python_frame frame;
    if (!python_place_frame(walk, *at)) return PYTHON_NOT_THERE;
    if (!python_read_frame(&walk->reader, *at, &frame)) return PYTHON_CUT;
    const bool is_function = has_entries || frame.owner != PYTHON_OF_STACK;
    const enum python_step step = is_function ? python_add(walk, &frame) : PYTHON_ON;
    if (step != PYTHON_ON) return step;
    *at = frame.previous;
    return (has_entries ? frame.is_entry : !is_function) ? PYTHON_ENDS_RUN : PYTHON_ON;
}

/* The frames of one run, from `*frame` on; then `*frame` is the next one, and `*last` the outermost
 * of these. */
static enum python_step python_run(struct python_walk *walk, uintptr_t *frame, uintptr_t *last)
{
    /* A chain of frames that go round ends when there is no more room; one of frames that have no
     * function would not. */
    for (uint32_t i = 0; i < 4 * INTERPRETER_DEPTH_MAX && *frame; i++) {
        *last = *frame;
        const enum python_step step = python_step(walk, frame);
        if (step != PYTHON_ON) return step;
    }
    return *frame ? PYTHON_CUT : PYTHON_ENDS_RUN;
}

static void python_end_run(struct interpreter_stack *stack, uintptr_t mark)
{
    if (stack->count == (stack->runs ? stack->run[stack->runs - 1].end : 0)) return;
    stack->run[stack->runs++] = (struct interpreter_run){.mark = mark, .end = stack->count};
    stack->key = python_mix(stack->key, mark);
}

/* The runs of a thread's state. */
static enum python_step python_runs(struct python_walk *walk, uintptr_t state)
{
    const struct python_layout *layout = &python.layout;
    struct interpreter_stack *stack = walk->stack;
    uintptr_t cframe = 0, frame = 0, last = 0;
    if (!python_word(&walk->reader, state + layout->state_frames,
                     layout->cframe_previous ? &cframe : &frame))
        return PYTHON_CUT;
    if (!layout->cframe_previous) cframe = frame;
    for (uint32_t i = 0; i < 4 * INTERPRETER_RUNS_MAX && cframe; i++) {
        enum python_step step = PYTHON_ENDS_RUN;
        if (stack->runs == INTERPRETER_RUNS_MAX) {
            stack->is_deeper = true;
            return PYTHON_CUT;
        }
        if (layout->cframe_previous && !python_place(walk, cframe)) return PYTHON_NOT_THERE;
        if (layout->cframe_previous &&
            !python_word(&walk->reader, cframe + layout->cframe_current, &frame))
            return PYTHON_CUT;
        if (frame) step = python_run(walk, &frame, &last);
        python_end_run(stack, layout->cframe_previous ? cframe : last);
        if (step != PYTHON_ENDS_RUN) return step;
        if (!layout->cframe_previous)
            cframe = frame;
        else if (!python_word(&walk->reader, cframe + layout->cframe_previous, &cframe))
            return PYTHON_CUT;
    }
    return cframe ? PYTHON_CUT : PYTHON_ENDS_RUN;
}

/* ---- the thread ---- */

/* The state of the calling thread; 0: it has none. `*has_lock`: nobody else runs in the interpreter
 * now, and what the thread's frames need stays. */
static uintptr_t python_state_of(const struct malloctape_lane *lane, struct unwind_memory *memory,
                                 bool *has_lock)
{
    const uintptr_t mine = (uintptr_t)python.of_thread();
    struct python_reader reader = {.memory = memory, .is_direct = false};
    uintptr_t thread, status = 0;
    if (python.current == NULL) {
        *has_lock = mine && python_word(&reader, mine + python.layout.state_status, &status) &&
                    (status & PYTHON_ACTIVE);
        return mine;
    }
    const uintptr_t current = (uintptr_t)python.current();
    *has_lock = current && (current == mine || python.layout.version >= 0x030c);
    if (*has_lock || !current) return *has_lock ? current : mine;
    /* The lock is another thread's, or that of another interpreter which this thread is in. */
    if (python_word(&reader, current + python.layout.state_thread, &thread) &&
        thread == (uintptr_t)lane->registry.thread_id) {
        *has_lock = true;
        return current;
    }
    return mine;
}

/* Whether all of a stack was read, and the mark of its innermost run is in this native frame. */
static bool python_has_mark(const struct interpreter_stack *stack,
                            const struct interpreter_native_frame *frame)
{
    return !stack->is_cut && stack->count > 0 && stack->run[0].mark >= frame->from &&
           stack->run[0].mark < frame->end;
}

/* A frame of what is not known as the loop has the mark, as far below its end as the loop's have it:
 * it is a part of the loop that the compiler has moved elsewhere. */
static void python_learn_rest(struct unwind_memory *memory, const struct interpreter_stack *stack,
                              const struct interpreter_native_frame *frame)
{
    struct unwind_object object;
    struct interpreter_range range;
    if (atomic_load_relaxed(&interpreter_loop_rest.start) || !python_has_mark(stack, frame) ||
        !unwind_find(frame->pc - 1, &object) || !unwind_learn(memory, &object) ||
        !unwind_function(memory, &object, frame->pc - 1, &range.start, &range.end))
        return;
    atomic_store_relaxed(&interpreter_loop_rest.start, range.start);
    atomic_store_release(&interpreter_loop_rest.end, range.end);
}

/* A stack was read by copies. */
static void python_try(const struct interpreter_stack *stack,
                       const struct interpreter_native *native)
{
    if (native->has_loop && python_has_mark(stack, &native->frame[native->count - 1])) {
        atomic_store_relaxed(&python.mark_below,
                             native->frame[native->count - 1].end - stack->run[0].mark);
        atomic_store_release(&python.trust, PYTHON_TRUSTED);
    }
    if (!stack->is_cut || stack->count > 0 ||
        atomic_add_relaxed(&python.tries, 1) + 1 != PYTHON_TRIES_MAX)
        return;
    atomic_store_release(&python.trust, PYTHON_REFUSED);
    notice_text("call stacks: functions of this Python are not seen: it is not laid out as others "
                "of its version are, or memory may not be copied");
}

void interpreter_frames(const struct malloctape_lane *lane, struct unwind_memory *memory,
                        const struct interpreter_native *native, struct interpreter_stack *stack)
{
    bool has_lock;
    stack->count = stack->runs = 0;
    stack->is_deeper = stack->is_cut = stack->is_placed = false;
    stack->key = 0;
    if (atomic_load_acquire(&python.state) != PYTHON_THERE) return;
    const uint32_t trust = atomic_load_acquire(&python.trust);
    if (trust == PYTHON_REFUSED) return;
    const uintptr_t state = python_state_of(lane, memory, &has_lock);
    if (!state) return;
    struct python_walk walk = {
        .reader = {.memory = memory,
                   .layout = &python.layout,
                   .hashing = &python.hashing,
                   .code_type = atomic_load_acquire(&python.code_type),
                   .is_direct = has_lock && trust == PYTHON_TRUSTED},
        .stack = stack,
        .native = native,
    };
    const enum python_step step = python_runs(&walk, state);
    if (step == PYTHON_NOT_THERE) stack->key = stack->count = stack->runs = 0;
    stack->is_cut = step != PYTHON_ENDS_RUN && !stack->is_deeper;
    stack->is_placed = walk.is_placed && walk.reader.is_direct && step != PYTHON_NOT_THERE;
    stack->key = python_mix(stack->key, (uint64_t)stack->is_cut << 1 | stack->is_deeper);
    if (trust == PYTHON_UNTRIED && has_lock) python_try(stack, native);
    if (has_lock && walk.is_placed && !walk.reader.is_direct && walk.placed_at < native->count)
        python_learn_rest(memory, stack, &native->frame[walk.placed_at]);
}

bool interpreter_numbers(struct malloctape_lane *lane, struct unwind_memory *memory,
                         struct interpreter_stack *stack)
{
    struct python_reader reader = {.memory = memory,
                                   .layout = &python.layout,
                                   .hashing = &python.hashing,
                                   .code_type = atomic_load_acquire(&python.code_type),
                                   .is_direct = stack->is_placed};
    for (uint32_t i = 0; i < stack->count; i++)
        if (!python_code_number(lane, &reader, &stack->function[i], &stack->memory,
                                &stack->code[i]))
            return false;
    return true;
}
