/* writer_large - which pages of the large objects that are alive are resident (large.h). */
#include "tracing/writer/writer.h"
#include "tracing/writer/writer_own.h"

#include "stream/chunk_seal.h"
#include "tracing/data/large.h"

/* The payload of a chunk, and what may be written behind it. */
#define LARGE_PAYLOAD_MAX 16384u
#define LARGE_CHUNK_ROOM  (RAW_CHUNK_HEADER_BYTES + LARGE_PAYLOAD_MAX + MAPPING_BYTES_MAX)

/* Writes a record, if more is resident than the writer knows. Returns where the next one goes. */
static uint8_t *write_large(uint32_t index, uint64_t *latest, uint8_t *at)
{
    const struct large_object object = large_of(index);
    struct touched touched;
    uint8_t text[TOUCHED_BYTES_MAX];
    if (object.id == 0) return at;
    if (!large_look(&object, &touched) || !large_is_there(index, &object) ||
        large_is_said(index, touched.resident))
        return at;
    const struct mapping_record record = large_record(&object, &touched, text);
    return mapping_record_put(at, &record, latest);
}

void writer_look_at_large(struct writer *writer)
{
    for (uint32_t index = 0; index < LARGE_OBJECTS;) {
        if (writer_error(writer) || !writer_fits(writer, LARGE_CHUNK_ROOM)) return;
        uint8_t *room = sink_room(&writer->sink, LARGE_CHUNK_ROOM);
        uint8_t *payload = room + RAW_CHUNK_HEADER_BYTES, *at = payload;
        uint64_t latest = 0;
        while (index < LARGE_OBJECTS && at < payload + LARGE_PAYLOAD_MAX)
            at = write_large(index++, &latest, at);
        if (at > payload)
            sink_commit(&writer->sink, chunk_seal_mappings(room, (size_t)(at - payload), 0,
                                                           writer->spool.cells.read));
    }
}
