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
#include "tracing/stacks/interpreter_own.h"

#include "common/atomic.h"
#include "tracing/data/notice.h"
#include "tracing/os/os.h"
#include "tracing/stacks/python_code.h"
#include "tracing/stacks/stack_table.h"
#include "tracing/stacks/unwind_symbol.h"

#include <string.h>

/* Of a state's status: its thread has the lock. */
#define PYTHON_ACTIVE UINT64_C(16)

/* What is read of a frame. */
#define PYTHON_FRAME_BYTES 72u

static struct {
    struct python_layout layout;
    uintptr_t code_type;      /* what code objects are (release); 0: not known yet */
    void *(*current)(void);   /* the state of the thread that has the lock; of 3.12 on, if it is the
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

/* What 3.13 says of itself at the beginning of _PyRuntime, by their places there: whether the
 * layout is that of the table. */
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

/* ... and the functions that are called. */
static bool python_is_it(struct unwind_memory *memory, const struct unwind_object *object)
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
    python.code_type = 0;
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

/* ---- a stack ---- */

/* Learns what code objects are, by the name of their type. */
static bool python_learn_type(struct python_reader *reader, uintptr_t object)
{
    uintptr_t type, name;
    char text[sizeof "code"];
    if (reader->in.is_direct || !interpreter_word(&reader->in, object + PYTHON_TYPE, &type) ||
        !interpreter_word(&reader->in, type + PYTHON_TYPE_NAME, &name) ||
        !interpreter_read(&reader->in, name, text, sizeof text) ||
        memcmp(text, "code", sizeof text) != 0)
        return false;
    reader->code_type = type;
    atomic_store_release(&python.code_type, type);
    return true;
}

/* Where a walk is. */
struct python_walk {
    struct python_reader reader;
    struct interpreter_walk *shared;
    struct interpreter_stack *stack;
    uint32_t reads; /* of code objects */
};

struct python_frame {
    uintptr_t code, previous, instruction;
    uint8_t owner;
    uint8_t is_entry; /* 0 or not; it ends a run */
};

static inline struct python_frame python_frame_at(const struct python_layout *layout, uintptr_t at)
{
    return (struct python_frame){
        .code = interpreter_at(at, layout->frame.code),
        .previous = interpreter_at(at, layout->frame.previous),
        .instruction = interpreter_at(at, layout->frame.instruction),
        .owner = ((const uint8_t *)at)[layout->frame.owner],
        .is_entry = ((const uint8_t *)at)[layout->frame.is_entry],
    };
}

static inline bool python_read_frame(struct python_reader *reader,
                                     const struct python_layout *layout, uintptr_t at,
                                     struct python_frame *frame)
{
    if (!interpreter_is_object(at)) return false;
    if (reader->in.is_direct) {
        *frame = python_frame_at(layout, at);
        return true;
    }
    /* The callers' frames mostly lie below. */
    const uint8_t *piece = unwind_memory_piece_below(reader->in.memory, at, PYTHON_FRAME_BYTES);
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

/* A run, as far as it has been read. For each version of Python there is a copy of the functions
 * that read it, in which its layout is a constant and all of this is in registers. */
struct python_run {
    const struct python_layout *layout;
    uintptr_t frame; /* the next one */
    uintptr_t outer; /* where the next run begins, if this one has a cframe */
    uint32_t count;  /* of functions in the stack */
    uint64_t key;    /* of the stack */
};

/* Adds the function of a frame. One whose first instructions have not been carried out is not there
 * yet for Python, and some such frames never are; but the innermost one may allocate. */
static inline __attribute__((always_inline)) enum interpreter_step python_add(
    struct python_walk *walk, struct python_run *run, const struct python_frame *frame)
{
    uint64_t hash;
    uint32_t traceable;
    if (!(walk->reader.in.is_direct && python_code_hash_direct(run->layout, walk->reader.code_type,
                                                               frame->code, &hash, &traceable)) &&
        !python_read_code(walk, frame->code, &hash, &traceable))
        return INTERPRETER_CUT;
    const int64_t at =
        (int64_t)(frame->instruction - (frame->code + run->layout->code.instructions));
    if (frame->owner != PYTHON_OF_GENERATOR && at < 2 * (int64_t)traceable && run->count > 0)
        return INTERPRETER_ON;
    return interpreter_add_to(walk->stack, &run->count, &run->key, frame->code, at,
                              interpreter_mix(hash, (uint64_t)at));
}

/* interpreter_place() */
static bool python_place(struct python_walk *walk, uintptr_t mark)
{
    const bool is_there = interpreter_place(walk->shared, mark);
    walk->reader.in.is_direct = walk->shared->reader.is_direct;
    return is_there;
}

/* The innermost cframe where the state has another one. The state may be that of the thread's main
 * interpreter, while it runs without the lock in another one; or a library has exchanged what is on
 * the stack, but not the state yet. */
static uintptr_t python_cframe_in_loop(struct python_walk *walk)
{
    walk->reader.in.is_direct = false;
    return interpreter_mark_in_loop(walk->shared);
}

/* Of a frame that ends a run on the stack. */
static inline bool python_place_frame(struct python_walk *walk, const struct python_layout *layout,
                                      uintptr_t frame)
{
    return layout->cframe_previous || walk->shared->is_placed ||
           !unwind_memory_is_stack(walk->reader.in.memory, frame) || python_place(walk, frame);
}

/* One frame, and the one further out. */
static inline __attribute__((always_inline)) enum interpreter_step python_step(
    struct python_walk *walk, struct python_run *run)
{
    const bool has_entries = run->layout->frame.is_entry;
    struct python_frame frame;
    if (!python_place_frame(walk, run->layout, run->frame)) return INTERPRETER_NOT_THERE;
    if (!python_read_frame(&walk->reader, run->layout, run->frame, &frame)) return INTERPRETER_CUT;
    const bool is_function = has_entries || frame.owner != PYTHON_OF_STACK;
    const enum interpreter_step step = is_function ? python_add(walk, run, &frame) : INTERPRETER_ON;
    if (step != INTERPRETER_ON) return step;
    run->frame = frame.previous;
    /* An exception that is thrown into a generator is passed on to the one that it awaits without
     * running its frame, which then is before that of the caller, and still has its mark. */
    return (has_entries ? frame.is_entry && frame.previous == run->outer : !is_function)
               ? INTERPRETER_ENDS_RUN
               : INTERPRETER_ON;
}

/* The frames of one run, from `*frame` on; then `*frame` is the next one, and `*last` the outermost
 * of these. */
static inline __attribute__((always_inline)) enum interpreter_step python_run_of(
    struct python_walk *walk, const struct python_layout *layout, uintptr_t outer, uintptr_t *frame,
    uintptr_t *last)
{
    struct interpreter_stack *stack = walk->stack;
    struct python_run run = {layout, *frame, outer, stack->count, stack->key};
    enum interpreter_step step = INTERPRETER_ON;
    /* A chain of frames that go round ends when there is no more room; one of frames that have no
     * function would not. */
    for (uint32_t i = 0; i < 4 * INTERPRETER_DEPTH_MAX && run.frame && step == INTERPRETER_ON;
         i++) {
        *last = run.frame;
        step = python_step(walk, &run);
    }
    stack->count = run.count;
    stack->key = run.key;
    *frame = run.frame;
    return step == INTERPRETER_ON ? run.frame ? INTERPRETER_CUT : INTERPRETER_ENDS_RUN : step;
}

static enum interpreter_step python_run(struct python_walk *walk, uintptr_t outer, uintptr_t *frame,
                                        uintptr_t *last)
{
    switch (python.layout.version) {
    case 0x030b: return python_run_of(walk, &python_layouts[0], outer, frame, last);
    case 0x030c: return python_run_of(walk, &python_layouts[1], outer, frame, last);
    default: return python_run_of(walk, &python_layouts[2], outer, frame, last);
    }
}

/* Where a run begins: with its cframe (0: there is none), and its innermost frame. */
struct python_begin {
    uintptr_t cframe, frame;
};

/* The next one after that of a cframe. False: it cannot be read. */
static bool python_next_run(struct python_walk *walk, uintptr_t cframe, struct python_begin *next)
{
    const struct python_layout *layout = &python.layout;
    struct interpreter_reader *reader = &walk->reader.in;
    *next = (struct python_begin){.cframe = 0};
    return interpreter_word(reader, cframe + layout->cframe_previous, &next->cframe) &&
           (!next->cframe ||
            interpreter_word(reader, next->cframe + layout->cframe_current, &next->frame));
}

/* The runs of a thread's state, each of which has a cframe. */
static enum interpreter_step python_runs_of_cframes(struct python_walk *walk, uintptr_t state)
{
    const struct python_layout *layout = &python.layout;
    struct interpreter_reader *reader = &walk->reader.in;
    struct python_begin run = {.cframe = 0}, next;
    uintptr_t last;
    if (!interpreter_word(reader, state + layout->state_frames, &run.cframe))
        return INTERPRETER_CUT;
    if (run.cframe && !python_place(walk, run.cframe)) run.cframe = python_cframe_in_loop(walk);
    if (run.cframe && !interpreter_word(reader, run.cframe + layout->cframe_current, &run.frame))
        return INTERPRETER_CUT;
    for (uint32_t i = 0; i < 4 * INTERPRETER_RUNS_MAX && run.cframe; i++) {
        if (!interpreter_has_room(walk->stack)) return INTERPRETER_CUT;
        const bool is_read = python_next_run(walk, run.cframe, &next);
        const enum interpreter_step step =
            run.frame ? python_run(walk, next.frame, &run.frame, &last) : INTERPRETER_ENDS_RUN;
        interpreter_end_run(walk->stack, run.cframe);
        if (step != INTERPRETER_ENDS_RUN) return step;
        if (!is_read) return INTERPRETER_CUT;
        run = next;
    }
    return run.cframe ? INTERPRETER_CUT : INTERPRETER_ENDS_RUN;
}

/* The same of 3.13, which has no cframes. */
static enum interpreter_step python_runs_of_frames(struct python_walk *walk, uintptr_t state)
{
    uintptr_t frame, last = 0;
    if (!interpreter_word(&walk->reader.in, state + python.layout.state_frames, &frame))
        return INTERPRETER_CUT;
    for (uint32_t i = 0; i < 4 * INTERPRETER_RUNS_MAX && frame; i++) {
        if (!interpreter_has_room(walk->stack)) return INTERPRETER_CUT;
        const enum interpreter_step step = python_run(walk, 0, &frame, &last);
        interpreter_end_run(walk->stack, last);
        if (step != INTERPRETER_ENDS_RUN) return step;
    }
    return frame ? INTERPRETER_CUT : INTERPRETER_ENDS_RUN;
}

static enum interpreter_step python_runs(struct python_walk *walk, uintptr_t state)
{
    return python.layout.cframe_previous ? python_runs_of_cframes(walk, state)
                                         : python_runs_of_frames(walk, state);
}

static struct python_reader python_reader_of(const struct interpreter_reader *reader)
{
    return (struct python_reader){.in = *reader,
                                  .layout = &python.layout,
                                  .hashing = &python.hashing,
                                  .code_type = atomic_load_acquire(&python.code_type)};
}

static enum interpreter_step python_runs_of(struct interpreter_walk *shared, uintptr_t state)
{
    struct python_walk walk = {
        .reader = python_reader_of(&shared->reader), .shared = shared, .stack = shared->stack};
    return python_runs(&walk, state);
}

static bool python_define_function(struct malloctape_lane *lane, struct interpreter_reader *reader,
                                   const struct interpreter_function *function, uint8_t *text,
                                   uint32_t *number)
{
    struct python_reader its = python_reader_of(reader);
    return python_define(lane, &its, function, text, number);
}

/* ---- the thread ---- */

static uintptr_t python_state_of(const struct malloctape_lane *lane,
                                 struct interpreter_reader *trusted, bool *has_lock)
{
    const uintptr_t mine = (uintptr_t)python.of_thread();
    struct interpreter_reader reader = {.memory = trusted->memory, .is_direct = false};
    uintptr_t thread, status = 0;
    if (python.current == NULL) {
        *has_lock = mine && interpreter_word(&reader, mine + python.layout.state_status, &status) &&
                    (status & PYTHON_ACTIVE);
        return mine;
    }
    const uintptr_t current = (uintptr_t)python.current();
    *has_lock = current && (current == mine || python.layout.version >= 0x030c);
    if (*has_lock || !current) return *has_lock ? current : mine;
    /* The lock is another thread's, or that of another interpreter which this thread is in. */
    if (interpreter_word(&reader, current + python.layout.state_thread, &thread) &&
        thread == (uintptr_t)lane->registry.thread_id) {
        *has_lock = true;
        return current;
    }
    return mine;
}

const struct interpreter_language interpreter_python = {.name = PYTHON_LANGUAGE,
                                                        .title = "Python",
                                                        .is_it = python_is_it,
                                                        .state = python_state_of,
                                                        .runs = python_runs_of,
                                                        .define = python_define_function};
