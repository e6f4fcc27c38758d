#include "report/time_word.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

bool time_word_parse(const char *text, uint64_t *ns)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"", 1e9},   {"s", 1e9},    {"ms", 1e6},   {"us", 1e3},
                 {"m", 6e10}, {"min", 6e10}, {"h", 3.6e12}, {"ns", 1}};
    char *end;
    if ((*text < '0' || *text > '9') && *text != '.') return false;
    const double value = strtod(text, &end);
    for (size_t i = 0; end != text && i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].unit) == 0 && value >= 0 && value * units[i].ns < 1e18) {
            *ns = (uint64_t)(value * units[i].ns);
            return true;
        }
    return false;
}
