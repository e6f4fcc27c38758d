/* wait_list - who waits for a number to be reached, the lowest number last.
 *
 * There is one for each thing that counts: the allocations of a lane, the sequence numbers of a
 * structure. Whoever counts compares with `lowest` and looks into the list only when it has been
 * reached, so waiting costs the others one comparison. Lists are short: no longer than there are
 * lanes.
 *
 *   lowest == UINT64_MAX   exactly when nobody waits
 *
 * All zero is not a valid list: wait_list_init(). One thread. Memory: 16 bytes for each that ever
 * waited at once. */
#ifndef MALLOCTAPE_WAIT_LIST_H
#define MALLOCTAPE_WAIT_LIST_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wait_entry {
    uint64_t number;
    uint32_t waiter;
};

struct wait_list {
    uint64_t lowest;
    struct wait_entry *entries;
    uint32_t count, room;
};

static inline void wait_list_init(struct wait_list *list)
{
    *list = (struct wait_list){UINT64_MAX, 0, 0, 0};
}

void wait_list_free(struct wait_list *list);

/* False: no memory. */
bool wait_list_add(struct wait_list *list, uint64_t number, uint32_t waiter);

/* Takes out one with the lowest number, if that is at most `reached`. */
bool wait_list_take(struct wait_list *list, uint64_t reached, uint32_t *waiter);

/* Takes out `waiter`, if it is there. */
void wait_list_remove(struct wait_list *list, uint32_t waiter);

#ifdef __cplusplus
}
#endif
#endif
