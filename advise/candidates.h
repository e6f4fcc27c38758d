/* candidates - the changes of code that a survey lets expect something of.
 *
 *   groups --by kind, by what sums of bytes promise--> the best of each kind in turn, 40 at most
 *
 * Memory: 1 KiB a candidate and what it says. One thread. */
#ifndef MALLOCTAPE_ADVISE_CANDIDATES_H
#define MALLOCTAPE_ADVISE_CANDIDATES_H

#include "advise/groups.h"
#include "allocators/facts.h"
#include "change/change.h"

enum { CANDIDATES_MAX = 40 };

enum candidate_kind {
    CANDIDATE_LEAK,
    CANDIDATE_PAIR,     /* made with another one: a part of that */
    CANDIDATE_NEEDLESS, /* the same: not there at all */
    CANDIDATE_SOON,
    CANDIDATE_GROWS,
    CANDIDATE_CLASS,
    CANDIDATE_ROWS,
    CANDIDATE_POOL,
    CANDIDATE_PINS,
    CANDIDATE_KINDS
};

/* What a kind is called in JSON; what is seen of it; what must hold for the change. */
extern const char *const candidate_kinds[CANDIDATE_KINDS];
extern const char *const candidate_seen[CANDIDATE_KINDS];
extern const char *const candidate_must[CANDIDATE_KINDS];

struct candidate {
    enum candidate_kind kind;
    char *text;     /* a change, or several */
    double promise; /* bytes at the peak that sums let expect; 0: none */
    double weight;  /* to rank those of a kind */
};

struct candidates {
    struct candidate *at;
    size_t count, room;
};

/* What is needed to find them. */
struct candidates_of {
    const struct survey *survey;
    const struct groups *groups;
    const struct code_names *names;
    const struct allocator_facts *facts; /* of the recorded allocator; NULL: not known */
};

/* False: no memory. */
bool candidates_find(struct candidates *candidates, const struct candidates_of *of);
void candidates_free(struct candidates *candidates);

#endif
