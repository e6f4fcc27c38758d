/* faulty_library - a library that faulty_service.cc calls: it copies a text, and copies it again. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static char *lower(const char *text)
{
    char *copy = strdup(text);
    for (char *at = copy; *at != '\0'; at++)
        *at = (char)tolower((unsigned char)*at);
    return copy;
}

char *folded(const char *text)
{
    char *small = lower(text), *whole = malloc(strlen(small) + 1);
    strcpy(whole, small);
    free(small);
    return whole;
}
