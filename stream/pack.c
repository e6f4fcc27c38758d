#include "stream/pack.h"

#include "stream/units_read.h"

#include <string.h>

/* ---- units as bytes ---- */

void pack_fill_entries(uint32_t entries[PACK_ENTRIES])
{
    static const struct {
        uint16_t first, step; /* the unit of the first code, and the step to that of the next */
        uint8_t code;
    } codes[] = {{RAW_UNIT_FREE_1_BY_AGE + 1, 1, RAW_PACKED_FREE_1},
                 {RAW_UNIT_ALLOCATION_1_SHORT, 8, RAW_PACKED_ALLOCATION_1},
                 {RAW_UNIT_FREE_2_BY_AGE + 1, 1, RAW_PACKED_FREE_2},
                 {RAW_UNIT_ALLOCATION_2_SHORT, 8, RAW_PACKED_ALLOCATION_2}};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        for (unsigned code = codes[i].code; code < RAW_PACKED_PAGE; code++)
            entries[code] = codes[i].first + (code - codes[i].code) * codes[i].step;
    for (uint32_t page = RAW_PACKED_PAGE; page < RAW_PACKED_UNIT; page++)
        entries[page] = PACK_MASK_PAGE | (page == RAW_PACKED_LOW ? 0 : page << 8);
    entries[RAW_PACKED_UNIT] = PACK_MASK_UNIT;
}

static void make_codes(uint8_t *codes)
{
    uint32_t entries[PACK_ENTRIES];
    pack_fill_entries(entries);
    memset(codes, PACK_NO_CODE, PACK_CODES);
    for (unsigned code = 0; code < RAW_PACKED_PAGE; code++)
        codes[entries[code] - PACK_CODES_FIRST] = (uint8_t)code;
}

/* ---- lanes ---- */

void packer_init(struct packer *packer, const struct pack_source *source)
{
    memset(packer, 0, sizeof *packer);
    packer->source = *source;
    packer->dialect = source->opaque ? &pack_opaque : &pack_tcmalloc;
    make_codes(packer->codes);
}

void packer_release(struct packer *packer)
{
    while (packer->lanes != NULL) {
        struct pack_lane *lane = packer->lanes;
        packer->lanes = lane->next;
        packer->source.release(lane, packer->dialect->lane_bytes);
    }
    packer->unused = NULL;
    packer->followed = 0;
}

struct pack_lane *pack_lane_begin(struct packer *packer)
{
    const struct pack_dialect *dialect = packer->dialect;
    struct pack_lane *lane = packer->unused;
    const bool is_new = lane == NULL;
    if (packer->followed == PACK_LANES_MAX ||
        (dialect->is_ready != NULL && !dialect->is_ready(packer)))
        return NULL;
    if (is_new) {
        lane = packer->source.reserve(dialect->lane_bytes);
        if (lane == NULL) return NULL;
        lane->next = packer->lanes;
        packer->lanes = lane;
    } else {
        packer->unused = lane->next_unused;
    }
    packer->followed++;
    dialect->begin(packer, lane, is_new);
    return lane;
}

void pack_lane_end(struct packer *packer, struct pack_lane *lane)
{
    lane->next_unused = packer->unused;
    packer->unused = lane;
    packer->followed--;
}

uint8_t *pack_units(struct packer *packer, struct pack_lane *lane,
                    const struct pack_records *records, uint8_t *out)
{
    const uint16_t *end = records->units + records->count;
    struct units_call calls[UNITS_CALLS];
    if (lane == NULL && packer->dialect->needs_lane) return NULL;
    if (lane == NULL) return pack_put_units(packer, out, records->units, end);
    units_fill_calls(calls, records->profile, records->features, false);
    return packer->dialect->pack(packer, lane, calls, records, out);
}
