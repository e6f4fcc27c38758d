#include "stream/residency.h"

#include "stream/varint.h"

#include <string.h>

/* The bits of an area's head, above its protection (FORMAT.md 4.6). */
enum {
    AREA_RECORDER = 16,
    AREA_FILE = 32,
    AREA_RUNS = 64,
    AREA_SAME_FILE = 128,
    AREA_HEAP = 256,
    AREA_HEAD_LIMIT = 512
};
/* Above the reason. */
enum { WHY_BRIEF = 8 };

#define AREA_PAGES_LIMIT (UINT64_C(1) << 52)

const char *residency_why_name(unsigned why)
{
#define RESIDENCY_WHY_NAME(number, identifier, name) \
    case number: return name;
    switch (why) {
        RESIDENCY_WHY_LIST(RESIDENCY_WHY_NAME)
    default: return NULL;
    }
#undef RESIDENCY_WHY_NAME
}

/* ---- writing ---- */

uint8_t *residency_put(uint8_t *at, const struct residency *residency)
{
    at = varint_put(at, residency->since_start_ns);
    at = varint_put(at, residency->why | (residency->is_brief ? WHY_BRIEF : 0));
    at = varint_put(at, residency->page_bytes);
    return varint_put(at, residency->areas);
}

uint8_t *residency_put_area(uint8_t *at, const struct residency_area *area, uint64_t *latest_end)
{
    const uint64_t kib[] = {area->resident, area->proportional, area->unshared, area->anonymous,
                            area->huge,     area->swapped,      area->locked};
    at = varint_put(at, area->protection | (area->is_recorder ? AREA_RECORDER : 0) |
                            (area->has_file ? AREA_FILE : 0) | (area->has_runs ? AREA_RUNS : 0) |
                            (area->same_file ? AREA_SAME_FILE : 0) |
                            (area->is_heap ? AREA_HEAP : 0));
    at = varint_put(at, area->start - *latest_end);
    at = varint_put(at, area->end - area->start);
    *latest_end = area->end;
    for (size_t i = 0; i < sizeof kib / sizeof *kib; i++)
        at = varint_put(at, kib[i]);
    if (area->has_file) {
        at = varint_put(at, area->offset);
    }
    if (area->has_file && !area->same_file) {
        at = varint_put(at, area->device);
        at = varint_put(at, area->inode);
    }
    if (!area->same_file) {
        at = varint_put(at, area->name_bytes);
        if (area->name_bytes > 0) memcpy(at, area->name, area->name_bytes);
        at += area->name_bytes;
    }
    return area->has_runs ? varint_put(at, area->runs) : at;
}

uint8_t *residency_put_run(uint8_t *at, const struct residency_run *run)
{
    return varint_put(varint_put(at, run->skipped), run->resident);
}

/* ---- reading ---- */

/* Where there is no number, `at` passes the end, which is checked afterwards. */
static uint64_t take_residency_number(const uint8_t **at, const uint8_t *end)
{
    if (*at < end) return varint_get(at);
    *at = end + 1;
    return 0;
}

const char *residency_take(const uint8_t **at, const uint8_t *end, struct residency *residency)
{
    const uint8_t *from = *at;
    residency->since_start_ns = take_residency_number(&from, end);
    uint64_t why = take_residency_number(&from, end);
    residency->is_brief = why & WHY_BRIEF;
    why &= ~(uint64_t)WHY_BRIEF;
    const uint64_t page_bytes = take_residency_number(&from, end);
    residency->areas = take_residency_number(&from, end);
    if (from > end || residency_why_name((unsigned)why) == NULL || why > UINT32_MAX)
        return "its head";
    if (page_bytes < 1024 || page_bytes > 1u << 20 || (page_bytes & (page_bytes - 1)) != 0)
        return "the size of a page";
    residency->why = (uint32_t)why;
    residency->page_bytes = (uint32_t)page_bytes;
    *at = from;
    return NULL;
}

static const char *take_area_name(const uint8_t **at, const uint8_t *end,
                                  struct residency_area *area)
{
    const uint64_t bytes = take_residency_number(at, end);
    if (*at > end || bytes > RESIDENCY_NAME_BYTES_MAX || bytes > (uint64_t)(end - *at))
        return "the name of an area";
    area->name = (const char *)*at;
    area->name_bytes = (uint32_t)bytes;
    *at += bytes;
    return NULL;
}

/* Goes over the runs, which residency_run_take() reads later. */
static const char *take_area_runs(const uint8_t **at, const uint8_t *end,
                                  struct residency_area *area)
{
    uint64_t left = area->end - area->start;
    area->runs = take_residency_number(at, end);
    area->run_at = *at;
    for (uint64_t i = 0; i < area->runs; i++) {
        const uint64_t skipped = take_residency_number(at, end);
        const uint64_t resident = take_residency_number(at, end);
        if (*at > end || skipped > left || resident > left - skipped || resident == 0)
            return "a run of an area";
        left -= skipped + resident;
    }
    area->run_end = *at;
    return NULL;
}

const char *residency_take_area(const uint8_t **at, const uint8_t *end, uint64_t *latest_end,
                                struct residency_area *area)
{
    const uint8_t *from = *at;
    const uint64_t head = take_residency_number(&from, end);
    const uint64_t gap = take_residency_number(&from, end);
    const uint64_t pages = take_residency_number(&from, end);
    const struct residency_area before = *area;
    *area = (struct residency_area){.protection = (uint32_t)head & 15u,
                                    .is_recorder = head & AREA_RECORDER,
                                    .is_heap = head & AREA_HEAP,
                                    .has_file = head & AREA_FILE,
                                    .has_runs = head & AREA_RUNS,
                                    .same_file = head & AREA_SAME_FILE};
    if (from > end || head >= AREA_HEAD_LIMIT) return "the head of an area";
    if (gap >= AREA_PAGES_LIMIT || pages == 0 || pages >= AREA_PAGES_LIMIT ||
        *latest_end + gap + pages > AREA_PAGES_LIMIT)
        return "the place of an area";
    area->start = *latest_end + gap;
    area->end = area->start + pages;
    uint64_t *const kib[] = {&area->resident,  &area->proportional, &area->unshared,
                             &area->anonymous, &area->huge,         &area->swapped,
                             &area->locked};
    for (size_t i = 0; i < sizeof kib / sizeof *kib; i++)
        *kib[i] = take_residency_number(&from, end);
    if (area->has_file) {
        area->offset = take_residency_number(&from, end);
    }
    if (area->same_file) {
        area->device = area->has_file ? before.device : 0;
        area->inode = area->has_file ? before.inode : 0;
        area->name = before.name;
        area->name_bytes = before.name_bytes;
    } else if (area->has_file) {
        area->device = take_residency_number(&from, end);
        area->inode = take_residency_number(&from, end);
    }
    const char *wrong = area->same_file ? NULL : take_area_name(&from, end, area);
    if (wrong == NULL && area->has_runs) wrong = take_area_runs(&from, end, area);
    if (wrong != NULL) return wrong;
    *latest_end = area->end;
    *at = from;
    return NULL;
}

bool residency_run_take(struct residency_area *area, struct residency_run *run)
{
    if (area->run_at == area->run_end) return false;
    run->skipped = varint_get(&area->run_at);
    run->resident = varint_get(&area->run_at);
    return true;
}

const char *residency_check(const uint8_t *at, const uint8_t *end)
{
    struct residency residency;
    struct residency_area area = {0};
    uint64_t latest_end = 0;
    const char *wrong = residency_take(&at, end, &residency);
    for (uint64_t i = 0; wrong == NULL && i < residency.areas; i++)
        wrong = residency_take_area(&at, end, &latest_end, &area);
    return wrong == NULL && at != end ? "something follows the last area" : wrong;
}
