#include "common/numbers.h"

#include <inttypes.h>
#include <jansson.h>

#include "common/call_table.h"
#include "common/json_file.h"

const char *number_grouped(char room[NUMBER_GROUPED], uint64_t number)
{
    char digits[24], *to = room;
    const int length = snprintf(digits, sizeof digits, "%" PRIu64, number);
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) *to++ = ' ';
        *to++ = digits[i];
    }
    *to = '\0';
    return room;
}

static const struct {
    double part; /* what is 1 in the text */
    int decimals;
    const char *name;
} units[] = {
    [UNIT_COUNT] = {1, 0, ""},
    [UNIT_BYTES] = {1024 * 1024, 1, " MiB"},
    [UNIT_MS] = {1e3, 3, " s"},
    [UNIT_NS] = {1e9, 3, " s"},
    [UNIT_SECONDS] = {1, 6, " s"},
    [UNIT_PER_EVENT] = {1, 3, " per event"},
    [UNIT_CPU] = {1, 3, " s"},
    [UNIT_RATE] = {1, 0, ""},
    [UNIT_NS_EACH] = {1, 2, " ns per event"},
    [UNIT_SHARE] = {0.01, 1, " %"},
    [UNIT_TIMES] = {1, 2, " times"},
};

void numbers_print(void *of, const struct number *numbers, size_t count)
{
    const struct numbers_text *text = of;
    const char *end = "";
    for (const struct number *one = numbers; one < numbers + count; one++) {
        if (one->words == NULL || one->value < 0) continue;
        if (one->words[0] == '\0' || one->words[0] == ',')
            fputs(one->words[0] == '\0' ? ", " : one->words, text->to);
        else
            fprintf(text->to, "%s%-*s ", end, text->width, one->words);
        if (text->value != NULL)
            fprintf(text->to, "%s%s", text->value(one->unit, one->value), one->after);
        else
            fprintf(text->to, "%.*Lf%s%s", units[one->unit].decimals,
                    one->value / units[one->unit].part, units[one->unit].name, one->after);
        end = "\n";
    }
    fputs(end, text->to);
}

void numbers_print_kinds(const struct numbers_text *text, const uint64_t *by_kind)
{
    for (unsigned kind = 0; kind < CALL_KINDS; kind++)
        if (by_kind[kind] > 0)
            fprintf(text->to, "  %-*s %" PRIu64 "\n", text->width - 2, call_names[kind],
                    by_kind[kind]);
}

void numbers_put(void *of, const struct number *numbers, size_t count)
{
    for (const struct number *one = numbers; one < numbers + count; one++) {
        if (one->key == NULL) continue;
        json_t *value = json_null();
        if (one->value >= 0)
            value =
                one->unit < UNIT_SECONDS ? json_whole(one->value) : json_real((double)one->value);
        json_object_set_new(of, one->key, value != NULL ? value : json_null());
    }
}
