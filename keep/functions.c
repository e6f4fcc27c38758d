#include "keep/functions.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/printable.h"
#include "common/progress.h"

void functions_open(struct functions *functions)
{
    *functions = (struct functions){.looked_s = 0};
    pthread_mutex_init(&functions->lock, NULL);
    pthread_mutex_init(&functions->looking, NULL);
}

void functions_close(struct functions *functions)
{
    function_table_free(&functions->now);
    function_table_free(&functions->first);
}

/* ---- looking ---- */

static bool functions_is_time(struct functions *functions)
{
    pthread_mutex_lock(&functions->lock);
    const double passed = seconds_now() - functions->looked_s;
    const bool is_time = functions->looked_s == 0 || (passed >= FUNCTIONS_EVERY_S &&
                                                      passed >= FUNCTIONS_REST * functions->took_s);
    pthread_mutex_unlock(&functions->lock);
    return is_time;
}

static void functions_take(struct functions *functions, struct function_table *table,
                           double started_s)
{
    pthread_mutex_lock(&functions->lock);
    if (functions->first_s == 0) {
        functions->first = *table;
        functions->first_s = started_s;
    } else {
        function_table_free(&functions->now);
        functions->now = *table;
    }
    pthread_mutex_unlock(&functions->lock);
}

void functions_look(struct functions *functions, struct keeper *keeper)
{
    struct function_table table = {.count = 0};
    struct error error = {0};
    char trace[PATH_MAX];
    if (!functions_is_time(functions) || pthread_mutex_trylock(&functions->looking) != 0) return;
    const double started_s = seconds_now();
    snprintf(trace, sizeof trace, "%s/" KEEPER_ANSWER ".functions.lz4", keeper->options->directory);
    const bool good =
        keeper_write_live(keeper, trace, &error) && function_table_take(&table, trace, "end");
    unlink(trace);
    function_table_merge(&table);
    if (good)
        functions_take(functions, &table, started_s);
    else
        function_table_free(&table);
    pthread_mutex_lock(&functions->lock);
    functions->looked_s = seconds_now();
    functions->took_s = functions->looked_s - started_s;
    pthread_mutex_unlock(&functions->lock);
    pthread_mutex_unlock(&functions->looking);
}

/* ---- showing ---- */

static int64_t function_growth(const struct functions *functions, size_t i)
{
    const struct function_row *row = &functions->now.rows[i];
    return (int64_t)(row->bytes - function_table_bytes(&functions->first, row->name));
}

/* The rows that have grown most, those first. Returns how many. */
static size_t functions_growing(const struct functions *functions, size_t rows[FUNCTIONS_SHOWN])
{
    size_t count = 0;
    for (size_t i = 0; i < functions->now.count; i++) {
        const int64_t growth = function_growth(functions, i);
        size_t at = count;
        if (growth <= 0) continue;
        while (at > 0 && function_growth(functions, rows[at - 1]) < growth)
            at--;
        if (at == FUNCTIONS_SHOWN) continue;
        count += count < FUNCTIONS_SHOWN;
        memmove(rows + at + 1, rows + at, (count - 1 - at) * sizeof *rows);
        rows[at] = i;
    }
    return count;
}

/* As the value of a label: printable, and with a backslash before what would end it. */
static void function_put_name(FILE *to, const char *name)
{
    char *text = printable_copy(name, strlen(name));
    for (const char *at = text; at != NULL && *at != '\0'; at++) {
        if (*at == '\\' || *at == '"') putc('\\', to);
        putc(*at, to);
    }
    free(text);
}

static void function_put(FILE *to, const char *metric, const char *function, int64_t value)
{
    fprintf(to, "malloctape_%s{function=\"", metric);
    function_put_name(to, function);
    fprintf(to, "\"} %lld\n", (long long)value);
}

void functions_put(struct functions *functions, FILE *to)
{
    size_t rows[FUNCTIONS_SHOWN];
    pthread_mutex_lock(&functions->lock);
    const size_t count = functions_growing(functions, rows);
    if (count > 0)
        fputs(
            "# TYPE malloctape_function_growth_bytes gauge\n"
            "# HELP malloctape_function_growth_bytes What is alive of a function now, and was not "
            "when somebody first asked: the ten with most.\n",
            to);
    for (size_t i = 0; i < count; i++)
        function_put(to, "function_growth_bytes", functions->now.rows[rows[i]].name,
                     function_growth(functions, rows[i]));
    if (count > 0)
        fputs("# TYPE malloctape_function_live_bytes gauge\n"
              "# HELP malloctape_function_live_bytes What is alive of these functions.\n",
              to);
    for (size_t i = 0; i < count; i++)
        function_put(to, "function_live_bytes", functions->now.rows[rows[i]].name,
                     (int64_t)functions->now.rows[rows[i]].bytes);
    pthread_mutex_unlock(&functions->lock);
}
