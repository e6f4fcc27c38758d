/* told_to_end - whether somebody asks this process to end while it waits for keepers.
 *
 * The program has ended then, and the signals that ask for that are blocked (run_program.h,
 * attachment.h). One that comes soon after the program's end was meant for both of them. The first
 * process of a container takes the keepers with it, so it stays until they are done.
 *
 * Threads   one. */
#ifndef MALLOCTAPE_TOLD_TO_END_H
#define MALLOCTAPE_TOLD_TO_END_H

#include <stdbool.h>

struct told_to_end {
    double since_s;
    int signal; /* the one that has come, or 0 */
};

/* From now on. */
void told_to_end_begin(struct told_to_end *told);

/* Waits up to 10 ms for a signal, or until a child has ended. Whether one has come so far. */
bool told_to_end_wait(struct told_to_end *told);

#endif
