/* large - the large objects of which it is watched which pages the program has touched (FORMAT.md
 * 4.5, *touched*): those alive, by address.
 *
 * An object is looked at before it is freed or moved, by its thread, and with each residency, by the
 * writer. Looks at all objects together may take one part in 200 of the time: as each takes an
 * allowance when it begins, so many objects are watched, and no others.
 *
 * Threads   the thread that makes or ends an object puts it or takes it out; the writer looks at any,
 *           also while that happens: so it looks again whether it was still there. */
#ifndef MALLOCTAPE_LARGE_H
#define MALLOCTAPE_LARGE_H

#include "stream/mapping.h"
#include "stream/touched.h"

#include <stdbool.h>
#include <stdint.h>

#define LARGE_OBJECTS 512u

struct large_object {
    uintptr_t address; /* stored last (release); 0: none */
    uint64_t bytes;
    uint64_t id;     /* raw_allocations() */
    uint64_t looked; /* the writer: that it found so many pages resident, plus 1 */
};

/* A recording begins, and nobody is in an earlier one. */
void large_reset(void);

/* The time has gone on by so much. The writer. */
void large_allow(uint64_t ns);

/* An object begins. False: it is not watched. */
bool large_put(uintptr_t address, uint64_t bytes, uint64_t id);

/* The object there; `id` 0: it is not watched. */
struct large_object large_at(uintptr_t address);

/* The same, and it is not watched any more. */
struct large_object large_take(uintptr_t address);

/* The object with this index, if there is one. */
struct large_object large_of(uint32_t index);

/* Whether that is still the same object, in which as many pages are resident as ever by what the
 * writer knows: then it need not be said again. */
bool large_is_said(uint32_t index, uint64_t resident);

bool large_is_there(uint32_t index, const struct large_object *object);

/* Finds which pages are resident. False: the system does not say it, or not all of it is mapped. */
bool large_look(const struct large_object *object, struct touched *touched);

/* The record that says so. `text`: TOUCHED_BYTES_MAX bytes, to which it refers. */
struct mapping_record large_record(const struct large_object *object, const struct touched *touched,
                                   uint8_t *text);

#endif
