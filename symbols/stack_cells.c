#include "symbols/stack_cells.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/pages.h"

enum { NODES_LEAST = 4096 };

void stack_measure_calls(enum stack_measure measure, enum stack_calls *from,
                         enum stack_calls *until)
{
    switch (measure) {
    case STACK_FREED:
    case STACK_FREED_REMOTE:
        *from = STACK_FREES;
        *until = STACK_MAPPINGS;
        break;
    case STACK_MAPPED:
        *from = STACK_MAPPINGS;
        *until = STACK_CALLS;
        break;
    default:
        *from = STACK_ALLOCATIONS;
        *until = STACK_FREES;
        break;
    }
}

bool stack_cells_open(struct stack_cells *cells)
{
    *cells = (struct stack_cells){.of_none = calloc(STACK_CLASSES, sizeof *cells->of_none)};
    return cells->of_none != NULL;
}

void stack_cells_close(struct stack_cells *cells)
{
    pages_unmap(cells->first_of, cells->first_of_room * sizeof *cells->first_of);
    free(cells->of_none);
    free(cells->at);
    *cells = (struct stack_cells){.at = NULL};
}

bool stack_cells_reserve(struct stack_cells *cells, size_t more, uint32_t node)
{
    return array_reserve(&cells->at, &cells->room, cells->count + more, sizeof *cells->at) &&
           pages_reserve(&cells->first_of, &cells->first_of_room, (uint64_t)node + 1, NODES_LEAST,
                         sizeof *cells->first_of);
}

static uint32_t cell_new(struct stack_cells *cells, uint32_t node, unsigned size_class)
{
    cells->at[cells->count] =
        (struct stack_cell){.stack = node, .size_class = (uint16_t)size_class};
    return (uint32_t)++cells->count;
}

uint32_t stack_cells_find(struct stack_cells *cells, uint32_t node, unsigned size_class)
{
    uint32_t *first = node != 0 ? &cells->first_of[node] : &cells->of_none[size_class];
    uint32_t *link = first;
    while (*link != 0 && cells->at[*link - 1].size_class != size_class)
        link = &cells->at[*link - 1].next;
    const uint32_t found = *link != 0 ? *link : cell_new(cells, node, size_class);
    if (found != *first) { /* it becomes the first one */
        struct stack_cell *cell = &cells->at[found - 1];
        *link = cell->next;
        cell->next = *first;
        *first = found;
    }
    return found - 1;
}

static int cells_by_class(const void *one, const void *other)
{
    const struct stack_cell *a = one, *b = other;
    if (a->size_class != b->size_class) return a->size_class < b->size_class ? -1 : 1;
    return a->stack < b->stack ? -1 : a->stack > b->stack;
}

size_t stack_cells_number(struct stack_cells *cells, uint32_t **nodes)
{
    size_t count = 1;
    for (uint64_t node = 1; node < cells->first_of_room; node++)
        count += cells->first_of[node] != 0;
    *nodes = calloc(count, sizeof **nodes);
    if (*nodes == NULL) return 0;
    count = 1;
    for (uint64_t node = 1; node < cells->first_of_room; node++) {
        if (cells->first_of[node] == 0) continue;
        (*nodes)[count] = (uint32_t)node;
        cells->first_of[node] = (uint32_t)count++;
    }
    for (size_t i = 0; i < cells->count; i++)
        if (cells->at[i].stack != 0) cells->at[i].stack = cells->first_of[cells->at[i].stack];
    return count;
}

void stack_cells_sort(struct stack_cells *cells)
{
    if (cells->count > 1) qsort(cells->at, cells->count, sizeof *cells->at, cells_by_class);
}
