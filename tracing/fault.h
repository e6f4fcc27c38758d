/* fault - where a file that is mapped has been cut, or has no space for a page, an access is a fault,
 * which ends the process (SIGBUS). Not for files of ours. */
#ifndef MALLOCTAPE_FAULT_H
#define MALLOCTAPE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/* From now on `takes` is asked first, in whichever thread has the fault, wherever it is: true, and
 * the access is tried again. All other faults are as they would be. */
void fault_take(bool (*takes)(uintptr_t address));

/* For a thread of the program that may have such a fault. Threads of ours need not call it. */
void fault_reach_thread(void);

#endif
