#include "common/output_name.h"

#include "common/text.h"

#include <errno.h>
#include <string.h>

/* Enough digits for any descriptor that the kernel can be configured to allow. */
#define DESCRIPTOR_DIGITS_MAX 9

static bool is_harmless(char character)
{
    return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
           (character >= '0' && character <= '9') || character == '.' || character == '+' ||
           character == '-' || character == '_' || (unsigned char)character > 127;
}

static void text_name(struct text *text, const char *name)
{
    for (; *name; name++)
        text_character(text, is_harmless(*name) ? *name : '_');
}

static void text_process(struct text *text, const struct output_names *names)
{
    text_decimal(text, (uint64_t)names->process_id);
    if (names->program_number < 2) return;
    text_character(text, '.');
    text_decimal(text, names->program_number);
}

const char *output_name_last(const char *path)
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
            text_character(&text, *name);
            continue;
        }
        switch (*++name) {
        case 'p':
        case 'P': text_process(&text, names); break;
        case 'h': text_name(&text, names->host); break;
        case 't': text_decimal(&text, names->time_s); break;
        case 'e': text_name(&text, output_name_last(names->program)); break;
        case '%': text_character(&text, '%'); break;
        default: return -EINVAL;
        }
    }
    return text_end(&text) ? (int)text.used : -ENAMETOOLONG;
}

bool output_name_has_process(const char *name)
{
    for (; *name; name++) {
        if (*name != '%') continue;
        if (*++name == 'p' || *name == 'P') return true;
        if (!*name) return false;
    }
    return false;
}

bool output_name_make_follow(char *name)
{
    bool had_any = false;
    for (; *name; name++) {
        if (*name != '%') continue;
        if (*++name == 'p') *name = 'P', had_any = true;
        if (!*name) break;
    }
    return had_any;
}

int output_name_descriptor(const char *name)
{
    if (strncmp(name, "fd:", 3) != 0) return -1;
    const char *digits = name + 3;
    size_t count = strspn(digits, "0123456789");
    bool is_number = count > 0 && count <= DESCRIPTOR_DIGITS_MAX && !digits[count];
    return is_number ? (int)text_read_decimal(digits) : -1;
}
