#include "compare/compare_text.h"

FILE *compare_text_open(char *text, size_t bytes)
{
    text[0] = text[bytes - 1] = '\0';
    return fmemopen(text, bytes - 1, "w");
}

void compare_put_seconds(FILE *to, double seconds)
{
    fprintf(to, seconds < 100 ? "%.3g s" : "%.0f s", seconds);
}

void compare_put_share(FILE *to, double share)
{
    fprintf(to, share < 0.01 ? "%.1f %%" : "%.0f %%", 100 * share);
}
