#include "report/by_code_place.h"

#include <string.h>

static struct by_code_place most_of(const struct by_code *code, uint32_t row,
                                    const struct by_code_number *number)
{
    struct by_code_place place = {.most = NULL};
    double most = 0;
    unsigned count = 0;
    uint32_t line = code->lines_of[row];
    for (; line != 0 && line != CODE_GROUP_NONE; line = code->next_line[line - 1]) {
        const double value = by_code_sum_of(&code->in_lines[line - 1], number)->value;
        if (value < 0.5) continue;
        count++;
        if (value <= most) continue;
        most = value;
        place.most = &code->lines.groups[line - 1].frame;
    }
    place.others = count > 0 ? count - 1 : 0;
    return place;
}

struct by_code_place by_code_place_of(const struct by_code *code, uint32_t row,
                                      const struct by_code_number *number)
{
    const enum code_by by = code->groups.by;
    if (by == CODE_BY_LINE || by == CODE_BY_STACK)
        return (struct by_code_place){.most = &code->groups.groups[row].frame};
    struct by_code_place place = most_of(code, row, number);
    if (place.most == NULL) place = most_of(code, row, &by_code_numbers[0]);
    if (place.most == NULL) place = most_of(code, row, &by_code_numbers[BY_CODE_FREED]);
    return place;
}

void by_code_print_frame(const struct by_code *code, const struct code_frame *frame, bool whole,
                         FILE *to)
{
    const char *file = code_names_text(&code->names, frame->file);
    const char *module = code_names_text(&code->names, frame->module);
    const char *text = *file != '\0' ? file : module;
    fputs(whole ? text : basename(text), to);
    if (*file != '\0') fprintf(to, ":%u", frame->line);
}

void by_code_print_one_place(const struct by_code *code, const struct by_code_place *place,
                             bool whole, FILE *to)
{
    if (place->most == NULL) return;
    by_code_print_frame(code, place->most, whole, to);
    if (place->most->line != 0 && place->others > 0)
        fprintf(to, " and %u other%s", place->others, place->others > 1 ? "s" : "");
}

void by_code_print_whole_place(const struct by_code *code, uint32_t row,
                               const struct by_code_number *number, bool whole, FILE *to)
{
    const struct by_code_place place = by_code_place_of(code, row, number);
    by_code_print_one_place(code, &place, whole, to);
}

bool by_code_has_place(const struct by_code *code)
{
    return code->groups.by == CODE_BY_FUNCTION || code->groups.by == CODE_BY_STACK;
}

void by_code_print_place(const struct by_code *code, uint32_t row,
                         const struct by_code_number *number, FILE *to)
{
    if (!by_code_has_place(code) || by_code_place_of(code, row, number).most == NULL) return;
    fputs("  ", to);
    by_code_print_whole_place(code, row, number, false, to);
}
