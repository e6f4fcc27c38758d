/* fields - the words and numbers of a line, from left to right.
 *
 *     while (source_line(&source, &fields))
 *         if (fields_word(&fields, "a") && fields_decimal(&fields, &id) && fields_end(&fields)) ...
 *
 * What does not fit is left where it is. Numbers of more than 64 bits do not fit. */
#ifndef MALLOCTAPE_FIELDS_H
#define MALLOCTAPE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct fields {
    const char *at, *end;
};

static inline void fields_space(struct fields *fields)
{
    while (fields->at < fields->end && (*fields->at == ' ' || *fields->at == '\t'))
        fields->at++;
}

/* Whether nothing but spaces is left. */
static inline bool fields_end(struct fields *fields)
{
    fields_space(fields);
    return fields->at == fields->end;
}

/* Takes these characters, whatever follows them. */
static inline bool fields_text(struct fields *fields, const char *text)
{
    fields_space(fields);
    size_t bytes = strlen(text);
    if ((size_t)(fields->end - fields->at) < bytes || memcmp(fields->at, text, bytes) != 0)
        return false;
    fields->at += bytes;
    return true;
}

/* The same, but a space or the end of the line must follow. */
static inline bool fields_word(struct fields *fields, const char *word)
{
    struct fields before = *fields;
    if (fields_text(fields, word) &&
        (fields->at == fields->end || *fields->at == ' ' || *fields->at == '\t'))
        return true;
    *fields = before;
    return false;
}

static inline unsigned fields_digit(char character)
{
    if (character >= '0' && character <= '9') return (unsigned)(character - '0');
    if (character >= 'a' && character <= 'f') return (unsigned)(character - 'a') + 10;
    if (character >= 'A' && character <= 'F') return (unsigned)(character - 'A') + 10;
    return 16;
}

static inline bool fields_number(struct fields *fields, unsigned base, uint64_t *number)
{
    fields_space(fields);
    const char *at = fields->at;
    uint64_t value = 0;
    for (; at < fields->end && fields_digit(*at) < base; at++)
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, fields_digit(*at), &value))
            return false;
    if (at == fields->at) return false;
    fields->at = at;
    *number = value;
    return true;
}

static inline bool fields_decimal(struct fields *fields, uint64_t *number)
{
    return fields_number(fields, 10, number);
}

/* Takes a number with or without 0x; "(nil)" is 0. */
static inline bool fields_hexadecimal(struct fields *fields, uint64_t *number)
{
    struct fields before = *fields;
    if (fields_text(fields, "(nil)")) {
        *number = 0;
        return true;
    }
    if (!fields_text(fields, "0x")) fields_text(fields, "0X");
    if (fields_number(fields, 16, number)) return true;
    *fields = before;
    return false;
}

#endif
