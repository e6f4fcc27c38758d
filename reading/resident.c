#include "reading/resident.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "reading/resident_unknown.h"

/* A piece of an area: of one mapping, or of none that is known. */
struct resident_share {
    struct resident_piece piece;
    const struct mapping_maker *maker; /* NULL: none is known; or it was found at the beginning */
    uint64_t kib;                      /* resident, as far as runs or lengths tell */
};

/* One residency. */
struct resident_state {
    struct resident_dividing *dividing;
    const struct mapping_table *table;
    uint64_t page_bytes;
    const struct residency_area *area; /* that is being divided */
    struct resident_share *shares;
    size_t count, room;
    struct resident_file data; /* where the data of the latest file end */
    struct resident_part file; /* that file, as a part */
    bool of_recorder;          /* that file is the recorder's */
};

static bool resident_begins(const struct residency_area *area, const char *with)
{
    const size_t bytes = strlen(with);
    return area->name_bytes >= bytes && memcmp(area->name, with, bytes) == 0;
}

static bool resident_has(const struct residency_area *area, const char *text)
{
    return memmem(area->name, area->name_bytes, text, strlen(text)) != NULL;
}

/* ---- pieces ---- */

static bool resident_has_page(const struct residency_area *area, uint64_t page)
{
    struct residency_area copy = *area;
    struct residency_run run;
    uint64_t at = area->start;
    if (!area->has_runs) return true;
    while (residency_run_take(&copy, &run)) {
        at += run.skipped;
        if (page < at) return false;
        at += run.resident;
        if (page < at) return true;
    }
    return false;
}

/* What mapping_table_divide() calls. Of what is mapped it need not be known which pages are there. */
static void resident_took(void *of, const struct mapping_piece *piece, uint64_t start, uint64_t end,
                          uint64_t kib)
{
    struct resident_state *state = of;
    const uint64_t page = state->page_bytes;
    if (start >= end) return;
    if (!array_reserve(&state->shares, &state->room, state->count + 1, sizeof *state->shares)) {
        state->dividing->no_memory = true;
        return;
    }
    struct resident_share *share = &state->shares[state->count++];
    *share = (struct resident_share){.piece = {.start = start,
                                               .end = end,
                                               .protection = state->area->protection,
                                               .is_heap = state->area->is_heap},
                                     .kib = kib};
    if (piece != NULL) share->maker = &state->table->makers[piece->maker];
    if (share->maker == NULL || share->maker->what == MAPPING_FOUND) {
        share->piece.has_first = resident_has_page(state->area, start / page);
        share->piece.has_last = resident_has_page(state->area, end / page - 1);
    }
}

/* Cuts an area where what is mapped begins and ends. */
static void resident_cut(struct resident_state *state, const struct residency_area *area)
{
    state->area = area;
    state->count = 0;
    mapping_table_divide(state->table, area, state->page_bytes, resident_took, state);
    if (state->count > 1 && !area->has_runs && area->resident > 0 &&
        area->resident < (area->end - area->start) * (state->page_bytes / 1024))
        state->dividing->is_estimate = true;
}

/* ---- parts ---- */

/* What is still to be divided, of an area and of the weights of its pieces. */
struct resident_rest {
    uint64_t weight, resident, proportional, huge, swapped;
};

static uint64_t resident_portion(uint64_t *rest, uint64_t weight, uint64_t all)
{
    const uint64_t portion = all > 0 ? (uint64_t)((unsigned __int128)*rest * weight / all) : *rest;
    *rest -= portion;
    return portion;
}

/* Takes the part of a piece. What is left after the last one is 0. */
static void resident_take_portion(struct resident_part *part, struct resident_rest *rest,
                                  uint64_t weight)
{
    part->resident = resident_portion(&rest->resident, weight, rest->weight);
    part->proportional = resident_portion(&rest->proportional, weight, rest->weight);
    part->huge = resident_portion(&rest->huge, weight, rest->weight);
    part->swapped = resident_portion(&rest->swapped, weight, rest->weight);
    rest->weight -= weight;
}

static void resident_put(const struct resident_state *state, const struct resident_part *part)
{
    if (part->resident > 0 || part->swapped > 0) state->dividing->put(state->dividing->of, part);
}

/* A piece without a recorded call. */
static void resident_judge(struct resident_state *state, const struct residency_area *area,
                           const struct resident_share *share, struct resident_part *part)
{
    static const char before[] = "(before the recording)";
    const struct resident_piece *piece = &share->piece;
    struct resident_dividing *dividing = state->dividing;
    if (resident_begins(area, "[heap]")) {
        part->owner = dividing->is_libc || dividing->moves_break ? RESIDENT_HEAP : RESIDENT_LIBC;
    } else if (resident_begins(area, "[stack") || resident_has(area, "glibc: pthread")) {
        part->owner = RESIDENT_STACK;
    } else if (resident_has(area, "glibc: malloc")) {
        part->owner = dividing->is_libc ? RESIDENT_HEAP : RESIDENT_LIBC;
    } else if (resident_has(area, "glibc: ")) {
        part->owner = RESIDENT_LIBC;
    } else if (resident_begins(area, "[anon")) {
        part->owner = RESIDENT_MAPPED;
        part->name = area->name;
        part->name_bytes = area->name_bytes;
    } else {
        part->owner = resident_unknown(dividing, piece, &state->data);
        if (part->owner == RESIDENT_UNOWNED && share->maker != NULL) {
            part->owner = RESIDENT_MAPPED;
            part->name = before;
            part->name_bytes = sizeof before - 1;
        }
        if (part->owner != RESIDENT_FILE) return;
        part->name = state->file.name;
        part->name_bytes = state->file.name_bytes;
        part->kind = RESIDENT_DATA;
        if (state->of_recorder) part->owner = RESIDENT_RECORDER;
    }
}

/* Divides an area by its pieces. */
static void resident_put_pieces(struct resident_state *state, const struct residency_area *area,
                                enum resident_owner owner)
{
    struct resident_rest rest = {.resident = area->resident,
                                 .proportional = area->proportional,
                                 .huge = area->huge,
                                 .swapped = area->swapped};
    resident_cut(state, area);
    for (size_t i = 0; i < state->count; i++)
        rest.weight += state->shares[i].kib;
    for (size_t i = 0; i < state->count; i++) {
        const struct resident_share *share = &state->shares[i];
        const struct mapping_maker *maker = share->maker;
        struct resident_part part = {
            .owner = owner, .start = share->piece.start, .end = share->piece.end};
        resident_take_portion(&part, &rest, share->kib);
        if (maker != NULL && maker->what != MAPPING_FOUND) {
            part.stack = maker->stack;
            if (maker->own) part.owner = RESIDENT_HEAP;
        } else if (owner == RESIDENT_MAPPED) {
            resident_judge(state, area, share, &part);
        }
        resident_put(state, &part);
    }
}

/* A file's pages: those that the process has changed are its data. */
static void resident_put_file(struct resident_state *state, const struct residency_area *area)
{
    const bool is_data =
        (area->protection & RESIDENCY_WRITE) && !(area->protection & RESIDENCY_SHARED);
    const uint64_t data = is_data                            ? area->resident
                          : area->anonymous < area->resident ? area->anonymous
                                                             : area->resident;
    struct resident_part part = {.owner = state->of_recorder ? RESIDENT_RECORDER : RESIDENT_FILE,
                                 .kind = RESIDENT_DATA,
                                 .name = area->name,
                                 .name_bytes = area->name_bytes,
                                 .start = area->start * state->page_bytes,
                                 .end = area->end * state->page_bytes,
                                 .resident = data,
                                 .swapped = area->swapped};
    struct resident_rest rest = {
        .weight = area->resident, .proportional = area->proportional, .huge = area->huge};
    part.proportional = resident_portion(&rest.proportional, data, rest.weight);
    part.huge = resident_portion(&rest.huge, data, rest.weight);
    resident_put(state, &part);
    part.kind = area->protection & RESIDENCY_EXECUTE ? RESIDENT_CODE : RESIDENT_CONSTANTS;
    part.resident = area->resident - data;
    part.proportional = rest.proportional;
    part.huge = rest.huge;
    part.swapped = 0;
    if (area->resident > 0 && part.resident > 0) resident_put(state, &part);
}

/* "/usr/lib/libmalloctape.so". */
static bool resident_is_of_recorder(const struct residency_area *area)
{
    static const char library[] = "/libmalloctape.so";
    const size_t bytes = sizeof library - 1;
    return area->name_bytes >= bytes &&
           memcmp(area->name + area->name_bytes - bytes, library, bytes) == 0;
}

static bool resident_is_shared_memory(const struct residency_area *area)
{
    return resident_begins(area, "/dev/zero") || resident_begins(area, "/memfd:") ||
           resident_begins(area, "/dev/shm/") || resident_begins(area, "/SYSV") ||
           resident_begins(area, "[anon_shmem");
}

/* Puts the whole area as one part. */
static void resident_put_whole(struct resident_state *state, const struct residency_area *area,
                               enum resident_owner owner)
{
    const struct resident_part part = {.owner = owner,
                                       .kind = RESIDENT_CODE,
                                       .name = area->name,
                                       .name_bytes = area->name_bytes,
                                       .start = area->start * state->page_bytes,
                                       .end = area->end * state->page_bytes,
                                       .resident = area->resident,
                                       .proportional = area->proportional,
                                       .huge = area->huge,
                                       .swapped = area->swapped};
    resident_put(state, &part);
}

/* "[vdso]": the kernel's, as if it were a file. */
static bool resident_is_of_kernel(const struct residency_area *area)
{
    return resident_begins(area, "[v") || resident_begins(area, "[uprobes");
}

static void resident_put_area(struct resident_state *state, const struct residency_area *area)
{
    if (area->is_recorder) {
        resident_put_whole(state, area, RESIDENT_RECORDER);
        return;
    }
    if (resident_is_shared_memory(area)) {
        resident_put_pieces(state, area, RESIDENT_SHARED);
        return;
    }
    if (!area->has_file && !resident_is_of_kernel(area)) {
        resident_put_pieces(state, area, RESIDENT_MAPPED);
        if (state->data.end == area->start * state->page_bytes) state->data.end = 0;
        return;
    }
    state->of_recorder = resident_is_of_recorder(area);
    state->file = (struct resident_part){.name = area->name, .name_bytes = area->name_bytes};
    state->data.end = area->protection & RESIDENCY_WRITE ? area->end * state->page_bytes : 0;
    resident_put_file(state, area);
}

static bool resident_is_called(const char *name, size_t bytes, const char *allocator)
{
    return bytes >= strlen(allocator) && memcmp(name, allocator, strlen(allocator)) == 0;
}

void resident_allocator(struct resident_dividing *dividing, const char *name, size_t bytes)
{
    dividing->is_glibc = resident_is_called(name, bytes, "glibc");
    dividing->is_libc = dividing->is_glibc || resident_is_called(name, bytes, "musl");
    /* Its first MiB may be all that it takes, and that before the recording. */
    dividing->moves_break = resident_is_called(name, bytes, "gperftools");
}

const char *resident_divide(struct resident_dividing *dividing, const struct mapping_table *table,
                            const struct residency *residency, const uint8_t *at,
                            const uint8_t *end)
{
    struct resident_state state = {
        .dividing = dividing, .table = table, .page_bytes = residency->page_bytes};
    struct residency_area area = {.start = 0};
    const char *wrong = NULL;
    uint64_t latest = 0;
    for (uint64_t i = 0; i < residency->areas && wrong == NULL; i++) {
        wrong = residency_take_area(&at, end, &latest, &area);
        if (wrong == NULL) resident_put_area(&state, &area);
    }
    free(state.shares);
    return wrong;
}
