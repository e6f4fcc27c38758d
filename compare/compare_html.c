/* The page of compare (page/html_page.h). */
#include "compare/compare_html.h"

#include <string.h>

#include "common/json_file.h"
#include "compare/compare_json.h"
#include "compare/compare_table.h"
#include "compare/compare_warnings.h"
#include "compare/verdict.h"
#include "page/html_page.h"

#ifndef COMPARE_DIRECTORY
#error "the build gives COMPARE_DIRECTORY, where page.js is"
#endif

HTML_EMBED(compare_page_js, HTML_FILE(COMPARE_DIRECTORY "/page.js"));

/* Prints the verdict, what the program had, and the warnings. */
static void compare_html_print_notices(const void *of, FILE *to)
{
    const struct compare *compare = of;
    char text[4096];
    fprintf(to, "%s\n", compare_headline(compare, text, sizeof text));
    fprintf(to, "%s\n", compare_verdict_text(compare, text, sizeof text));
    fprintf(to, "%s\n", compare_original_text(compare, text, sizeof text));
    for (size_t i = 0; i < compare->warnings_count; i++) {
        const struct compare_warning *warning = &compare->warnings[i];
        const char *label = warning->row != NULL ? warning->row->label : "";
        fprintf(to, "! %s%s%s\n", label, *label != '\0' ? ": " : "", warning->text);
    }
    for (size_t i = 0; i < compare->rows_count; i++)
        if (*compare->rows[i].why != '\0')
            fprintf(to, "! %s: %s\n", compare->rows[i].label, compare->rows[i].why);
}

static void compare_html_print_text(const void *of, FILE *to)
{
    compare_table_print(of, to);
}

/* How the script is to show each number. */
static json_t *json_shown(const struct compare *compare)
{
    json_t *shown = json_array();
    for (const struct compare_number *number = compare_numbers; number->key != NULL; number++) {
        json_t *one = json_object(), *spoiled = json_array();
        json_put_text(one, "key", number->key);
        json_put_text(one, "group", compare_group(compare, number));
        json_put_text(one, "title", number->title);
        json_put_text(one, "unit", number->unit);
        json_put_real(one, "scale", number->scale);
        json_put_number(one, "decimals", (uint64_t)number->decimals);
        for (size_t i = 0; i < compare->rows_count; i++)
            json_array_append_new(
                spoiled, json_boolean(compare_is_spoiled(compare, &compare->rows[i], number->key)));
        json_object_set_new(one, "spoiled", spoiled);
        json_array_append_new(shown, one);
    }
    return shown;
}

bool compare_html_write(const struct compare *compare, const char *path, char *why,
                        size_t why_bytes)
{
    const char *program = json_string_value(json_object_get(compare->null_report, "program"));
    json_t *data = compare_json(compare, false);
    char title[512];
    json_object_set_new(data, "shown", json_shown(compare));
    snprintf(title, sizeof title, "%.400s under several allocators",
             program != NULL && *program != '\0' ? basename(program) : compare->options.trace);
    return html_page_write(&(struct html_page){title, compare_html_print_notices,
                                               compare_html_print_text, compare, data,
                                               compare_page_js},
                           path, why, why_bytes);
}
