/* text - writes words and numbers one after another into a buffer, and reads a number, without the
 * C library.
 *
 *     struct text path = {room, 0, sizeof room};
 *     text_string(&path, "/proc/");
 *     text_decimal(&path, id);
 *     if (!text_end(&path)) ... it did not fit
 *
 * What does not fit is counted but not written: then used > bytes. */
#ifndef MALLOCTAPE_TEXT_H
#define MALLOCTAPE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *to;
    size_t used;
    size_t bytes;
};

static inline void text_character(struct text *text, char character)
{
    if (text->used < text->bytes) text->to[text->used] = character;
    text->used++;
}

static inline void text_string(struct text *text, const char *string)
{
    while (*string)
        text_character(text, *string++);
}

static inline void text_decimal(struct text *text, uint64_t number)
{
    char digits[20];
    int count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    while (count > 0)
        text_character(text, digits[--count]);
}

/* All sixteen digits. */
static inline void text_hexadecimal(struct text *text, uint64_t number)
{
    for (int shift = 60; shift >= 0; shift -= 4)
        text_character(text, "0123456789abcdef"[number >> shift & 15]);
}

/* The number that begins here; 0: there is none. */
static inline uint64_t text_read_decimal(const char *from)
{
    uint64_t number = 0;
    for (; *from >= '0' && *from <= '9'; from++)
        number = number * 10 + (uint64_t)(*from - '0');
    return number;
}

/* Writes the null byte, which the next character overwrites. Returns whether everything fitted; if
 * not, the null byte has replaced the last character. */
static inline bool text_end(struct text *text)
{
    bool fits = text->used < text->bytes;
    text->to[fits ? text->used : text->bytes - 1] = '\0';
    return fits;
}

#endif
