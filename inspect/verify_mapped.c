/* Whether objects lie in memory that is mapped: rule 5.
 *
 * The order of mapping calls among the allocator's is known by their windows only, and records of them
 * may come late: a thread that is stopped in the middle of one keeps back those behind it. So an object
 * may lie in what is mapped when it begins, in what has been given up in this window or the one before,
 * or in what is mapped soon: until then its page waits. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "inspect/verify.h"
#include "stream/instruction_reader.h"

/* More than ten seconds: as long as the writer waits for a record that is not complete. */
#define MAPPED_TICKS 1100u

/* More are not waited for, and not judged. */
#define MAPPED_WAITING_MAX 65536u

static bool mapped_has(const struct verify_mapped *mapped, uint64_t address)
{
    if (address < mapped->table.own_break || mapping_table_find(&mapped->table, address) != NULL)
        return true;
    for (size_t i = 0; i < mapped->given_up_count; i++)
        if (address >= mapped->given_up[i].start && address < mapped->given_up[i].end) return true;
    return false;
}

bool verify_mapped_begins(struct verify *verify, const struct verify_object *object)
{
    struct verify_mapped *mapped = &verify->mapped;
    const uint64_t last = object->address + object->size - (object->size > 0);
    if (!mapped->has_own || mapped->table.lost > 0) return true;
    mapped->objects++;
    if (mapped_has(mapped, object->address) && mapped_has(mapped, last)) return true;
    const uint64_t page =
        (mapped_has(mapped, last) ? object->address : last) & ~(mapped->table.page_bytes - 1);
    struct verify_waiting *latest =
        mapped->waiting_count > 0 ? &mapped->waiting[mapped->waiting_count - 1] : NULL;
    if (latest != NULL && latest->page == page) {
        latest->objects++;
        return true;
    }
    if (mapped->waiting_count == MAPPED_WAITING_MAX) return true;
    if (!array_reserve(&mapped->waiting, &mapped->waiting_room, mapped->waiting_count + 1,
                       sizeof *mapped->waiting))
        return verify_no_memory(verify);
    mapped->waiting[mapped->waiting_count++] = (struct verify_waiting){.page = page,
                                                                       .objects = 1,
                                                                       .tick = verify->counts.ticks,
                                                                       .address = object->address,
                                                                       .size = object->size};
    return true;
}

/* Pages that have been mapped no longer wait. */
static void mapped_drop_found(struct verify_mapped *mapped)
{
    size_t kept = 0;
    for (size_t i = 0; i < mapped->waiting_count; i++)
        if (!mapped_has(mapped, mapped->waiting[i].page))
            mapped->waiting[kept++] = mapped->waiting[i];
    mapped->waiting_count = kept;
}

void verify_mapped_take(void *of, const struct mapping_record *record)
{
    struct verify *verify = of;
    struct verify_mapped *mapped = &verify->mapped;
    const bool gives_up = record->what == MAPPING_UNMAP || record->what == MAPPING_MOVE_FROM;
    mapping_table_take(&mapped->table, record);
    mapped->has_own |= record->own && !record->failed;
    mapped->no_memory |= mapped->table.no_memory;
    if (record->failed || !mapped->has_own) return;
    if (gives_up && array_reserve(&mapped->given_up, &mapped->given_up_room,
                                  mapped->given_up_count + 1, sizeof *mapped->given_up))
        mapped->given_up[mapped->given_up_count++] =
            (struct mapping_piece){record->address, record->address + record->length, 0};
    else if (gives_up)
        mapped->no_memory = true;
    else if (mapped->waiting_count > 0)
        mapped_drop_found(mapped);
}

/* Whether all that the recorded allocator has mapped is known. */
static bool mapped_is_complete(const struct verify *verify)
{
    return !raw_source_is_opaque(&verify->raw.source) && !verify->is_attached &&
           !verify->raw.lost && verify->mapped.table.own_break != 0;
}

bool verify_mapped_tick(struct verify *verify)
{
    struct verify_mapped *mapped = &verify->mapped;
    size_t over = 0;
    if (mapped->no_memory) return verify_no_memory(verify);
    mapped->given_up_count -= mapped->given_up_old;
    if (mapped->given_up_old > 0)
        memmove(mapped->given_up, mapped->given_up + mapped->given_up_old,
                mapped->given_up_count * sizeof *mapped->given_up);
    mapped->given_up_old = mapped->given_up_count;
    for (; over < mapped->waiting_count; over++) {
        const struct verify_waiting *one = &mapped->waiting[over];
        if (verify->counts.ticks < one->tick + MAPPED_TICKS) break;
        if (mapped_is_complete(verify))
            return verify_violated(verify, VERIFY_MAPPINGS, NULL,
                                   "%" PRIu64 " bytes at 0x%" PRIx64 ", which an allocation before "
                                   "tick %" PRIu64 " returned, lie where nothing is mapped",
                                   one->size, one->address, one->tick);
        mapped->elsewhere += one->objects;
    }
    mapped->waiting_count -= over;
    if (over > 0)
        memmove(mapped->waiting, mapped->waiting + over,
                mapped->waiting_count * sizeof *mapped->waiting);
    return true;
}

/* ---- touched pages ---- */

/* Whether all of these pages of the object are mapped, and none behind its end. */
static bool touched_are_mapped(const struct verify_mapped *mapped,
                               const struct verify_object *object, const uint64_t *runs,
                               size_t count)
{
    const uint64_t page_bytes = mapped->table.page_bytes, last = object->address + object->size - 1;
    uint64_t page = object->address & ~(page_bytes - 1);
    for (size_t i = 0; i < count; i++) {
        page += runs[2 * i] * page_bytes;
        for (uint64_t k = 0; k < runs[2 * i + 1] && page <= last; k++, page += page_bytes)
            if (!mapped_has(mapped, page)) return false;
    }
    return true;
}

/* Runs may be those of another object of the size, which began elsewhere in its page. */
bool verify_touched(struct verify *verify, const struct instruction_walk *walk,
                    const struct instruction *one)
{
    struct verify_mapped *mapped = &verify->mapped;
    const unsigned does = instruction_does[one->opcode];
    const uint64_t *runs;
    if (does != INSTRUCTION_BEGINS && does != INSTRUCTION_RESIZES) return true;
    const size_t count = instruction_walk_touched(walk, one, &runs);
    const uint64_t most = (one->size - 1) / mapped->table.page_bytes + 2;
    uint64_t pages = 0, touched = 0;
    for (size_t i = 0; i < count; i++) {
        if (runs[2 * i + 1] > 0) pages += runs[2 * i] + runs[2 * i + 1];
        touched += runs[2 * i + 1];
        if (runs[2 * i] > most || runs[2 * i + 1] > most || pages > most)
            return verify_violated(
                verify, VERIFY_MAPPINGS, NULL,
                "touched pages reach behind the end of an object of %" PRIu64 " bytes", one->size);
    }
    const struct verify_object *object = &verify->objects[one->object];
    mapped->touched += count > 0;
    mapped->touched_pages += touched;
    /* An object whose ends are not mapped yet waits, and is judged as a whole. */
    if (count > 0 && object->address != 0 && mapped->has_own && mapped->table.lost == 0 &&
        mapped_has(mapped, object->address) && mapped_has(mapped, object->address + one->size - 1))
        mapped->touched_elsewhere += !touched_are_mapped(mapped, object, runs, count);
    return true;
}

/* What still waits at the end is counted. */
void verify_mapped_print(const struct verify_mapped *mapped)
{
    const struct mapping_table *table = &mapped->table;
    uint64_t elsewhere = mapped->elsewhere;
    if (!mapped->is_recorded) return;
    for (size_t i = 0; i < mapped->waiting_count; i++)
        elsewhere += mapped->waiting[i].objects;
    printf("rule 5  mapping calls: %" PRIu64, table->records);
    if (table->overlaps > 0)
        printf("; on pages that were mapped: %" PRIu64 ", the first is number %" PRIu64,
               table->overlaps, table->first_overlap);
    else
        printf("; none got pages that were mapped");
    if (mapped->objects > 0)
        printf("; allocations: %" PRIu64 ", where nothing is mapped: %" PRIu64, mapped->objects,
               elsewhere);
    if (mapped->touched > 0)
        printf("; large ones with touched pages: %" PRIu64 ", where nothing is mapped: %" PRIu64,
               mapped->touched, mapped->touched_elsewhere);
    putchar('\n');
}

void verify_mapped_close(struct verify_mapped *mapped)
{
    mapping_table_free(&mapped->table);
    free(mapped->given_up);
    free(mapped->waiting);
}
