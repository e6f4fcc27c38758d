#include "change/change_match.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "symbols/code_groups.h"

#define MATCH_KNOWN (1u << 31)

_Static_assert(CHANGES_MAX < 31, "a bit for each change");

/* ---- names ---- */

/* What stands before the last part of a name: "Cache::insert", "src/cache.c", "app.parse" of Python. */
#define MATCH_PLACE    ":/"
#define MATCH_FUNCTION ":/."

/* Whether the text, or what of it follows one of these characters, is the name with its "*". */
static bool match_any_end(const char *text, const char *name, const char *before)
{
    for (;;) {
        if (fnmatch(name, text, 0) == 0) return true;
        text += strcspn(text, before);
        if (*text == '\0') return false;
        text++;
    }
}

/* The same for a name that need not have one. */
static bool match_name(const char *text, const char *name, const char *before)
{
    const size_t length = strlen(text), bytes = strlen(name);
    if (strcmp(text, name) == 0) return true;
    if (strchr(name, '*') != NULL) return match_any_end(text, name, before);
    if (bytes == 0 || length <= bytes || strcmp(text + length - bytes, name) != 0) return false;
    return strchr(before, text[length - bytes - 1]) != NULL;
}

/* "Cache<int>::insert" without the arguments of templates: "Cache::insert". */
static bool match_without_arguments(const char *function, const char *name)
{
    static const char operator_name[] = "operator";
    char plain[1024];
    size_t bytes = 0, depth = 0;
    if (strchr(function, '<') == NULL || strchr(name, '<') != NULL) return false;
    for (const char *at = function; *at != '\0' && bytes < sizeof plain - 1; at++) {
        const size_t before = (size_t)(at - function), most = sizeof operator_name - 1;
        if (before >= most && memcmp(at - most, operator_name, most) == 0) at += strspn(at, "<>-=");
        if (*at == '\0') break;
        if (*at == '<')
            depth++;
        else if (*at == '>' && depth > 0)
            depth--;
        else if (depth == 0)
            plain[bytes++] = *at;
    }
    plain[bytes] = '\0';
    return match_name(plain, name, MATCH_FUNCTION);
}

static bool match_frame(const struct code_names *names, const struct code_frame *frame,
                        const char *name)
{
    const char *file = code_names_text(names, frame->file);
    const char *function = code_names_text(names, frame->function);
    char place[1024];
    if (frame->code == 0) return false; /* outer functions are unknown */
    if (match_name(function, name, MATCH_FUNCTION) || match_without_arguments(function, name) ||
        match_name(code_names_text(names, frame->module), name, MATCH_PLACE))
        return true;
    if (*file == '\0') return false;
    snprintf(place, sizeof place, "%s:%u", file, frame->line);
    return match_name(file, name, MATCH_PLACE) ||
           (strchr(name, ':') != NULL && match_name(place, name, MATCH_PLACE));
}

/* Whether the frames, innermost first, have the names, outermost first, outside of frame `inner`. */
static bool match_names(const struct change_match *match, char *const *names, unsigned names_count,
                        unsigned inner, unsigned count)
{
    unsigned at = count;
    for (unsigned i = 0; i < names_count; i++) {
        do {
            if (at == inner) return false;
            at--;
        } while (!match_frame(match->names, &match->frames[at], names[i]));
    }
    return true;
}

static bool match_stack(const struct change_match *match, const struct change_pattern *pattern,
                        unsigned count)
{
    if (pattern->names_count == 0) return true;
    if (count == 0) return false;
    if (!pattern->itself) return match_names(match, pattern->names, pattern->names_count, 0, count);
    const unsigned own = code_groups_own(match->frames, count), last = pattern->names_count - 1;
    return match_frame(match->names, &match->frames[own], pattern->names[last]) &&
           match_names(match, pattern->names, last, own + 1, count);
}

/* ---- nodes ---- */

bool change_match_open(struct change_match *match, const struct change_list *list,
                       const struct code_names *names, uint64_t nodes_end)
{
    *match = (struct change_match){.list = list, .names = names, .known_count = nodes_end + 1};
    match->known = calloc(match->known_count, sizeof *match->known);
    match->frames = calloc(CODE_FRAMES_MAX, sizeof *match->frames);
    return match->known != NULL && match->frames != NULL;
}

void change_match_close(struct change_match *match)
{
    free(match->known);
    free(match->frames);
    *match = (struct change_match){.known = NULL};
}

static uint32_t match_node(struct change_match *match, uint32_t node)
{
    uint32_t bits = MATCH_KNOWN;
    const unsigned count =
        match->names != NULL ? code_names_of(match->names, node, match->frames) : 0;
    for (size_t i = 0; i < match->list->count; i++)
        if (match_stack(match, &match->list->at[i].pattern, count)) bits |= 1u << i;
    return bits;
}

uint32_t change_match_names(struct change_match *match, uint32_t node)
{
    if (node >= match->known_count) node = STACK_END;
    if (match->known[node] == 0) match->known[node] = match_node(match, node);
    return match->known[node] & ~MATCH_KNOWN;
}

uint32_t change_match_of(struct change_match *match, uint32_t node, uint64_t size)
{
    uint32_t bits = change_match_names(match, node);
    for (; bits != 0; bits &= bits - 1) {
        const uint32_t change = (uint32_t)__builtin_ctz(bits);
        const struct change_pattern *pattern = &match->list->at[change].pattern;
        if (size >= pattern->least && size <= pattern->most) return change;
    }
    return CHANGE_NONE;
}

/* ---- near names ---- */

enum { NEAR_NAMES = 3, NEAR_BYTES_MAX = 64, NEAR_FAR = 1000 };

/* How many characters must change, come or go to make one of the other. */
static unsigned near_edits(const char *one, const char *other)
{
    unsigned row[NEAR_BYTES_MAX + 1];
    const size_t width = strlen(other);
    if (strlen(one) > NEAR_BYTES_MAX || width > NEAR_BYTES_MAX) return NEAR_FAR;
    for (unsigned i = 0; i <= width; i++)
        row[i] = i;
    for (size_t at = 0; one[at] != '\0'; at++) {
        unsigned diagonal = row[0]++;
        for (size_t i = 1; i <= width; i++) {
            unsigned best = diagonal + (one[at] != other[i - 1]);
            diagonal = row[i];
            if (row[i] + 1 < best) best = row[i] + 1;
            if (row[i - 1] + 1 < best) best = row[i - 1] + 1;
            row[i] = best;
        }
    }
    return row[width];
}

/* How far a function is from a name; NEAR_FAR: it has nothing to do with it. */
static unsigned near_distance(const char *function, const char *name)
{
    const char *last = function + strlen(function);
    while (last > function && strchr(MATCH_FUNCTION, last[-1]) == NULL)
        last--;
    const unsigned whole = near_edits(function, name), part = near_edits(last, name);
    const unsigned edits = whole < part ? whole : part;
    if (strcasestr(function, name) != NULL) return 1;
    return edits <= strlen(name) / 2 ? edits : NEAR_FAR;
}

/* Keeps a function among the nearest ones, which are in ascending order. */
static void near_keep(uint32_t *functions, unsigned *distances, uint32_t function,
                      unsigned distance)
{
    unsigned at = NEAR_NAMES;
    for (unsigned i = 0; i < NEAR_NAMES; i++)
        if (functions[i] == function) return;
    while (at > 0 && distance < distances[at - 1])
        at--;
    for (unsigned i = NEAR_NAMES; i-- > at + 1;) {
        functions[i] = functions[i - 1];
        distances[i] = distances[i - 1];
    }
    if (at == NEAR_NAMES) return;
    functions[at] = function;
    distances[at] = distance;
}

/* Adds the first module whose functions have no names, if there is one. */
static void explain_missing(const struct code_names *names, char *why, size_t why_bytes)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (to == NULL) return;
    code_names_print_missing(names, "", to);
    fclose(to);
    if (text != NULL) text[strcspn(text, "\n")] = '\0';
    const size_t length = strlen(why);
    if (text != NULL && *text != '\0') snprintf(why + length, why_bytes - length, "; %s", text);
    free(text);
}

static void explain_near(const struct code_names *names, const char *name, char *why,
                         size_t why_bytes)
{
    uint32_t functions[NEAR_NAMES] = {0};
    unsigned distances[NEAR_NAMES] = {NEAR_FAR, NEAR_FAR, NEAR_FAR};
    int length =
        snprintf(why, why_bytes, "no function, file or module on a stack is called '%s'", name);
    for (size_t i = CODE_FRAME_FIRST; i < names->count; i++) {
        const uint32_t function = names->frames[i].function;
        near_keep(functions, distances, function,
                  near_distance(code_names_text(names, function), name));
    }
    for (unsigned i = 0; i < NEAR_NAMES && functions[i] != 0; i++)
        if (length > 0 && (size_t)length < why_bytes)
            length += snprintf(why + length, why_bytes - (size_t)length, "%s%s",
                               i == 0 ? "; near: " : ", ", code_names_text(names, functions[i]));
    if (functions[0] == 0) explain_missing(names, why, why_bytes);
}

static bool match_any_frame(const struct code_names *names, const char *name)
{
    for (size_t i = CODE_FRAME_FIRST; i < names->count; i++)
        if (match_frame(names, &names->frames[i], name)) return true;
    return false;
}

void change_match_explain(const struct change_match *match, const struct change *change, char *why,
                          size_t why_bytes)
{
    for (unsigned i = 0; i < change->pattern.names_count && match->names != NULL; i++)
        if (!match_any_frame(match->names, change->pattern.names[i])) {
            explain_near(match->names, change->pattern.names[i], why, why_bytes);
            return;
        }
    error_explain(why, why_bytes, "no object %s matches '%s'%s",
                  change->action == CHANGE_RESERVE ? "that grows" : "in the trace", change->text,
                  change->pattern.itself ? "; 'itself' is the innermost function that is neither a "
                                           "library's nor passed over (--skip)"
                                         : "");
}
