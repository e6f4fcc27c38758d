#include "convert/call_writer.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/call_table.h"

const struct error_kind call_writer_errors[] = {CALL_WRITER_ERROR_LIST(ERROR_LIST_KIND)};

#define NO_THREAD UINT32_MAX

/* In place of a kind: the thread ends. */
#define CALL_THREAD_END 0

struct thread {
    uint64_t id;
    uint32_t lane;
    uint32_t first, last; /* of its held calls, or 0 */
};

/* A held call, and its links in three lists: of all held calls, by age; of those of its thread; of
 * those that wait for the same name. */
struct held_call {
    struct call call;
    uint64_t waits_for; /* a name; 0: the call only follows a held one of its thread */
    uint32_t thread;
    uint32_t older, younger, next_of_thread, next_waiter;
    bool expects; /* when the call came, an allocation of what it ends was held */
};

/* Writing a held call changes the state of at most three names: what it ends, what it begins, and
 * the name that is no longer pending. */
#define CHANGED_MAX (3 * (size_t)CALLS_HELD_MAX + 16)

static bool call_writer_fail_memory(struct call_writer *writer)
{
    return error_set_system(&writer->error, "no memory");
}

bool call_writer_open(struct call_writer *writer, struct output *output, const char *metadata,
                      bool stacks)
{
    *writer = (struct call_writer){.thread = NO_THREAD};
    struct instruction_header header = {.metadata = metadata, .metadata_bytes = strlen(metadata)};
    if (stacks) header.features = INSTRUCTION_FEATURE_STACKS;
    if (instruction_writer_open(&writer->instructions, output, &header)) return true;
    writer->error = writer->instructions.error;
    return false;
}

/* ---- threads ---- */

static bool thread_take_lane(struct call_writer *writer, struct thread *thread)
{
    if (writer->lanes_free_count > 0) {
        thread->lane = writer->lanes_free[--writer->lanes_free_count];
    } else if (writer->lanes == INSTRUCTION_LANES_MAX) {
        return error_set(&writer->error, &call_writer_errors[CALL_WRITER_THREADS], ERROR_NO_OFFSET,
                         NULL);
    } else {
        thread->lane = writer->lanes++;
    }
    instruction_put_lane(&writer->instructions, thread->lane);
    instruction_put_thread_begin(&writer->instructions, thread->id);
    return true;
}

static bool thread_add(struct call_writer *writer, struct name *name)
{
    if (!array_reserve(&writer->threads, &writer->threads_room, writer->threads_count + 1,
                       sizeof *writer->threads))
        return call_writer_fail_memory(writer);
    struct thread *thread = &writer->threads[writer->threads_count];
    *thread = (struct thread){.id = name->name - 1};
    if (!thread_take_lane(writer, thread)) return false;
    name->object = writer->threads_count++;
    name->live = true;
    return true;
}

void call_writer_thread(struct call_writer *writer, uint64_t id)
{
    if (writer->thread != NO_THREAD && writer->threads[writer->thread].id == id) return;
    struct name *name = names_put(&writer->thread_names, id + 1);
    if (name == NULL) call_writer_fail_memory(writer);
    if (name == NULL || (!name->live && !thread_add(writer, name))) return;
    writer->thread = name->object;
}

static void end_thread(struct call_writer *writer, uint32_t index)
{
    struct thread *thread = &writer->threads[index];
    if (writer->lanes_free == NULL)
        writer->lanes_free = malloc(INSTRUCTION_LANES_MAX * sizeof *writer->lanes_free);
    if (writer->lanes_free == NULL) {
        call_writer_fail_memory(writer);
        return;
    }
    instruction_put_lane(&writer->instructions, thread->lane);
    instruction_put_thread_end(&writer->instructions);
    writer->lanes_free[writer->lanes_free_count++] = thread->lane;
}

/* ---- names ---- */

static bool is_live(const struct call_writer *writer, uint64_t name)
{
    const struct name *entry = names_find(&writer->names, name);
    return entry != NULL && entry->live;
}

bool call_writer_is_live(const struct call_writer *writer, uint64_t name)
{
    return is_live(writer, name);
}

/* Has the calls that wait for this name checked again. */
static void note_change(struct call_writer *writer, const struct name *entry)
{
    if (entry->first_waiter != 0) writer->changed[writer->changed_count++] = entry->name;
}

static void forget_unused(struct call_writer *writer, struct name *entry)
{
    if (!entry->live && entry->pending == 0 && entry->first_waiter == 0)
        names_remove(&writer->names, entry);
}

static void name_ends(struct call_writer *writer, struct name *entry)
{
    entry->live = false;
    note_change(writer, entry);
    forget_unused(writer, entry);
}

static void name_begins(struct call_writer *writer, uint64_t name, uint32_t object)
{
    struct name *entry = names_put(&writer->names, name);
    if (entry == NULL) {
        call_writer_fail_memory(writer);
        return;
    }
    /* The object that had the name stays alive without one. */
    if (entry->live) writer->counts.never_freed++;
    entry->object = object;
    entry->live = true;
    note_change(writer, entry);
}

/* ---- calls ---- */

static void write_allocation(struct call_writer *writer, const struct call *call, unsigned kind)
{
    struct instruction_writer *to = &writer->instructions;
    if (call->began == 0) {
        writer->counts.failed++;
        instruction_put_allocation_failed(to, kind, call->size, call->alignment);
        return;
    }
    name_begins(writer, call->began,
                instruction_put_allocation_with(to, kind, call->size, call->alignment, 0));
}

static void write_free(struct call_writer *writer, const struct call *call, unsigned kind)
{
    struct instruction_writer *to = &writer->instructions;
    struct name *entry = names_find(&writer->names, call->ended);
    if (entry == NULL || !entry->live) {
        writer->counts.unknown++;
        instruction_put_free_unknown(to, kind, call->size, call->alignment);
        return;
    }
    instruction_put_free_with(to, kind, entry->object, call->size, call->alignment);
    name_ends(writer, entry);
}

static void write_realloc(struct call_writer *writer, const struct call *call)
{
    struct instruction_writer *to = &writer->instructions;
    unsigned kind = call->ended == call->began ? CALL_REALLOC_IN_PLACE : CALL_REALLOC_MOVED;
    struct name *entry = names_find(&writer->names, call->ended);
    bool known = entry != NULL && entry->live;
    if (!known) writer->counts.unknown++;
    if (call->began == 0) {
        writer->counts.failed++;
        if (known)
            instruction_put_realloc_failed(to, entry->object, call->size);
        else
            instruction_put_realloc_unknown_failed(to, call->size);
        return;
    }
    uint32_t object;
    if (known) {
        object = entry->object;
        instruction_put_realloc(to, kind, object, call->size, 0);
        if (call->ended == call->began) return;
        name_ends(writer, entry);
    } else {
        object = instruction_put_realloc_unknown(to, kind, call->size, 0);
    }
    name_begins(writer, call->began, object);
}

static void write_call(struct call_writer *writer, uint32_t thread, const struct call *call)
{
    unsigned kind = call->kind;
    if (kind == CALL_THREAD_END) {
        end_thread(writer, thread);
        return;
    }
    instruction_put_lane(&writer->instructions, writer->threads[thread].lane);
    if (call->ways != 0) instruction_put_path(&writer->instructions, call->ways);
    if (call->began != 0) instruction_put_stack(&writer->instructions, call->stack);
    switch (call_shapes[kind]) {
    case SHAPE_ALLOCATION:
    case SHAPE_ALLOCATION_ALIGNED: write_allocation(writer, call, kind); break;
    case SHAPE_REALLOC:
        if (call->ended == 0)
            write_allocation(writer, call, CALL_REALLOC_NULL);
        else if (call->began == 0 && call->size == 0)
            write_free(writer, call, CALL_REALLOC_ZERO);
        else
            write_realloc(writer, call);
        break;
    default: write_free(writer, call, kind);
    }
    if (writer->instructions.live_bytes > writer->peak_live_bytes)
        writer->peak_live_bytes = writer->instructions.live_bytes;
}

/* ---- calls that must wait ---- */

/* The name that a call has to wait for, or 0. */
static uint64_t awaited(const struct call_writer *writer, const struct call *call, bool expects)
{
    if (expects && call->ended != 0) {
        const struct name *entry = names_find(&writer->names, call->ended);
        if (entry != NULL && !entry->live && entry->pending > 0) return call->ended;
    }
    if (call->began != 0 && call->began != call->ended && is_live(writer, call->began))
        return call->began;
    return 0;
}

/* Whether an allocation of what the call ends is held. */
static bool expects_object(const struct call_writer *writer, const struct call *call)
{
    const struct name *entry = names_find(&writer->names, call->ended);
    return entry != NULL && entry->pending > 0;
}

static void call_writer_wait_for(struct call_writer *writer, uint32_t one, uint64_t name)
{
    struct name *entry = names_put(&writer->names, name);
    if (entry == NULL) {
        call_writer_fail_memory(writer);
        return;
    }
    if (entry->last_waiter != 0)
        writer->held[entry->last_waiter].next_waiter = one;
    else
        entry->first_waiter = one;
    entry->last_waiter = one;
    writer->held[one].next_waiter = 0;
    writer->held[one].waits_for = name;
}

static void wait_no_more(struct call_writer *writer, uint32_t one)
{
    struct name *entry = names_find(&writer->names, writer->held[one].waits_for);
    uint32_t before = 0, at = entry->first_waiter;
    while (at != one) {
        before = at;
        at = writer->held[at].next_waiter;
    }
    uint32_t next = writer->held[one].next_waiter;
    if (before != 0)
        writer->held[before].next_waiter = next;
    else
        entry->first_waiter = next;
    if (next == 0) entry->last_waiter = before;
    writer->held[one].waits_for = 0;
    forget_unused(writer, entry);
}

static uint32_t held_take(struct call_writer *writer)
{
    if (writer->held == NULL) {
        writer->held = malloc((CALLS_HELD_MAX + 1) * sizeof *writer->held);
        writer->changed = malloc(CHANGED_MAX * sizeof *writer->changed);
    }
    if (writer->held == NULL || writer->changed == NULL) {
        call_writer_fail_memory(writer);
        return 0;
    }
    uint32_t one = writer->held_unused;
    if (one != 0)
        writer->held_unused = writer->held[one].next_of_thread;
    else
        one = ++writer->held_used;
    writer->held_count++;
    return one;
}

static void held_give_back(struct call_writer *writer, uint32_t one)
{
    struct held_call *held = &writer->held[one];
    if (held->older != 0)
        writer->held[held->older].younger = held->younger;
    else
        writer->oldest = held->younger;
    if (held->younger != 0)
        writer->held[held->younger].older = held->older;
    else
        writer->youngest = held->older;
    held->next_of_thread = writer->held_unused;
    writer->held_unused = one;
    writer->held_count--;
}

/* Holds a call, after other held calls of its thread; alone if the file has no threads. `name`:
 * what it waits for, or 0 if it only follows others. */
static void hold(struct call_writer *writer, const struct call *call, uint64_t name, bool expects)
{
    uint32_t one = held_take(writer);
    if (one == 0) return;
    struct held_call *held = &writer->held[one];
    *held = (struct held_call){.call = *call, .thread = writer->thread, .expects = expects};
    held->older = writer->youngest;
    if (writer->youngest != 0)
        writer->held[writer->youngest].younger = one;
    else
        writer->oldest = one;
    writer->youngest = one;
    struct thread *thread = &writer->threads[writer->thread];
    if (writer->has_threads) {
        if (thread->last != 0) writer->held[thread->last].next_of_thread = one;
        if (thread->first == 0) thread->first = one;
        thread->last = one;
    }
    if (call->began != 0) {
        struct name *entry = names_put(&writer->names, call->began);
        if (entry == NULL)
            call_writer_fail_memory(writer);
        else
            entry->pending++;
    }
    if (name != 0) call_writer_wait_for(writer, one, name);
}

/* Writes a held call that waits for nothing. */
static void write_held(struct call_writer *writer, uint32_t one)
{
    const struct held_call held = writer->held[one];
    if (writer->has_threads) {
        struct thread *thread = &writer->threads[held.thread];
        thread->first = held.next_of_thread;
        if (thread->first == 0) thread->last = 0;
    }
    held_give_back(writer, one);
    if (held.call.began != 0) {
        struct name *entry = names_find(&writer->names, held.call.began);
        entry->pending--;
        note_change(writer, entry);
        forget_unused(writer, entry);
    }
    write_call(writer, held.thread, &held.call);
}

/* Writes a held call, and the following ones of its thread up to the next that must wait. */
static void let_go(struct call_writer *writer, uint32_t one)
{
    const uint32_t thread = writer->held[one].thread;
    write_held(writer, one);
    while (writer->has_threads && (one = writer->threads[thread].first) != 0) {
        const struct held_call *next = &writer->held[one];
        uint64_t name = awaited(writer, &next->call, next->expects);
        if (name != 0) {
            call_writer_wait_for(writer, one, name);
            return;
        }
        write_held(writer, one);
    }
}

/* Checks the calls that wait for a name. They all wait for its beginning, or all for its end: so
 * while the first one must wait, the others must, too. */
static void look_at_waiters(struct call_writer *writer, uint64_t name)
{
    const struct name *entry;
    while ((entry = names_find(&writer->names, name)) != NULL && entry->first_waiter != 0 &&
           !error_is_set(&writer->error)) {
        uint32_t one = entry->first_waiter;
        uint64_t waits_for = awaited(writer, &writer->held[one].call, writer->held[one].expects);
        if (waits_for == name) return;
        wait_no_more(writer, one);
        if (waits_for != 0)
            call_writer_wait_for(writer, one, waits_for);
        else
            let_go(writer, one);
    }
}

static void look_at_changed(struct call_writer *writer)
{
    while (writer->changed_first < writer->changed_count && !error_is_set(&writer->error))
        look_at_waiters(writer, writer->changed[writer->changed_first++]);
    writer->changed_first = writer->changed_count = 0;
}

/* Releases the call that has been held longest, which is the first of its thread and so waits for a
 * name. False: no call is held. */
static bool release_oldest(struct call_writer *writer)
{
    uint32_t one = writer->oldest;
    if (one == 0 || error_is_set(&writer->error)) return false;
    wait_no_more(writer, one);
    let_go(writer, one);
    look_at_changed(writer);
    return true;
}

/* ---- for readers ---- */

/* Whether calls of the current thread are held. */
static bool is_held(const struct call_writer *writer)
{
    return writer->has_threads && writer->thread != NO_THREAD &&
           writer->threads[writer->thread].first != 0;
}

static bool call_put_now(struct call_writer *writer, const struct call *call)
{
    if (writer->thread == NO_THREAD) call_writer_thread(writer, 0);
    if (writer->held_count == CALLS_HELD_MAX) release_oldest(writer);
    if (error_is_set(&writer->error)) return false;
    bool behind = is_held(writer);
    bool expects = writer->held_count > 0 && expects_object(writer, call);
    uint64_t name = behind ? 0 : awaited(writer, call, expects);
    if (behind || name != 0) {
        writer->counts.held += name != 0 && name == call->began;
        hold(writer, call, name, expects);
    } else {
        write_call(writer, writer->thread, call);
        look_at_changed(writer);
    }
    if (instruction_writer_failed(&writer->instructions) && !error_is_set(&writer->error))
        writer->error = writer->instructions.error;
    return !error_is_set(&writer->error);
}

bool call_writer_put(struct call_writer *writer, const struct call *call)
{
    bool ends = call_shapes[call->kind] != SHAPE_ALLOCATION &&
                call_shapes[call->kind] != SHAPE_ALLOCATION_ALIGNED &&
                call_shapes[call->kind] != SHAPE_REALLOC;
    if (ends && call->ended == 0) {
        writer->counts.frees_of_null++;
        return !error_is_set(&writer->error);
    }
    if (call->began != 0 && call->size == UINT64_MAX)
        return error_set(&writer->error, &call_writer_errors[CALL_WRITER_SIZE], ERROR_NO_OFFSET,
                         NULL);
    return call_put_now(writer, call);
}

void call_writer_thread_end(struct call_writer *writer)
{
    if (writer->thread == NO_THREAD || error_is_set(&writer->error)) return;
    struct name *name = names_find(&writer->thread_names, writer->threads[writer->thread].id + 1);
    if (name != NULL) names_remove(&writer->thread_names, name);
    call_put_now(writer, &(struct call){.kind = CALL_THREAD_END});
    writer->thread = NO_THREAD;
}

static void call_writer_put_tick(struct call_writer *writer, uint64_t ns)
{
    instruction_put_tick(&writer->instructions, ns - writer->ticked_ns, writer->rss, 0);
    writer->ticked_ns = ns;
}

void call_writer_time(struct call_writer *writer, uint64_t ns, uint64_t rss)
{
    if (!writer->timed) {
        writer->timed = true;
        writer->first_ns = writer->latest_ns = writer->ticked_ns = ns;
    }
    if (ns > writer->latest_ns) writer->latest_ns = ns;
    if (rss > 0) writer->rss = rss;
    if (ns >= writer->ticked_ns + CALL_TICK_NS && ns > writer->ticked_ns)
        call_writer_put_tick(writer, ns);
}

/* Releases all held calls, at the end of the file. */
static void let_all_go(struct call_writer *writer)
{
    while (release_oldest(writer)) {}
    if (writer->latest_ns > writer->ticked_ns) call_writer_put_tick(writer, writer->latest_ns);
}

bool call_writer_finish(struct call_writer *writer)
{
    let_all_go(writer);
    if (!instruction_writer_finish(&writer->instructions, INSTRUCTION_STATUS_COMPLETE) &&
        !error_is_set(&writer->error))
        writer->error = writer->instructions.error;
    return !error_is_set(&writer->error);
}

void call_writer_cut(struct call_writer *writer)
{
    let_all_go(writer);
    instruction_writer_flush(&writer->instructions);
}

void call_writer_close(struct call_writer *writer)
{
    instruction_writer_close(&writer->instructions);
    names_free(&writer->names);
    names_free(&writer->thread_names);
    free(writer->threads);
    free(writer->lanes_free);
    free(writer->held);
    free(writer->changed);
}
