#include "cli/top_functions.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/kept.h"
#include "common/array.h"
#include "common/numbers.h"
#include "common/printable.h"
#include "common/program.h"
#include "common/progress.h"
#include "launch/installed.h"
#include "launch/process.h"

/* Looking takes processor time: every few seconds, and half of the time at most. */
enum { FUNCTIONS_EVERY_S = 4, FUNCTIONS_REST = 2, FUNCTIONS_SHOWN = 4 };

/* ---- tables ---- */

static int top_function_order(const void *one, const void *other)
{
    return strcmp(((const struct top_function *)one)->name,
                  ((const struct top_function *)other)->name);
}

static void top_table_free(struct top_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        free(table->rows[i].name);
    free(table->rows);
    *table = (struct top_table){.count = 0};
}

/* One row for each name. */
static void top_table_merge(struct top_table *table)
{
    size_t kept = 0;
    if (table->count > 0) qsort(table->rows, table->count, sizeof *table->rows, top_function_order);
    for (size_t i = 0; i < table->count; i++) {
        struct top_function *row = &table->rows[i], *last = &table->rows[kept - (kept > 0)];
        if (kept == 0 || strcmp(last->name, row->name) != 0) {
            table->rows[kept++] = *row;
            continue;
        }
        last->bytes += row->bytes;
        last->calls += row->calls;
        free(row->name);
    }
    table->count = kept;
}

static uint64_t top_table_bytes(const struct top_table *table, const char *name)
{
    const struct top_function key = {.name = (char *)name};
    const struct top_function *found =
        table->count > 0 ? bsearch(&key, table->rows, table->count, sizeof key, top_function_order)
                         : NULL;
    return found != NULL ? found->bytes : 0;
}

/* ---- one look ---- */

/* A line "outer;...;inner NUMBER". */
static void top_table_take_line(struct top_table *table, char *line, bool is_calls)
{
    char *number = strrchr(line, ' ');
    if (number == NULL ||
        !array_reserve(&table->rows, &table->room, table->count + 1, sizeof *table->rows))
        return;
    *number++ = '\0';
    const char *name = strrchr(line, ';');
    struct top_function row = {.name = strdup(name != NULL ? name + 1 : line)};
    *(is_calls ? &row.calls : &row.bytes) = strtoull(number, NULL, 10);
    if (row.name != NULL) table->rows[table->count++] = row;
}

/* Adds a measure of the trace. */
static bool top_table_take(struct top_table *table, const char *trace, const char *measure)
{
    char folded[PATH_MAX], *line = NULL;
    size_t room = 0;
    struct installed program;
    pid_t process;
    int status;
    snprintf(folded, sizeof folded, "%.*s.folded", PATH_MAX - 16, trace);
    const char *const words[] = {"malloctape", "export",    "--quiet", "--to", "folded", "-o",
                                 folded,       "--measure", measure,   trace,  NULL};
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    const struct child child = {.words = (char *const *)words,
                                .path = program.path,
                                .input = -1,
                                .output = nowhere,
                                .error = nowhere};
    const bool started =
        installed_find_program(&program, "malloctape") && child_start(&child, &process) == 0;
    if (nowhere >= 0) close(nowhere);
    if (!started || waitpid(process, &status, 0) != process) return false;
    FILE *file = fopen(folded, "re");
    while (file != NULL && getline(&line, &room, file) > 0)
        top_table_take_line(table, line, strcmp(measure, "calls") == 0);
    if (file != NULL) fclose(file);
    free(line);
    unlink(folded);
    return WIFEXITED(status) &&
           (WEXITSTATUS(status) == PROGRAM_OK || WEXITSTATUS(status) == PROGRAM_CUT);
}

void top_functions_reset(struct top_functions *functions)
{
    if (functions->since.rows != functions->now.rows) top_table_free(&functions->since);
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
    struct top_table table = {.count = 0};
    functions->is_there =
        kept_request(functions->process, "recent", trace, answer, sizeof answer) &&
        top_table_take(&table, trace, "end") && top_table_take(&table, trace, "calls");
    unlink(trace);
    top_table_merge(&table);
    if (functions->now.rows != functions->since.rows) top_table_free(&functions->now);
    functions->now = table;
    functions->looked_s = seconds_now();
    functions->took_s = functions->looked_s - start;
    if (functions->is_there && functions->since_s == 0) top_functions_reset(functions);
}

/* ---- what is shown ---- */

static int64_t top_function_growth(const struct top_functions *functions, size_t i)
{
    const struct top_function *row = &functions->now.rows[i];
    return (int64_t)(row->bytes - top_table_bytes(&functions->since, row->name));
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
        const struct top_function *row = &functions->now.rows[i];
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
