#include "symbols/suppressions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

/* What is made once, and never freed: memory for exceptions when there is no other, and the loader's
 * tables. Functions that are not exported have no names in most systems. */
static const char *const known[] = {
    "^libstdc++.so*+0x", "__gnu_cxx::__freeres", "pool::pool",   "^_dl_",
    "^ld-linux*+0x",     "^add_to_global",       "^allocate_dtv"};

/* ---- patterns ---- */

/* Where `part`, of `length` bytes without a star, is found in the text; NULL: nowhere. */
static const char *part_find(const char *text, const char *part, size_t length)
{
    for (; strlen(text) >= length; text++)
        if (memcmp(text, part, length) == 0) return text;
    return NULL;
}

bool suppression_fits(const char *pattern, const char *name)
{
    const char *end = pattern + strlen(pattern);
    const bool from_begin = *pattern == '^', to_end = end > pattern && end[-1] == '$';
    bool is_first = true;
    pattern += from_begin;
    end -= to_end;
    for (;;) {
        const char *star = memchr(pattern, '*', (size_t)(end - pattern));
        const size_t length = (size_t)((star != NULL ? star : end) - pattern);
        const char *at = part_find(name, pattern, length);
        if (at == NULL || (is_first && from_begin && at != name)) return false;
        if (star == NULL && to_end) { /* the last part must be at the end, and after the others */
            const size_t all = strlen(name);
            if (is_first && from_begin) return all == length;
            return memcmp(name + all - length, pattern, length) == 0;
        }
        if (star == NULL) return true;
        name = at + length;
        pattern = star + 1;
        is_first = false;
    }
}

/* ---- lists ---- */

static bool suppressions_add(struct suppressions *suppressions, const char *pattern, bool innermost)
{
    if (!array_reserve(&suppressions->at, &suppressions->room, suppressions->count + 1,
                       sizeof *suppressions->at))
        return false;
    char *copy = strdup(pattern);
    if (copy == NULL) return false;
    suppressions->at[suppressions->count++] = (struct suppression){copy, innermost};
    return true;
}

bool suppressions_add_known(struct suppressions *suppressions)
{
    bool good = true;
    for (size_t i = 0; good && i < sizeof known / sizeof *known; i++)
        good = suppressions_add(suppressions, known[i], true);
    return good;
}

/* Takes a line of a file. NULL, or what is wrong with it. */
static const char *take_line(struct suppressions *suppressions, char *line)
{
    static const char leak[] = "leak:", made[] = "made:";
    line[strcspn(line, "\r\n")] = '\0';
    line += strspn(line, " \t");
    if (*line == '\0' || *line == '#') return NULL;
    const bool innermost = strncmp(line, made, sizeof made - 1) == 0;
    if (!innermost && strncmp(line, leak, sizeof leak - 1) != 0)
        return "begins with neither leak: nor made:";
    if (line[sizeof leak - 1] == '\0') return "has no pattern";
    return suppressions_add(suppressions, line + sizeof leak - 1, innermost) ? NULL : "no memory";
}

bool suppressions_read(struct suppressions *suppressions, const char *path, char *why,
                       size_t why_bytes)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    const char *wrong = NULL;
    if (file == NULL) {
        snprintf(why, why_bytes, "%s", strerror(errno));
        return false;
    }
    for (unsigned at = 1; wrong == NULL && getline(&line, &room, file) >= 0; at++) {
        wrong = take_line(suppressions, line);
        if (wrong != NULL) snprintf(why, why_bytes, "line %u %s", at, wrong);
    }
    const bool failed = ferror(file);
    if (wrong == NULL && failed) snprintf(why, why_bytes, "%s", strerror(errno));
    free(line);
    fclose(file);
    return wrong == NULL && !failed;
}

void suppressions_free(struct suppressions *suppressions)
{
    for (size_t i = 0; i < suppressions->count; i++)
        free(suppressions->at[i].pattern);
    free(suppressions->at);
    *suppressions = (struct suppressions){.at = NULL};
}

/* ---- stacks ---- */

enum { IS_ASKED = 1, FITS_ANYWHERE = 2, FITS_INNERMOST = 4 };

static unsigned fits_of(const struct suppressions *suppressions, const struct code_names *names,
                        const struct code_frame *frame)
{
    const char *const texts[] = {code_names_text(names, frame->function),
                                 code_names_text(names, frame->file),
                                 code_names_text(names, frame->module)};
    unsigned fits = IS_ASKED;
    for (size_t i = 0; i < suppressions->count; i++)
        for (unsigned k = 0; k < sizeof texts / sizeof *texts; k++)
            if (suppression_fits(suppressions->at[i].pattern, texts[k]))
                fits |= suppressions->at[i].innermost ? FITS_INNERMOST : FITS_ANYWHERE;
    return fits;
}

void suppressions_find(const struct suppressions *suppressions, const struct stack_tally *tally,
                       const struct code_names *names, uint8_t *listed)
{
    uint32_t frames[CODE_FRAMES_MAX];
    uint8_t *fits = calloc(names->count + 1, 1); /* by frame; without memory, nothing is left out */
    for (size_t i = 0; fits != NULL && suppressions->count > 0 && i < tally->stacks_count; i++) {
        const unsigned count = code_names_walk(names, tally->stacks[i], frames);
        for (unsigned k = 0; k < count; k++) {
            uint8_t *of = &fits[frames[k]];
            if (*of == 0) *of = (uint8_t)fits_of(suppressions, names, &names->frames[frames[k]]);
            if ((*of & FITS_ANYWHERE) != 0 || (k == 0 && (*of & FITS_INNERMOST) != 0))
                listed[i] = 1;
        }
    }
    free(fits);
}
