#include "cli/told.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool told_begin(struct told *told)
{
    const char *directory = getenv("TMPDIR");
    *told = (struct told){0};
    if (directory == NULL || directory[0] != '/') directory = "/tmp";
    int length = snprintf(told->path, sizeof told->path, "%s/malloctape-record-XXXXXX", directory);
    int file = length < (int)sizeof told->path ? mkostemp(told->path, O_CLOEXEC) : -1;
    told->file = file >= 0 ? fdopen(file, "r") : NULL;
    if (told->file == NULL) told->path[0] = '\0';
    return told->file != NULL;
}

/* ---- lines ---- */

/* The latest recording of the process that has not ended. */
static struct told_recording *recording_find(struct told *told, pid_t process)
{
    for (size_t i = told->count; i-- > 0;)
        if (told->recordings[i].process == process && told->recordings[i].summary == NULL)
            return &told->recordings[i];
    return NULL;
}

static void take_begin(struct told *told, pid_t process, const char *output)
{
    struct told_recording *grown =
        realloc(told->recordings, (told->count + 1) * sizeof *told->recordings);
    if (grown == NULL) return;
    told->recordings = grown;
    grown[told->count] = (struct told_recording){.process = process, .output = strdup(output)};
    if (grown[told->count].output != NULL) told->count++;
}

/* "EVENTS FOREIGN SUMMARY" */
static void take_end(struct told *told, pid_t process, const char *rest)
{
    struct told_recording *recording = recording_find(told, process);
    char *end;
    if (recording == NULL) return;
    recording->events = strtoull(rest, &end, 10);
    recording->has_foreign_malloc = strtoull(end, &end, 10) != 0;
    recording->summary = strdup(*end == ' ' ? end + 1 : end);
}

/* NAME, or nothing for a fork. */
static void take_unfollowed(struct told_unfollowed *unfollowed, const char *name)
{
    if (*name == '\0') {
        unfollowed->forks++;
        return;
    }
    if (unfollowed->programs++ == 0) unfollowed->program = strdup(name);
}

static void take_line(struct told *told, const char *line)
{
    static const char begin[] = "begin ", end[] = "end ", forget[] = "forget ";
    static const char unfollowed[] = "unfollowed ";
    char *rest;
    if (strncmp(line, begin, sizeof begin - 1) == 0) {
        pid_t process = (pid_t)strtol(line + sizeof begin - 1, &rest, 10);
        if (*rest == ' ') take_begin(told, process, rest + 1);
    } else if (strncmp(line, end, sizeof end - 1) == 0) {
        pid_t process = (pid_t)strtol(line + sizeof end - 1, &rest, 10);
        take_end(told, process, rest);
    } else if (strncmp(line, forget, sizeof forget - 1) == 0) {
        struct told_recording *recording =
            recording_find(told, (pid_t)strtol(line + sizeof forget - 1, NULL, 10));
        if (recording != NULL) recording->is_forgotten = true;
        if (recording != NULL) recording->summary = strdup("");
    } else if (strncmp(line, unfollowed, sizeof unfollowed - 1) == 0) {
        const char *name = strchr(line + sizeof unfollowed - 1, ' ');
        if (name != NULL) take_unfollowed(&told->unfollowed, name + 1);
    } else {
        fprintf(stderr, "%s\n", line);
    }
}

void told_look(struct told *told)
{
    ssize_t bytes;
    if (told->file == NULL) return;
    clearerr(told->file);
    while ((bytes = getline(&told->line, &told->line_room, told->file)) > 0) {
        if (told->line[bytes - 1] != '\n') {
            /* Not whole yet. */
            fseeko(told->file, -bytes, SEEK_CUR);
            return;
        }
        told->line[bytes - 1] = '\0';
        take_line(told, told->line);
    }
}

void told_end(struct told *told)
{
    if (told->file == NULL) return;
    for (size_t i = 0; i < told->count; i++) {
        free(told->recordings[i].output);
        free(told->recordings[i].summary);
    }
    free(told->recordings);
    free(told->unfollowed.program);
    free(told->line);
    unlink(told->path);
    fclose(told->file);
}
