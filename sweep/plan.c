#include "sweep/plan.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocators/known.h"
#include "common/error.h"
#include "common/json_file.h"
#include "launch/allocators.h"
#include "reading/stream.h"
#include "stream/checksum.h"
#include "sweep/plan_line.h"

enum { RUNS_DEFAULT = 5, RUNS_MAX = 1000, ENTRIES_PER_TASK = 8, ENTRIES_PER_TASK_MAX = 1000 };
enum { SETTINGS_MAX = 66 }; /* of an entry */

/* The most bytes of a plan; and how much of each end of a trace is in its checksum. */
enum { PLAN_BYTES_MAX = 16 << 20, END_BYTES = 1 << 20 };

#define COMMON_MEMBERS \
    "allocators", "search", "engine", "runs", "time_limit", "latency", "replay_options"

struct parser {
    const char *path; /* of the plan */
    char *text;
    struct plan *plan;
    char *why;
    size_t why_bytes;
};

/* A value and its place in the plan. */
struct found {
    json_t *value; /* NULL: not there */
    struct plan_place place;
};

static bool wrong(const struct parser *parser, const struct plan_place *place, const char *message,
                  ...) __attribute__((format(printf, 3, 4)));
static bool wrong(const struct parser *parser, const struct plan_place *place, const char *message,
                  ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, message);
    vsnprintf(text, sizeof text, message, arguments);
    va_end(arguments);
    return error_explain(parser->why, parser->why_bytes, "%s:%u: %s", parser->path,
                         plan_line(parser->text, place), text);
}

static bool plan_no_memory(const struct parser *parser)
{
    return error_explain(parser->why, parser->why_bytes, "no memory");
}

/* ---- members ---- */

static bool check_members(const struct parser *parser, const struct found *object,
                          const char *const *names)
{
    const char *key;
    json_t *value;
    json_object_foreach(object->value, key, value)
    {
        size_t at = 0;
        while (names[at] != NULL && strcmp(names[at], key) != 0)
            at++;
        const struct plan_place place = {&object->place, key, 0};
        if (names[at] == NULL) return wrong(parser, &place, "there is no member '%s'", key);
    }
    return true;
}

static struct found member_of(const struct found *object, const char *name)
{
    return (struct found){json_object_get(object->value, name), {&object->place, name, 0}};
}

/* The member of the row if it has it, else (also if `row` is NULL) that of the plan. */
static struct found plan_member(const struct found *plan, const struct found *row, const char *name)
{
    if (row != NULL && json_object_get(row->value, name) != NULL) return member_of(row, name);
    return member_of(plan, name);
}

static struct found element(const struct found *array, size_t index)
{
    return (struct found){json_array_get(array->value, index), {&array->place, NULL, index}};
}

/* A list that is not empty. */
static bool is_list(const struct parser *parser, const struct found *found, const char *what)
{
    if (json_array_size(found->value) > 0) return true;
    return wrong(parser, &found->place, "%s is not a list, or it is empty", what);
}

/* ---- entries ---- */

static void put_escaped(FILE *to, const char *text, const char *escaped)
{
    for (; *text != '\0'; text++) {
        if (strchr(escaped, *text) != NULL) fputc('\\', to);
        fputc(*text, to);
    }
}

char *plan_entry_text(const struct compare_entry *entry)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (to == NULL) return NULL;
    put_escaped(to, entry->allocator, ":,\\");
    for (size_t i = 0; i < entry->settings_count; i++) {
        fprintf(to, "%c%s=", i == 0 ? ':' : ';', entry->settings[i].name);
        put_escaped(to, entry->settings[i].value, ";,\\");
    }
    if (fclose(to) == 0) return text;
    free(text);
    return NULL;
}

static bool plan_is_equal(const struct compare_entry *one, const struct compare_entry *other)
{
    if (strcmp(one->allocator, other->allocator) != 0 ||
        one->settings_count != other->settings_count)
        return false;
    for (size_t i = 0; i < one->settings_count; i++)
        if (strcmp(one->settings[i].name, other->settings[i].name) != 0 ||
            strcmp(one->settings[i].value, other->settings[i].value) != 0)
            return false;
    return true;
}

/* Drops entries after the first `count` that equal one before them. */
static void drop_doubles(struct compare_list *list, size_t count)
{
    for (size_t i = count; i < list->count;) {
        size_t at = 0;
        while (at < i && !plan_is_equal(&list->entries[at], &list->entries[i]))
            at++;
        if (at < i)
            compare_list_drop(list, i);
        else
            i++;
    }
}

/* Checks a text that becomes part of a line of commands. */
static bool is_line(const struct parser *parser, const struct plan_place *place, const char *text)
{
    if (strpbrk(text, "\t\n") == NULL) return true;
    return wrong(parser, place, "a string has a tab or a newline in it");
}

/* Adds a text in the form of --allocators, with one or several entries. */
static bool add_text(struct parser *parser, const struct plan_place *place, const char *text,
                     struct compare_list *list)
{
    char why[256];
    const size_t before = list->count;
    if (!is_line(parser, place, text)) return false;
    if (!compare_list_add(list, text, why, sizeof why)) return wrong(parser, place, "%s", why);
    for (size_t i = before; i < list->count; i++)
        if (!allocators_know(list->entries[i].allocator))
            return wrong(parser, place,
                         "there is no allocator '%s'; a library is named by its path",
                         list->entries[i].allocator);
    drop_doubles(list, before);
    return true;
}

/* The variable into which a setting is joined with others; NULL: its name is that of a variable. */
static const struct allocator_variable *joined_of(const char *allocator, const char *name)
{
    const char *slash = strrchr(allocator, '/');
    const char *last = slash != NULL && strncmp(allocator, "glibc:", 6) != 0 ? slash : allocator;
    for (size_t i = 0; i < ALLOCATORS; i++) {
        const struct allocator_variable *joined = &allocator_facts[i]->several[0];
        if (joined->name == NULL || strstr(last, allocator_facts[i]->name) == NULL) continue;
        if (joined->prefix != NULL ? strncmp(name, joined->prefix, strlen(joined->prefix)) == 0
                                   : islower((unsigned char)*name))
            return joined;
    }
    return NULL;
}

/* Writes a number, a text, true or false. */
static bool plan_put_value(FILE *to, const json_t *value)
{
    if (json_is_string(value)) fputs(json_string_value(value), to);
    if (json_is_boolean(value)) fputs(json_is_true(value) ? "true" : "false", to);
    if (json_is_integer(value)) fprintf(to, "%lld", (long long)json_integer_value(value));
    if (json_is_real(value)) fprintf(to, "%.15g", json_real_value(value));
    return json_is_string(value) || json_is_boolean(value) || json_is_number(value);
}

/* A setting and one of its values. */
struct setting {
    const char *name;
    const json_t *value;
};

static bool put_settings(FILE *to, const char *allocator, const struct setting *settings,
                         size_t count, const struct allocator_variable *of)
{
    bool first = true, good = true;
    for (size_t i = 0; i < count; i++) {
        if (joined_of(allocator, settings[i].name) != of) continue;
        if (!first) fputc(of != NULL ? of->separates : ';', to);
        fprintf(to, "%s%c", settings[i].name, of != NULL ? of->assigns : '=');
        good = plan_put_value(to, settings[i].value) && good;
        first = false;
    }
    return good;
}

/* Adds the entry with these settings. */
static bool add_settings(struct parser *parser, const struct plan_place *place,
                         const char *allocator, const struct setting *settings, size_t count,
                         struct compare_list *list)
{
    struct compare_setting made[SETTINGS_MAX];
    struct compare_entry entry = {(char *)allocator, made, 0};
    bool good = true;
    for (size_t i = 0; i < count && good; i++) {
        const struct allocator_variable *of = joined_of(allocator, settings[i].name);
        const char *name = of != NULL ? of->name : settings[i].name;
        size_t at = 0, bytes;
        while (at < entry.settings_count && strcmp(made[at].name, name) != 0)
            at++;
        if (at < entry.settings_count) continue;
        if (of == NULL && islower((unsigned char)*name))
            good = wrong(parser, place,
                         "%s is not an environment variable, and %s has no such "
                         "settings",
                         name, allocator);
        if (good && at == sizeof made / sizeof *made)
            good = wrong(parser, place, "too many settings");
        if (good) made[entry.settings_count++] = (struct compare_setting){(char *)name, NULL};
        FILE *to = good ? open_memstream(&made[at].value, &bytes) : NULL; /* NULL: no memory */
        const bool put =
            to != NULL && (of != NULL ? put_settings(to, allocator, settings, count, of)
                                      : plan_put_value(to, settings[i].value));
        if (to != NULL) fclose(to);
        if (good && !put)
            good = wrong(parser, place, "a value of %s is not a number, a string, true or false",
                         name);
    }
    char *text = good ? plan_entry_text(&entry) : NULL;
    if (text != NULL) good = add_text(parser, place, text, list);
    if (good && text == NULL) good = plan_no_memory(parser);
    free(text);
    for (size_t i = 0; i < entry.settings_count; i++)
        free(made[i].value);
    return good;
}

/* Adds {"allocator": ..., "settings": {...}} */
static bool add_object(struct parser *parser, const struct found *object, struct compare_list *list)
{
    static const char *const names[] = {"allocator", "settings", NULL};
    const struct found settings = member_of(object, "settings");
    const char *allocator = json_string_value(json_object_get(object->value, "allocator")), *key;
    struct setting *all = calloc(json_object_size(settings.value) + 1, sizeof *all);
    size_t count = 0;
    json_t *value;
    if (all == NULL) return plan_no_memory(parser);
    bool good = check_members(parser, object, names);
    if (good && allocator == NULL)
        good = wrong(parser, &object->place, "an entry needs an \"allocator\", a string");
    if (good && settings.value != NULL && !json_is_object(settings.value))
        good = wrong(parser, &settings.place, "\"settings\" is not an object");
    json_object_foreach(settings.value, key, value) all[count++] = (struct setting){key, value};
    good = good && add_settings(parser, &object->place, allocator, all, count, list);
    free(all);
    return good;
}

static bool add_entries(struct parser *parser, const struct found *entries,
                        struct compare_list *list)
{
    if (!is_list(parser, entries, "\"allocators\"")) return false;
    for (size_t i = 0; i < json_array_size(entries->value); i++) {
        const struct found one = element(entries, i);
        const char *text = json_string_value(one.value);
        if (text == NULL && !json_is_object(one.value))
            return wrong(parser, &one.place, "an entry must be a string or an object");
        if (text != NULL ? !add_text(parser, &one.place, text, list)
                         : !add_object(parser, &one, list))
            return false;
    }
    return true;
}

/* Adds every combination of the values of one allocator's settings; the last setting varies
 * fastest. */
static bool add_product(struct parser *parser, const char *allocator, const struct found *settings,
                        struct compare_list *list)
{
    const size_t count = json_object_size(settings->value);
    struct setting *all = calloc(count + 1, sizeof *all);
    json_t **values = calloc(count + 1, sizeof *values), *value;
    size_t combinations = count > 0, at = 0;
    const char *key;
    bool good = all != NULL && values != NULL;
    if (!good) plan_no_memory(parser);
    if (good && count == 0)
        good = wrong(parser, &settings->place, "no settings of %s to search", allocator);
    json_object_foreach(settings->value, key, value)
    {
        const struct found found = {value, {&settings->place, key, 0}};
        good = good && is_list(parser, &found, key);
        if (!good) break;
        all[at].name = key;
        values[at++] = value;
        combinations *= json_array_size(value);
        if (combinations > 10000)
            good = wrong(parser, &found.place, "more than 10000 combinations");
    }
    for (size_t one = 0; one < combinations && good; one++) {
        size_t rest = one;
        for (size_t i = count; i-- > 0; rest /= json_array_size(values[i]))
            all[i].value = json_array_get(values[i], rest % json_array_size(values[i]));
        good = add_settings(parser, &settings->place, allocator, all, count, list);
    }
    free(all);
    free(values);
    return good;
}

static bool add_search(struct parser *parser, const struct found *search, struct compare_list *list)
{
    const char *allocator;
    json_t *settings;
    if (!json_is_object(search->value))
        return wrong(parser, &search->place, "\"search\" is not an object");
    json_object_foreach(search->value, allocator, settings)
    {
        const struct found found = {settings, {&search->place, allocator, 0}};
        if (!json_is_object(settings))
            return wrong(parser, &found.place, "no settings of %s to search", allocator);
        if (!add_product(parser, allocator, &found, list)) return false;
    }
    return true;
}

/* ---- rows ---- */

static bool read_whole(struct parser *parser, const struct found *found, unsigned most,
                       unsigned *number)
{
    if (found->value == NULL) return true;
    const json_int_t value = json_integer_value(found->value);
    if (json_is_integer(found->value) && value >= 1 && value <= most) {
        *number = (unsigned)value;
        return true;
    }
    return wrong(parser, &found->place, "\"%s\" is not a number from 1 to %u", found->place.member,
                 most);
}

static bool read_options(struct parser *parser, const struct found *plan, const struct found *of,
                         struct plan_row *row)
{
    static const char *const engines[] = {"auto", "switch", "threads", "null", NULL};
    const struct found engine = plan_member(plan, of, "engine"),
                       runs = plan_member(plan, of, "runs"),
                       limit = plan_member(plan, of, "time_limit"),
                       latency = plan_member(plan, of, "latency"),
                       words = plan_member(plan, of, "replay_options");
    size_t at = 0;
    row->engine = json_string_value(engine.value);
    row->runs = RUNS_DEFAULT;
    row->limit_s = -1;
    row->latency = !json_is_false(latency.value);
    row->words = words.value;
    while (engines[at] != NULL && (row->engine == NULL || strcmp(engines[at], row->engine) != 0))
        at++;
    if (engine.value != NULL && engines[at] == NULL)
        return wrong(parser, &engine.place, "\"engine\" is not one of auto, switch, threads, null");
    if (!read_whole(parser, &runs, RUNS_MAX, &row->runs)) return false;
    if (limit.value != NULL) {
        row->limit_s = json_is_number(limit.value) ? json_number_value(limit.value) : -1;
        if (!(row->limit_s >= 0) || !isfinite(row->limit_s))
            return wrong(parser, &limit.place, "\"time_limit\" is not a number of seconds");
    }
    if (latency.value != NULL && !json_is_boolean(latency.value))
        return wrong(parser, &latency.place, "\"latency\" is neither true nor false");
    if (words.value == NULL) return true;
    if (!json_is_array(words.value))
        return wrong(parser, &words.place, "\"replay_options\" is not a list");
    for (at = 0; at < json_array_size(words.value); at++) {
        const struct found word = element(&words, at);
        if (!json_is_string(word.value)) return wrong(parser, &word.place, "not a string");
        if (!is_line(parser, &word.place, json_string_value(word.value))) return false;
    }
    return true;
}

/* Reads the size and the checksum, which tell the file from others. */
static bool read_ends(const char *path, struct plan_row *row)
{
    FILE *file = fopen(path, "re");
    uint8_t *ends = malloc(2 * END_BYTES);
    struct stat status;
    bool good = file != NULL && ends != NULL && fstat(fileno(file), &status) == 0;
    if (good) {
        const size_t first = fread(ends, 1, END_BYTES, file);
        const off_t at = status.st_size > END_BYTES ? status.st_size - END_BYTES : 0;
        good = fseeko(file, at, SEEK_SET) == 0;
        const size_t second = good ? fread(ends + END_BYTES, 1, END_BYTES, file) : 0;
        row->bytes = (uint64_t)status.st_size;
        row->checksum = checksum_of_two(ends, first, ends + END_BYTES, second);
        good = good && ferror(file) == 0;
    }
    if (file != NULL) fclose(file);
    free(ends);
    return good;
}

/* Makes a path absolute; it is relative to the directory of the plan. */
static char *absolute(const char *plan_path, const char *path)
{
    char joined_path[PATH_MAX];
    const char *slash = strrchr(plan_path, '/');
    const int length = slash != NULL && *path != '/' ? (int)(slash + 1 - plan_path) : 0;
    const int bytes = snprintf(joined_path, sizeof joined_path, "%.*s%s", length, plan_path, path);
    errno = ENAMETOOLONG;
    return bytes < (int)sizeof joined_path ? realpath(joined_path, NULL) : NULL;
}

static bool read_trace(struct parser *parser, const struct found *trace, struct plan_row *row)
{
    const char *name = json_string_value(trace->value);
    struct stream stream;
    struct error error = {0};
    char text[400];
    if (name == NULL) return wrong(parser, &trace->place, "a trace must be the name of a file");
    if (!is_line(parser, &trace->place, name)) return false;
    row->trace = absolute(parser->path, name);
    if (row->trace == NULL || !read_ends(row->trace, row))
        return wrong(parser, &trace->place, "%s: %s", name, strerror(errno));
    if (!stream_open(&stream, row->trace, &error))
        return wrong(parser, &trace->place, "%s: %s", name, error_text(&error, text, sizeof text));
    row->is_raw = stream.format == STREAM_RAW;
    const bool is_file = stream.is_file;
    stream_close(&stream);
    if (!is_file) return wrong(parser, &trace->place, "%s is not a regular file", name);
    return json_string_set(trace->value, row->trace) == 0 ||
           wrong(parser, &trace->place, "its path is not UTF-8");
}

/* The file's name without the suffixes of its format; characters special to a shell become '_'. */
static void base_name(const char *path, size_t length, char *base, size_t bytes)
{
    static const char *const suffixes[] = {".lz4", ".raw", ".p"};
    const char *slash = memrchr(path, '/', length), *begin = slash != NULL ? slash + 1 : path;
    snprintf(base, bytes, "%.*s", (int)(path + length - begin), begin);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        const size_t all = strlen(base), ending = strlen(suffixes[i]);
        if (all > ending && strcmp(base + all - ending, suffixes[i]) == 0)
            base[all - ending] = '\0';
    }
    for (; *base != '\0'; base++)
        if (!isalnum((unsigned char)*base) && strchr("._+", *base) == NULL) *base = '_';
}

static bool is_same_trace(const struct plan_row *one, const struct plan_row *other)
{
    return one->bytes == other->bytes && one->checksum == other->checksum;
}

/* Sets the row's name to that of the file; if an earlier trace has that, with the directory's name
 * before it, and if that is taken, too, with the checksum after it. */
static void name_row(const struct plan *plan, struct plan_row *row)
{
    char file[PLAN_NAME_BYTES], directory[PLAN_NAME_BYTES];
    const char *slash = strrchr(row->trace, '/');
    base_name(row->trace, strlen(row->trace), file, sizeof file);
    base_name(row->trace, slash != NULL ? (size_t)(slash - row->trace) : 0, directory,
              sizeof directory);
    for (int attempt = 0; attempt < 3; attempt++) {
        const struct plan_row *other = plan->rows;
        if (attempt == 0) snprintf(row->name, sizeof row->name, "%s", file);
        if (attempt == 1) snprintf(row->name, sizeof row->name, "%.30s_%.40s", directory, file);
        if (attempt == 2) snprintf(row->name, sizeof row->name, "%.60s_%08x", file, row->checksum);
        while (other < row && (strcmp(other->name, row->name) != 0 || is_same_trace(other, row)))
            other++;
        if (other == row) return;
    }
}

static bool plan_add_row(struct parser *parser, const struct found *plan, const struct found *of,
                         const struct found *trace)
{
    struct plan_row *row = &parser->plan->rows[parser->plan->rows_count++];
    const struct found allocators = plan_member(plan, of, "allocators"),
                       search = plan_member(plan, of, "search");
    if (allocators.value == NULL && search.value == NULL)
        return wrong(parser, of != NULL ? &of->place : &plan->place,
                     "there is neither \"allocators\" nor \"search\"");
    const bool good = read_options(parser, plan, of, row) &&
                      (allocators.value == NULL || add_entries(parser, &allocators, &row->list)) &&
                      (search.value == NULL || add_search(parser, &search, &row->list)) &&
                      read_trace(parser, trace, row);
    if (good) name_row(parser->plan, row);
    return good;
}

static bool plan_add_rows(struct parser *parser, const struct found *plan)
{
    static const char *const names[] = {"trace", COMMON_MEMBERS, NULL};
    const struct found traces = member_of(plan, "traces"), rows = member_of(plan, "rows");
    const bool is_matrix = rows.value == NULL;
    const struct found *all = is_matrix ? &traces : &rows;
    if (!is_matrix && traces.value != NULL)
        return wrong(parser, &traces.place,
                     "\"traces\" cannot stand with \"rows\", which have "
                     "their own");
    if (!is_list(parser, all, is_matrix ? "\"traces\"" : "\"rows\"")) return false;
    parser->plan->rows = calloc(json_array_size(all->value), sizeof *parser->plan->rows);
    if (parser->plan->rows == NULL) return plan_no_memory(parser);
    for (size_t i = 0; i < json_array_size(all->value); i++) {
        const struct found one = element(all, i);
        const struct found trace = is_matrix ? one : member_of(&one, "trace");
        if (!is_matrix && !json_is_object(one.value))
            return wrong(parser, &one.place, "a row must be an object");
        if (!is_matrix && !check_members(parser, &one, names)) return false;
        if (!plan_add_row(parser, plan, is_matrix ? NULL : &one, &trace)) return false;
    }
    return true;
}

/* ---- the plan ---- */

static bool read_plan(struct parser *parser)
{
    static const char *const names[] = {"traces", "rows", "entries_per_task", COMMON_MEMBERS, NULL};
    json_error_t error;
    parser->plan->json = json_loads(parser->text, JSON_REJECT_DUPLICATES, &error);
    if (parser->plan->json == NULL)
        return error_explain(parser->why, parser->why_bytes, "%s:%d: %s", parser->path, error.line,
                             error.text);
    const struct found plan = {parser->plan->json, {0}};
    const struct found most = member_of(&plan, "entries_per_task");
    if (!json_is_object(plan.value)) return wrong(parser, NULL, "a plan must be an object");
    return check_members(parser, &plan, names) &&
           read_whole(parser, &most, ENTRIES_PER_TASK_MAX, &parser->plan->entries_per_task) &&
           plan_add_rows(parser, &plan);
}

/* The text of a file with a null byte; the caller frees it. NULL: see `why`. */
static char *plan_read_text(const char *path, char *why, size_t why_bytes)
{
    FILE *file = fopen(path, "re");
    char *text = file != NULL ? malloc(PLAN_BYTES_MAX + 1) : NULL;
    if (text == NULL) {
        error_explain(why, why_bytes, "%s: %s", path, strerror(errno));
        if (file != NULL) fclose(file);
        return NULL;
    }
    const size_t bytes = fread(text, 1, PLAN_BYTES_MAX + 1, file);
    const bool good = !ferror(file) && bytes <= PLAN_BYTES_MAX && memchr(text, 0, bytes) == NULL;
    if (good) text[bytes] = '\0';
    fclose(file);
    if (good) return text;
    error_explain(why, why_bytes, "%s: not a plan", path);
    free(text);
    return NULL;
}

bool plan_read(struct plan *plan, const char *path, char *why, size_t why_bytes)
{
    struct parser parser = {path, plan_read_text(path, why, why_bytes), plan, why, why_bytes};
    *plan = (struct plan){.entries_per_task = ENTRIES_PER_TASK};
    const bool good = parser.text != NULL && read_plan(&parser);
    free(parser.text);
    return good;
}

void plan_free(struct plan *plan)
{
    for (size_t i = 0; i < plan->rows_count; i++) {
        free(plan->rows[i].trace);
        compare_list_free(&plan->rows[i].list);
    }
    free(plan->rows);
    json_decref(plan->json);
    *plan = (struct plan){0};
}

/* ---- a first plan ---- */

/* Whether the standard output is a file in the current directory: names are then relative to it, as
 * those of a plan are. */
static bool is_output_here(void)
{
    char path[PATH_MAX], here[PATH_MAX];
    const ssize_t length = readlink("/proc/self/fd/1", path, sizeof path - 1);
    struct stat status;
    if (length <= 0 || getcwd(here, sizeof here) == NULL || fstat(STDOUT_FILENO, &status) != 0 ||
        !S_ISREG(status.st_mode))
        return false;
    path[length] = '\0';
    char *const last = strrchr(path, '/');
    if (last == NULL) return false;
    *last = '\0';
    return strcmp(path, here) == 0;
}

/* A trace's name, as it has to stand in the plan. */
static json_t *name_in_plan(const char *trace, bool is_here)
{
    char *path = is_here ? NULL : realpath(trace, NULL);
    json_t *name = json_text(path != NULL ? path : trace);
    free(path);
    return name;
}

bool plan_print(char *const *traces, size_t count)
{
    const bool is_here = is_output_here();
    json_t *plan = json_object(), *files = json_array(), *allocators = json_array();
    struct allocator_found found;
    for (size_t i = 0; i < count; i++)
        json_array_append_new(files, name_in_plan(traces[i], is_here));
    for (const struct known_allocator *known = known_allocators; known->name != NULL; known++)
        if (known->where != ALLOCATOR_NOTHING && !known->no_switching &&
            allocators_find(&found, known->name))
            json_array_append_new(allocators, json_string(known->name));
    json_object_set_new(plan, "traces", files);
    json_object_set_new(plan, "allocators", allocators);
    json_object_set_new(plan, "engine", json_string("auto"));
    json_object_set_new(plan, "runs", json_integer(RUNS_DEFAULT));
    const bool good =
        plan != NULL && json_dumpf(plan, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII) == 0;
    json_decref(plan);
    if (good) putchar('\n');
    return good;
}
