#include "tracing/writer/writer.h"
#include "tracing/writer/writer_own.h"

#include "stream/chunk_seal.h"

/* The payload of a chunk of mappings, and what may be written behind it. */
#define CELLS_PAYLOAD_MAX 16384u
#define CELLS_CHUNK_ROOM  (RAW_CHUNK_HEADER_BYTES + CELLS_PAYLOAD_MAX + MAPPING_BYTES_MAX)

/* A thread that has a cell fills it in an instant, unless it has been ended in between: the writer
 * goes past it after this time, or, if not many are left, after the lesser one. On a busy machine a
 * thread may not run for a tenth of a second. */
#define CELL_PATIENCE_NS        UINT64_C(10000000000)
#define CELL_PATIENCE_LESSER_NS UINT64_C(1000000000)
/* In the last window, so often and so long. */
#define CELL_LAST_TRIES         200
#define CELL_LAST_NS            UINT64_C(1000000)

/* The next mapping; 0: it is not complete. */
static uint32_t next_mapping(struct writer *writer, uint64_t number, uint64_t limit,
                             struct mapping_record *record, char *name)
{
    struct spool_cells *cells = &writer->spool.cells;
    const uint32_t taken = cell_take(&cells->ring, number, record, name);
    if (taken) return taken;
    const uint64_t now = os_clock_ns(), behind = spool_cells_taken(cells) - number;
    if (cells->stuck != number) {
        cells->stuck = number;
        cells->stuck_ns = now;
    }
    const uint64_t patience_ns = cells->is_last             ? 0
                                 : behind > SPOOL_CELLS / 2 ? CELL_PATIENCE_LESSER_NS
                                                            : CELL_PATIENCE_NS;
    if (number > limit || now - cells->stuck_ns < patience_ns) return 0;
    cells->stuck = number + 1; /* it may be a mapping of several cells: these go at once */
    *record = (struct mapping_record){.what = MAPPING_LOST, .length = 1};
    return 1;
}

/* Writes one chunk, if there is anything to write. False: there is not. */
static bool write_mappings(struct writer *writer, uint64_t limit)
{
    struct spool_cells *cells = &writer->spool.cells;
    struct mapping_record record;
    char name[SPOOL_CELL_NAME_BYTES_MAX];
    uint64_t number = cells->read + 1, latest = 0;
    if (writer_error(writer) || writer->is_full) return false;
    if (!writer_fits(writer, CELLS_CHUNK_ROOM)) {
        if (number <= limit) {
            writer->is_full = true;
            writer->end_status = RAW_END_LIMIT;
        }
        return false;
    }
    uint8_t *room = sink_room(&writer->sink, CELLS_CHUNK_ROOM);
    uint8_t *payload = room + RAW_CHUNK_HEADER_BYTES, *at = payload;
    const uint64_t lost = atomic_load_relaxed(&cells->lost) - cells->lost_said;
    if (lost) {
        record = (struct mapping_record){.what = MAPPING_LOST, .length = lost};
        at = mapping_record_put(at, &record, &latest);
        cells->lost_said += lost;
    }
    while (number <= limit && at < payload + CELLS_PAYLOAD_MAX) {
        const uint32_t taken = next_mapping(writer, number, limit, &record, name);
        if (taken == 0) break;
        at = mapping_record_put(at, &record, &latest);
        number += taken;
    }
    if (at == payload || writer_has_read_zeros(writer)) return false;
    sink_commit(&writer->sink,
                chunk_seal_mappings(room, (size_t)(at - payload),
                                    (uint32_t)(number - cells->read - 1), cells->read));
    atomic_store_relaxed(&cells->read, number - 1);
    return true;
}

bool writer_drain_cells(struct writer *writer, uint64_t limit)
{
    bool any = false;
    while (write_mappings(writer, limit))
        any = true;
    return any;
}

void writer_drain_wanted_cells(struct writer *writer)
{
    struct spool_cells *cells = &writer->spool.cells;
    if (!atomic_exchange_seq_cst(&cells->wanted, 0)) return;
    writer_drain_cells(writer, spool_cells_taken(cells));
    writer_flush(writer);
}

void writer_drain_last_cells(struct writer *writer)
{
    struct spool_cells *cells = &writer->spool.cells;
    const uint64_t limit = spool_cells_taken(cells);
    for (unsigned i = 0; i < CELL_LAST_TRIES && cells->read < limit; i++) {
        writer_drain_cells(writer, limit);
        if (writer_error(writer) || writer->is_full) return;
        if (cells->read < limit) os_sleep(CELL_LAST_NS);
    }
    cells->is_last = true;
    writer_drain_cells(writer, limit);
}
