#include "cli/recording_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "common/input.h"
#include "common/output_name.h"
#include "stream/magic.h"

enum { SUFFIX_BYTES = sizeof ".spool" - 1 };

static const char *recording_files_name_of(const struct recording_files *files)
{
    return output_name_last(files->path);
}

static bool recording_files_fail(const struct recording_files *files, const char *what)
{
    cli_fail(&cli_record, "%s %s: %s", what, files->path, strerror(errno));
    return false;
}

bool recording_files_fit(const char *output)
{
    struct stat status;
    return output[0] == '/' &&
           (lstat(output, &status) != 0 || S_ISREG(status.st_mode) || S_ISLNK(status.st_mode));
}

bool recording_files_is_recording(int file)
{
    enum { MAGIC_BYTES = sizeof MAGIC_OF_RAW - 1 };
    struct input input;
    input_open_fd(&input, file);
    const bool is_recording = input_peek(&input, MAGIC_BYTES) >= MAGIC_BYTES &&
                              memcmp(input.next, MAGIC_OF_RAW, MAGIC_BYTES) == 0;
    input_close(&input);
    return is_recording;
}

/* ---- making them ---- */

static bool directory_open(struct recording_files *files)
{
    char path[PATH_MAX];
    const size_t length = (size_t)(recording_files_name_of(files) - files->path);
    if (length + sizeof "." > sizeof path ||
        strlen(recording_files_name_of(files)) + SUFFIX_BYTES > NAME_MAX) {
        errno = ENAMETOOLONG;
        return recording_files_fail(files, "cannot record to");
    }
    snprintf(path, sizeof path, "%.*s.", (int)length, files->path);
    snprintf(files->spool_name, sizeof files->spool_name, "%s.spool",
             recording_files_name_of(files));
    files->directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return files->directory >= 0 || recording_files_fail(files, "cannot open the directory of");
}

/* Whether what has the name may be replaced: if it is empty, or an older recording. */
static bool is_replaceable(const struct recording_files *files)
{
    struct stat status;
    if (fstatat(files->directory, recording_files_name_of(files), &status, AT_SYMLINK_NOFOLLOW) !=
        0)
        return errno == ENOENT || recording_files_fail(files, "cannot look at");
    if (S_ISLNK(status.st_mode)) {
        cli_fail(&cli_record, "%s is a symbolic link: name the file that it leads to", files->path);
        return false;
    }
    const int file = openat(files->directory, recording_files_name_of(files),
                            O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0) return recording_files_fail(files, "cannot read");
    const bool is_recording = fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
                              (status.st_size == 0 || recording_files_is_recording(file));
    close(file);
    if (!is_recording)
        cli_fail(&cli_record, "%s exists and is not a recording: remove it, or give another name",
                 files->path);
    return is_recording;
}

/* A recorder keeps its spool locked. */
static bool is_in_use(const struct recording_files *files)
{
    const int file = openat(files->directory, files->spool_name,
                            O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    const bool is_locked = file >= 0 && flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (file >= 0) close(file);
    if (is_locked) cli_fail(&cli_record, "%s: another process is recording to it", files->path);
    return is_locked;
}

/* Creates a file and opens it twice. */
static bool recording_files_create(const struct recording_files *files, const char *name,
                                   int *given, int *own)
{
    char again[64];
    *given =
        openat(files->directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (*given < 0) return false;
    snprintf(again, sizeof again, "/proc/self/fd/%d", *given);
    *own = open(again, O_RDWR | O_CLOEXEC);
    return *own >= 0;
}

bool recording_files_make(struct recording_files *files, const char *path)
{
    uint64_t id = 0;
    *files = (struct recording_files){
        .path = path, .directory = -1, .stream = -1, .spool = -1, .given = {-1, -1}};
    if (!directory_open(files) || !is_replaceable(files) || is_in_use(files)) goto failed;
    if (getrandom(&id, sizeof id, 0) != sizeof id) id = (uint64_t)getpid();
    snprintf(files->new_stream, sizeof files->new_stream, ".malloctape-%016" PRIx64 ".raw", id);
    snprintf(files->new_spool, sizeof files->new_spool, ".malloctape-%016" PRIx64 ".spool", id);
    if (recording_files_create(files, files->new_stream, &files->given[0], &files->stream) &&
        recording_files_create(files, files->new_spool, &files->given[1], &files->spool))
        return true;
    recording_files_fail(files, "cannot create");
failed:
    recording_files_discard(files);
    return false;
}

static void close_one(int *file)
{
    if (*file >= 0) close(*file);
    *file = -1;
}

static void recording_files_close_all(struct recording_files *files)
{
    close_one(&files->given[0]);
    close_one(&files->given[1]);
    close_one(&files->stream);
    close_one(&files->spool);
    close_one(&files->directory);
}

/* Whether the file still has the name. */
static bool is_at(const struct recording_files *files, int file, const char *name)
{
    struct stat ours, there;
    return fstat(file, &ours) == 0 &&
           fstatat(files->directory, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

static void remove_name(const struct recording_files *files, int file, const char *name)
{
    if (file >= 0 && is_at(files, file, name)) unlinkat(files->directory, name, 0);
}

void recording_files_discard(struct recording_files *files)
{
    remove_name(files, files->given[0], files->new_stream);
    remove_name(files, files->given[1], files->new_spool);
    remove_name(files, files->stream, files->new_stream);
    remove_name(files, files->spool, files->new_spool);
    remove_name(files, files->spool, files->spool_name);
    recording_files_close_all(files);
}

bool recording_files_settle(struct recording_files *files)
{
    close_one(&files->given[0]);
    close_one(&files->given[1]);
    return (renameat(files->directory, files->new_spool, files->directory, files->spool_name) ==
                0 &&
            renameat(files->directory, files->new_stream, files->directory,
                     recording_files_name_of(files)) == 0) ||
           recording_files_fail(files, "cannot create");
}

/* ---- at the end ---- */

bool recording_files_finish(struct recording_files *files, struct finished *finished)
{
    /* If the spool cannot be emptied, it stays, unneeded. */
    return finish_files(files->stream, files->spool, files->path, finished) &&
           (ftruncate(files->spool, 0) == 0 || errno != 0);
}

bool recording_files_read(const struct recording_files *files, struct finished *finished)
{
    return finish_read(files->stream, finished);
}

bool recording_files_end(struct recording_files *files)
{
    struct stat spool;
    const bool is_there = is_at(files, files->stream, recording_files_name_of(files));
    /* An empty one is of no use: tracing/output.h. */
    const bool needs_spool = fstat(files->spool, &spool) == 0 && spool.st_size > 0;
    if (!needs_spool) remove_name(files, files->spool, files->spool_name);
    if (!is_there)
        cli_fail(&cli_record, "%s: somebody has removed the recording or put another file there",
                 files->path);
    else if (needs_spool)
        cli_fail(&cli_record, "%s: cut short; %s has the rest", files->path, files->spool_name);
    recording_files_close_all(files);
    return is_there && !needs_spool;
}
