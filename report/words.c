#include "report/words.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BYTES = 96 };

static char *words_next(void)
{
    static char words[WORDS_KEPT][WORD_BYTES];
    static unsigned at;
    return words[at++ % WORDS_KEPT];
}

const char *words_count(uint64_t number)
{
    return number_grouped(words_next(), number);
}

const char *words_bytes(uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    char *text = words_next();
    double number = (double)bytes / 1024;
    unsigned unit = 0;
    if (bytes < 1024) {
        snprintf(text, WORD_BYTES, "%" PRIu64 " %s", bytes, bytes == 1 ? "byte" : "bytes");
        return text;
    }
    for (; number >= 1024; number /= 1024)
        unit++;
    snprintf(text, WORD_BYTES, "%.*f %s", number < 100 ? 1 : 0, number, units[unit]);
    return text;
}

const char *words_bytes_exact(uint64_t bytes)
{
    char *text = words_next();
    snprintf(text, WORD_BYTES, "%s %s", words_count(bytes), bytes == 1 ? "byte" : "bytes");
    return text;
}

const char *words_sizes(uint64_t lowest, uint64_t highest)
{
    if (lowest == highest) return words_bytes_exact(lowest);
    char low[40], high[40], *text = words_next();
    snprintf(low, sizeof low, "%s", words_count(lowest));
    snprintf(high, sizeof high, "%s", words_bytes_exact(highest));
    snprintf(text, WORD_BYTES, "%s to %s", low, high);
    return text;
}

const char *words_ms(uint64_t ms)
{
    char *text = words_next();
    if (ms < 1000)
        snprintf(text, WORD_BYTES, "%" PRIu64 " ms", ms);
    else if (ms < 600000)
        snprintf(text, WORD_BYTES, "%.*f s", ms < 10000 ? 2 : 1, (double)ms / 1e3);
    else if (ms < 7200000)
        snprintf(text, WORD_BYTES, "%.1f min", (double)ms / 6e4);
    else
        snprintf(text, WORD_BYTES, "%.1f h", (double)ms / 3.6e6);
    return text;
}

const char *words_share(uint64_t part, uint64_t all)
{
    return words_number(UNIT_SHARE, all > 0 ? (double)part / (double)all : 0);
}

/* The value as an integer, at most UINT64_MAX. */
static uint64_t whole(long double value)
{
    return value < 0x1p64L ? (uint64_t)value : UINT64_MAX;
}

const char *words_number(enum number_unit unit, long double value)
{
    char *text = words_next();
    if (!(value >= 0)) return "-";
    switch (unit) {
    case UNIT_BYTES: return words_bytes(whole(value));
    case UNIT_MS: return words_ms(whole(value));
    case UNIT_NS: return words_ms(whole(value / 1e6));
    case UNIT_TIMES: snprintf(text, WORD_BYTES, "%.2Lf times", value); return text;
    case UNIT_SHARE: break;
    default: return words_count(whole(value));
    }
    if (value > 0 && value < 0.001)
        snprintf(text, WORD_BYTES, "< 0.1 %%");
    else if (value > 0.999 && value < 1)
        snprintf(text, WORD_BYTES, "> 99.9 %%");
    else
        snprintf(text, WORD_BYTES, "%.*Lf %%", value < 0.1 ? 1 : 0, 100 * value);
    return text;
}

const char *words_signed(enum number_unit unit, long double difference)
{
    char *text = words_next();
    if (isnan(difference)) return "-";
    snprintf(text, WORD_BYTES, "%c %s", difference < 0 ? '-' : '+',
             words_number(unit, fabsl(difference)));
    return text;
}

const char *words_growth(double per_cent)
{
    char *text = words_next();
    if (isnan(per_cent)) return "";
    if (isinf(per_cent) || per_cent <= -100) return per_cent > 0 ? "new" : "gone";
    if (numbers_shown(per_cent, 1) == 0) return "0.0 %";
    if (per_cent >= 900)
        snprintf(text, WORD_BYTES, "%.0f times", per_cent / 100 + 1);
    else
        snprintf(text, WORD_BYTES, "%c %.*f %%", per_cent < 0 ? '-' : '+',
                 fabs(per_cent) < 10 || per_cent < -99 ? 1 : 0, fabs(per_cent));
    return text;
}

const char *words_format(const char *format, ...)
{
    char *text = words_next();
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, WORD_BYTES, format, arguments);
    va_end(arguments);
    return text;
}

/* ---- names of functions ---- */

/* Whether there is a bracket of a type here: not of an operator or an arrow. */
static int bracket_at(const char *name, size_t at)
{
    static const char word[] = "operator";
    const size_t length = sizeof word - 1;
    if (name[at] != '<' && name[at] != '>') return 0;
    size_t first = at;
    while (first > 0 && strchr("<>=-", name[first - 1]) != NULL)
        first--;
    if (first >= length && memcmp(name + first - length, word, length) == 0) return 0;
    if (name[at] == '>' && at > 0 && name[at - 1] == '-') return 0;
    return name[at] == '<' ? 1 : -1;
}

/* How deep the innermost arguments are that are longer than ".."; 0: there are none. */
static unsigned deepest(const char *name)
{
    unsigned depth = 0, most = 0;
    size_t opened = 0; /* after the latest bracket that opens */
    for (size_t i = 0; name[i] != '\0'; i++) {
        const int bracket = bracket_at(name, i);
        if (bracket > 0) opened = i + 1;
        if (bracket < 0 && depth > most && i - opened > 2) most = depth;
        if (bracket < 0 && depth > 0) depth--;
        if (bracket > 0) depth++;
    }
    return most;
}

/* Replaces all arguments that are so deep. */
static void shorten(char *name, unsigned level)
{
    unsigned depth = 0;
    size_t to = 0;
    for (size_t i = 0; name[i] != '\0'; i++) {
        const int bracket = bracket_at(name, i);
        if (bracket < 0 && depth > 0 && depth-- == level) {
            name[to++] = '.';
            name[to++] = '.';
        }
        if (depth < level) name[to++] = name[i];
        if (bracket > 0) depth++;
    }
    name[to] = '\0';
}

/* Where the first character begins that is not cut. */
static const char *words_whole_character(const char *text)
{
    while (((unsigned char)*text & 0xc0) == 0x80)
        text++;
    return text;
}

const char *words_name(const char *name)
{
    size_t length = strlen(name);
    if (length <= WORDS_NAME_MOST) return name;
    char *text = words_next(), *copy = strdup(name);
    if (copy == NULL) return "";
    for (unsigned level; length > WORDS_NAME_MOST && (level = deepest(copy)) > 0;
         length = strlen(copy))
        shorten(copy, level);
    if (length <= WORDS_NAME_MOST)
        memcpy(text, copy, length + 1);
    else /* The end tells most. */
        snprintf(text, WORD_BYTES, "..%s",
                 words_whole_character(copy + length - (WORDS_NAME_MOST - 2)));
    free(copy);
    return text;
}
