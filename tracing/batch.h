/* batch - where the objects of a list are that goes from one thread's cache to another's.
 *
 * Free objects are linked by their first words. These are in the cache of the processor that freed
 * the objects. Who follows the links on another processor waits for one object after the other. So
 * the thread that gives a list away, and follows the links anyway, notes where the objects are; the
 * one that gets the list fetches them all at once.
 *
 * What is noted may be old, torn or another list's: then the wrong lines are fetched, and nothing
 * else happens.
 *
 * Threads   any */
#ifndef MALLOCTAPE_BATCH_H
#define MALLOCTAPE_BATCH_H

/* When a recording begins. Without memory the other functions do nothing. */
void batch_begin(void);

/* `count` objects, from `first` on, are about to be given away. */
void batch_note(const void *first, unsigned count);

/* The list that begins with `first` has come. Returns how many others are fetched. */
unsigned batch_fetch(const void *first);

#endif
