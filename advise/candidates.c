#include "advise/candidates.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

const char *const candidate_kinds[CANDIDATE_KINDS] = {
    "leak", "pair", "needless", "temporary", "grows", "class", "together", "pool", "pins"};

const char *const candidate_seen[CANDIDATE_KINDS] = {
    "most are never freed, and more come all the time",
    "one is made right after each object of the other code: it could be a part of that",
    "one is made right after each object of the other code",
    "nearly all are gone within 100 calls",
    "they grow, each time by a new allocation",
    "they are a little larger than a class of sizes",
    "they are freed one after another",
    "they are of one size",
    "they live long, among others that do not"};

const char *const candidate_must[CANDIDATE_KINDS] = {
    "nothing uses one after so many more have been made",
    "both are always made, and end, together",
    "what is in them is known without them",
    "they can be on the stack, or one can be used again and again",
    "the last size is known, or guessed well, when they are made",
    "that many bytes can be saved in each",
    "those of a call, or of a thread, end together: one that outlives the others keeps their memory",
    "nothing but the code that makes them frees them",
    "they are made and freed through a heap of their own"};

enum { KIND_MOST = 8, OBJECTS_LEAST = 50 };

#define SHARE_LEAST 0.005 /* of the peak, of all calls: less is not worth a try */

struct finding {
    struct candidates *candidates;
    const struct candidates_of *of;
    double peak, calls;
    struct change_index within; /* of groups of GROUP_WITHIN: how many objects, and bytes */
    bool good;
};

/* ---- names ---- */

/* Whether brackets are of another kind than arguments of templates: "operator<", "<module>" of Python,
 * "<T as Drop>::drop" of Rust. Then a pattern has the whole name. */
static bool name_is_whole(const char *name)
{
    if (strstr(name, "operator") != NULL) return true;
    for (const char *at = strchr(name, '<'); at != NULL; at = strchr(at + 1, '<'))
        if (at == name || !(isalnum((unsigned char)at[-1]) || at[-1] == '_')) return true;
    return false;
}

/* Puts the name of a function as a pattern has it: without the arguments of templates. False: there is
 * none that a pattern can have. */
static bool name_put(const struct finding *finding, uint32_t function, char *name, size_t bytes)
{
    const char *text = code_names_text(finding->of->names, function);
    size_t used = 0, depth = 0;
    const bool is_whole = name_is_whole(text);
    for (; *text != '\0'; text++) {
        if (!is_whole && *text == '<') depth++;
        if (depth == 0 && used + 1 < bytes) name[used++] = *text;
        if (!is_whole && *text == '>' && depth > 0) depth--;
    }
    name[used] = '\0';
    return used > 0 && used + 1 < bytes && strpbrk(name, ";\n\r") == NULL &&
           strstr(name, " > ") == NULL && strstr(name, " of ") == NULL;
}

/* The pattern of a group. False: it has none. */
static bool pattern_put(const struct finding *finding, const struct advise_group *group,
                        char *pattern, size_t bytes)
{
    char function[400], caller[400];
    if (!name_put(finding, group->function, function, sizeof function)) return false;
    if (group->kind == GROUP_CALLED && !name_put(finding, group->caller, caller, sizeof caller))
        return false;
    switch (group->kind) {
    case GROUP_OWN: snprintf(pattern, bytes, "%s itself", function); break;
    case GROUP_CALLED: snprintf(pattern, bytes, "%s > %s itself", caller, function); break;
    default: snprintf(pattern, bytes, "%s", function); break;
    }
    return true;
}

/* ---- adding ---- */

static void candidate_add(struct finding *finding, enum candidate_kind kind, const char *text,
                          double promise, double weight)
{
    struct candidates *all = finding->candidates;
    char *copy = strdup(text);
    if (copy == NULL || !array_reserve(&all->at, &all->room, all->count + 1, sizeof *all->at)) {
        free(copy);
        finding->good = false;
        return;
    }
    all->at[all->count++] =
        (struct candidate){.kind = kind, .text = copy, .promise = promise, .weight = weight};
}

static void candidate_add_to(struct finding *finding, enum candidate_kind kind,
                             const struct advise_group *group, const char *action, double promise,
                             double weight)
{
    char pattern[900], text[1000];
    if (!pattern_put(finding, group, pattern, sizeof pattern)) return;
    snprintf(text, sizeof text, "%s%s%s", pattern, *action == ' ' ? "" : ": ", action);
    candidate_add(finding, kind, text, promise, weight);
}

/* ---- what each kind is ---- */

static double group_share(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

/* Alive at the peak of all, or at the end. */
static double most_bytes(const struct advise_group *group)
{
    const struct live *live = &group->live;
    return (double)(live->bytes > live->peak_bytes ? live->bytes : live->peak_bytes);
}

static void find_leak(struct finding *finding, const struct advise_group *group)
{
    char action[64];
    const uint64_t end = group->live.objects, others = finding->of->survey->objects - group->made,
                   others_freed = finding->of->survey->freed - group->freed;
    /* A program that frees nothing does so on purpose. */
    if (2 * others_freed < others) return;
    if (end < OBJECTS_LEAST || group_share(end, group->made) < 0.5 ||
        group_share(group->late, end) < 0.25 ||
        (double)group->live.bytes < SHARE_LEAST * finding->peak)
        return;
    snprintf(action, sizeof action, "until=%" PRIu64 "objects", end / 100 > 10 ? end / 100 : 10);
    candidate_add_to(finding, CANDIDATE_LEAK, group, action, most_bytes(group),
                     (double)group->live.bytes);
}

/* What the recorded allocator takes for an object. */
static double candidate_taken(const struct finding *finding, uint64_t size)
{
    return finding->of->facts != NULL ? (double)finding->of->facts->size(size)
                                      : (double)((size + 15) / 16 * 16 + 16);
}

static bool group_is_soon_gone(const struct advise_group *group)
{
    return group_share(group->soon, group->made) >= 0.95;
}

static void find_pair(struct finding *finding, const struct advise_group *group)
{
    const struct groups *groups = finding->of->groups;
    char other[900], pattern[900], text[2000];
    if (group_is_soon_gone(group)) return;
    if (!group_is_unit(groups, group) || group->before.same < OBJECTS_LEAST ||
        group_share(group->before.same, group->made) < 0.9)
        return;
    const struct advise_group *with = &groups->at[group->before.value];
    const uint64_t size = group->size.value;
    /* Each is made after the other: the smaller one is the part. */
    if (with->before.same > 0 && &groups->at[with->before.value] == group &&
        with->size.value < size)
        return;
    if (with == group || group_share(group->size.same, group->made) < 0.9 ||
        group_share(with->made, group->made) > 1.15 || group_share(with->made, group->made) < 0.87)
        return;
    const double both = candidate_taken(finding, size + with->size.value),
                 apart =
                     candidate_taken(finding, size) + candidate_taken(finding, with->size.value),
                 objects = (double)group->live.peak_objects,
                 calls = 2 * (double)group->made / finding->calls;
    if (objects * candidate_taken(finding, size) < SHARE_LEAST * finding->peak &&
        calls < SHARE_LEAST)
        return;
    if (!pattern_put(finding, group, pattern, sizeof pattern) ||
        !pattern_put(finding, with, other, sizeof other))
        return;
    snprintf(text, sizeof text, "%s: remove; %s: size=+%" PRIu64, pattern, other, size);
    candidate_add(finding, CANDIDATE_PAIR, text, objects * fmax(apart - both, 0),
                  (double)group->made);
    candidate_add_to(finding, CANDIDATE_NEEDLESS, group, "remove", most_bytes(group),
                     (double)group->made);
}

static void find_soon(struct finding *finding, const struct advise_group *group)
{
    if (group->made < OBJECTS_LEAST || !group_is_soon_gone(group) ||
        2 * (double)group->made < SHARE_LEAST * finding->calls)
        return;
    candidate_add_to(finding, CANDIDATE_SOON, group, "remove", (double)group->live.peak_bytes,
                     (double)group->made);
}

static void find_growing(struct finding *finding, const struct advise_group *group)
{
    if (group->grown_objects < 10 || ((double)group->grown_objects < SHARE_LEAST * finding->calls &&
                                      (double)group->grown_bytes < SHARE_LEAST * finding->peak))
        return;
    candidate_add_to(finding, CANDIDATE_GROWS, group, "reserve", 0, (double)group->grown_bytes);
}

/* Objects of one size, which would fit into a smaller class with a few bytes less. */
static void find_class(struct finding *finding, const struct advise_group *group)
{
    char action[64];
    const uint64_t size = group->size.value;
    const double share = group_share(group->size.same, group->made);
    uint64_t less = 1;
    if (finding->of->facts == NULL || share < 0.3 || size < 16) return;
    const double now = candidate_taken(finding, size);
    while (less <= size / 4 && candidate_taken(finding, size - less) >= now)
        less++;
    const double saved =
        (now - candidate_taken(finding, size - less)) * (double)group->live.peak_objects * share;
    const double leverage = (now - candidate_taken(finding, size - less)) / (double)less;
    if (less > size / 4 || leverage < 1.5 || saved < SHARE_LEAST * finding->peak) return;
    snprintf(action, sizeof action, " of %" PRIu64 ": size=-%" PRIu64, size, less);
    candidate_add_to(finding, CANDIDATE_CLASS, group, action, saved, saved / (double)less);
}

static void find_rows(struct finding *finding, const struct advise_group *group)
{
    if (group->freed < OBJECTS_LEAST || group_share(group->freed, group->made) < 0.9 ||
        group_share(group->in_rows, group->freed) < 0.7 ||
        2 * (double)group->made < 2 * SHARE_LEAST * finding->calls)
        return;
    candidate_add_to(finding, CANDIDATE_ROWS, group, "arena", (double)group->live.peak_bytes / 2,
                     (double)group->made);
}

static void find_pool(struct finding *finding, const struct advise_group *group)
{
    const uint64_t size = group->size.value, rounded = size > 16 ? (size + 15) / 16 * 16 : 16;
    const double saved =
        (candidate_taken(finding, size) - (double)rounded) * (double)group->live.peak_objects;
    if (group_share(group->size.same, group->made) < 0.9 || saved < SHARE_LEAST * finding->peak)
        return;
    candidate_add_to(finding, CANDIDATE_POOL, group, "pool", saved, saved);
}

static void find_pins(struct finding *finding, const struct advise_group *group)
{
    const uint64_t lasting = group->live.objects > group->live.peak_objects
                                 ? group->live.objects
                                 : group->live.peak_objects;
    if (lasting < OBJECTS_LEAST || group_share(group->soon, group->made) > 0.5 ||
        (double)group->live.peak_bytes > 0.7 * finding->peak)
        return;
    candidate_add_to(finding, CANDIDATE_PINS, group, "separate", 0,
                     (double)(lasting + 4 * group->live.objects));
}

/* ---- choosing ---- */

static int candidates_by_weight(const void *one, const void *other)
{
    const struct candidate *left = one, *right = other;
    if (left->kind != right->kind) return left->kind < right->kind ? -1 : 1;
    return (left->weight < right->weight) - (left->weight > right->weight);
}

/* Keeps the best of each kind in turn. */
static void candidates_choose(struct candidates *all)
{
    unsigned rank[CANDIDATES_MAX * CANDIDATE_KINDS], turn = 0;
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++) { /* the rank in its kind */
        const bool is_first = i == 0 || all->at[i].kind != all->at[i - 1].kind;
        turn = is_first ? 0 : turn + 1;
        if (turn < KIND_MOST) {
            rank[kept] = turn;
            all->at[kept++] = all->at[i];
        } else {
            free(all->at[i].text);
        }
    }
    for (unsigned most = KIND_MOST; kept > CANDIDATES_MAX && most-- > 1;)
        for (size_t i = kept; i-- > 0 && kept > CANDIDATES_MAX;)
            if (rank[i] == most) {
                free(all->at[i].text);
                memmove(&all->at[i], &all->at[i + 1], (kept - i - 1) * sizeof *all->at);
                memmove(&rank[i], &rank[i + 1], (kept - i - 1) * sizeof *rank);
                kept--;
            }
    all->count = kept;
}

/* Whether a function has nearly all objects below it, or those of one function, or as many as the
 * function that it calls. Inner functions stand first. */
static bool group_is_wide(struct finding *finding, const struct advise_group *group)
{
    const struct change_key key = {group->made, (uint32_t)group->bytes,
                                   (uint32_t)(group->bytes >> 32)};
    uint32_t *inner = change_index_of(&finding->within, key);
    finding->good = finding->good && inner != NULL;
    if (inner == NULL) return true;
    const bool is_first = *inner == CHANGE_NOWHERE;
    *inner = 0;
    return !is_first || group->owners < 2 ||
           group_share(group->made, finding->of->groups->made) > 0.95;
}

/* Whether what a group says is said by another one, too. */
static bool group_is_double(struct finding *finding, const struct advise_group *group)
{
    if (group->kind == GROUP_WITHIN) return group_is_wide(finding, group);
    if (group->kind == GROUP_OWN) return false;
    const struct advise_group *own = &finding->of->groups->at[group->own];
    return own->callers < 2 || own->made == group->made;
}

bool candidates_find(struct candidates *candidates, const struct candidates_of *of)
{
    struct finding finding = {.candidates = candidates,
                              .of = of,
                              .peak = (double)of->survey->peak_bytes,
                              .calls = (double)of->survey->calls,
                              .good = true};
    *candidates = (struct candidates){.count = 0};
    for (size_t i = 0; i < of->groups->count && finding.good; i++) {
        const struct advise_group *group = &of->groups->at[i];
        if (group_is_double(&finding, group)) continue;
        find_rows(&finding, group);
        if (group->kind == GROUP_WITHIN) continue;
        find_leak(&finding, group);
        find_pair(&finding, group);
        find_soon(&finding, group);
        find_growing(&finding, group);
        find_class(&finding, group);
        find_pool(&finding, group);
        find_pins(&finding, group);
    }
    change_index_free(&finding.within);
    if (!finding.good) return false;
    if (candidates->count > 0)
        qsort(candidates->at, candidates->count, sizeof *candidates->at, candidates_by_weight);
    candidates_choose(candidates);
    return true;
}

void candidates_free(struct candidates *candidates)
{
    for (size_t i = 0; i < candidates->count; i++)
        free(candidates->at[i].text);
    free(candidates->at);
    *candidates = (struct candidates){.count = 0};
}
