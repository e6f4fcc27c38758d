/* lane_peaks - how much would be live if each thread had its most objects at the same time.
 *
 * A replay keeps the recorded overlap of threads: one has much while another has little. Under a
 * setting that makes threads wait for each other, the program's overlap may be another one, but each
 * thread still makes its own calls. So live bytes stay below the sum, over all lanes, of the most
 * bytes that were live at once of what the lane made.
 *
 * Memory: 16 bytes for each live object, from pages_map(). One thread. */
#ifndef MALLOCTAPE_REPLAY_LANE_PEAKS_H
#define MALLOCTAPE_REPLAY_LANE_PEAKS_H

#include <stdbool.h>

#include "common/error.h"
#include "stream/instruction_reader.h"

struct lane_object {
    uint64_t size;
    uint64_t lane; /* that made it, or resized it last */
};

struct lane_bytes {
    uint64_t live, peak;
};

struct lane_peaks {
    struct lane_bytes *lanes;    /* INSTRUCTION_LANES_MAX entries; NULL: nothing is counted */
    struct lane_object *objects; /* by index (instruction_reader.h) */
    uint64_t capacity;           /* entries */
    uint64_t lane;               /* the one whose calls follow */
};

bool lane_peaks_open(struct lane_peaks *peaks, struct error *error);
void lane_peaks_close(struct lane_peaks *peaks);

/* Counts a batch with indices. False: see *error. */
bool lane_peaks_add(struct lane_peaks *peaks, const struct instruction_batch *batch,
                    struct error *error);

/* The sum. */
uint64_t lane_peaks_bytes(const struct lane_peaks *peaks);

#endif
