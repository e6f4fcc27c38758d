#include <inttypes.h>
#include <stdlib.h>

#include "inspect/verify.h"

#define PLACE_PAGE   (UINT32_C(1) << VERIFY_PLACE_BITS)
#define PLACE_PAGES  (RAW_PLACE_LIMIT >> VERIFY_PLACE_BITS)
#define LATEST_FIRST 64u

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
    free(verify->doubts);
}

bool verify_objects_reach(struct verify *verify, uint64_t registers)
{
    if (registers <= verify->objects_room) return true;
    uint64_t room = verify->objects_room == 0 ? 1024 : verify->objects_room;
    while (room < registers)
        room *= 2;
    struct verify_object *grown = realloc(verify->objects, room * sizeof *grown);
    if (grown == NULL) return verify_no_memory(verify);
    verify->objects = grown;
    verify->objects_room = room;
    return true;
}

/* ---- who lives where ---- */

/* The first object there. NULL: nobody ever was. */
static uint32_t *place_first(const struct verify *verify, uint32_t place)
{
    uint32_t *page = verify->places[place >> VERIFY_PLACE_BITS];
    return page != NULL ? &page[place & (PLACE_PAGE - 1)] : NULL;
}

/* The object that a place and a bound mean (FORMAT.md 2.5): its register plus one, or 0. */
static uint32_t place_find(const struct verify *verify, uint32_t place, uint64_t bound)
{
    const uint32_t *first = place_first(verify, place);
    uint32_t best = 0;
    for (uint32_t at = first != NULL ? *first : 0; at != 0; at = verify->objects[at - 1].next) {
        const struct verify_object *object = &verify->objects[at - 1];
        if (raw_births_lane(object->born) != raw_births_lane(bound) || object->born > bound)
            continue;
        if (best == 0 || object->born > verify->objects[best - 1].born) best = at;
    }
    return best;
}

void verify_object_ends(struct verify *verify, uint32_t register_number)
{
    const struct verify_object *object = &verify->objects[register_number];
    uint32_t *link = place_first(verify, object->place);
    while (*link != register_number + 1)
        link = &verify->objects[*link - 1].next;
    *link = object->next;
}

/* ---- births in the ordered stream ---- */

static struct verify_birth *latest_slot(const struct verify_lane *lane, uint64_t number)
{
    return &lane->latest[number & (lane->latest_room - 1)];
}

static bool latest_grow(struct verify_lane *lane)
{
    struct verify_lane grown = {.latest_room = lane->latest_room * 2};
    if (grown.latest_room == 0) grown.latest_room = LATEST_FIRST;
    grown.latest = calloc(grown.latest_room, sizeof *grown.latest);
    if (grown.latest == NULL) return false;
    for (uint32_t i = 0; i < lane->latest_room; i++)
        if (lane->latest[i].position != 0)
            *latest_slot(&grown, lane->latest[i].number) = lane->latest[i];
    free(lane->latest);
    lane->latest = grown.latest;
    lane->latest_room = grown.latest_room;
    return true;
}

/* Notes the next birth of the lane; those that the history has are kept. */
static bool latest_add(struct verify *verify, struct verify_lane *lane)
{
    uint64_t number = ++lane->births;
    while (lane->latest_room == 0 ||
           (latest_slot(lane, number)->position != 0 &&
            history_reaches(&verify->history, latest_slot(lane, number)->position)))
        if (!latest_grow(lane)) return verify_no_memory(verify);
    *latest_slot(lane, number) =
        (struct verify_birth){verify->position, (uint32_t)number, lane->floor};
    return true;
}

/* The latest birth that was recorded of those that the bound counts, if it has come and is kept. */
static const struct verify_birth *latest_find(const struct verify *verify, uint64_t bound)
{
    uint64_t recorded = births_last_recorded(&verify->raw.births, bound);
    uint64_t number = raw_births_count(recorded);
    const struct verify_lane *lane = verify->raw.lanes[raw_births_lane(bound)];
    if (lane == NULL || lane->latest_room == 0 || number == 0 || number > lane->births) return NULL;
    const struct verify_birth *birth = latest_slot(lane, number);
    return birth->position != 0 && birth->number == (uint32_t)number ? birth : NULL;
}

bool verify_object_begins(struct verify *verify, struct verify_lane *lane,
                          const struct record *record, uint32_t register_number)
{
    struct verify_object *object = &verify->objects[register_number];
    uint32_t **page = &verify->places[record->place >> VERIFY_PLACE_BITS];
    verify->counts.births++;
    if (*page == NULL && (*page = calloc(PLACE_PAGE, sizeof **page)) == NULL)
        return verify_no_memory(verify);
    uint32_t *first = place_first(verify, record->place);
    *object = (struct verify_object){
        .born = raw_births(lane->number, record->serial),
        .place = record->place,
        .next = *first,
    };
    *first = register_number + 1;
    return latest_add(verify, lane);
}

uint64_t verify_object_bound(const struct verify *verify, const struct verify_lane *lane,
                             const struct record *record)
{
    if (record->bound == 0 || raw_births_lane(record->bound) == lane->number) return 0;
    const struct verify_birth *birth = latest_find(verify, record->bound);
    return birth != NULL ? birth->position : 0;
}

/* ---- doubts ---- */

static bool doubt_add(struct verify *verify, struct verify_doubt doubt)
{
    if (verify->doubts_count == verify->doubts_room) {
        size_t room = verify->doubts_room == 0 ? 64 : verify->doubts_room * 2;
        struct verify_doubt *grown = realloc(verify->doubts, room * sizeof *grown);
        if (grown == NULL) return verify_no_memory(verify);
        verify->doubts = grown;
        verify->doubts_room = room;
    }
    verify->doubts[verify->doubts_count++] = doubt;
    return true;
}

/* Whether the object may be called unknown, or may end here, by what has been read. */
static bool doubt_is_excused(const struct verify *verify, const struct verify_doubt *doubt)
{
    const struct births *births = &verify->raw.births;
    if (doubt->unknown) return !doubt->alive && births_have_lost(births, doubt->bound);
    return raw_births_count(births_last_recorded(births, doubt->bound)) <= doubt->births;
}

static bool doubt_violates(struct verify *verify, const struct verify_lane *lane,
                           const struct verify_doubt *doubt)
{
    return verify_violated(
        verify, VERIFY_OBJECTS, lane,
        doubt->unknown ? "the object of instruction %" PRIu64
                         " is called unknown; the recording has birth %" PRIu64 " of lane %" PRIu32
                         ", which its bound counts"
                       : "the object of instruction %" PRIu64 " ends before birth %" PRIu64
                         " of lane %" PRIu32 ", which its bound counts",
        doubt->position - 1, raw_births_count(doubt->bound), raw_births_lane(doubt->bound));
}

bool verify_objects_finish(struct verify *verify)
{
    for (size_t i = 0; i < verify->doubts_count; i++) {
        const struct verify_doubt *doubt = &verify->doubts[i];
        bool never = births_find(&verify->raw.births, doubt->bound) == BIRTH_NOT_SEEN;
        if (never ? doubt->unknown : doubt_is_excused(verify, doubt)) continue;
        return doubt_violates(verify, NULL, doubt);
    }
    return true;
}

/* ---- objects that end or move, or stay because a realloc failed ---- */

static bool check_unknown(struct verify *verify, const struct verify_lane *lane,
                          const struct record *record)
{
    verify->counts.unknown++;
    /* A realloc that failed may come after another lane has ended the object (INSTRUCTIONS.md 5.1). */
    if (record->bound == 0 || record->number == RAW_FAILED) return true;
    uint32_t meant = place_find(verify, record->ends, record->bound);
    struct verify_doubt doubt = {record->bound, 0, verify->position, true, meant != 0};
    if (births_find(&verify->raw.births, record->bound) == BIRTH_NOT_SEEN)
        return doubt_add(verify, doubt);
    if (doubt_is_excused(verify, &doubt)) return true;
    if (meant == 0) return doubt_violates(verify, lane, &doubt);
    uint64_t born = verify->objects[meant - 1].born;
    return verify_violated(verify, VERIFY_OBJECTS, lane,
                           "the object is called unknown; the recording has the birth of %" PRIu32
                           ":%" PRIu64,
                           raw_births_lane(born), raw_births_count(born));
}

/* What the bound counts has come. */
static bool check_bound(struct verify *verify, struct verify_lane *lane,
                        const struct record *record)
{
    struct verify_lane *other = verify_raw_lane(&verify->raw, raw_births_lane(record->bound));
    if (other == NULL) return verify_no_memory(verify);
    const struct verify_birth *birth = latest_find(verify, record->bound);
    if (birth != NULL) verify_raise_floor(lane, birth->floor);
    if (raw_births_count(record->bound) <= other->births) return true;
    struct verify_doubt doubt = {record->bound, other->births, verify->position, false, true};
    if (births_find(&verify->raw.births, record->bound) == BIRTH_NOT_SEEN)
        return doubt_add(verify, doubt);
    return doubt_is_excused(verify, &doubt) || doubt_violates(verify, lane, &doubt);
}

bool verify_object(struct verify *verify, struct verify_lane *lane, const struct record *record,
                   const struct instruction *one)
{
    if ((one->opcode & INSTRUCTION_UNKNOWN) != 0) return check_unknown(verify, lane, record);
    uint64_t born = verify->objects[one->object].born;
    if (record->bound == 0)
        return verify_violated(verify, VERIFY_OBJECTS, lane,
                               "register %" PRIu32 " is object %" PRIu32 ":%" PRIu64
                               "; the recording says that its object is unknown",
                               one->object, raw_births_lane(born), raw_births_count(born));
    if (!check_bound(verify, lane, record)) return false;
    uint32_t meant = place_find(verify, record->ends, record->bound);
    if (meant == one->object + 1) return true;
    if (meant == 0)
        return verify_violated(verify, VERIFY_OBJECTS, lane,
                               "register %" PRIu32 " is object %" PRIu32 ":%" PRIu64
                               "; the recording names one at place %" PRIu32
                               ", where none of lane %" PRIu32 " is alive",
                               one->object, raw_births_lane(born), raw_births_count(born),
                               record->ends, raw_births_lane(record->bound));
    uint64_t named = verify->objects[meant - 1].born;
    return verify_violated(verify, VERIFY_OBJECTS, lane,
                           "register %" PRIu32 " is object %" PRIu32 ":%" PRIu64
                           "; the recording names %" PRIu32 ":%" PRIu64,
                           one->object, raw_births_lane(born), raw_births_count(born),
                           raw_births_lane(named), raw_births_count(named));
}
