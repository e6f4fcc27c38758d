#include "cli/top_functions.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/kept.h"
#include "common/numbers.h"
#include "common/printable.h"
#include "common/progress.h"

/* Looking takes processor time: every few seconds, and half of the time at most. */
enum { FUNCTIONS_EVERY_S = 4, FUNCTIONS_REST = 2, FUNCTIONS_SHOWN = 4 };

/* ---- one look ---- */

void top_functions_reset(struct top_functions *functions)
{
    if (functions->since.rows != functions->now.rows) function_table_free(&functions->since);
    functions->since = functions->now;
    functions->since_s = functions->looked_s;
}

void top_functions_look(struct top_functions *functions)
{
    char trace[PATH_MAX], answer[600];
    const char *directory = getenv("TMPDIR");
    const double start = seconds_now(), passed = start - functions->looked_s;
    if (functions->looked_s > 0 &&
        (passed < FUNCTIONS_EVERY_S || passed < FUNCTIONS_REST * functions->took_s))
        return;
    snprintf(trace, sizeof trace, "%s/malloctape-top-XXXXXX.lz4",
             directory != NULL && *directory == '/' ? directory : "/tmp");
    const int file = mkostemps(trace, 4, O_CLOEXEC);
    if (file < 0) return;
    close(file);
    struct function_table table = {.count = 0};
    functions->is_there =
        kept_request(functions->process, "recent", trace, answer, sizeof answer) &&
        function_table_take(&table, trace, "end") && function_table_take(&table, trace, "calls");
    unlink(trace);
    function_table_merge(&table);
    if (functions->now.rows != functions->since.rows) function_table_free(&functions->now);
    functions->now = table;
    functions->looked_s = seconds_now();
    functions->took_s = functions->looked_s - start;
    if (functions->is_there && functions->since_s == 0) top_functions_reset(functions);
}

/* ---- what is shown ---- */

static int64_t top_function_growth(const struct top_functions *functions, size_t i)
{
    const struct function_row *row = &functions->now.rows[i];
    return (int64_t)(row->bytes - function_table_bytes(&functions->since, row->name));
}

static uint64_t top_function_calls(const struct top_functions *functions, size_t i)
{
    return functions->now.rows[i].calls;
}

/* The row with the greatest value below `limit`, or count. */
static size_t top_functions_next(const struct top_functions *functions, bool by_calls,
                                 const bool *shown)
{
    size_t best = functions->now.count;
    int64_t most = 0;
    for (size_t i = 0; i < functions->now.count; i++) {
        const int64_t value = by_calls ? (int64_t)top_function_calls(functions, i)
                                       : top_function_growth(functions, i);
        if (shown[i] || value <= most) continue;
        most = value;
        best = i;
    }
    return best;
}

static void top_functions_print_line(const struct top_functions *functions, bool by_calls)
{
    uint64_t all = 0;
    bool *shown = calloc(functions->now.count + 1, sizeof *shown);
    if (shown == NULL) return;
    for (size_t i = 0; i < functions->now.count; i++)
        all += functions->now.rows[i].calls;
    for (unsigned n = 0; n < FUNCTIONS_SHOWN; n++) {
        const size_t i = top_functions_next(functions, by_calls, shown);
        if (i == functions->now.count) break;
        const struct function_row *row = &functions->now.rows[i];
        shown[i] = true;
        if (by_calls)
            printf("%s%5.1f %%  ", n > 0 ? "         " : "churns   ",
                   100.0 * (double)row->calls / (double)all);
        else
            printf("%s%+.1f of %.1f MiB  ", n > 0 ? "         " : "grows    ",
                   (double)top_function_growth(functions, i) / MIB, (double)row->bytes / MIB);
        printable_print(stdout, row->name, strlen(row->name));
        putchar('\n');
    }
    free(shown);
}

void top_functions_print(const struct top_functions *functions)
{
    if (!functions->is_there) return;
    top_functions_print_line(functions, true);
    if (functions->looked_s > functions->since_s) {
        printf("for %.0f s (r: from now on)\n", functions->looked_s - functions->since_s);
        top_functions_print_line(functions, false);
    }
}
