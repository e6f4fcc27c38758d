/* verify - an independent check of an ordered stream against its recording; verify*.c only.
 *
 *   recording --verify_raw--> records of each lane --+
 *                                                    +--> the four rules of FORMAT.md 6
 *   ordered stream --instruction_reader--> calls ----+
 *
 * The checker walks along the ordered stream once. For each instruction it takes the next record of that lane from
 * the recording and compares them; it keeps its own account of objects, numbers and windows and shares nothing
 * with the code that made the order.
 *
 * 1. Lanes     The instructions of a lane are the records of that lane, each once, in order, with the same kind,
 *              size, alignment, numbers and outcome.
 * 2. Objects   A call that ends or moves an object comes after the births that its bound counts, and the register
 *              stands for the very object that the recording names: of those that the bound's lane has born at the
 *              place and that are alive, the latest that the bound counts. "Unknown" is said only where the
 *              recording has none, and says or explains it.
 * 3. Numbers   The stamps, which the ordered stream no longer has, can be put back: between the records of
 *              their lanes, with the numbers of every structure ascending. And a unit, that is a call or the
 *              deletion of a cache with all its stamps, comes after each unit that has a lower number of the same
 *              structure. A unit lasts from its first stamp or record to its last, and another can come in
 *              between; so a pair of units that is the wrong way round is counted
 *              - as forced, where a search finds the chain of records that forced it;
 *              - as interleaved, where one of the two has several stamps, or a tick in its middle;
 *              - as far apart, where the history does not reach from one to the other;
 *              - as a violation otherwise.
 * 4. Windows   Ticks are those of the recording. A record comes at most one window later than its own, or
 *              than the latest window among all that rules 1 to 3 put before it; and at most one window earlier
 *              than its own, or than the earliest window among all that they put behind it.
 *
 * Memory: records of the windows between which the two streams stand, 16 bytes for each register, 4 for each place, the
 * history, and 16 for each birth in it. */
#ifndef MALLOCTAPE_VERIFY_H
#define MALLOCTAPE_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "inspect/history.h"
#include "inspect/verify_raw.h"
#include "postprocess/instruction_reader.h"

enum verify_rule { VERIFY_LANES = 1, VERIFY_OBJECTS, VERIFY_NUMBERS, VERIFY_WINDOWS };

/* The first thing that is wrong. */
struct verify_violation {
    enum verify_rule rule; /* 0: none */
    char text[512];
};

/* Places in a page of verify->places, which is made when an object lives in it. */
#define VERIFY_PLACE_BITS 12

/* What an object's register stands for. */
struct verify_object {
    uint64_t born; /* raw_births(): of whom, and which birth of it */
    uint32_t place;
    uint32_t next; /* another object that is alive at the place: register plus one, 0: none */
};

/* What only the end of the recording can tell. */
struct verify_doubt {
    uint64_t bound;    /* so many births have not been read, */
    uint64_t births;   /* only these had come in the ordered stream */
    uint64_t position; /* at this instruction */
    bool unknown;      /* its object is called unknown, */
    bool alive;        /* though one that the bound may mean was alive */
};

/* A stamp that was taken on behalf of a unit yet to come. */
struct verify_before {
    uint32_t structure;
    uint32_t window;
    uint32_t previous_lane; /* who has the number before: a unit that had not come either, or */
    uint64_t previous_unit; /* 0: somebody who had */
    uint64_t stamp;         /* index in the history */
};

struct verify_structure {
    uint64_t due;       /* the next number */
    uint32_t floor;     /* rule 4 */
    uint32_t blocked;   /* list of lanes that wait for a number; lane plus one */
    uint32_t last_lane; /* who took the latest number */
    uint64_t last_unit; /* 0: nobody */
    uint64_t last_position;
};

/* A unit with a higher number that came before one with a lower number. */
struct verify_inversion {
    uint64_t early, late; /* positions; late may still be HISTORY_UNKNOWN_POSITION */
    uint32_t late_lane;
    uint64_t late_unit;
    uint32_t structure;
    bool lasted, early_looked_at; /* whether one of the two took a while, as far as looked */
};

/* The latest record of a lane that came more than one window early at a tick; those of the lane before it came no
 * earlier, and had to come before it. */
struct verify_early {
    uint64_t position;
    uint64_t window; /* where it came */
    uint32_t lane;
};

struct verify_counts {
    uint64_t instructions, calls, lanes, ticks;
    uint64_t births, deaths, unknown, lost_events;
    uint64_t stamps, stamps_missing, pairs_forced, pairs_interleaved, pairs_far;
    uint64_t on_time, late, early, late_forced, early_forced, early_far;
};

struct verify {
    struct verify_raw raw;
    struct history history;
    uint64_t position; /* of the present instruction in the ordered stream, from 1 */
    uint32_t lane;     /* of the ordered stream */
    uint64_t last_tick_ns;
    bool compare_addresses;
    struct verify_object *objects; /* by register */
    uint64_t objects_room;
    uint32_t **places; /* who is alive: register plus one of the first object, 0: nobody */
    struct verify_doubt *doubts;
    size_t doubts_count, doubts_room;
    struct verify_structure structures[RAW_STRUCTURES];
    uint32_t ready; /* list of lanes whose number has become due; lane plus one */
    struct verify_inversion *inversions; /* not yet judged */
    size_t inversions_count, inversions_room;
    struct verify_early *earlies; /* not yet judged */
    size_t earlies_count, earlies_room;
    struct verify_counts counts;
    struct verify_violation violation;
    struct error error; /* of the recording, or of memory */
};

/* ---- verify_rules.c ---- */

/* `fd`, `path`: the recording. False: see error. */
bool verify_open(struct verify *verify, int fd, const char *path);

/* Checks the instructions of a batch. False: see violation, then error. */
bool verify_batch(struct verify *verify, const struct instruction_batch *batch);

/* After the last batch. False: see violation, then error. */
bool verify_finish(struct verify *verify);

void verify_close(struct verify *verify);

/* Notes the first violation. Returns false. Unless `lane` is NULL, the text begins with the present instruction and
 * the lane's present record. */
bool verify_violated(struct verify *verify, enum verify_rule rule, const struct verify_lane *lane,
                     const char *text, ...) __attribute__((format(printf, 4, 5)));

bool verify_no_memory(struct verify *verify);

/* ---- verify_objects.c: rule 2 ---- */

bool verify_objects_init(struct verify *verify);
void verify_objects_free(struct verify *verify);

/* Makes room for so many registers. */
bool verify_objects_reach(struct verify *verify, uint64_t registers);

/* Checks the object that the record, the next one of its lane, ends or names, against that of the instruction. */
bool verify_object(struct verify *verify, struct verify_lane *lane, const struct record *record,
                   const struct instruction *one);

/* The instruction, which has been checked, ends its object; the record begins one in this register; or births were
 * lost. */
void verify_object_ends(struct verify *verify, uint32_t register_number);
bool verify_object_begins(struct verify *verify, struct verify_lane *lane,
                          const struct record *record, uint32_t register_number);

/* Where the last birth stands that the record's bound counts, in another lane. 0: there is none, or it is long ago. */
uint64_t verify_object_bound(const struct verify *verify, const struct verify_lane *lane,
                             const struct record *record);

/* With the whole recording read: judges what was in doubt. */
bool verify_objects_finish(struct verify *verify);

/* ---- verify_numbers.c: rule 3 ---- */

/* "class 3" or "page heap". */
const char *verify_structure_text(uint32_t structure, char *to, size_t bytes);

/* Reads one more chunk of the recording and takes what stamps have become due. False: see violation, then error.
 * At the end, raw.ended is set. */
bool verify_numbers_read(struct verify *verify);

/* The record at the head of the lane has been taken, as the instruction at verify->position. Takes the stamps
 * that follow it, as far as they are due. */
bool verify_numbers_emitted(struct verify *verify, struct verify_lane *lane, bool is_unit,
                            struct history_record record);

/* With the whole recording read: passes over numbers that lanes wait for and nobody has, of any structure. False:
 * there are none, or a violation. */
bool verify_numbers_pass_over(struct verify *verify);

/* Judges what inversions are left. */
bool verify_numbers_finish(struct verify *verify);

/* ---- verify_windows.c: rule 4 ---- */

/* The record at the head of the lane is emitted, at verify->position. */
bool verify_window(struct verify *verify, const struct verify_lane *lane);

/* Judges records that came too early, as far as what follows from them is known; with `all`, nothing more comes. */
bool verify_windows_look(struct verify *verify, bool all);

/* Compares a tick with that of the recording. `operands` as in INSTRUCTIONS.md 5.3. */
bool verify_tick(struct verify *verify, const uint64_t *operands);

#endif
