/* What is on the command line: bounds and ranges. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cut/cut.h"

bool cut_bound_parse(struct cut_bound *bound, const char *text)
{
    static const struct {
        const char *name;
        double each;
        enum cut_unit unit;
    } units[] = {{"ms", 1e6, CUT_NS}, {"us", 1e3, CUT_NS},    {"s", 1e9, CUT_NS},
                 {"m", 60e9, CUT_NS}, {"min", 60e9, CUT_NS},  {"h", 3600e9, CUT_NS},
                 {"ns", 1, CUT_NS},   {"calls", 1, CUT_CALLS}};
    char *end;
    if (*text < '0' || *text > '9') return false;
    errno = 0;
    const double number = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].name) != 0) continue;
        const double value = number * units[i].each;
        if (errno != 0 || !(value < 0x1p63)) return false;
        *bound = (struct cut_bound){units[i].unit, (uint64_t)value};
        return true;
    }
    return false;
}

static bool cut_number_parse(const char **at, uint64_t *number)
{
    char *end;
    if (**at < '0' || **at > '9') return false;
    errno = 0;
    *number = strtoull(*at, &end, 10);
    *at = end;
    return errno == 0;
}

bool cut_ranges_parse(struct cut_ranges *ranges, const char *text)
{
    do {
        struct cut_range range;
        if (ranges->count == CUT_RANGES_MAX || !cut_number_parse(&text, &range.least)) return false;
        range.most = range.least;
        if (*text == '-') {
            text++;
            range.most = UINT64_MAX;
            if (*text >= '0' && *text <= '9' && !cut_number_parse(&text, &range.most)) return false;
        }
        if (range.most < range.least) return false;
        ranges->at[ranges->count++] = range;
    } while (*text++ == ',');
    return text[-1] == '\0';
}

bool cut_ranges_have(const struct cut_ranges *ranges, uint64_t value)
{
    for (size_t i = 0; i < ranges->count; i++)
        if (value >= ranges->at[i].least && value <= ranges->at[i].most) return true;
    return ranges->count == 0;
}
