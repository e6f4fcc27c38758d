#include "sweep/plan_line.h"

#include <string.h>

static const char *skip_space(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* Skips a string: from its quotation mark to after the closing one. */
static const char *skip_string(const char *at)
{
    for (at++; *at != '\0' && *at != '"'; at++)
        if (*at == '\\' && at[1] != '\0') at++;
    return *at != '\0' ? at + 1 : at;
}

static const char *skip_value(const char *at)
{
    size_t depth = 0;
    do {
        if (*at == '"') {
            at = skip_string(at);
        } else if (depth == 0 && strchr("[{", *at) == NULL) {
            at += strcspn(at, ",]} \t\r\n");
        } else {
            if (strchr("[{", *at) != NULL) depth++;
            if (strchr("]}", *at) != NULL) depth--;
            at++;
        }
    } while (depth > 0 && *at != '\0');
    return at;
}

/* Skips the name of a member and its colon. */
static const char *plan_line_skip_name(const char *at)
{
    at = skip_space(skip_string(at));
    return *at == ':' ? skip_space(at + 1) : at;
}

static int is_named(const char *at, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(at + 1, name, length) == 0 && at[1 + length] == '"';
}

static const char *plan_line_find(const char *text, const struct plan_place *place)
{
    if (place == NULL || place->above == NULL) return skip_space(text);
    const char *above = plan_line_find(text, place->above), *at = above;
    if (*at != (place->member != NULL ? '{' : '[')) return above;
    for (size_t index = 0;; index++) {
        at = skip_space(at + 1);
        if (*at == '\0' || *at == ']' || *at == '}') return above;
        if (place->member == NULL && index == place->index) return at;
        if (place->member != NULL && is_named(at, place->member)) return plan_line_skip_name(at);
        if (place->member != NULL) at = plan_line_skip_name(at);
        at = skip_space(skip_value(at));
        if (*at != ',') return above;
    }
}

unsigned plan_line(const char *text, const struct plan_place *place)
{
    unsigned line = 1;
    for (const char *end = plan_line_find(text, place); text < end; text++)
        line += *text == '\n';
    return line;
}
