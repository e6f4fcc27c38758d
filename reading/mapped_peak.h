/* mapped_peak - what each call stack had mapped, and how much of that was resident when most of the
 * process was (resident.h).
 *
 *     mapped_peak_follow(&peak, &reader);                      before the first block
 *     ... all batches ...
 *     for (i = 0; i < peak.count; i++) ... peak.parts[i]
 *
 * One thread. */
#ifndef MALLOCTAPE_READING_MAPPED_PEAK_H
#define MALLOCTAPE_READING_MAPPED_PEAK_H

#include "reading/resident.h"
#include "stream/instruction_reader.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Memory side by side that a stack has mapped; a stack may have several. */
struct mapped_part {
    uint32_t stack;
    uint64_t bytes; /* resident */
};

struct mapped_peak {
    struct mapped_part *parts; /* where most was resident */
    size_t count;
    bool no_memory;

    /* From here on: mapped_peak.c only. */
    struct mapping_table table;
    struct resident_dividing dividing;
    struct mapped_part *now;
    size_t room, now_count, now_room;
    uint64_t kib, now_kib;
};

void mapped_peak_follow(struct mapped_peak *peak, struct instruction_reader *reader);
void mapped_peak_free(struct mapped_peak *peak);

#ifdef __cplusplus
}
#endif
#endif
