#include "report/words.h"

#include <inttypes.h>
#include <stdio.h>

enum { WORD_BYTES = 96 };

static char *next(void)
{
    static char words[WORDS_KEPT][WORD_BYTES];
    static unsigned at;
    return words[at++ % WORDS_KEPT];
}

const char *words_count(uint64_t number)
{
    char digits[24], *text = next(), *to = text;
    int length = snprintf(digits, sizeof digits, "%" PRIu64, number);
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) *to++ = ' ';
        *to++ = digits[i];
    }
    *to = '\0';
    return text;
}

const char *words_bytes(uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    char *text = next();
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
    char *text = next();
    snprintf(text, WORD_BYTES, "%s %s", words_count(bytes), bytes == 1 ? "byte" : "bytes");
    return text;
}

const char *words_sizes(uint64_t lowest, uint64_t highest)
{
    if (lowest == highest) return words_bytes_exact(lowest);
    char low[40], high[40], *text = next();
    snprintf(low, sizeof low, "%s", words_count(lowest));
    snprintf(high, sizeof high, "%s", words_bytes_exact(highest));
    snprintf(text, WORD_BYTES, "%s to %s", low, high);
    return text;
}

const char *words_ms(uint64_t ms)
{
    char *text = next();
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

const char *words_share(uint64_t part, uint64_t whole)
{
    char *text = next();
    const double percent = whole > 0 ? 100.0 * (double)part / (double)whole : 0;
    if (part > 0 && percent < 0.1)
        snprintf(text, WORD_BYTES, "< 0.1 %%");
    else if (part < whole && percent > 99.9)
        snprintf(text, WORD_BYTES, "> 99.9 %%");
    else
        snprintf(text, WORD_BYTES, "%.*f %%", percent < 10 ? 1 : 0, percent);
    return text;
}
