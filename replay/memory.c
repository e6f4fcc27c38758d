#include "replay/memory.h"

uint64_t memory_not_live_bytes(const struct memory_look *look)
{
    return look->rss_bytes > look->live_bytes ? look->rss_bytes - look->live_bytes : 0;
}

double memory_not_live(const struct memory_look *look)
{
    if (look->rss_bytes == 0 || look->rss_bytes < look->live_bytes) return -1;
    return (double)memory_not_live_bytes(look) / (double)look->rss_bytes;
}

static bool is_peak(const struct memory *memory, const struct memory_look *look)
{
    const double near = MEMORY_NEAR * (double)memory->most_bytes;
    return (double)look->rss_bytes >= near &&
           (look->live_bytes > memory->peak.live_bytes || (double)memory->peak.rss_bytes < near);
}

static bool is_waste(const struct memory *memory, const struct memory_look *look)
{
    return look->live_bytes >= memory->most_live_bytes / 2 &&
           memory_not_live_bytes(look) > memory_not_live_bytes(&memory->waste);
}

const struct memory_look *memory_worst(const struct memory *memory)
{
    const bool peak = memory_not_live_bytes(&memory->peak) > memory_not_live_bytes(&memory->waste);
    return peak ? &memory->peak : &memory->waste;
}

static void raise(uint64_t *most, uint64_t value)
{
    if (value > *most) *most = value;
}

void memory_add(struct memory *memory, const struct memory_look *look, uint64_t own_bytes)
{
    memory->looks++;
    memory->end = *look;
    raise(&memory->own_bytes, own_bytes);
    raise(&memory->most_bytes, look->rss_bytes);
    raise(&memory->most_live_bytes, look->live_bytes);
    if (is_peak(memory, look)) memory->peak = *look;
    if (is_waste(memory, look)) memory->waste = *look;
}

/* Memory is assumed to change linearly between two looks. */
void memory_add_time(struct memory *memory, uint64_t original_ns)
{
    const uint64_t bytes = memory->end.rss_bytes;
    if (memory->timed)
        memory->byte_ns += (double)(original_ns - memory->timed_ns) *
                           ((double)memory->timed_bytes + (double)bytes) / 2;
    else
        memory->begin_ns = original_ns;
    memory->timed = true;
    memory->timed_ns = original_ns;
    memory->timed_bytes = bytes;
}

double memory_mean_bytes(const struct memory *memory)
{
    if (memory->timed_ns == memory->begin_ns) return -1;
    return memory->byte_ns / (double)(memory->timed_ns - memory->begin_ns);
}
