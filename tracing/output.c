#include "output.h"

#include <errno.h>

/* --- names --- */

struct text {
    char *to;
    size_t used;
    size_t bytes; /* what does not fit is counted, but left out */
};

static void text_put(struct text *text, char character)
{
    if (text->used < text->bytes) text->to[text->used] = character;
    text->used++;
}

static void text_number(struct text *text, uint64_t number)
{
    if (number >= 10) text_number(text, number / 10);
    text_put(text, (char)('0' + number % 10));
}

static bool is_harmless(char character)
{
    return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
           (character >= '0' && character <= '9') || character == '.' || character == '+' ||
           character == '-' || character == '_' || (unsigned char)character > 127;
}

static void text_name(struct text *text, const char *name)
{
    for (; *name; name++)
        text_put(text, is_harmless(*name) ? *name : '_');
}

static const char *last_component(const char *path)
{
    const char *component = path;
    for (; *path; path++)
        if (*path == '/') component = path + 1;
    return component;
}

int output_name_expand(const char *name, const struct output_names *names, char *expanded,
                       size_t bytes)
{
    struct text text = {expanded, 0, bytes};
    for (; *name; name++) {
        if (*name != '%') {
            text_put(&text, *name);
            continue;
        }
        switch (*++name) {
        case 'p': text_number(&text, (uint64_t)names->process_id); break;
        case 'h': text_name(&text, names->host); break;
        case 't': text_number(&text, names->time_s); break;
        case 'e': text_name(&text, last_component(names->program)); break;
        case '%': text_put(&text, '%'); break;
        default: return -EINVAL;
        }
    }
    text_put(&text, 0);
    return text.used <= bytes ? (int)(text.used - 1) : -ENAMETOOLONG;
}

bool output_name_has_process(const char *name)
{
    for (; *name; name++) {
        if (*name != '%') continue;
        if (*++name == 'p') return true;
        if (!*name) return false;
    }
    return false;
}
