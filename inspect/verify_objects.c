#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/array.h"
#include "inspect/verify.h"

/* Usually there is one; more after a double free. They are searched linearly. */
#define OBJECTS_AT_PLACE_MAX 1000u

#define VERIFY_ERROR_LIST(X)                                                          \
    X(VERIFY_CROWDED, "verify_crowded",                                               \
      "more than 1000 objects seem to be live at one place, as after a double free: " \
      "this cannot be checked")
enum verify_error { VERIFY_ERROR_LIST(ERROR_LIST_ENUM) };
static const struct error_kind verify_errors[] = {VERIFY_ERROR_LIST(ERROR_LIST_KIND)};

#define PLACE_PAGE  (UINT32_C(1) << VERIFY_PLACE_BITS)
#define PLACE_PAGES ((uint32_t)(RAW_PLACE_LIMIT >> VERIFY_PLACE_BITS))

bool verify_objects_init(struct verify *verify)
{
    verify->places = calloc(PLACE_PAGES, sizeof *verify->places);
    return verify->places != NULL;
}

void verify_objects_free(struct verify *verify)
{
    for (uint32_t i = 0; verify->places != NULL && i < PLACE_PAGES; i++)
        free(verify->places[i]);
    free(verify->places);
    free(verify->objects);
    address_pages_free(&verify->ranges);
}

bool verify_objects_reach(struct verify *verify, uint64_t registers)
{
    return array_reserve(&verify->objects, &verify->objects_room, registers,
                         sizeof *verify->objects) ||
           verify_no_memory(verify);
}

/* ---- who lives where ---- */

/* Where the first object at a place is stored. NULL: there has never been one. */
static uint32_t *place_first(const struct verify *verify, uint32_t place)
{
    uint32_t *page = verify->places[place >> VERIFY_PLACE_BITS];
    return page != NULL ? &page[place & (PLACE_PAGE - 1)] : NULL;
}

/* The object that a place and a bound denote (FORMAT.md 2.5): its register plus one, or 0. */
static uint32_t object_find(const struct verify *verify, uint32_t place, uint64_t bound)
{
    const uint32_t *first = place_first(verify, place);
    uint32_t best = 0;
    for (uint32_t at = first != NULL ? *first : 0; at != 0; at = verify->objects[at - 1].next) {
        const struct verify_object *object = &verify->objects[at - 1];
        if (raw_allocations_lane(object->allocated) != raw_allocations_lane(bound) ||
            object->allocated > bound)
            continue;
        if (best == 0 || object->allocated > verify->objects[best - 1].allocated) best = at;
    }
    return best;
}

static void remove_object(struct verify *verify, uint32_t register_number)
{
    const struct verify_object *object = &verify->objects[register_number];
    uint32_t *link = place_first(verify, object->place);
    while (*link != register_number + 1)
        link = &verify->objects[*link - 1].next;
    *link = object->next;
    if (object->address != 0) verify_range_ends(verify, register_number);
}

void verify_object_ends(struct verify *verify, uint32_t register_number)
{
    verify->counts.overlaps += verify->objects[register_number].overlapped;
    remove_object(verify, register_number);
}

bool verify_missed_free(struct verify *verify, struct verify_lane *lane,
                        const struct record *record, uint32_t register_number)
{
    const struct verify_object *object = &verify->objects[register_number];
    const uint32_t place = object->place;
    const uint64_t start = verify_raw_address(&verify->raw, record->place);
    const uint64_t bytes = record->size != 0 ? record->size : 1;
    const bool is_covered = start != 0 && object->address != 0 &&
                            start < object->address + (object->size != 0 ? object->size : 1) &&
                            object->address < start + bytes;
    if (!verify->is_attached)
        return verify_violated(verify, VERIFY_OBJECTS, lane,
                               "the stream says that a free was missed, but the recorder was not "
                               "attached");
    if (record->serial == 0 || (record->place != place && !is_covered))
        return verify_violated(
            verify, VERIFY_OBJECTS, lane,
            "the free of an object at place %" PRIu32
            " is marked as missed, but no other object begins there or on its bytes",
            place);
    verify->counts.missed_frees++;
    remove_object(verify, register_number);
    return true;
}

/* ---- objects that begin ---- */

/* Another object begins at a place where there are live ones. */
static void cover_all(struct verify *verify, const struct verify_lane *lane,
                      const struct record *record, uint32_t register_number)
{
    for (uint32_t at = *place_first(verify, record->place); at != 0;
         at = verify->objects[at - 1].next) {
        struct verify_object *object = &verify->objects[at - 1];
        bool same_lane = raw_allocations_lane(object->allocated) == lane->number;
        if (same_lane && object->next_there == 0)
            object->next_there = raw_allocations(lane->number, record->serial);
        if (raw_source_is_opaque(&verify->raw.source))
            verify_overlaps(verify, lane, at - 1, register_number);
    }
}

/* Whether its lane had already allocated another object at its place when the realloc failed. */
static bool has_successor(const struct verify_object *object, const struct record *record)
{
    return record->number == RAW_FAILED && object->next_there != 0 &&
           object->next_there <= record->bound;
}

/* Whether the place has OBJECTS_AT_PLACE_MAX live objects already. */
static bool is_crowded(const struct verify *verify, uint32_t place)
{
    unsigned count = 0;
    for (uint32_t at = *place_first(verify, place); at != 0 && count < OBJECTS_AT_PLACE_MAX;
         at = verify->objects[at - 1].next)
        count++;
    return count >= OBJECTS_AT_PLACE_MAX;
}

bool verify_object_begins(struct verify *verify, struct verify_lane *lane,
                          const struct record *record, uint32_t register_number)
{
    struct verify_object *object = &verify->objects[register_number];
    uint32_t **page = &verify->places[record->place >> VERIFY_PLACE_BITS];
    verify->counts.allocations++;
    if (*page == NULL && (*page = calloc(PLACE_PAGE, sizeof **page)) == NULL)
        return verify_no_memory(verify);
    if (is_crowded(verify, record->place))
        return error_set(&verify->error, &verify_errors[VERIFY_CROWDED], ERROR_NO_OFFSET,
                         "place %" PRIu32, record->place);
    uint32_t *first = place_first(verify, record->place);
    if (verify->is_attached && record->place != RAW_PLACE_NONE && *first != 0)
        return verify_violated(
            verify, VERIFY_OBJECTS, lane,
            "an object begins at place %" PRIu32
            ", where one is live; in an attached recording that one must have ended",
            record->place);
    *object = (struct verify_object){
        .allocated = raw_allocations(lane->number, record->serial),
        .place = record->place,
        .next = *first,
        .address = record->address != 0 ? record->address
                                        : verify_raw_address(&verify->raw, record->place),
        .size = record->size,
    };
    cover_all(verify, lane, record, register_number);
    *first = register_number + 1;
    return object->address == 0 || (verify_range_begins(verify, lane, register_number) &&
                                    verify_mapped_begins(verify, object));
}

bool verify_object_counts(struct verify *verify, struct verify_lane *lane)
{
    lane->allocations++;
    return verify_floor_note(verify, lane);
}

/* ---- objects that end or move, or stay because a realloc failed ---- */

/* Reads on until the allocations that the bound counts have been read, or the recording ends. */
static bool read_to_bound(struct verify *verify, uint64_t bound, bool *known)
{
    const uint32_t lane = raw_allocations_lane(bound);
    while (!(*known = verify_lane_knows(verify->raw.lanes[lane], raw_allocations_count(bound))) &&
           !verify->raw.ended)
        if (!verify_numbers_read(verify)) return false;
    return true;
}

/* Sets *missing to 0 if everything that the bound counts has come. */
static bool find_missing(struct verify *verify, struct verify_lane *lane, uint64_t bound,
                         uint64_t *missing)
{
    struct verify_lane *other = verify_raw_lane(&verify->raw, raw_allocations_lane(bound));
    bool known;
    *missing = 0;
    if (other == NULL) return verify_no_memory(verify);
    verify_raise_floor(lane, verify_floor_of(other, raw_allocations_count(bound)));
    if (raw_allocations_count(bound) <= other->allocations) return true;
    if (!read_to_bound(verify, bound, &known)) return false;
    uint64_t recorded = verify_lane_last_recorded(other, raw_allocations_count(bound));
    if (known && recorded > other->allocations) *missing = raw_allocations(other->number, recorded);
    return true;
}

static bool check_bound(struct verify *verify, struct verify_lane *lane,
                        const struct record *record)
{
    uint64_t missing;
    if (!find_missing(verify, lane, record->bound, &missing)) return false;
    if (missing == 0) return true;
    return verify_violated(verify, VERIFY_OBJECTS, lane,
                           "the object ends before allocation %" PRIu64 " of lane %" PRIu32
                           ", which its bound counts",
                           raw_allocations_count(missing), raw_allocations_lane(missing));
}

/* The search for a cycle: up to which of its calls the records of each lane are searched. */
struct circle {
    const struct verify_lane *lane; /* where the cycle would close */
    uint64_t *wanted;               /* by lane: calls to search */
    uint32_t lanes;                 /* those that were known when the search began */
    bool has_changed, is_closed;
};

/* Notes what the records of the lane that have not come yet, up to call number `calls`, wait
 * for. */
static void circle_look_through(const struct verify *verify, const struct verify_lane *lane,
                                uint64_t calls, struct circle *circle)
{
    uint64_t passed = lane->allocations;
    for (const struct verify_block *block = lane->first; block != NULL; block = block->next)
        for (uint32_t i = block->taken; i < block->count && passed < calls; i++) {
            const struct record *record = &block->records[i];
            const uint32_t other = raw_allocations_lane(record->bound);
            const uint64_t count = raw_allocations_count(record->bound);
            passed += raw_record_counts(record, true);
            if (record->bound == 0 || other == lane->number || other >= circle->lanes ||
                verify->raw.lanes[other] == NULL || count <= verify->raw.lanes[other]->allocations)
                continue;
            circle->is_closed |= other == circle->lane->number;
            if (count <= circle->wanted[other]) continue;
            circle->wanted[other] = count;
            circle->has_changed = true;
        }
}

/* Whether `missing`, which the lane waits for, itself waits for the lane. */
static bool find_circle(struct verify *verify, const struct verify_lane *lane, uint64_t missing,
                        bool *found)
{
    struct circle circle = {.lane = lane, .lanes = verify->raw.lanes_count, .has_changed = true};
    bool good = true, known;
    circle.wanted = calloc(circle.lanes, sizeof *circle.wanted);
    if (circle.wanted == NULL) return verify_no_memory(verify);
    circle.wanted[raw_allocations_lane(missing)] = raw_allocations_count(missing);
    while (good && circle.has_changed && !circle.is_closed) {
        circle.has_changed = false;
        for (uint32_t i = 0; i < circle.lanes && good && !circle.is_closed; i++) {
            if (circle.wanted[i] == 0) continue;
            good = read_to_bound(verify, raw_allocations(i, circle.wanted[i]), &known);
            circle_look_through(verify, verify->raw.lanes[i], circle.wanted[i], &circle);
        }
    }
    free(circle.wanted);
    *found = circle.is_closed;
    return good;
}

bool verify_after(struct verify *verify, struct verify_lane *lane, const struct record *record)
{
    uint64_t missing;
    bool is_excused = false;
    if (!find_missing(verify, lane, record->bound, &missing)) return false;
    if (missing == 0) return true;
    if (record->operand && !find_circle(verify, lane, missing, &is_excused)) return false;
    if (is_excused) return true;
    return verify_violated(verify, VERIFY_OBJECTS, lane,
                           "the lane continues before call %" PRIu64 " of lane %" PRIu32
                           ", which it must follow",
                           raw_allocations_count(missing), raw_allocations_lane(missing));
}

/* Checks that an earlier call has already ended the object. */
static bool check_freed_twice(struct verify *verify, struct verify_lane *lane,
                              const struct record *record)
{
    uint32_t meant = object_find(verify, record->ends, record->bound);
    if (record->bound != 0 && meant == 0) return check_bound(verify, lane, record);
    return verify_violated(
        verify, VERIFY_OBJECTS, lane,
        "the stream says that the object was freed before; in the recording it is %s",
        meant != 0 ? "alive" : "unknown");
}

static bool check_unknown(struct verify *verify, struct verify_lane *lane,
                          const struct record *record)
{
    bool known;
    if (verify->freed_twice) return check_freed_twice(verify, lane, record);
    verify->counts.unknown++;
    /* A realloc that failed may come after another lane has ended the object (INSTRUCTIONS.md
     * 5.1). */
    if (record->bound == 0 || record->number == RAW_FAILED) return true;
    if (!read_to_bound(verify, record->bound, &known)) return false;
    uint32_t meant = object_find(verify, record->ends, record->bound);
    const struct verify_lane *of = verify->raw.lanes[raw_allocations_lane(record->bound)];
    if (!known || (meant == 0 && verify_lane_has_lost(of, raw_allocations_count(record->bound))))
        return true;
    if (meant == 0 && verify_raw_has_unplaced(&verify->raw, record->bound)) return true;
    if (meant == 0)
        return verify_violated(verify, VERIFY_OBJECTS, lane,
                               "the stream says that the object is unknown; the recording has "
                               "allocation %" PRIu64 " of lane %" PRIu32 ", which its bound counts",
                               raw_allocations_count(record->bound),
                               raw_allocations_lane(record->bound));
    uint64_t object = verify->objects[meant - 1].allocated;
    return verify_violated(
        verify, VERIFY_OBJECTS, lane,
        "the stream says that the object is unknown; the recording has the allocation of %" PRIu32
        ":%" PRIu64,
        raw_allocations_lane(object), raw_allocations_count(object));
}

bool verify_object(struct verify *verify, struct verify_lane *lane, const struct record *record,
                   const struct instruction *one)
{
    if ((one->opcode & INSTRUCTION_UNKNOWN) != 0) return check_unknown(verify, lane, record);
    uint64_t object = verify->objects[one->object].allocated;
    char which[128];
    snprintf(which, sizeof which, "register %" PRIu32 " is object %" PRIu32 ":%" PRIu64,
             one->object, raw_allocations_lane(object), raw_allocations_count(object));
    if (record->bound == 0)
        return verify_violated(verify, VERIFY_OBJECTS, lane,
                               "%s; the recording says that its object is unknown", which);
    if (!check_bound(verify, lane, record)) return false;
    uint32_t meant = object_find(verify, record->ends, record->bound);
    if (meant != 0 && has_successor(&verify->objects[meant - 1], record)) meant = 0;
    if (meant == one->object + 1) return true;
    if (meant == 0)
        return verify_violated(verify, VERIFY_OBJECTS, lane,
                               "%s; the recording names one at place %" PRIu32
                               ", where none of lane %" PRIu32 " is alive",
                               which, record->ends, raw_allocations_lane(record->bound));
    uint64_t named = verify->objects[meant - 1].allocated;
    return verify_violated(verify, VERIFY_OBJECTS, lane,
                           "%s; the recording names %" PRIu32 ":%" PRIu64, which,
                           raw_allocations_lane(named), raw_allocations_count(named));
}
