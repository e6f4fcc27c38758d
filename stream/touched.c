#include "stream/touched.h"

/* Two runs become one. */
static void touched_halve(struct touched *touched)
{
    for (uint32_t i = 0; i < TOUCHED_RUNS_MAX / 2; i++) {
        const struct touched_run one = touched->runs[2 * i], other = touched->runs[2 * i + 1];
        touched->runs[i] =
            (struct touched_run){one.skipped + other.skipped, one.resident + other.resident};
    }
    touched->count = TOUCHED_RUNS_MAX / 2;
}

static void touched_add_resident(struct touched *touched)
{
    touched->resident++;
    if (touched->count > 0 && touched->skipped == 0) {
        touched->runs[touched->count - 1].resident++;
        return;
    }
    if (touched->count == TOUCHED_RUNS_MAX) touched_halve(touched);
    touched->runs[touched->count++] = (struct touched_run){touched->skipped, 1};
    touched->skipped = 0;
}

void touched_add(struct touched *touched, size_t pages, const uint8_t *resident)
{
    for (size_t i = 0; i < pages; i++)
        if (resident[i] & 1)
            touched_add_resident(touched);
        else
            touched->skipped++;
}

uint32_t touched_put(const struct touched *touched, uint8_t *text)
{
    uint8_t *at = text;
    for (uint32_t i = 0; i < touched->count; i++) {
        at = varint_put(at, touched->runs[i].skipped);
        at = varint_put(at, touched->runs[i].resident);
    }
    return (uint32_t)(at - text);
}

bool touched_take(const uint8_t *text, uint32_t bytes, struct touched *touched)
{
    const uint8_t *at = text, *const end = text + bytes;
    *touched = (struct touched){.count = 0};
    while (at < end) {
        const uint64_t skipped = varint_get(&at);
        const uint64_t resident = at < end ? varint_get(&at) : 0;
        if (at > end || touched->count == TOUCHED_RUNS_MAX || resident == 0 ||
            skipped > UINT32_MAX || resident > UINT32_MAX)
            return false;
        touched->runs[touched->count++] =
            (struct touched_run){(uint32_t)skipped, (uint32_t)resident};
        touched->resident += resident;
    }
    return true;
}
