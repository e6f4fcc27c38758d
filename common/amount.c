#include "common/amount.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Only digits and a point: strtod() would also take a sign, "inf" and hexadecimal numbers. */
static bool amount_take_number(const char *text, const char **end, double *number)
{
    char *behind;
    const size_t bytes = strspn(text, "0123456789.");
    if (bytes == 0 || bytes > 20 || !isdigit((unsigned char)*text)) return false;
    *number = strtod(text, &behind);
    *end = behind;
    return behind == text + bytes;
}

bool amount_take_bytes(const char *text, const char **end, double *bytes)
{
    static const char units[] = "kMGT";
    if (!amount_take_number(text, end, bytes)) return false;
    const char *unit = **end == 'K' ? units : strchr(units, **end);
    if (**end == '\0' || unit == NULL) return true;
    *bytes = ldexp(*bytes, 10 * (int)(unit - units + 1));
    ++*end;
    return true;
}

bool amount_take_ns(const char *text, const char **end, uint64_t *ns)
{
    static const struct {
        char letter;
        double seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    const double most_s = 1e9;
    double seconds;
    if (!amount_take_number(text, end, &seconds)) return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (**end != units[i].letter) continue;
        seconds *= units[i].seconds;
        ++*end;
        break;
    }
    if (seconds <= 0 || seconds > most_s) return false;
    *ns = (uint64_t)(seconds * 1e9);
    return true;
}

bool amount_parse_keep(const char *text, uint64_t *ns, uint64_t *bytes)
{
    double number = 0;
    const char *end;
    *bytes = 0;
    if (!amount_take_ns(text, &end, ns)) return false;
    if (*end == '\0') return true;
    if (*end != ',' || !amount_take_bytes(end + 1, &end, &number) || *end != '\0' || number < 1 ||
        number > 1e18)
        return false;
    *bytes = (uint64_t)number;
    return true;
}
