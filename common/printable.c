#include "common/printable.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The form of an escaped byte, and its length. */
#define ESCAPE "\\x%02x"
enum { ESCAPE_BYTES = 4 };

/* Of a message: two paths fit. */
enum { MESSAGE_BYTES = 3 * 4096 };

/* Of a text: a path fits, each byte of which may have to be escaped. */
enum { TEXT_BYTES = ESCAPE_BYTES * 4096 };

/* The length of the UTF-8 character at `text`, and its code point; 0: it is not valid. */
static size_t character(const char *text, size_t bytes, uint32_t *code)
{
    const uint8_t *at = (const uint8_t *)text;
    const size_t length = *at < 0x80   ? 1
                          : *at < 0xc2 ? 0
                          : *at < 0xe0 ? 2
                          : *at < 0xf0 ? 3
                          : *at < 0xf5 ? 4
                                       : 0;
    if (length == 0 || length > bytes) return 0;
    *code = length == 1 ? *at : *at & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80) return 0;
        *code = *code << 6 | (at[i] & 0x3f);
    }
    const bool fits = (length < 3 || *code >= 0x800) && (length < 4 || *code >= 0x10000) &&
                      *code < 0x110000 && (*code < 0xd800 || *code > 0xdfff);
    return fits ? length : 0;
}

/* Whether the character controls the display instead of being visible. */
static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x200e || code == 0x200f ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

/* The length of the next character, or of a byte that is part of none, and whether it stays as it
 * is. */
static size_t piece(const char *text, size_t bytes, bool *stays)
{
    uint32_t code = 0;
    const size_t length = character(text, bytes, &code);
    *stays = length > 0 && !is_control(code);
    return *stays ? length : 1;
}

bool printable_is(const char *text, size_t bytes)
{
    bool stays = true;
    for (size_t at = 0; at < bytes && stays;)
        at += piece(text + at, bytes - at, &stays);
    return stays;
}

char *printable_copy(const char *text, size_t bytes)
{
    size_t needed = 1, used = 0;
    bool stays;
    for (size_t at = 0; at < bytes;) {
        const size_t length = piece(text + at, bytes - at, &stays);
        needed += stays ? length : ESCAPE_BYTES;
        at += length;
    }
    /* Not strndup() or the like: a sanitizer's takes memory that a preloaded allocator cannot
     * free. */
    char *copy = calloc(1, needed);
    if (copy == NULL) return NULL;
    for (size_t at = 0; at < bytes;) {
        const size_t length = piece(text + at, bytes - at, &stays);
        if (stays)
            memcpy(copy + used, text + at, length);
        else
            snprintf(copy + used, needed - used, ESCAPE, (uint8_t)text[at]);
        used += stays ? length : ESCAPE_BYTES;
        at += length;
    }
    return copy;
}

const char *printable_text(const char *text)
{
    static char texts[PRINTABLE_TEXTS][TEXT_BYTES];
    static unsigned next;
    const size_t bytes = strlen(text);
    if (printable_is(text, bytes)) return text;
    char *to = texts[next++ % PRINTABLE_TEXTS];
    FILE *room = fmemopen(to, TEXT_BYTES, "w");
    if (room == NULL) return "?";
    printable_print(room, text, bytes);
    fclose(room);
    to[TEXT_BYTES - 1] = '\0';
    return to;
}

void printable_print(FILE *to, const char *text, size_t bytes)
{
    bool stays;
    for (size_t at = 0; at < bytes;) {
        const size_t length = piece(text + at, bytes - at, &stays);
        if (stays)
            fwrite(text + at, 1, length, to);
        else
            fprintf(to, ESCAPE, (uint8_t)text[at]);
        at += length;
    }
}

void printable_put(FILE *to, const char *text)
{
    printable_print(to, text, strlen(text));
}

void printable_say_list(FILE *to, const char *message, va_list arguments)
{
    char line[MESSAGE_BYTES];
    vsnprintf(line, sizeof line, message, arguments);
    printable_put(to, line);
    putc('\n', to);
}

void printable_say(FILE *to, const char *message, ...)
{
    va_list arguments;
    va_start(arguments, message);
    printable_say_list(to, message, arguments);
    va_end(arguments);
}
