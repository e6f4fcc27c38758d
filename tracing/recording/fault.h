/* fault - an access to a mapped file is a fault, which ends the process (SIGBUS), where the file
 * has been truncated or there is no space for a page. For files of ours, the process goes on. */
#ifndef MALLOCTAPE_FAULT_H
#define MALLOCTAPE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/* From now on `takes` is called for every fault, in the thread that has it. If it returns true, the
 * access is tried again. All other faults have the effect that they would have anyway. */
void fault_take(bool (*takes)(uintptr_t address));

/* Unblocks the signal for the calling thread of the program, which may have such a fault. Threads
 * of ours need not call it. */
void fault_reach_thread(void);

#endif
