#include "cli/recordings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/tell.h"
#include "common/array.h"
#include "common/printable.h"

/* Enough for some hundred recordings; allocated before anything is recorded. */
enum { FILE_BYTES = 128 * 1024 };

static bool file_make(struct recordings *recordings, const char *directory)
{
    if (directory == NULL || directory[0] != '/') return false;
    int length = snprintf(recordings->path, sizeof recordings->path, "%s/malloctape-record-XXXXXX",
                          directory);
    int file = length < (int)sizeof recordings->path ? mkostemp(recordings->path, O_CLOEXEC) : -1;
    if (file < 0) return false;
    fchmod(file, 0600); /* whatever our umask */
    bool has_space = fallocate(file, FALLOC_FL_KEEP_SIZE, 0, FILE_BYTES) == 0 ||
                     (errno != ENOSPC && errno != EDQUOT);
    recordings->file = has_space ? fdopen(file, "r") : NULL;
    if (recordings->file != NULL) return true;
    close(file);
    unlink(recordings->path);
    return false;
}

bool recordings_begin(struct recordings *recordings, const char *output_directory)
{
    *recordings = (struct recordings){0};
    if (file_make(recordings, getenv("TMPDIR")) || file_make(recordings, "/tmp") ||
        file_make(recordings, output_directory) || file_make(recordings, "/dev/shm"))
        return true;
    recordings->path[0] = '\0';
    return false;
}

/* ---- lines ---- */

/* The process's latest recording that has not ended. */
static struct recording *recording_find(struct recordings *recordings, pid_t process)
{
    for (size_t i = recordings->count; i-- > 0;)
        if (recordings->list[i].process == process && recordings->list[i].summary == NULL)
            return &recordings->list[i];
    return NULL;
}

/* "DEVICE INODE OUTPUT" */
static void take_begin(struct recordings *recordings, pid_t process, const char *rest)
{
    char *output;
    struct finish_made made = {.device = strtoul(rest, &output, 10)};
    made.inode = strtoul(output, &output, 10);
    if (*output++ != ' ') return;
    if (!array_reserve(&recordings->list, &recordings->room, recordings->count + 1,
                       sizeof *recordings->list))
        return;
    struct recording *recording = &recordings->list[recordings->count];
    *recording = (struct recording){.process = process, .output = strdup(output), .made = made};
    if (recording->output != NULL) recordings->count++;
}

/* "EVENTS OTHER SUMMARY" */
static void recordings_take_end(struct recordings *recordings, pid_t process, const char *rest)
{
    struct recording *recording = recording_find(recordings, process);
    char *end;
    if (recording == NULL) return;
    recording->events = strtoull(rest, &end, 10);
    recording->has_other_malloc = strtoull(end, &end, 10) != 0;
    recording->summary = strdup(*end == ' ' ? end + 1 : end);
}

/* "DIRECTORY" */
static void take_keeping(struct recordings *recordings, pid_t process, const char *directory)
{
    if (!array_reserve(&recordings->keepings, &recordings->keepings_room,
                       recordings->keepings_count + 1, sizeof *recordings->keepings))
        return;
    struct keeping *keeping = &recordings->keepings[recordings->keepings_count];
    *keeping = (struct keeping){.process = process, .directory = strdup(directory)};
    if (keeping->directory != NULL) recordings->keepings_count++;
}

static bool has_recorded(const struct recordings *recordings, pid_t process)
{
    for (size_t i = 0; i < recordings->count; i++)
        if (recordings->list[i].process == process) return true;
    return false;
}

/* `name` is a program's, or empty for a fork. */
static void take_unrecorded(const struct recordings *recordings, struct unrecorded *unrecorded,
                            pid_t process, const char *name)
{
    if (*name == '\0') {
        unrecorded->forks++;
        return;
    }
    if (unrecorded->programs++ > 0 &&
        (has_recorded(recordings, unrecorded->process) || !has_recorded(recordings, process)))
        return;
    free(unrecorded->program);
    unrecorded->program = strdup(name);
    unrecorded->process = process;
}

static void take_forget(struct recordings *recordings, pid_t process)
{
    struct recording *recording = recording_find(recordings, process);
    if (recording == NULL) return;
    recording->is_forgotten = true;
    recording->summary = strdup("");
}

/* Takes a line (tracing/data/notice.h). */
static void recordings_take_line(struct recordings *recordings, const char *line)
{
    int process, used = 0;
    if (sscanf(line, "begin %d%n", &process, &used) == 1)
        take_begin(recordings, process, line + used);
    else if (sscanf(line, "end %d%n", &process, &used) == 1)
        recordings_take_end(recordings, process, line + used);
    else if (sscanf(line, "keeping %d%n", &process, &used) == 1 && line[used] == ' ')
        take_keeping(recordings, process, line + used + 1);
    else if (sscanf(line, "forget %d", &process) == 1)
        take_forget(recordings, process);
    else if (sscanf(line, "unfollowed %d%n", &process, &used) == 1 && line[used] == ' ')
        take_unrecorded(recordings, &recordings->unfollowed, process, line + used + 1);
    else if (sscanf(line, "other_libc %d%n", &process, &used) == 1 && line[used] == ' ')
        take_unrecorded(recordings, &recordings->other_libc, process, line + used + 1);
    else if (sscanf(line, "unreadable %d%n", &process, &used) == 1 && line[used] == ' ')
        take_unrecorded(recordings, &recordings->unreadable, process, line + used + 1);
    else
        cli_tell("%s", line);
}

void recordings_look(struct recordings *recordings)
{
    ssize_t bytes;
    if (recordings->file == NULL) return;
    clearerr(recordings->file);
    while ((bytes = getline(&recordings->line, &recordings->line_room, recordings->file)) > 0) {
        if (recordings->line[bytes - 1] != '\n') {
            /* The line is not complete yet. */
            fseeko(recordings->file, -bytes, SEEK_CUR);
            return;
        }
        recordings->line[bytes - 1] = '\0';
        for (ssize_t i = 0; i < bytes - 1; i++)
            if (recordings->line[i] == '\0') recordings->line[i] = '\n';
        recordings_take_line(recordings, recordings->line);
    }
}

/* `one`, `several`: how the line ends. */
static void tell_unrecorded(const struct recordings *recordings,
                            const struct unrecorded *unrecorded, const char *one,
                            const char *several)
{
    const char *name = unrecorded->program != NULL ? unrecorded->program : "a program";
    const char *how =
        has_recorded(recordings, unrecorded->process) ? "its process went on as" : "it started";
    if (unrecorded->programs > 1)
        cli_tell("malloctape record: %s %s and %zu more, which %s", how, name,
                 unrecorded->programs - 1, several);
    else if (unrecorded->programs == 1)
        cli_tell("malloctape record: %s %s, which %s", how, name, one);
}

void recordings_tell_unrecorded(const struct recordings *recordings)
{
    const struct unrecorded *unfollowed = &recordings->unfollowed;
    tell_unrecorded(recordings, unfollowed, "was not recorded: use --follow",
                    "were not recorded: use --follow");
    if (unfollowed->programs == 0 && unfollowed->forks > 0)
        cli_tell("malloctape record: it forked; its children (%zu) were not recorded: use --follow",
                 unfollowed->forks);
    tell_unrecorded(recordings, &recordings->other_libc,
                    "was not recorded: it has another C library than glibc",
                    "were not recorded: they have another C library than glibc");
    tell_unrecorded(recordings, &recordings->unreadable,
                    "was not recorded: it cannot read the library that records",
                    "were not recorded: they cannot read the library that records");
}

void recordings_end(struct recordings *recordings)
{
    if (recordings->file == NULL) return;
    for (size_t i = 0; i < recordings->count; i++) {
        free(recordings->list[i].output);
        free(recordings->list[i].summary);
    }
    for (size_t i = 0; i < recordings->keepings_count; i++)
        free(recordings->keepings[i].directory);
    free(recordings->keepings);
    free(recordings->list);
    free(recordings->unfollowed.program);
    free(recordings->other_libc.program);
    free(recordings->unreadable.program);
    free(recordings->line);
    unlink(recordings->path);
    fclose(recordings->file);
}
