#include "replay/lane_peaks.h"

#include "common/pages.h"

#define LANES_BYTES (INSTRUCTION_LANES_MAX * sizeof(struct lane_bytes))

bool lane_peaks_open(struct lane_peaks *peaks, struct error *error)
{
    *peaks = (struct lane_peaks){.lanes = pages_map(LANES_BYTES)};
    return peaks->lanes != NULL || error_set_system(error, "no memory to count bytes by thread");
}

void lane_peaks_close(struct lane_peaks *peaks)
{
    if (peaks->lanes != NULL) pages_unmap(peaks->lanes, LANES_BYTES);
    pages_unmap(peaks->objects, peaks->capacity * sizeof *peaks->objects);
    *peaks = (struct lane_peaks){.lanes = NULL};
}

static void lane_make(struct lane_peaks *peaks, uint64_t object, uint64_t size)
{
    struct lane_bytes *lane = &peaks->lanes[peaks->lane];
    peaks->objects[object] = (struct lane_object){size, peaks->lane};
    lane->live += size;
    if (lane->live > lane->peak) lane->peak = lane->live;
}

static void lane_end(struct lane_peaks *peaks, uint64_t object)
{
    const struct lane_object *of = &peaks->objects[object];
    peaks->lanes[of->lane].live -= of->size;
}

bool lane_peaks_add(struct lane_peaks *peaks, const struct instruction_batch *batch,
                    struct error *error)
{
    struct instruction_walk walk = instruction_walk_over(batch, batch->count);
    struct instruction one;
    if (!pages_reserve(&peaks->objects, &peaks->capacity, batch->registers, INSTRUCTION_BLOCK_MAX,
                       sizeof *peaks->objects))
        return error_set_system(error, "no memory to count bytes by thread");
    while (instruction_walk_next(&walk, &one)) {
        switch (instruction_does[one.opcode]) {
        case INSTRUCTION_BEGINS: lane_make(peaks, one.object, one.size); break;
        case INSTRUCTION_ENDS:
            lane_end(peaks, one.object);
            peaks->objects[one.object] = peaks->objects[walk.live]; /* the last one moves there */
            break;
        case INSTRUCTION_RESIZES:
            lane_end(peaks, one.object);
            lane_make(peaks, one.object, one.size);
            break;
        default:
            if (one.opcode == INSTRUCTION_LANE) peaks->lane = batch->operands[one.operand_at];
        }
    }
    return true;
}

uint64_t lane_peaks_bytes(const struct lane_peaks *peaks)
{
    uint64_t bytes = 0;
    for (uint64_t lane = 0; lane < INSTRUCTION_LANES_MAX; lane++)
        bytes += peaks->lanes[lane].peak;
    return bytes;
}
