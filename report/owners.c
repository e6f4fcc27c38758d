#include "report/owners.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "launch/allocators.h"
#include "stream/metadata.h"

/* What is resident in the look that stands for the peak may be less than the greatest by one part in so
 * many, and what is alive less than at others near it. */
#define OWNERS_PEAK_PART  50
#define OWNERS_ALIVE_PART 10

/* Of a trace that does not say it. */
#define OWNERS_PAGE_BYTES 4096u

/* What is mapped so soon after a look may have been mapped before it. */
#define OWNERS_SOON_NS UINT64_C(200000000)

/* From this size on glibc may map objects by themselves. */
#define OWNERS_LARGE_BYTES (UINT64_C(128) << 10)

const char *const owners_kinds[OWNERS_KINDS] = {
#define OWNERS_KIND_NAME(identifier, name) name,
    OWNERS_KIND_LIST(OWNERS_KIND_NAME)
#undef OWNERS_KIND_NAME
};

/* The name of the code of a stack. */
struct owners_name {
    uint32_t node, name;
};

/* ---- looks ---- */

static void owners_add(struct owners_amount *to, const struct owners_amount *one)
{
    to->resident += one->resident;
    to->proportional += one->proportional;
    to->huge += one->huge;
    to->swapped += one->swapped;
    to->pieces += one->pieces;
    for (unsigned i = 0; i < RESIDENT_KINDS; i++)
        to->by_kind[i] += one->by_kind[i];
}

static uint32_t owners_put_name(struct owners *owners, const char *name, uint32_t bytes)
{
    char text[RESIDENCY_NAME_BYTES_MAX + 1];
    const size_t length = bytes < sizeof text ? bytes : sizeof text - 1;
    memcpy(text, name, length);
    text[length] = '\0';
    return strings_put(&owners->names, text);
}

static void owners_put_part(void *of, const struct resident_part *part)
{
    struct owners *owners = of;
    struct owners_look *look = owners->now;
    const bool has_name =
        part->name != NULL && (part->owner == RESIDENT_FILE || part->owner == RESIDENT_MAPPED);
    struct owners_part one = {.owner = part->owner,
                              .stack = part->stack,
                              .start = part->start,
                              .end = part->end,
                              .amount = {.resident = part->resident * 1024,
                                         .proportional = part->proportional * 1024,
                                         .huge = part->huge * 1024,
                                         .swapped = part->swapped * 1024,
                                         .pieces = 1}};
    if (has_name) one.name = owners_put_name(owners, part->name, part->name_bytes);
    if (part->owner == RESIDENT_FILE) one.amount.by_kind[part->kind] = one.amount.resident;
    if (part->owner != RESIDENT_MAPPED && part->owner != RESIDENT_SHARED) one.stack = 0;
    if (!array_reserve(&look->parts, &look->room, look->count + 1, sizeof *look->parts)) {
        owners->no_memory = true;
        return;
    }
    look->resident += one.amount.resident;
    look->parts[look->count++] = one;
}

static int owners_by_owner(const void *one, const void *other)
{
    const struct owners_part *a = one, *b = other;
    if (a->owner != b->owner) return a->owner < b->owner ? -1 : 1;
    if (a->stack != b->stack) return a->stack < b->stack ? -1 : 1;
    return (a->name > b->name) - (a->name < b->name);
}

/* Joins the parts of an owner. */
static void owners_join_parts(struct owners_look *look)
{
    size_t kept = 0;
    if (look->count > 1) qsort(look->parts, look->count, sizeof *look->parts, owners_by_owner);
    for (size_t i = 0; i < look->count; i++) {
        if (kept > 0 && owners_by_owner(&look->parts[kept - 1], &look->parts[i]) == 0)
            owners_add(&look->parts[kept - 1].amount, &look->parts[i].amount);
        else
            look->parts[kept++] = look->parts[i];
    }
    look->count = kept;
}

/* What large chunks of the heap have at most, each in a mapping of its own: of objects from before the
 * recording nothing is known. */
static uint64_t owners_large_bytes(const struct owners *owners)
{
    const struct sizes *sizes = &owners->tally->sizes;
    const uint64_t more = owners->mappings.page_bytes + 16;
    uint64_t bytes = 0;
    if (owners->tally->has_older) return UINT64_MAX;
    for (uint32_t i = 0; i < sizes->count; i++) {
        const struct size_entry *one = &sizes->entries[i];
        if (sizes_highest(sizes, i) + more >= OWNERS_LARGE_BYTES)
            bytes += one->live.bytes + one->live.objects * more;
    }
    return bytes;
}

/* The look with most resident. */
static size_t owners_greatest(const struct owners *owners)
{
    size_t greatest = 0;
    for (size_t i = 1; i < owners->looks_count; i++)
        if (owners->looks[i].resident > owners->looks[greatest].resident) greatest = i;
    return greatest;
}

/* Keeps every second look, and the greatest. */
static void owners_thin(struct owners *owners)
{
    const size_t greatest = owners_greatest(owners);
    size_t kept = 0;
    for (size_t i = 0; i < owners->looks_count; i++) {
        if (i % 2 == 0 || i == greatest)
            owners->looks[kept++] = owners->looks[i];
        else
            free(owners->looks[i].parts);
    }
    owners->looks_count = kept;
    owners->every *= 2;
}

/* Room for one more look, which is the latest. NULL: no memory. */
static struct owners_look *owners_next_look(struct owners *owners)
{
    const size_t latest = owners->looks_count - 1;
    if (owners->now != NULL) owners_join_parts(owners->now);
    if (owners->looks_count > 0 && !owners->latest_stays && owners_greatest(owners) != latest)
        free(owners->looks[--owners->looks_count].parts);
    if (owners->looks_count == OWNERS_LOOKS_MAX) owners_thin(owners);
    if (!array_reserve(&owners->looks, &owners->looks_room, owners->looks_count + 1,
                       sizeof *owners->looks))
        return NULL;
    owners->latest_stays = owners->passed++ % owners->every == 0;
    struct owners_look *look = &owners->looks[owners->looks_count++];
    *look = (struct owners_look){.ns = 0};
    return look;
}

static void owners_take_residency(void *of, const struct residency *residency, const uint8_t *at,
                                  const uint8_t *end)
{
    struct owners *owners = of;
    struct owners_look *look = owners_next_look(owners);
    struct resident_dividing dividing = owners->dividing;
    dividing.moves_break |= owners->tally->has_older;
    dividing.large_bytes = owners_large_bytes(owners);
    dividing.put = owners_put_part;
    dividing.of = owners;
    if (look == NULL) {
        owners->no_memory = true;
        return;
    }
    owners->now = look;
    look->ns = residency->since_start_ns;
    look->why = (enum residency_why)residency->why;
    look->is_brief = residency->is_brief;
    look->call = owners->tally->calls;
    look->live_bytes = owners->tally->live_bytes;
    resident_divide(&dividing, &owners->mappings, residency, at, end);
    look->is_estimate = dividing.is_estimate;
    owners->no_memory |= dividing.no_memory;
}

/* What was resident where this was mapped then, as far as nobody was known to have it. */
static void owners_claim(struct owners *owners, const struct mapping_record *record)
{
    struct owners_look *look = owners->now;
    const uint64_t start = record->address, end = start + record->length;
    if (look == NULL || record->failed || owners->tally->ns > look->ns + OWNERS_SOON_NS ||
        (record->what != MAPPING_MAP && record->what != MAPPING_MOVE_TO))
        return;
    for (size_t i = 0; i < look->count; i++) {
        struct owners_part *part = &look->parts[i];
        if ((part->owner != RESIDENT_UNOWNED && part->owner != RESIDENT_LIBC) ||
            part->start < start || part->end > end)
            continue;
        part->owner = record->own ? RESIDENT_HEAP : RESIDENT_MAPPED;
        part->stack = record->own ? 0 : record->stack;
    }
}

static void owners_take_mapping(void *of, const struct mapping_record *record)
{
    struct owners *owners = of;
    owners_claim(owners, record);
    if (record->what == MAPPING_BREAK && record->own) owners->dividing.moves_break = true;
    mapping_table_take(&owners->mappings, record);
    owners->no_memory |= owners->mappings.no_memory;
}

void owners_take_recorder(struct owners *owners)
{
    if (owners->now != NULL && owners->now->recorder == 0)
        owners->now->recorder = owners->tally->recorder_bytes;
}

/* ---- opening, closing ---- */

bool owners_follow(struct owners *owners, struct instruction_reader *reader,
                   const struct tally *tally, const char *allocator)
{
    const struct instruction_header *header = &reader->header;
    *owners = (struct owners){.tally = tally, .every = 1};
    const uint64_t page_bytes = metadata_page_bytes(header->metadata, header->metadata_bytes);
    owners->mappings.page_bytes = page_bytes > 0 ? page_bytes : OWNERS_PAGE_BYTES;
    resident_allocator(&owners->dividing, allocator, strlen(allocator));
    reader->mapping = owners_take_mapping;
    reader->residency = owners_take_residency;
    reader->mappings_context = owners;
    return strings_open(&owners->names);
}

void owners_close(struct owners *owners)
{
    mapping_table_free(&owners->mappings);
    for (size_t i = 0; i < owners->looks_count; i++)
        free(owners->looks[i].parts);
    for (size_t i = 0; i < owners->rows_count; i++)
        free(owners->rows[i].over_time);
    free(owners->looks);
    free(owners->rows);
    free(owners->of_stacks);
    if (owners->tally != NULL) strings_free(&owners->names);
    *owners = (struct owners){.is_known = false};
}

static bool owners_is_better(const struct owners_look *look, const struct owners_look *than)
{
    return look->is_brief == than->is_brief ? look->resident > than->resident : than->is_brief;
}

/* Of the looks near the greatest, those at which most was alive: a heap that does not shrink has as much
 * at the end, when hardly anything is. The greatest of these that are known in detail, or else of all. */
static void owners_find_peak(struct owners *owners)
{
    const uint64_t most = owners->looks[owners_greatest(owners)].resident;
    const uint64_t near = most - most / OWNERS_PEAK_PART;
    const size_t none = owners->looks_count;
    uint64_t alive = 0;
    for (size_t i = 0; i < none; i++)
        if (owners->looks[i].resident >= near && owners->looks[i].live_bytes > alive)
            alive = owners->looks[i].live_bytes;
    owners->peak = owners->details = none;
    for (size_t i = 0; i < none; i++) {
        const struct owners_look *look = &owners->looks[i];
        if (look->resident < near) continue;
        if (!look->is_brief && owners->details == none) owners->details = i;
        if (look->live_bytes < alive - alive / OWNERS_ALIVE_PART) continue;
        if (owners->peak == none || owners_is_better(look, &owners->looks[owners->peak]))
            owners->peak = i;
    }
    if (owners->details == none || !owners->looks[owners->peak].is_brief)
        owners->details = owners->peak;
}

void owners_end(struct owners *owners)
{
    owners->is_known = owners->looks_count > 0;
    if (owners->now != NULL) owners_join_parts(owners->now);
    owners->now = NULL;
    if (!owners->is_known) return;
    owners_find_peak(owners);
    owners->end = owners->looks_count - 1;
}

bool owners_tell(const struct owners *owners, struct stack_tally *stacks)
{
    if (!owners->is_known) return true;
    const struct owners_look *look = &owners->looks[owners->peak];
    for (size_t i = 0; i < look->count; i++) {
        const struct owners_part *part = &look->parts[i];
        if ((part->owner == RESIDENT_MAPPED || part->owner == RESIDENT_SHARED) && part->name == 0 &&
            !stack_tally_add_mapped(stacks, part->stack, part->amount.pieces,
                                    part->amount.resident))
            return false;
    }
    return true;
}

/* ---- names of code ---- */

static int owners_by_node(const void *one, const void *other)
{
    const struct owners_name *a = one, *b = other;
    return (a->node > b->node) - (a->node < b->node);
}

/* The function of the program that made the mapping, as in the tables by code. */
static uint32_t owners_name_code(struct owners *owners, const struct by_code *code, uint32_t node)
{
    static struct code_frame frames[CODE_FRAMES_MAX];
    const unsigned count = node != 0 ? code_names_of(&code->names, node, frames) : 0;
    if (count == 0) return strings_put(&owners->names, BY_CODE_NO_STACK);
    const uint32_t function = frames[code_groups_own(frames, count)].function;
    return strings_put(&owners->names, code_names_text(&code->names, function));
}

/* Names each stack that has mapped something, once. False: no memory. */
static bool owners_name_stacks(struct owners *owners, const struct by_code *code)
{
    size_t all = 0, kept = 0;
    for (size_t i = 0; i < owners->looks_count; i++)
        all += owners->looks[i].count;
    struct owners_name *names = owners->of_stacks = calloc(all + 1, sizeof *names);
    if (names == NULL) return false;
    all = 0;
    for (size_t i = 0; i < owners->looks_count; i++)
        for (size_t k = 0; k < owners->looks[i].count; k++)
            names[all++].node = owners->looks[i].parts[k].stack;
    if (all > 1) qsort(names, all, sizeof *names, owners_by_node);
    for (size_t i = 0; i < all; i++)
        if (kept == 0 || names[i].node != names[kept - 1].node) names[kept++] = names[i];
    owners->of_stacks_count = kept;
    for (size_t i = 0; i < kept && code->is_known; i++)
        names[i].name = owners_name_code(owners, code, names[i].node);
    return true;
}

/* ---- rows ---- */

struct owners_making {
    struct owners *owners;
    uint32_t *row_of; /* by kind and name: its row, plus 1 */
    const struct rounded *rounded;
    const char *allocator;
};

static enum owners_kind owners_kind_of(enum resident_owner owner)
{
    switch (owner) {
    case RESIDENT_MAPPED: return OWNERS_MAPPED;
    case RESIDENT_STACK: return OWNERS_STACKS;
    case RESIDENT_FILE: return OWNERS_FILE;
    case RESIDENT_SHARED: return OWNERS_SHARED;
    case RESIDENT_LIBC: return OWNERS_LIBC;
    case RESIDENT_RECORDER: return OWNERS_RECORDER;
    case RESIDENT_UNOWNED: return OWNERS_UNOWNED;
    default: return OWNERS_FREE;
    }
}

static uint32_t owners_name_of(const struct owners *owners, const struct owners_part *part)
{
    const struct owners_name key = {.node = part->stack};
    if (part->name != 0 || (part->owner != RESIDENT_MAPPED && part->owner != RESIDENT_SHARED))
        return part->name;
    const struct owners_name *name =
        bsearch(&key, owners->of_stacks, owners->of_stacks_count, sizeof key, owners_by_node);
    return name != NULL ? name->name : 0;
}

/* Adds an amount to a row, in the look with this index. False: no memory. */
static bool owners_add_to_row(struct owners_making *making, size_t look, enum owners_kind kind,
                              uint32_t name, const struct owners_amount *amount)
{
    struct owners *owners = making->owners;
    uint32_t *row = &making->row_of[(size_t)name * OWNERS_KINDS + kind];
    if (amount->resident == 0 && amount->swapped == 0) return true;
    if (*row == 0) {
        uint64_t *over_time = calloc(owners->looks_count, sizeof *over_time);
        if (over_time == NULL || !array_reserve(&owners->rows, &owners->rows_room,
                                                owners->rows_count + 1, sizeof *owners->rows)) {
            free(over_time);
            return false;
        }
        owners->rows[owners->rows_count] = (struct owners_row){
            .kind = kind, .name = owners->names.at[name], .over_time = over_time};
        *row = (uint32_t)++owners->rows_count;
    }
    struct owners_row *to = &owners->rows[*row - 1];
    to->over_time[look] += amount->resident;
    if (look == owners->peak) owners_add(&to->at_peak, amount);
    if (look == owners->end) owners_add(&to->at_end, amount);
    return true;
}

static uint64_t owners_least(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

uint64_t owners_rounding(const struct rounded rounded[ROUNDINGS], const char *allocator,
                         uint64_t bytes)
{
    const char *name = allocators_name_recorded(allocator);
    for (unsigned i = 0; name != NULL && i < ROUNDINGS; i++) {
        const struct rounded_class *all = &rounded[i].all;
        if (strcmp(allocator_facts[i]->name, name) != 0 || all->peak_bytes == 0) continue;
        return (uint64_t)((unsigned __int128)(all->peak_taken - all->peak_bytes) * bytes /
                          all->peak_bytes);
    }
    return 0;
}

/* Divides what the heap has. What is in huge pages, for example, counts for what is alive. */
static bool owners_add_heap(struct owners_making *making, size_t at,
                            const struct owners_amount *heap)
{
    const struct owners_look *look = &making->owners->looks[at];
    struct owners_amount alive = *heap;
    alive.resident = owners_least(look->live_bytes, heap->resident);
    const uint64_t rest = heap->resident - alive.resident;
    const uint64_t rounded = owners_rounding(making->rounded, making->allocator, alive.resident);
    const struct owners_amount up = {.resident = owners_least(rounded, rest)};
    const struct owners_amount left = {.resident = rest - up.resident};
    return owners_add_to_row(making, at, OWNERS_ALIVE, 0, &alive) &&
           owners_add_to_row(making, at, OWNERS_ROUNDING, 0, &up) &&
           owners_add_to_row(making, at, OWNERS_FREE, 0, &left);
}

/* The library of which the recorder is a part, beside the allocator. */
static bool owners_is_library(const struct owners *owners, const struct owners_part *part)
{
    static const char library[] = "/libtcmalloc_minimal_tracing.so";
    const char *name = owners->names.at[part->name];
    const size_t bytes = strlen(name), last = sizeof library - 1;
    return part->owner == RESIDENT_FILE && bytes >= last &&
           strcmp(name + bytes - last, library) == 0;
}

/* What the recorder has beside its own mappings: code and static data. */
static uint64_t owners_recorder_rest(const struct owners_look *look)
{
    uint64_t mapped = 0;
    for (size_t i = 0; i < look->count; i++)
        if (look->parts[i].owner == RESIDENT_RECORDER) mapped += look->parts[i].amount.resident;
    return look->recorder > mapped ? look->recorder - mapped : 0;
}

static uint64_t owners_share(uint64_t of, uint64_t part, uint64_t all)
{
    return (uint64_t)((unsigned __int128)of * part / all);
}

/* So much of the library is the recorder's; which pages is not known. */
static struct owners_amount owners_own_part(const struct owners_part *part, uint64_t of_recorder)
{
    const uint64_t all = part->amount.resident;
    struct owners_amount own = {.resident = owners_least(of_recorder, all)};
    if (own.resident > 0)
        own.proportional = owners_share(part->amount.proportional, own.resident, all);
    return own;
}

/* The same, as rows. */
static bool owners_add_library(struct owners_making *making, size_t at,
                               const struct owners_part *part, uint64_t of_recorder)
{
    const uint64_t all = part->amount.resident;
    struct owners_amount rest = part->amount;
    const struct owners_amount own = owners_own_part(part, of_recorder);
    rest.resident -= own.resident;
    rest.proportional -= own.proportional;
    uint64_t left = rest.resident;
    for (unsigned i = 0; i < RESIDENT_KINDS && all > 0; i++) {
        rest.by_kind[i] = owners_share(rest.by_kind[i], rest.resident, all);
        left -= rest.by_kind[i];
    }
    rest.by_kind[RESIDENT_CODE] += left;
    return owners_add_to_row(making, at, OWNERS_RECORDER, 0, &own) &&
           owners_add_to_row(making, at, OWNERS_FILE, part->name, &rest);
}

static bool owners_add_look(struct owners_making *making, size_t at)
{
    const struct owners_look *look = &making->owners->looks[at];
    struct owners_amount heap = {.resident = 0};
    bool good = true;
    for (size_t i = 0; i < look->count && good; i++) {
        const struct owners_part *part = &look->parts[i];
        if (part->owner == RESIDENT_HEAP)
            owners_add(&heap, &part->amount);
        else if (owners_is_library(making->owners, part))
            good = owners_add_library(making, at, part, owners_recorder_rest(look));
        else
            good = owners_add_to_row(making, at, owners_kind_of(part->owner),
                                     owners_name_of(making->owners, part), &part->amount);
    }
    return good && owners_add_heap(making, at, &heap);
}

static int owners_by_kind(const void *one, const void *other)
{
    const struct owners_row *a = one, *b = other;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->at_peak.resident != b->at_peak.resident)
        return a->at_peak.resident < b->at_peak.resident ? 1 : -1;
    if (a->at_end.resident != b->at_end.resident)
        return a->at_end.resident < b->at_end.resident ? 1 : -1;
    return strcmp(a->name, b->name);
}

bool owners_make(struct owners *owners, const struct by_code *code,
                 const struct rounded rounded[ROUNDINGS], const char *allocator)
{
    struct owners_making making = {.owners = owners, .rounded = rounded, .allocator = allocator};
    if (!owners->is_known) return true;
    if (!owners_name_stacks(owners, code) || owners->names.no_memory) return false;
    making.row_of = calloc((size_t)owners->names.count * OWNERS_KINDS, sizeof *making.row_of);
    bool good = making.row_of != NULL;
    for (size_t i = 0; i < owners->looks_count && good; i++)
        good = owners_add_look(&making, i);
    free(making.row_of);
    if (owners->rows_count > 1)
        qsort(owners->rows, owners->rows_count, sizeof *owners->rows, owners_by_kind);
    return good;
}

struct owners_amount owners_details(const struct owners *owners)
{
    const struct owners_look *look = &owners->looks[owners->details];
    struct owners_amount all = {.resident = 0};
    for (size_t i = 0; i < look->count; i++) {
        const struct owners_part *part = &look->parts[i];
        if (part->owner == RESIDENT_RECORDER) continue;
        owners_add(&all, &part->amount);
        if (owners_is_library(owners, part))
            all.proportional -= owners_own_part(part, owners_recorder_rest(look)).proportional;
    }
    return all;
}

uint64_t owners_resident(const struct owners *owners, bool at_end)
{
    return owners->looks[at_end ? owners->end : owners->peak].resident -
           owners_of_kind(owners, OWNERS_RECORDER, at_end);
}

uint64_t owners_of_kind(const struct owners *owners, enum owners_kind kind, bool at_end)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < owners->rows_count; i++)
        if (owners->rows[i].kind == kind)
            bytes += at_end ? owners->rows[i].at_end.resident : owners->rows[i].at_peak.resident;
    return bytes;
}
