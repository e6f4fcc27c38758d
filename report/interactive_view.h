/* interactive_view - what `malloctape report -i` shows, without a terminal: lines of a table, of the
 * tree from the outermost functions in, or of callers from what makes memory out, for a number, a
 * filter and a stretch of time.
 *
 *   view_open() --> view_show() --> lines --> view_toggle() opens and closes branches
 *
 * A branch of callers has places in the tree: where its function is, as far as what was made below
 * there has come through the branches that are open. Its children are the callers of these places.
 *
 * Memory: 24 bytes a branch of the tree; of callers, 16 for each place in an open branch. */
#ifndef MALLOCTAPE_REPORT_INTERACTIVE_VIEW_H
#define MALLOCTAPE_REPORT_INTERACTIVE_VIEW_H

#include "report/by_code.h"

enum view_kind { VIEW_TABLE, VIEW_TREE, VIEW_CALLERS, VIEW_KINDS };

/* A place in the tree, and how much of its number belongs to a branch of callers. */
struct view_place {
    uint32_t branch;
    double own;
};

struct view_line {
    uint32_t id; /* a row; a branch of the tree; a function, of callers */
    unsigned depth;
    bool is_open, has_more;
    double own, with;
    struct view_place *places; /* of callers */
    size_t places_count;
};

/* What may be shown: numbers of by_code.h, or in a part of the time what was made, freed, grew. */
enum view_span { VIEW_GROWN, VIEW_MADE, VIEW_FREED, VIEW_SPANS };

struct view {
    struct by_code *code;
    enum view_kind kind;
    unsigned number; /* of by_code_numbers; in a part of the time an enum view_span */
    bool sorts_total;
    char filter[64];
    unsigned from, until; /* buckets */
    struct view_line *lines;
    size_t count;
    double all;

    /* From here on: interactive_view.c only. */
    size_t room;
    struct code_tree tree;
    uint32_t *first_child, *next_child; /* by branch: 1 + a branch; 0: none */
    uint8_t *is_library;                /* by function */
    double *branch_own, *branch_with;   /* by branch */
    double *row_own, *row_with;         /* by row */
};

/* `view` is zero but for `code`, which must outlive it. False: no memory. */
bool view_open(struct view *view);
void view_close(struct view *view);

/* Makes the lines anew, all branches closed, after one of the fields above has changed. False: no
 * memory. */
bool view_show(struct view *view);

/* Opens a branch, or closes it. False: no memory. */
bool view_toggle(struct view *view, size_t line);

bool view_is_part(const struct view *view); /* of the time */
unsigned view_numbers(const struct view *view);
/* Whether the number can be shown: it is not 0 in all. */
bool view_has_number(const struct view *view, unsigned number);
const char *view_number_words(const struct view *view);
bool view_is_bytes(const struct view *view);
const char *view_name(const struct view *view, const struct view_line *line);

/* The times in ns at which the stretch begins and ends. */
uint64_t view_from_ns(const struct view *view);
uint64_t view_until_ns(const struct view *view);
/* Chooses the buckets that a time is in. */
void view_choose_time(struct view *view, uint64_t from_ns, uint64_t to_ns);

#endif
