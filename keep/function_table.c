#include "keep/function_table.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/array.h"
#include "common/program.h"
#include "launch/installed.h"
#include "launch/process.h"

static int function_row_order(const void *one, const void *other)
{
    return strcmp(((const struct function_row *)one)->name,
                  ((const struct function_row *)other)->name);
}

void function_table_free(struct function_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        free(table->rows[i].name);
    free(table->rows);
    *table = (struct function_table){.count = 0};
}

void function_table_merge(struct function_table *table)
{
    size_t kept = 0;
    if (table->count > 0) qsort(table->rows, table->count, sizeof *table->rows, function_row_order);
    for (size_t i = 0; i < table->count; i++) {
        struct function_row *row = &table->rows[i], *last = &table->rows[kept - (kept > 0)];
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

uint64_t function_table_bytes(const struct function_table *table, const char *name)
{
    const struct function_row key = {.name = (char *)name};
    const struct function_row *found =
        table->count > 0 ? bsearch(&key, table->rows, table->count, sizeof key, function_row_order)
                         : NULL;
    return found != NULL ? found->bytes : 0;
}

static bool function_is_of_library(const char *name)
{
    return strncmp(name, "std::", 5) == 0 || strncmp(name, "__gnu_cxx::", 11) == 0;
}

/* The innermost function of "outer;...;inner" that is not of C++'s library, or the innermost. */
static const char *function_of_stack(char *stack)
{
    char *cut = strrchr(stack, ';');
    const char *const innermost = cut != NULL ? cut + 1 : stack;
    const char *own = innermost;
    while (function_is_of_library(own) && cut != NULL) {
        *cut = '\0';
        cut = strrchr(stack, ';');
        own = cut != NULL ? cut + 1 : stack;
    }
    return function_is_of_library(own) ? innermost : own;
}

/* A line "outer;...;inner NUMBER". */
static void function_table_take_line(struct function_table *table, char *line, bool is_calls)
{
    char *number = strrchr(line, ' ');
    if (number == NULL ||
        !array_reserve(&table->rows, &table->room, table->count + 1, sizeof *table->rows))
        return;
    *number++ = '\0';
    struct function_row row = {.name = strdup(function_of_stack(line))};
    *(is_calls ? &row.calls : &row.bytes) = strtoull(number, NULL, 10);
    if (row.name != NULL) table->rows[table->count++] = row;
}

bool function_table_take(struct function_table *table, const char *trace, const char *measure)
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
        function_table_take_line(table, line, strcmp(measure, "calls") == 0);
    if (file != NULL) fclose(file);
    free(line);
    unlink(folded);
    return WIFEXITED(status) &&
           (WEXITSTATUS(status) == PROGRAM_OK || WEXITSTATUS(status) == PROGRAM_CUT);
}
