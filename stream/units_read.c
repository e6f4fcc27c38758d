#include "stream/units_own.h"

#include <string.h>

const struct units_dialect *units_dialect_of(uint32_t features)
{
    return features & RAW_FEATURE_OPAQUE ? &units_opaque : &units_tcmalloc;
}

bool units_read(struct units_reader *reader, struct units_record *coded)
{
    memset(coded, 0, offsetof(struct units_record, cached));
    coded->range = RAW_RANGES;
    reader->is_cut = reader->too_large = false;
    bool good = reader->dialect->read(reader, units_take_unit(reader), coded);
    /* If units are missing, whatever else seems wrong does not matter. */
    if (reader->is_cut) return units_fail(coded, RAW_UNITS_SHORT, 0);
    if (good && reader->too_large) return units_fail(coded, RAW_OPERAND, UINT64_MAX);
    return good;
}

const uint16_t *units_next(const uint8_t *profile, uint32_t features, const uint16_t *at,
                           const uint16_t *end, struct units_record *coded)
{
    struct units_reader reader = {.at = (const uint8_t *)at,
                                  .end = (const uint8_t *)end,
                                  .profile = profile,
                                  .dialect = units_dialect_of(features),
                                  .features = features};
    return units_read(&reader, coded) ? at + (reader.at - (const uint8_t *)at) / 2 : NULL;
}

/* ---- many records ---- */

static void fill_row(struct units_call calls[UNITS_CALLS], const struct units_row *row,
                     unsigned kind, unsigned units)
{
    unsigned shape = call_shapes[kind], end = row->first + row->limit;
    bool is_allocation = row->form == UNITS_CALL_ALLOCATION;
    if (is_allocation ? shape != SHAPE_ALLOCATION
                      : shape != SHAPE_FREE && shape != SHAPE_FREE_SIZED)
        return;
    /* Rows that do not end where the upper bits change are not worth it. */
    if (end % (1u << UNITS_CALL_SHIFT) != 0) return;
    for (unsigned i = (row->first + row->least) >> UNITS_CALL_SHIFT; i < end >> UNITS_CALL_SHIFT;
         i++)
        calls[i] = (struct units_call){.form = row->form,
                                       .kind = (uint8_t)kind,
                                       .range = row->range,
                                       .is_sized = shape == SHAPE_FREE_SIZED,
                                       .units = (uint8_t)units,
                                       .base = row->first};
}

void units_fill_calls(struct units_call calls[UNITS_CALLS], const uint8_t *profile,
                      uint32_t features, bool packed)
{
    const struct units_dialect *dialect = units_dialect_of(features);
    memset(calls, 0, UNITS_CALLS * sizeof *calls);
    if (dialect->add_calls != NULL && !packed) dialect->add_calls(calls, profile, features);
    for (size_t i = 0; i < units_rows_count; i++) {
        const struct units_row *row = &units_rows[i];
        const bool is_allocation = row->form == UNITS_CALL_ALLOCATION;
        unsigned units = row->form == UNITS_CALL_LONG ? 2 : 1;
        if (!units_row_is_used(row, dialect, packed)) continue;
        if (is_allocation && features & RAW_FEATURE_ADDRESSES) continue;
        if (is_allocation && !packed) units = dialect->allocation_units;
        fill_row(calls, row, profile[row->range], units);
    }
}

uint64_t units_events(const uint8_t *profile, uint32_t features, const uint16_t *units,
                      size_t count)
{
    struct units_call calls[UNITS_CALLS];
    const uint16_t *at = units, *end = units + count;
    struct units_record coded;
    uint64_t events = 0;
    units_fill_calls(calls, profile, features, false);
    while (at != NULL && at < end) {
        unsigned passed = units_of_call(calls, at, end);
        if (passed) {
            at += passed;
            events++;
            continue;
        }
        at = units_next(profile, features, at, end, &coded);
        events += at != NULL && units_is_event(&coded);
    }
    return events;
}

size_t units_whole(const uint8_t *profile, uint32_t features, const uint16_t *units, size_t count,
                   size_t units_max)
{
    const uint16_t *at = units, *end = units + count;
    struct units_record coded;
    while (at < end) {
        const uint16_t *next = units_next(profile, features, at, end, &coded);
        if (next == NULL || (size_t)(next - units) > units_max) break;
        at = next;
    }
    return (size_t)(at - units);
}
