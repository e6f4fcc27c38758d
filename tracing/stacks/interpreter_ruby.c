/* interpreter_ruby - Ruby 3.1, as a library (interpreter.h).
 *
 *   ruby_current_ec, of the thread
 *      | control frames, one above the other: the callers'
 *      |    instruction sequence (ruby_code.h), the word after the one that it is in, flags
 *      | tags --previous--> ... where rb_vm_exec() and others catch what is thrown
 *      | thread: whether it has the lock
 *
 * rb_vm_exec() runs frames up to one with a flag, and has a tag on its stack, which says where it
 * goes on: so the tags that go on in that function are the marks of runs. Other functions have
 * tags, too. */
#include "tracing/stacks/interpreter_own.h"

#include "common/arch.h"
#include "common/atomic.h"
#include "tracing/data/notice.h"
#include "tracing/os/os.h"
#include "tracing/stacks/ruby_code.h"
#include "tracing/stacks/unwind_thread.h"

#include <pthread.h>
#include <string.h>

/* Where things are in Ruby 3.1. */
enum {
    RUBY_EC_STACK = 0,
    RUBY_EC_STACK_WORDS = 8,
    RUBY_EC_FRAME = 16,
    RUBY_EC_TAG = 24,
    RUBY_EC_THREAD = 48,
    RUBY_THREAD_EC = 40,
    RUBY_THREAD_ID = 80,
    RUBY_THREAD_BLOCKING = 168, /* not 0: it has given the lock away */
    RUBY_FRAME_PC = 0,
    RUBY_FRAME_ISEQ = 16,
    RUBY_FRAME_EP = 32, /* points to flags */
    RUBY_FRAME_BYTES = 64,
    RUBY_TAG_GOES_ON = 24,
    RUBY_TAG_PREVIOUS = 56
};

/* Of a frame's flags. */
#define RUBY_ENDS_RUN  0x20u
#define RUBY_OF_C      0x80u
#define RUBY_KIND      0x7fff0000u
#define RUBY_OUTERMOST 0x79990000u

/* Tags, and frames that are no functions. */
#define RUBY_TAGS_MAX   4096u
#define RUBY_FRAMES_MAX 4096u

#define RUBY_VERSION "3.1."

static struct {
    struct unwind_thread_variable current; /* the thread's execution context */
    uintptr_t vm;                          /* a pointer, NULL at the end */
    int (*collects)(void);                 /* garbage is being collected */
} ruby;

static bool ruby_is_it(struct unwind_memory *memory, const struct unwind_object *object)
{
    struct unwind_symbols symbols;
    char version[sizeof "3.10.10"] = "";
    uintptr_t bytes = 0;
    if (!unwind_symbols_open(memory, object, &symbols)) return false;
    const uintptr_t says =
        unwind_symbol(memory, object, &symbols, "ruby_version", UNWIND_SYMBOL_DATA, &bytes);
    const uintptr_t loop =
        unwind_symbol(memory, object, &symbols, "rb_vm_exec", UNWIND_SYMBOL_FUNCTION, NULL);
    if (!says || !loop) return false;
    if (bytes > sizeof version - 1) bytes = sizeof version - 1;
    const bool is_known = unwind_read(memory, object, says, version, bytes) &&
                          memcmp(version, RUBY_VERSION, strlen(RUBY_VERSION)) == 0;
    const uintptr_t collects =
        unwind_symbol(memory, object, &symbols, "rb_during_gc", UNWIND_SYMBOL_FUNCTION, NULL);
    ruby.vm =
        unwind_symbol(memory, object, &symbols, "ruby_current_vm_ptr", UNWIND_SYMBOL_DATA, NULL);
    if (!is_known || !collects || !ruby.vm ||
        !unwind_thread_variable(memory, object, &symbols, "ruby_current_ec", &ruby.current)) {
        notice_text("call stacks: functions of this Ruby are not seen: only those of " RUBY_VERSION
                    "x as a library are");
        return false;
    }
    ruby.collects = (int (*)(void))collects;
    unwind_symbol(memory, object, &symbols, "rb_vm_exec", UNWIND_SYMBOL_FUNCTION, &bytes);
    atomic_store_relaxed(&interpreter_loop.start, loop);
    atomic_store_relaxed(&interpreter_loop.end, loop + bytes);
    return true;
}

/* ---- the thread ---- */

/* Words of one structure: as they are, or copied at once. */
static bool ruby_words(struct interpreter_reader *reader, uint64_t *to, const uintptr_t *from,
                       uint32_t count)
{
    if (!reader->is_direct) return os_memory_copy_words(reader->memory->thread_id, to, from, count);
    for (uint32_t i = 0; i < count; i++)
        to[i] = interpreter_at(from[i], 0);
    return true;
}

/* The thread may have ended for Ruby, and its structures may have been freed: so they are copied,
 * but where the loop is in its stack. Only what it has itself set, and not yet taken back, is its
 * state. */
static uintptr_t ruby_state(const struct malloctape_lane *lane, struct interpreter_reader *reader,
                            bool *has_lock)
{
    uint64_t of_ec[2], of_thread[3];
    uintptr_t ec = 0;
    (void)lane;
    *has_lock = false;
    if (!unwind_thread_word(reader->memory, &ruby.current, &ec) || !interpreter_is_object(ec))
        return 0;
    const uintptr_t from_ec[] = {ec + RUBY_EC_FRAME, ec + RUBY_EC_THREAD};
    if (!ruby_words(reader, of_ec, from_ec, 2) || !of_ec[0] || !interpreter_is_object(of_ec[1]))
        return 0;
    const uintptr_t from_thread[] = {of_ec[1] + RUBY_THREAD_EC, of_ec[1] + RUBY_THREAD_ID,
                                     of_ec[1] + RUBY_THREAD_BLOCKING};
    if (!ruby_words(reader, of_thread, from_thread, 3) || of_thread[0] != ec ||
        of_thread[1] != (uintptr_t)pthread_self())
        return 0;
    /* Before the interpreter ends there is what it asks. */
    *has_lock = of_thread[2] == 0 && interpreter_at(ruby.vm, 0) && !ruby.collects();
    return ec;
}

/* ---- frames ---- */

struct ruby_walk {
    struct interpreter_walk *walk;
    uintptr_t tag;  /* not yet taken for a mark */
    uintptr_t mark; /* of the run; 0: not yet looked for */
    uint32_t tags, reads;
};

struct ruby_frame {
    uintptr_t pc, iseq, ep, flags;
};

static bool ruby_read_frame(struct interpreter_reader *reader, uintptr_t at,
                            struct ruby_frame *frame)
{
    return interpreter_word(reader, at + RUBY_FRAME_PC, &frame->pc) &&
           interpreter_word(reader, at + RUBY_FRAME_ISEQ, &frame->iseq) &&
           interpreter_word(reader, at + RUBY_FRAME_EP, &frame->ep) &&
           interpreter_is_object(frame->ep) && interpreter_word(reader, frame->ep, &frame->flags);
}

/* Finds the mark of the next run. */
static bool ruby_find_mark(struct ruby_walk *ruby_walk)
{
    struct interpreter_reader *reader = &ruby_walk->walk->reader;
    uintptr_t goes_on, at;
    while (ruby_walk->tags++ < RUBY_TAGS_MAX && interpreter_is_object(ruby_walk->tag)) {
        at = ruby_walk->tag;
        if (!interpreter_word(reader, at + RUBY_TAG_GOES_ON, &goes_on) ||
            !interpreter_word(reader, at + RUBY_TAG_PREVIOUS, &ruby_walk->tag))
            return false;
        if (!interpreter_has(&interpreter_loop, goes_on)) continue;
        ruby_walk->mark = at;
        return true;
    }
    return false;
}

static enum interpreter_step ruby_step(struct ruby_walk *ruby_walk, uintptr_t at)
{
    struct interpreter_walk *walk = ruby_walk->walk;
    struct ruby_frame frame;
    int64_t line;
    uint64_t hash;
    if (!ruby_read_frame(&walk->reader, at, &frame)) return INTERPRETER_CUT;
    /* What C has called, what has no instructions (files of libraries that are being loaded), and
     * what is only there to end a thread's stack. */
    if ((frame.flags & RUBY_OF_C) || !frame.pc || !frame.iseq ||
        (frame.flags & RUBY_KIND) == RUBY_OUTERMOST)
        return INTERPRETER_ON;
    if (!ruby_walk->mark) {
        if (!interpreter_has_room(walk->stack) || !ruby_find_mark(ruby_walk))
            return INTERPRETER_CUT;
        if (!interpreter_place(walk, ruby_walk->mark)) return INTERPRETER_NOT_THERE;
    }
    if (!ruby_code_hash(&walk->reader, &walk->stack->memory, &ruby_walk->reads, frame.iseq,
                        frame.pc, &line, &hash))
        return INTERPRETER_CUT;
    const enum interpreter_step step = interpreter_add(walk->stack, frame.iseq, line, hash);
    if (step != INTERPRETER_ON || !(frame.flags & RUBY_ENDS_RUN)) return step;
    interpreter_end_run(walk->stack, ruby_walk->mark);
    ruby_walk->mark = 0;
    return INTERPRETER_ON;
}

static enum interpreter_step ruby_runs(struct interpreter_walk *walk, uintptr_t ec)
{
    struct interpreter_reader *reader = &walk->reader;
    struct ruby_walk ruby_walk = {.walk = walk};
    uintptr_t frame, stack, words;
    enum interpreter_step step = INTERPRETER_ON;
    if (!interpreter_word(reader, ec + RUBY_EC_STACK, &stack) ||
        !interpreter_word(reader, ec + RUBY_EC_STACK_WORDS, &words) ||
        !interpreter_word(reader, ec + RUBY_EC_FRAME, &frame) ||
        !interpreter_word(reader, ec + RUBY_EC_TAG, &ruby_walk.tag) ||
        !interpreter_is_object(frame) || frame < stack)
        return INTERPRETER_CUT;
    const uintptr_t end = stack + words * sizeof(uintptr_t);
    for (uint32_t i = 0; i < RUBY_FRAMES_MAX && frame < end && step == INTERPRETER_ON;
         i++, frame += RUBY_FRAME_BYTES)
        step = ruby_step(&ruby_walk, frame);
    if (step != INTERPRETER_NOT_THERE && ruby_walk.mark)
        interpreter_end_run(walk->stack, ruby_walk.mark);
    if (step != INTERPRETER_ON) return step;
    return frame == end ? INTERPRETER_ENDS_RUN : INTERPRETER_CUT;
}

const struct interpreter_language interpreter_ruby = {.name = RUBY_LANGUAGE,
                                                      .title = "Ruby",
                                                      .stays = true,
                                                      .is_it = ruby_is_it,
                                                      .state = ruby_state,
                                                      .runs = ruby_runs,
                                                      .define = ruby_define};
