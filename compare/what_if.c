#include "compare/what_if.h"

#include <stdlib.h>
#include <string.h>

#include "change/change_text.h"
#include "common/json_file.h"
#include "common/progress.h"
#include "common/terminal.h"
#include "compare/compare_run.h"

size_t compare_what_if_rows(const struct compare_options *options)
{
    const size_t entries = options->list.count > 0 ? options->list.count : 1;
    return entries * options->what_ifs_count;
}

static bool what_if_write(struct compare *compare, const struct change_trace *trace,
                          struct compare_changed *changed, char *why, size_t why_bytes)
{
    char name[32];
    snprintf(name, sizeof name, "changed-%zu", (size_t)(changed - compare->changed));
    process_directory_path(&compare->directory, name, changed->ordered, sizeof changed->ordered);
    return change_stream_write(trace, changed->list, changed->ordered, &changed->result, why,
                               why_bytes) &&
           compare_run_null_changed(compare, changed, why, why_bytes);
}

/* Writes all changed streams. */
static bool what_if_write_all(struct compare *compare, char *why, size_t why_bytes)
{
    const struct compare_options *options = &compare->options;
    struct change_trace trace;
    bool good = change_trace_open(&trace, compare->ordered, options->places, why, why_bytes);
    for (unsigned i = 0; good && i < options->what_ifs_count; i++) {
        compare->changed[i].list = &options->what_ifs[i];
        progress_text("changing the trace");
        good = what_if_write(compare, &trace, &compare->changed[i], why, why_bytes);
    }
    change_trace_close(&trace);
    return good;
}

bool compare_what_if_open(struct compare *compare, char *why, size_t why_bytes)
{
    const struct compare_options *options = &compare->options;
    const size_t asked = options->list.count, rows = compare->rows_count;
    if (options->what_ifs_count == 0) return true;
    if (rows == 0)
        return error_explain(why, why_bytes,
                             "the recorded allocator is not known here: name one or more with "
                             "--allocators");
    compare->changed = calloc(options->what_ifs_count, sizeof *compare->changed);
    if (compare->changed == NULL) return error_explain(why, why_bytes, "no memory");
    if (!what_if_write_all(compare, why, why_bytes)) return false;
    for (unsigned i = 0; i < options->what_ifs_count; i++)
        for (size_t of = 0; of < (asked > 0 ? asked : 1); of++)
            if (!compare_row_is_nothing(&compare->rows[of]))
                compare_row_open_changed(&compare->rows[compare->rows_count++],
                                         compare->rows[of].entry, &compare->changed[i]);
    return true;
}

void compare_what_if_close(struct compare *compare)
{
    for (unsigned i = 0; compare->changed != NULL && i < compare->options.what_ifs_count; i++)
        json_decref(compare->changed[i].null_report);
    free(compare->changed);
    compare->changed = NULL;
}

void compare_what_if_print(const struct compare_row *row, bool counts, FILE *to)
{
    char text[2048], did[512];
    if (row->changed == NULL) return;
    const struct change_list *list = row->changed->list;
    for (size_t i = 0; i < list->count; i++) {
        change_count_text(&list->at[i], &row->changed->result.of[i], did, sizeof did);
        snprintf(text, sizeof text, "%.1500s%s%s", list->at[i].text, counts ? ": " : "",
                 counts ? did : "");
        const int at = fprintf(to, "  if ");
        terminal_print_wrapped(text, at, at, to);
    }
}

json_t *compare_what_if_json(const struct compare_row *row)
{
    if (row->changed == NULL) return json_null();
    json_t *object = json_object();
    json_put_text(object, "text", row->changed->list->text);
    json_object_set_new(object, "changes",
                        change_result_json(row->changed->list, &row->changed->result));
    return object;
}
