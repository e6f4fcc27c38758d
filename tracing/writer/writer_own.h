/* writer_own - what the files of the writer share.
 *
 *   writer.c         its output; what other threads ask of it; the thread and its loop
 *   writer_end.c     counts, messages, the end
 *   writer_ticks.c   windows and ticks
 *   writer_residency.c   what is resident
 *   writer_large.c   what of large objects is
 *   writer_library.c   what of the recorder's own library is
 *   writer_cells.c   cells become chunks of mappings
 *   writer_slots.c   slots become chunks; more slots
 *
 * Each calls those below it.
 *
 * Threads   the writer thread, if nothing else is said. */
#ifndef MALLOCTAPE_WRITER_OWN_H
#define MALLOCTAPE_WRITER_OWN_H

#include "stream/residency.h"
#include "stream/units.h"
#include "tracing/data/front_end.h"
#include "tracing/data/spool.h"

/* Slots of one lane that are written before the writer looks at the rest again. */
#define WRITER_SLOTS_PER_PASS 64

/* A negative `result`, which concerns `what`, ends the recording, as the loop sees it. Returns
 * `result`. Any thread. */
static inline int writer_check(struct writer *writer, int result, const char *what)
{
    if (result < 0) {
        atomic_store_relaxed(&writer->failed, what);
        atomic_store_release(&writer->error, result);
    }
    return result;
}

/* The error that has ended the recording, or 0. `failed` is valid then. Any thread. */
static inline int writer_error(const struct writer *writer)
{
    return atomic_load_acquire(&writer->error);
}

/* Whether an access to the spool has failed before this: what has been read there may be zeros. An
 * acquire load would only order what comes after it. */
static inline bool writer_has_read_zeros(const struct writer *writer)
{
    atomic_fence_acquire();
    return atomic_load_relaxed(&writer->error) != 0;
}

/* `slots` have become free: wakes as many of the threads that wait, those that have waited longest
 * first. */
static inline void writer_wake_waiters(struct writer *writer, uint32_t slots)
{
    if (slots == 0) return;
    atomic_add_seq_cst(&writer->space_epoch, 1);
    if (atomic_load_seq_cst(&writer->waiters)) os_wake(&writer->space_epoch, slots);
}

/* The time between the two, 0 if it seems to go back. */
static inline uint64_t writer_since(uint64_t now_ns, uint64_t before_ns)
{
    return now_ns > before_ns ? now_ns - before_ns : 0;
}

/* Where the lane's thread is in its slot; NULL: it has none. */
static inline uint16_t *writer_cursor_of(const struct malloctape_lane *lane)
{
    return units_head_cursor(atomic_load_acquire(&lane->units.head));
}

/* The most bytes that the end of a stream takes, with this many lanes: one chunk, in two blocks at
 * most. */
uint64_t writer_end_bytes_max(uint32_t lanes);

/* Whether this many bytes of chunks fit into the file, even if they do not shrink. */
bool writer_fits(const struct writer *writer, size_t bytes);

/* Writes out what is in the sink, and gives back the slots that it came from. 0 or a negative
 * errno. */
int writer_flush(struct writer *writer);

/* The slot has been written to the sink: it is free when the sink has written it out. */
void writer_give_back(struct writer *writer, uint32_t slot);

/* Where the lane's thread is, in the slot that is being written or a later one; NULL: it has no
 * slot. */
const uint16_t *writer_position_of(const struct writer *writer, const struct malloctape_lane *lane);

/* Writes what lies before `upto`, of writer_position_of(). NULL: only slots that the thread has
 * left, and at most WRITER_SLOTS_PER_PASS, because it may fill them as fast as they are written.
 * Returns the number of slots finished. */
uint32_t writer_drain_lane(struct writer *writer, struct malloctape_lane *lane,
                           const uint16_t *upto);
uint32_t writer_drain_full_slots(struct writer *writer);

/* Writes the mappings in cells up to this number that are complete. Returns whether there were any. */
bool writer_drain_cells(struct writer *writer, uint64_t limit);

/* The same at the end of the stream: what does not become complete soon is lost, and nothing behind
 * it. */
void writer_drain_last_cells(struct writer *writer);

/* The same of all, where threads may soon find no cell. */
void writer_drain_wanted_cells(struct writer *writer);

/* Look at what is resident: if it is time to, when the memory has been looked at; at once, as long
 * as it may take. */
void writer_look_at_residency(struct writer *writer, uint64_t now);
bool writer_residency_is_due(const struct writer *writer, uint64_t now);
void writer_residency_now(struct writer *writer, enum residency_why why);
void writer_open_residency(struct writer *writer);

/* Which pages of large objects are resident, if there are more than were written before. The cells of
 * the mappings before it have been taken. */
void writer_look_at_large(struct writer *writer);

/* How much of the recorder's code and static data is resident, and how much of that is of its file. */
uint64_t writer_library_bytes(const struct writer *writer, uint64_t *of_files);

/* At the beginning of the stream: what memory there is already that nobody knows. */
void writer_put_found(struct writer *writer);
void writer_close_residency(struct writer *writer);

/* The packer forgets what it knows of the lane, and gives its memory to other lanes. */
void writer_leave_lane(struct writer *writer, struct malloctape_lane *lane);

/* Add slots if a thread has found none or most of them are the lanes' own. The second flushes
 * nothing: it is called while a write waits for the reader. */
void writer_grow_if_needed(struct writer *writer);
void writer_grow_meanwhile(void *writer);

/* Ends a window (FORMAT.md 4.3). Returns whether any lane has got further: then there is a tick. */
bool writer_close_window(struct writer *writer);
void writer_tick(struct writer *writer, uint64_t now);

/* The tick after everything else, whether anything has happened or not. */
void writer_put_last_tick(struct writer *writer);

/* How many events the stream has got. Any thread: approximately. */
uint64_t writer_events(const struct writer *writer);

/* Says why there is no recording, or no more. Any thread. */
void writer_report_failure(const struct writer *writer, const char *what);

/* Marks the slots in use: the program goes on, but what it does is in neither file. Any thread. */
void writer_note_incomplete(struct writer *writer);

/* Ends the stream, and the output; or the output alone. */
void writer_end_stream(struct writer *writer);
void writer_end_output(struct writer *writer);

#endif
