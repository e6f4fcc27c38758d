#include "change/change.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

/* No object is larger: sizes beyond are clamped. */
#define CHANGE_SIZE_MOST (UINT64_C(1) << 62)

#define CHANGE_CHUNK_BYTES 65536

struct change_parser {
    struct change *change;
    char *why;
    size_t why_bytes;
};

#define CHANGE_ACTIONS                                                                     \
    "remove, remove=75%%, size=-8 (or +8, x0.5, 24), until=60s (or calls, objects, MiB), " \
    "reserve, shared=75%%, pool, arena or separate"

/* Takes white space off both ends. */
static char *change_trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    for (size_t end = strlen(text); end > 0 && isspace((unsigned char)text[end - 1]); end--)
        text[end - 1] = '\0';
    return text;
}

/* ---- numbers ---- */

struct change_suffix {
    const char *name;
    double times;
    enum change_unit unit;
};

static const struct change_suffix suffixes[] = {
    {"us", 1e3, CHANGE_NS},         {"ms", 1e6, CHANGE_NS},           {"s", 1e9, CHANGE_NS},
    {"min", 60e9, CHANGE_NS},       {"h", 3600e9, CHANGE_NS},         {"calls", 1, CHANGE_CALLS},
    {"objects", 1, CHANGE_OBJECTS}, {"bytes", 1, CHANGE_BYTES},       {"B", 1, CHANGE_BYTES},
    {"kB", 1e3, CHANGE_BYTES},      {"KiB", 1024, CHANGE_BYTES},      {"MB", 1e6, CHANGE_BYTES},
    {"MiB", 1048576, CHANGE_BYTES}, {"GiB", 1073741824, CHANGE_BYTES}};

/* A number of digits and perhaps a point: no sign, no hexadecimal, no "inf". NULL: there is none. */
static char *change_number(const char *text, double *number)
{
    char *end;
    if (!isdigit((unsigned char)*text)) return NULL;
    if (text[strspn(text, "0123456789.")] == 'x') return NULL;
    *number = strtod(text, &end);
    return isfinite(*number) && *number < 0x1p62 ? end : NULL;
}

static bool change_parse_until(struct change_parser *parser, const char *text)
{
    struct change *change = parser->change;
    double number;
    const char *end = change_number(text, &number);
    for (size_t i = 0; end != NULL && i < sizeof suffixes / sizeof *suffixes; i++) {
        if (strcmp(end, suffixes[i].name) != 0) continue;
        const double limit = number * suffixes[i].times;
        change->unit = suffixes[i].unit;
        if (limit >= 0x1p62) break;
        change->limit = (uint64_t)limit;
        return true;
    }
    return error_explain(parser->why, parser->why_bytes,
                         "'%s' is no time (60s), and no number of calls, objects or bytes (64MiB)",
                         text);
}

/* "-8", "+8", "x0.5", "24" */
static bool change_parse_size(struct change_parser *parser, const char *text)
{
    struct change *change = parser->change;
    double number;
    const bool has_sign = *text == '-' || *text == '+', is_factor = *text == 'x';
    const char *end = change_number(text + (has_sign || is_factor), &number);
    if (end == NULL || *end != '\0' || (!is_factor && number != floor(number)))
        return error_explain(parser->why, parser->why_bytes,
                             "'%s' is no change of a size: -8, +8, x0.5 or 24", text);
    change->times = is_factor ? number : has_sign ? 1 : 0;
    if (!is_factor) change->more = *text == '-' ? -(int64_t)number : (int64_t)number;
    return true;
}

static bool change_parse_share(struct change_parser *parser, const char *text)
{
    double number;
    const char *end = change_number(text, &number);
    if (end == NULL || strcmp(end, "%") != 0 || number > 100)
        return error_explain(parser->why, parser->why_bytes, "'%s' is no share: 75%%", text);
    parser->change->share = number / 100;
    return true;
}

/* Whether the text is such an action, perhaps with the size of a chunk. */
static bool change_is_chunks(const char *text, enum change_action *action)
{
    static const char *const names[] = {"pool", "arena", "separate"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        *action = (enum change_action)(CHANGE_POOL + i);
        if (strcmp(text, names[i]) == 0) return true;
    }
    return false;
}

/* The contents of objects are in no recording, so the share has to be given. */
static bool change_parse_shared(struct change_parser *parser, const char *text)
{
    parser->change->action = CHANGE_SHARED;
    if (text != NULL) return change_parse_share(parser, text);
    return error_explain(parser->why, parser->why_bytes,
                         "which objects are equal is not in a recording, as it has not what is in "
                         "them: say how many are, shared=75%%");
}

static bool change_parse_chunk(struct change_parser *parser, const char *text)
{
    struct change *change = parser->change;
    change->limit = CHANGE_CHUNK_BYTES;
    change->has_limit = text != NULL;
    if (text == NULL) return true;
    if (!change_parse_until(parser, text)) return false;
    return change->unit == CHANGE_BYTES ||
           error_explain(parser->why, parser->why_bytes, "'%s' is no size of a chunk: 64KiB", text);
}

/* ---- actions ---- */

static bool change_parse_action(struct change_parser *parser, char *text)
{
    struct change *change = parser->change;
    char *value = strchr(text, '=');
    if (value != NULL) *value++ = '\0';
    change->share = 1;
    if (strcmp(text, "remove") == 0) {
        change->action = CHANGE_REMOVE;
        return value == NULL || change_parse_share(parser, value);
    }
    if (strcmp(text, "reserve") == 0 && value == NULL) {
        change->action = CHANGE_RESERVE;
        return true;
    }
    if (strcmp(text, "size") == 0 && value != NULL) {
        change->action = CHANGE_SIZE;
        return change_parse_size(parser, value);
    }
    if (strcmp(text, "until") == 0 && value != NULL) {
        change->action = CHANGE_UNTIL;
        return change_parse_until(parser, value);
    }
    if (strcmp(text, "shared") == 0) return change_parse_shared(parser, value);
    if (change_is_chunks(text, &change->action)) return change_parse_chunk(parser, value);
    return error_explain(parser->why, parser->why_bytes, "'%s%s%s' is no change: " CHANGE_ACTIONS,
                         text, value != NULL ? "=" : "", value != NULL ? value : "");
}

/* ---- patterns ---- */

/* Takes the word from the end of the text, if it stands there alone or after a space. */
static bool change_take_last(char *text, const char *word)
{
    const size_t length = strlen(text), bytes = strlen(word);
    if (length < bytes || strcmp(text + length - bytes, word) != 0) return false;
    if (length > bytes && text[length - bytes - 1] != ' ') return false;
    text[length - bytes] = '\0';
    change_trim(text);
    return true;
}

/* Takes "of 24" or "of 16-64" from the end of the text. False: it is not right. */
static bool change_take_sizes(struct change_parser *parser, char *text)
{
    struct change_pattern *pattern = &parser->change->pattern;
    char *at = strncmp(text, "of ", 3) == 0 ? text : strstr(text, " of ");
    double least, most;
    pattern->most = UINT64_MAX;
    if (at == NULL) return true;
    const char *number = strchr(at + 1, ' ') + 1;
    if (at == text) number = text + 3;
    const char *end = change_number(number, &least);
    most = least;
    if (end != NULL && *end == '-') end = change_number(end + 1, &most);
    if (end == NULL || *end != '\0' || most < least)
        return error_explain(parser->why, parser->why_bytes,
                             "'%s' is no size, and no range of sizes: of 24, of 16-64", number);
    pattern->least = (uint64_t)least;
    pattern->most = (uint64_t)most;
    *at = '\0';
    return true;
}

static bool change_add_name(struct change_parser *parser, char *name)
{
    struct change_pattern *pattern = &parser->change->pattern;
    name = change_trim(name);
    if (*name == '\0')
        return error_explain(parser->why, parser->why_bytes, "a name is missing in the pattern");
    if (pattern->names_count == CHANGE_NAMES_MAX)
        return error_explain(parser->why, parser->why_bytes, "more than %d names in a pattern",
                             CHANGE_NAMES_MAX);
    char *copy = strdup(name);
    if (copy == NULL) return error_explain(parser->why, parser->why_bytes, "no memory");
    pattern->names[pattern->names_count++] = copy;
    return true;
}

static bool change_parse_pattern(struct change_parser *parser, char *text)
{
    struct change_pattern *pattern = &parser->change->pattern;
    char *next;
    if (!change_take_sizes(parser, text)) return false;
    text = change_trim(text);
    pattern->itself = change_take_last(text, "itself");
    if (*text == '\0' && pattern->most == UINT64_MAX)
        return error_explain(parser->why, parser->why_bytes, "nothing stands before the colon");
    while (*text != '\0' && (next = strstr(text, " > ")) != NULL) {
        *next = '\0';
        if (!change_add_name(parser, text)) return false;
        text = next + 3;
    }
    if (*text == '\0' && pattern->names_count == 0 && !pattern->itself) return true;
    return change_add_name(parser, text);
}

/* ---- the whole ---- */

/* The colon between the pattern and the action: the last one. */
static bool change_parse(struct change_parser *parser, char *text)
{
    char *colon = strrchr(text, ':');
    if (colon == NULL)
        return error_explain(parser->why, parser->why_bytes,
                             "'%s' has no colon: it should be PATTERN: ACTION", text);
    *colon = '\0';
    return change_parse_pattern(parser, change_trim(text)) &&
           change_parse_action(parser, change_trim(colon + 1));
}

bool change_list_parse(struct change_list *list, const char *text, char *why, size_t why_bytes)
{
    *list = (struct change_list){.text = strdup(text)};
    char *copy = strdup(text), *rest = copy, *one;
    bool good = copy != NULL && list->text != NULL;
    if (!good) error_explain(why, why_bytes, "no memory");
    if (good && strpbrk(text, "\n\r") != NULL)
        good = error_explain(why, why_bytes, "a change is one line");
    while (good && (one = strsep(&rest, ";")) != NULL) {
        if (list->count == CHANGES_MAX) {
            good = error_explain(why, why_bytes, "more than %d changes together", CHANGES_MAX);
            break;
        }
        struct change *change = &list->at[list->count++];
        one = change_trim(one);
        change->text = strdup(one);
        good = change->text != NULL || error_explain(why, why_bytes, "no memory");
        struct change_parser parser = {change, why, why_bytes};
        good = good && change_parse(&parser, one);
    }
    free(copy);
    return good;
}

void change_list_free(struct change_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        for (unsigned name = 0; name < list->at[i].pattern.names_count; name++)
            free(list->at[i].pattern.names[name]);
        free(list->at[i].text);
    }
    free(list->text);
    *list = (struct change_list){.count = 0};
}

uint64_t change_size(const struct change *change, uint64_t size, bool *is_clamped)
{
    const double wanted = (double)size * change->times + (double)change->more;
    *is_clamped = wanted < 0 || wanted > (double)CHANGE_SIZE_MOST;
    if (*is_clamped) return wanted < 0 ? 0 : CHANGE_SIZE_MOST;
    return change->times == 1 ? size + (uint64_t)change->more : (uint64_t)ceil(wanted);
}
