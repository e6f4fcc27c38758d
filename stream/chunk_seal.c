#include "stream/chunk_seal.h"

#include "common/bytes.h"
#include "stream/checksum.h"
#include "stream/varint.h"

static size_t seal(uint8_t *out, unsigned type, unsigned flags, uint32_t lane, size_t payload,
                   size_t units, uint64_t first, uint64_t first_allocation)
{
    bytes_put32(out + RAW_CHUNK_HEADER_MAGIC, RAW_CHUNK_MAGIC);
    out[RAW_CHUNK_HEADER_TYPE] = (uint8_t)type;
    out[RAW_CHUNK_HEADER_FLAGS] = (uint8_t)flags;
    bytes_put16(out + RAW_CHUNK_HEADER_LANE, (uint16_t)lane);
    bytes_put32(out + RAW_CHUNK_HEADER_PAYLOAD, (uint32_t)payload);
    bytes_put32(out + RAW_CHUNK_HEADER_UNITS, (uint32_t)units);
    bytes_put64(out + RAW_CHUNK_HEADER_FIRST, first);
    bytes_put64(out + RAW_CHUNK_HEADER_ALLOCATION, first_allocation);
    bytes_put32(
        out + RAW_CHUNK_HEADER_CHECKSUM,
        checksum_of_two(out, RAW_CHUNK_HEADER_CHECKSUM, out + RAW_CHUNK_HEADER_BYTES, payload));
    return RAW_CHUNK_HEADER_BYTES + payload;
}

size_t chunk_seal_units(uint8_t *out, unsigned flags, uint32_t lane, size_t payload, size_t units,
                        uint64_t first_unit, uint64_t first_allocation)
{
    return seal(out, RAW_CHUNK_UNITS, flags, lane, payload, units, first_unit, first_allocation);
}

size_t chunk_seal_mappings(uint8_t *out, size_t payload, uint32_t cells, uint64_t first)
{
    return seal(out, RAW_CHUNK_MAPPINGS, 0, 0, payload, cells, first, 0);
}

size_t chunk_seal_residency(uint8_t *out, size_t payload)
{
    return seal(out, RAW_CHUNK_RESIDENCY, 0, 0, payload, 0, 0, 0);
}

size_t chunk_write_tick(uint64_t ticks, const struct raw_tick *tick, uint8_t *out)
{
    const struct original_usage *usage = &tick->usage;
    const uint64_t numbers[] = {tick->since_start_ns,  tick->rss_bytes, tick->heap_bytes,
                                usage->recorder_bytes, usage->user_ns,  usage->system_ns,
                                usage->peak_rss_bytes};
    uint8_t *payload = out + RAW_CHUNK_HEADER_BYTES, *at = payload;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        at = varint_put(at, numbers[i]);
    for (unsigned i = 0; i < tick->statistics.count; i++)
        at = varint_put(at, tick->statistics.values[i]);
    return seal(out, RAW_CHUNK_TICK, 0, 0, (size_t)(at - payload), 0, ticks, 0);
}

size_t chunk_write_end(uint64_t ticks, const struct raw_end *end,
                       uint64_t (*units_of)(const void *context, uint32_t lane),
                       const void *context, uint8_t *out)
{
    const uint64_t numbers[] = {end->status, end->since_start_ns, end->events, end->lost_events,
                                end->waits,  end->waited_ns,      end->lanes};
    uint8_t *payload = out + RAW_CHUNK_HEADER_BYTES, *at = payload;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        at = varint_put(at, numbers[i]);
    for (uint32_t lane = 0; lane < end->lanes; lane++)
        at = varint_put(at, units_of(context, lane));
    return seal(out, RAW_CHUNK_END, 0, 0, (size_t)(at - payload), 0, ticks, 0);
}
