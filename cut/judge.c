#include "cut/judge.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "common/error.h"

#define JUDGE_LIMIT_S    60.0
#define JUDGE_RSS_TRIES  2
#define JUDGE_TIME_TRIES 3 /* of which the least counts */

/* ---- what is asked ---- */

static bool judge_take_allocator(struct judge_allocator *allocator, const char *word, char *why,
                                 size_t why_bytes)
{
    char name[512];
    const char *colon = strchr(word, ':'), *equals = colon != NULL ? strchr(colon, '=') : NULL;
    const bool has_setting = equals != NULL && strchr(colon, '/') == NULL;
    snprintf(name, sizeof name, "%.*s", has_setting ? (int)(colon - word) : (int)strlen(word),
             word);
    if (has_setting) {
        snprintf(allocator->variable, sizeof allocator->variable, "%.*s", (int)(equals - colon - 1),
                 colon + 1);
        snprintf(allocator->value, sizeof allocator->value, "%s", equals + 1);
    }
    if (allocators_find(&allocator->found, name)) return true;
    return error_explain(why, why_bytes, "%s: %s", name, allocator->found.why);
}

bool judge_parse(struct judge *judge, const char *text, char *why, size_t why_bytes)
{
    char first[512] = "", second[512] = "", rest[2];
    *judge =
        (struct judge){.command = text, .limit_s = JUDGE_LIMIT_S, .least_bytes = JUDGE_RSS_LEAST};
    if (!installed_find_program(&judge->replay, "replay"))
        return error_explain(why, why_bytes, "%s not found", judge->replay.path);
    if (sscanf(text, "crash %511s %1s", first, rest) == 1) {
        judge->of = JUDGE_CRASH;
        return judge_take_allocator(&judge->allocators[0], first, why, why_bytes);
    }
    for (judge->of = JUDGE_RSS; judge->of <= JUDGE_TIME; judge->of++) {
        const char *form =
            judge->of == JUDGE_RSS ? "rss %511s %511s %lf %1s" : "time %511s %511s %lf %1s";
        if (sscanf(text, form, first, second, &judge->factor, rest) == 3)
            return judge_take_allocator(&judge->allocators[0], first, why, why_bytes) &&
                   judge_take_allocator(&judge->allocators[1], second, why, why_bytes);
    }
    judge->of = JUDGE_COMMAND;
    return strstr(text, "%s") != NULL ||
           error_explain(why, why_bytes,
                         "it takes a command with %%s for the trace, 'rss A B FACTOR', 'time A B "
                         "FACTOR' or 'crash A', not '%s'",
                         text);
}

/* ---- a replay ---- */

static void judge_enter(const struct judge *judge, const struct judge_allocator *allocator)
{
    const int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, 0);
    dup2(nothing, 1);
    dup2(nothing, 2);
    allocators_enter(&allocator->found);
    if (judge->of == JUDGE_RSS && !judge->huge_pages) setenv("REPLAY_THP", "never", 1);
    if (allocator->variable[0] != '\0') setenv(allocator->variable, allocator->value, 1);
    signal(SIGINT, SIG_IGN);
    alarm((unsigned)judge->limit_s); /* stays over exec */
}

/* Returns how the replay ended, as wait() does. */
static int judge_replay(const struct judge *judge, const struct judge_allocator *allocator,
                        const char *path, const char *report)
{
    char *through[ALLOCATOR_WORDS];
    char *const *first = allocators_through(&allocator->found, through);
    const char *words[ALLOCATOR_WORDS + 16];
    size_t count = 0;
    int status = 0;
    while (first != NULL && first[count] != NULL)
        words[count] = first[count], count++;
    const char *const own[] = {judge->replay.path,
                               "--quiet",
                               "--engine",
                               "auto",
                               "--clock=original",
                               "--touch=pages",
                               "--json",
                               report,
                               judge->of == JUDGE_CRASH ? "--check" : "--",
                               path,
                               NULL};
    memcpy(words + count, own, sizeof own);
    const pid_t child = fork();
    if (child == 0) {
        judge_enter(judge, allocator);
        execv(words[0], (char *const *)words);
        _exit(127);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return child > 0 ? status : 127 << 8;
}

/* A number of a replay's report; negative: the replay failed. */
static double judge_number(const struct judge *judge, size_t which, const char *path,
                           const char *key)
{
    char report[PROCESS_PATH_BYTES + 16];
    double number = -1;
    snprintf(report, sizeof report, "%s.json", path);
    const int status = judge_replay(judge, &judge->allocators[which], path, report);
    json_t *read = status == 0 ? json_load_file(report, 0, NULL) : NULL;
    if (read != NULL) number = json_number_value(json_object_get(read, key));
    if (read != NULL && judge->of == JUDGE_RSS)
        number -= json_number_value(json_object_get(read, "base_net_rss_bytes"));
    if (number < 0 && read != NULL) number = 0;
    json_decref(read);
    unlink(report);
    return number;
}

/* Peak RSS, which varies a little: that of both tries must show it. */
static bool judge_takes_more(const struct judge *judge, const char *path)
{
    for (unsigned try = 0; try < JUDGE_RSS_TRIES; try++) {
        const double one = judge_number(judge, 0, path, "peak_net_rss_bytes");
        const double other = one < 0 ? -1 : judge_number(judge, 1, path, "peak_net_rss_bytes");
        if (other < 0 || one <= judge->factor * other + judge->least_bytes) return false;
    }
    return true;
}

static bool judge_is_slower(const struct judge *judge, const char *path)
{
    double numbers[2] = {-1, -1};
    for (unsigned try = 0; try < JUDGE_TIME_TRIES; try++)
        for (size_t i = 0; i < 2; i++) {
            const double number = judge_number(judge, i, path, "wall_seconds");
            if (number < 0) return false;
            if (numbers[i] < 0 || number < numbers[i]) numbers[i] = number;
        }
    return numbers[0] > judge->factor * numbers[1];
}

/* A signal, a promise that was broken, or too long; a replay that only cannot begin is none. */
static bool judge_is_crash(const struct judge *judge, const char *path)
{
    char report[PROCESS_PATH_BYTES + 16];
    snprintf(report, sizeof report, "%s.json", path);
    const int status = judge_replay(judge, &judge->allocators[0], path, report);
    unlink(report);
    return WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

/* ---- a command ---- */

static _Noreturn void judge_command(const struct judge *judge, const char *path)
{
    char command[2 * PROCESS_PATH_BYTES];
    size_t used = 0;
    for (const char *at = judge->command;
         *at != '\0' && used + PROCESS_PATH_BYTES < sizeof command;) {
        if (strncmp(at, "%s", 2) == 0) {
            used += (size_t)snprintf(command + used, sizeof command - used, "%s", path);
            at += 2;
        } else {
            command[used++] = *at++;
        }
    }
    command[used] = '\0';
    const int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, 0);
    dup2(nothing, 1);
    alarm((unsigned)judge->limit_s);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

_Noreturn void judge_run(const struct judge *judge, const char *path)
{
    if (judge->of == JUDGE_COMMAND) judge_command(judge, path);
    _exit(judge->of == JUDGE_CRASH ? !judge_is_crash(judge, path)
          : judge->of == JUDGE_RSS ? !judge_takes_more(judge, path)
                                   : !judge_is_slower(judge, path));
}
