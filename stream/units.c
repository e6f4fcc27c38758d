#include "stream/units_own.h"

/* ---- codes of the ranges, FORMAT.md 5.2 and 5.5 ---- */

#define CODE_OF_RANGE(range, form, first, limit) [RAW_##range][RAW_##form] = {first, limit},
const struct units_range_code units_range_codes[RAW_RANGES][RAW_CODE_FORMS] = {
    RAW_CODE_LIST(CODE_OF_RANGE)};

/* The same by first units. */
#define IS_ALLOCATION(range) (RAW_##range >= RAW_ALLOCATION_1 && RAW_##range <= RAW_ALLOCATION_3)
#define ROW(range, form, first, limit)                                    \
    {first, (uint16_t)(RAW_##form == RAW_LONG ? (limit) >> 16 : (limit)), \
     RAW_##form != RAW_LONG && !IS_ALLOCATION(range), RAW_##range,        \
     IS_ALLOCATION(range) ? UNITS_CALL_ALLOCATION : UNITS_CALL_##form},
const struct units_row units_rows[] = {RAW_CODE_LIST(ROW)};
const size_t units_rows_count = sizeof units_rows / sizeof *units_rows;

/* ---- segments ---- */

void units_forget_segment(struct units_lane *lane, bool key)
{
    memset(lane->remote, 0, sizeof lane->remote);
    lane->latest_remote = lane->remote;
    lane->last_address = lane->page_place = lane->page_address = 0;
    lane->next_code = lane->next_node = 0;
    if (key) memset(lane->sequences, 0, sizeof lane->sequences);
}

/* ---- calls on the whole heap ---- */

void units_heap_call(struct units_lane *lane, unsigned kind, unsigned count, uint64_t first,
                     uint64_t second)
{
    uint16_t *at = units_put_number(units_rest_of_record(lane), count);
    if (count > 0) at = units_put_number(at, first);
    if (count > 1) at = units_put_number(at, second);
    units_finish_event(lane, RAW_UNIT_GENERAL + kind, at, 0);
}

/* ---- threads, and what was lost ---- */

void units_thread(struct units_lane *lane, unsigned record, uint64_t thread_id)
{
    uint16_t *at = units_rest_of_record(lane);
    if (record == RAW_THREAD_BEGIN) at = units_put_number(at, thread_id);
    units_finish(lane, RAW_UNIT_GENERAL + record, at);
}

void units_lost(struct units_lane *lane, uint64_t events, uint64_t allocations)
{
    uint16_t *at =
        units_put_number(units_put_number(units_rest_of_record(lane), events), allocations);
    units_finish_record(lane, RAW_UNIT_GENERAL + RAW_LOST, at, false, allocations);
}
