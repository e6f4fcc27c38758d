/* verify - an independent check of an ordered stream against its recording; verify*.c only.
 *
 *   recording --verify_raw--> records of each lane --+
 *                                                    +--> the four rules of FORMAT.md 6
 *   ordered stream --instruction_reader--> calls ----+
 *
 * The checker reads the ordered stream once. For each instruction it takes the next record of that
 * lane from the recording and compares the two. It has its own tables of objects, sequence numbers
 * and windows, and shares no code with the ordering.
 *
 * 1. Lanes    The instructions of a lane are the records of that lane, each once, in order, with
 *             the same kind, size, alignment, numbers and outcome.
 * 2. Objects  A call that ends or moves an object comes after the allocations that its bound
 *             counts, and its register is that of the very object that the recording names: of the
 *             live ones that the bound's lane has allocated at the place, the latest that the bound
 *             counts. The stream may call an object "unknown" only if the recording has none, and
 *             says or explains so; and "freed twice" only if none is alive there.
 *             In an opaque stream, an allocation comes after what its record names. (A realloc
 *             that waits for itself comes before the bound: FORMAT.md 6.) No object begins at the
 *             place of a live one, nor, where addresses are known, on its bytes. In an attached
 *             recording, an object that lives at the place ends just before, by a free that the
 *             stream calls missed; others may begin on its bytes. The order of two calls may be
 *             unknown because of a pause or a loss: where objects are unknown, overlaps are only
 *             counted.
 * 3. Numbers  The sequence numbers, which the ordered stream no longer has, can be put back:
 *             between the records of their lanes, with the numbers of every structure ascending.
 * 4. Windows  Ticks are those of the recording. A record comes at most one window later than its
 *             own, or than the latest window of all records that rules 1 to 3 put before it; and at
 * most one window earlier than its own, or than the earliest window of all that they put
 *             after it.
 * 5. Mappings  What mapping calls get is not mapped; others are counted. Objects lie in memory that is
 *             mapped, if what the allocator maps is recorded; else those that do not are counted.
 *
 * Memory: records of the windows between the positions in the two streams, 40 bytes for each
 * register, 4 for each place, and 16 for each window in which a lane allocates. */
#ifndef MALLOCTAPE_VERIFY_H
#define MALLOCTAPE_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/address_pages.h"
#include "inspect/verify_raw.h"
#include "reading/mapping_table.h"
#include "reading/stream.h"
#include "stream/instruction_reader.h"

enum verify_rule {
    VERIFY_LANES = 1,
    VERIFY_OBJECTS,
    VERIFY_NUMBERS,
    VERIFY_WINDOWS,
    VERIFY_MAPPINGS
};

/* The first thing that is wrong. */
struct verify_violation {
    enum verify_rule rule; /* 0: none */
    char text[512];
};

/* The bits of a place within a page of verify->places. A page is allocated for its first object. */
#define VERIFY_PLACE_BITS 16

/* The object of a register. */
struct verify_object {
    uint64_t allocated; /* raw_allocations(): the lane, and the number of the allocation in it */
    uint32_t place;
    uint32_t next;          /* another live object at the place: register plus one, 0: none */
    uint64_t next_there;    /* the next allocation of its lane at the place; 0: none yet */
    uint64_t address, size; /* 0: the address is not known */
    bool overlapped;        /* another object began on its bytes */
};

struct verify_structure {
    uint64_t due;     /* the next number */
    uint32_t floor;   /* rule 4 */
    uint32_t blocked; /* list of lanes that wait for a number; lane plus one */
};

struct verify_counts {
    uint64_t calls, lanes, allocations, frees, unknown, freed_twice, missed_frees, numbers,
        numbers_missing, ticks;
    uint64_t late;     /* records more than a window late, because of others */
    uint64_t overlaps; /* objects that ended after another one had begun on their bytes */
};

/* A page that is not mapped, as far as is known yet, and the first of the objects there. */
struct verify_waiting {
    uint64_t page, objects, tick, address, size;
};

struct verify_mapped {
    struct mapping_table table;
    bool is_recorded;
    bool has_own;                   /* the allocator's calls are recorded */
    struct mapping_piece *given_up; /* in the window before, `old` of them, and in this one */
    size_t given_up_count, given_up_old, given_up_room;
    struct verify_waiting *waiting; /* by tick */
    size_t waiting_count, waiting_room;
    uint64_t objects, elsewhere;
    uint64_t touched, touched_pages, touched_elsewhere; /* objects; pages; objects */
    bool no_memory;
};

struct verify {
    struct verify_raw raw;
    uint64_t position; /* of the current instruction in the ordered stream, from 1 */
    uint32_t lane;     /* of the ordered stream */
    uint64_t last_tick_ns;
    const uint64_t *usage; /* the operands of the usage just before, or NULL */
    uint64_t statistics[ORIGINAL_STATISTICS_MAX]; /* the latest */
    bool compare_addresses;
    bool is_attached;              /* the recorder was attached (FORMAT.md 2.9) */
    bool freed_twice;              /* by the stream, the next call frees an object again */
    bool free_missed;              /* the next instruction is a free that the recording missed */
    struct verify_object *objects; /* by register */
    size_t objects_room;
    uint32_t **places; /* live objects: register plus one of the first at a place, 0: none */
    struct verify_structure structures[RAW_STRUCTURES];
    uint32_t ready; /* list of lanes whose number has become due; lane plus one */
    struct verify_counts counts;
    struct verify_mapped mapped;
    struct verify_violation violation;
    struct address_pages ranges;     /* of objects, by their registers */
    struct verify_violation overlap; /* the first one, which a pause may excuse */
    struct error error;              /* in reading the recording, or no memory */
};

/* ---- verify_rules.c ---- */

/* `fd`, `path`: the recording. False: see error. */
bool verify_open(struct verify *verify, int fd, const char *path);

/* Checks the instructions of a batch. False: see violation, then error. */
bool verify_batch(struct verify *verify, const struct instruction_batch *batch);

/* After the last batch. False: see violation, then error. */
bool verify_finish(struct verify *verify);

void verify_close(struct verify *verify);

/* Stores the first violation. Returns false. Unless `lane` is NULL, the text begins with the
 * current instruction and the lane's current record. */
bool verify_violated(struct verify *verify, enum verify_rule rule, const struct verify_lane *lane,
                     const char *text, ...) __attribute__((format(printf, 4, 5)));

void verify_note(struct verify *verify, struct verify_violation *violation, enum verify_rule rule,
                 const struct verify_lane *lane, const char *text, ...)
    __attribute__((format(printf, 5, 6)));

bool verify_no_memory(struct verify *verify);

/* ---- verify_objects.c: rule 2 ---- */

bool verify_objects_init(struct verify *verify);
void verify_objects_free(struct verify *verify);

/* Makes room for `registers` registers. */
bool verify_objects_reach(struct verify *verify, uint64_t registers);

/* Checks the object that the record, the next one of its lane, ends or names, against that of the
 * instruction. */
bool verify_object(struct verify *verify, struct verify_lane *lane, const struct record *record,
                   const struct instruction *one);

/* Checks a free that the recording does not have, and ends its object, that of this register:
 * `record`, the next one of the lane, must begin another object at its place. */
bool verify_missed_free(struct verify *verify, struct verify_lane *lane,
                        const struct record *record, uint32_t register_number);

/* Checks that the lane of an opaque stream comes after what the record names. */
bool verify_after(struct verify *verify, struct verify_lane *lane, const struct record *record);

/* After the check: the instruction ends the object of the register, or the record begins one
 * there. */
void verify_object_ends(struct verify *verify, uint32_t register_number);
bool verify_object_begins(struct verify *verify, struct verify_lane *lane,
                          const struct record *record, uint32_t register_number);

/* After the check: the lane's record is an allocation that bounds count. */
bool verify_object_counts(struct verify *verify, struct verify_lane *lane);

/* ---- verify_ranges.c: rule 2 ---- */

/* Two live objects share bytes; the one in `register_number` has just begun. */
void verify_overlaps(struct verify *verify, const struct verify_lane *lane, uint32_t older_register,
                     uint32_t register_number);

/* The object in this register, whose address is known, begins or ends. */
bool verify_range_begins(struct verify *verify, const struct verify_lane *lane,
                         uint32_t register_number);
void verify_range_ends(struct verify *verify, uint32_t register_number);

/* ---- verify_numbers.c: rule 3 ---- */

/* "class 3" or "page heap". */
const char *verify_structure_text(uint32_t structure, char *to, size_t bytes);

/* Reads one more chunk of the recording and takes what numbers have become due. False: see
 * violation, then error. At the end, raw.ended is set. */
bool verify_numbers_read(struct verify *verify);

/* After the record at the head of the lane has been taken: takes the numbers that follow it, as far
 * as they are due, and those of other lanes that become due. `lane` NULL: only those of others. */
bool verify_numbers_follow(struct verify *verify, struct verify_lane *lane);

/* If the whole recording has been read, or events were lost: skips numbers of any structure that
 * lanes wait for and no lane has. False: there are none, or a violation. */
bool verify_numbers_pass_over(struct verify *verify);

/* ---- verify_windows.c: rule 4 ---- */

/* Notes that the lane had to wait for something from this window. */
void verify_raise_floor(struct verify_lane *lane, uint32_t floor);

/* Notes the floor of the lane's latest allocation; and the floor for a record that waits for an
 * allocation of the lane. */
bool verify_floor_note(struct verify *verify, struct verify_lane *lane);
uint32_t verify_floor_of(const struct verify_lane *lane, uint64_t allocation);

/* Checks the window of the record at the head of the lane, which comes at verify->position. */
bool verify_window(struct verify *verify, const struct verify_lane *lane);

/* Compares a tick with that of the recording. `operands` as in INSTRUCTIONS.md 5.3. */
bool verify_tick(struct verify *verify, const uint64_t *operands);

/* ---- verify_mapped.c: rule 5 ---- */

/* For a reader of the ordered stream: `of` is the verify. */
void verify_mapped_take(void *of, const struct mapping_record *record);

/* An object whose address is known begins; a tick has come. */
bool verify_mapped_begins(struct verify *verify, const struct verify_object *object);
bool verify_mapped_tick(struct verify *verify);

/* The instruction before has made or changed an object, of which it may say which pages were resident
 * (INSTRUCTIONS.md 5.3, *touched*). */
struct instruction_walk;
bool verify_touched(struct verify *verify, const struct instruction_walk *walk,
                    const struct instruction *one);

void verify_mapped_print(const struct verify_mapped *mapped);
void verify_mapped_close(struct verify_mapped *mapped);

/* ---- verify_ordered.c ---- */

/* Checks an instruction stream by itself and prints what was checked. Returns an exit status. */
int verify_ordered(struct stream *stream, const char *path);

#endif
