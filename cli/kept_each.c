#include "cli/kept_each.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/tell.h"
#include "cli/told_to_end.h"
#include "common/text.h"
#include "launch/installed.h"

/* How long it takes at most until a keeper says what it keeps: it may wait for a name (keep/each.c), and
 * for a processor. */
enum { EACH_BEGIN_TRIES = 1000 };

/* ---- what is recorded to ---- */

/* A word for a shell, behind a space. The recorder replaces letters after %: here there are none. */
static void each_put_word(struct text *text, const char *word)
{
    text_string(text, " '");
    for (; *word != '\0'; word++) {
        if (*word == '\'')
            text_string(text, "'\\''");
        else
            text_character(text, *word);
        if (*word == '%') text_character(text, '%');
    }
    text_character(text, '\'');
}

int kept_each_output(const struct kept *kept, const char *report, char *output, size_t bytes)
{
    const char *words[KEPT_WORDS_MAX];
    struct text text = {output, 0, bytes};
    struct installed program;
    if (!installed_find_program(&program, "malloctape-keep"))
        return cli_fail(&cli_record, "%s not found", program.path);
    const size_t count = kept_words(kept, words);
    text_string(&text, "|exec");
    each_put_word(&text, program.path);
    for (size_t i = 0; i < count; i++)
        each_put_word(&text, words[i]);
    if (*report != '\0') text_string(&text, " --report");
    if (*report != '\0') each_put_word(&text, report);
    text_string(&text, " --process %p --program %e");
    return text_end(&text) ? PROGRAM_OK : cli_fail(&cli_record, "--keep: names are too long");
}

/* ---- the end ---- */

/* Also if it has ended and its parent does not care. */
static bool each_has_ended(pid_t process)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return errno == ENOENT;
    const ssize_t read_bytes = read(file, line, sizeof line - 1);
    close(file);
    line[read_bytes > 0 ? read_bytes : 0] = '\0';
    const char *state = strrchr(line, ')');
    return read_bytes <= 0 || (state != NULL && (state[2] == 'Z' || state[2] == 'X'));
}

/* A keeper has its directory locked. */
static bool each_is_kept(const struct keeping *keeping, bool *is_there)
{
    const int directory = open(keeping->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    *is_there = directory >= 0;
    if (directory < 0) return false;
    const bool is_locked = flock(directory, LOCK_SH | LOCK_NB) != 0;
    close(directory);
    return is_locked;
}

void kept_each_file(const struct keeping *keeping, char file[PATH_MAX])
{
    const size_t bytes = strlen(keeping->directory) - strlen(".keep");
    snprintf(file, PATH_MAX, "%.*s", (int)bytes, keeping->directory);
}

/* Whether it has been written. */
static bool each_wait(const struct keeping *keeping, struct told_to_end *told)
{
    char file[PATH_MAX];
    bool is_there;
    if (*keeping->directory == '\0') return true;
    while (each_is_kept(keeping, &is_there))
        if (!each_has_ended(keeping->process) || told_to_end_wait(told)) return false;
    kept_each_file(keeping, file);
    if (is_there) kept_rescue(file, keeping->directory);
    return true;
}

static int each_process_order(const void *one, const void *other)
{
    const pid_t a = *(const pid_t *)one, b = *(const pid_t *)other;
    return (a > b) - (a < b);
}

/* Sorts them, and adds an end. */
static void each_sort(pid_t *processes, size_t count)
{
    if (count > 1) qsort(processes, count, sizeof *processes, each_process_order);
    processes[count] = INT_MAX;
}

/* Whether a process that has ended has begun more recordings than its keepers have told of. Both are
 * sorted: what is only in `begun` is missing. */
static bool each_is_missing(const pid_t *begun, size_t count, const pid_t *told)
{
    for (size_t i = 0; i < count; i++) {
        while (*told < begun[i])
            told++;
        if (*told == begun[i])
            told++;
        else if (each_has_ended(begun[i]))
            return true;
    }
    return false;
}

static bool each_is_awaited(const struct recordings *recordings)
{
    pid_t *begun = malloc((recordings->count + 1) * sizeof *begun);
    pid_t *told = malloc((recordings->keepings_count + 1) * sizeof *told);
    const bool good = begun != NULL && told != NULL;
    for (size_t i = 0; good && i < recordings->count; i++)
        begun[i] = recordings->list[i].process;
    for (size_t i = 0; good && i < recordings->keepings_count; i++)
        told[i] = recordings->keepings[i].process;
    if (good) each_sort(begun, recordings->count);
    if (good) each_sort(told, recordings->keepings_count);
    const bool is_missing = good && each_is_missing(begun, recordings->count, told);
    free(begun);
    free(told);
    return is_missing;
}

/* What could not become FILE is still there. */
static bool each_is_lost(const struct keeping *keeping)
{
    return *keeping->directory != '\0' && access(keeping->directory, F_OK) == 0;
}

size_t kept_each_end(struct recordings *recordings, size_t *lost)
{
    struct told_to_end told;
    size_t goes_on = 0;
    told_to_end_begin(&told);
    for (unsigned i = 0; i < EACH_BEGIN_TRIES && each_is_awaited(recordings); i++) {
        if (told_to_end_wait(&told)) break;
        recordings_look(recordings);
    }
    for (size_t i = 0; i < recordings->keepings_count; i++)
        if (each_wait(&recordings->keepings[i], &told))
            *lost += each_is_lost(&recordings->keepings[i]);
        else
            goes_on++;
    if (told.signal != 0)
        cli_tell("malloctape record: signal %d: keepers go on writing what they keep", told.signal);
    return goes_on;
}
