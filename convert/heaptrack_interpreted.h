/* heaptrack_interpreted - a heaptrack file that heaptrack's interpreter has processed for
 * heaptrack_gui: it has names of functions, but no addresses of objects.
 *
 *   s LENGTH TEXT                             a text, numbered from 1; before version 3, s TEXT
 *   i ADDRESS MODULE [FUNCTION [FILE LINE]]...
 * a code, numbered from 1: innermost inlined function first
 *   t CODE PARENT                             a stack, numbered from 1
 *   a SIZE STACK                              a kind of allocation, numbered from 0
 *   + KIND, - KIND                            an allocation of that kind; the free of one
 *
 * Objects of one kind have the same size and the same stack. The file does not say which of them a
 * free ends: the reader takes the latest one.
 *
 * Memory   the texts, 8 bytes for each object, 16 for each kind. One thread. */
#ifndef MALLOCTAPE_HEAPTRACK_INTERPRETED_H
#define MALLOCTAPE_HEAPTRACK_INTERPRETED_H

#include "convert/call_writer.h"
#include "convert/fields.h"

/* All zero, but for the writer. */
struct heaptrack_interpreted {
    struct call_writer *writer;
    bool plain; /* texts have no length */

    /* heaptrack_interpreted.c only. */
    struct heaptrack_text *texts;
    struct heaptrack_kind *kinds;
    uint32_t *below; /* by object: the previous one of its kind, or the next free one; plus 1 */
    size_t texts_count, texts_room, kinds_count, kinds_room, objects_count, objects_room;
    uint32_t free_object; /* plus 1 */
    uint32_t codes_count, modules_count, traces;
};

/* Whether the letter of a line says that a file is interpreted. */
static inline bool heaptrack_is_interpreted(char letter)
{
    return letter == 's' || letter == 'i' || letter == 'a';
}

/* Takes one of the lines above; `fields` are what follows the letter. False: it is wrong, or there
 * is no memory (writer->error). */
bool heaptrack_interpreted_line(struct heaptrack_interpreted *file, char letter,
                                struct fields fields);
void heaptrack_interpreted_free(struct heaptrack_interpreted *file);

#endif
