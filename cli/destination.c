#include "cli/destination.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/kept.h"
#include "cli/recording_files.h"

#define DEFAULT_SUFFIX ".raw.lz4"
#define KEPT_SUFFIX    ".kept.lz4"

bool destination_is_file(const char *output)
{
    return strncmp(output, "fd:", 3) != 0 && output[0] != '|';
}

bool destination_add(struct destination *to, const char *text, bool literal)
{
    size_t used = strlen(to->path);
    for (; *text != '\0'; text++) {
        if (used + 2 >= sizeof to->path) return false;
        if (literal && *text == '%') to->path[used++] = '%';
        to->path[used++] = *text;
    }
    to->path[used] = '\0';
    return true;
}

/* The program may change its directory before the library opens the file, so the name has to be
 * absolute. */
static bool destination_begin(struct destination *to, bool is_relative)
{
    char here[PATH_MAX];
    to->path[0] = '\0';
    return !is_relative || (getcwd(here, sizeof here) != NULL && destination_add(to, here, true) &&
                            destination_add(to, "/", true));
}

bool destination_exists(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

/* Sets the destination to the program's name, a number if it is not the first, and the suffix, and
 * reserves that name. False: it is taken, or too long. */
static bool destination_default(struct destination *to, unsigned number)
{
    char name[PATH_MAX], spool[PATH_MAX + 8], digits[16] = "";
    if (number > 1) snprintf(digits, sizeof digits, ".%u", number);
    const int length = snprintf(name, sizeof name, "%s%s%s", basename(to->program), digits,
                                to->is_kept ? KEPT_SUFFIX : DEFAULT_SUFFIX);
    if (length >= (int)sizeof name || !destination_begin(to, true) ||
        !destination_add(to, name, true))
        return false;
    snprintf(spool, sizeof spool, "%s.spool", name);
    if (destination_exists(name) || destination_exists(spool)) return false;
    const int file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) return errno != EEXIST; /* destination_check() will report it */
    close(file);
    if (realpath(name, to->reserved) == NULL) to->reserved[0] = '\0';
    return true;
}

bool destination_set(struct destination *to)
{
    const char *name = to->output;
    if (to->idle) return true;
    if (name == NULL && to->follow) name = to->is_kept ? "%e.%p" KEPT_SUFFIX : "%e.%p.raw.lz4";
    if (name != NULL)
        return destination_begin(to, destination_is_file(name) && name[0] != '/') &&
               destination_add(to, name, false);
    for (unsigned number = 1; number < DESTINATION_NUMBER_MAX; number++)
        if (destination_default(to, number)) return true;
    return false;
}

int destination_fail(void)
{
    char here[PATH_MAX];
    if (getcwd(here, sizeof here) == NULL)
        return cli_fail(&cli_record, "the current directory: %s", strerror(errno));
    return cli_fail(&cli_record, "the name of the output is too long");
}

void destination_release(const struct destination *to)
{
    struct stat status;
    if (to->reserved[0] != '\0' && stat(to->reserved, &status) == 0 && status.st_size == 0)
        unlink(to->reserved);
}

/* Whether -o may replace a file: if it is empty, or an older recording. */
static bool destination_may_be_replaced(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) return true;
    const int file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    const bool is_recording = file >= 0 && recording_files_is_recording(file);
    if (file >= 0) close(file);
    return is_recording;
}

int destination_check(const struct destination *to)
{
    const char *destination = to->path;
    struct stat status;
    if (to->idle || !destination_is_file(destination)) return PROGRAM_OK;
    if (stat(destination, &status) == 0) {
        if (S_ISDIR(status.st_mode)) return cli_fail(&cli_record, "%s is a directory", destination);
        if (access(destination, W_OK) != 0)
            return cli_fail(&cli_record, "cannot write %s: %s", destination, strerror(errno));
        if (!destination_may_be_replaced(destination) &&
            !(to->is_kept && kept_may_replace(destination)))
            return cli_fail(&cli_record,
                            "%s exists and is not a recording: remove it, or give another name",
                            destination);
    } else if (destination_exists(destination)) {
        return cli_fail(&cli_record, "%s is a symbolic link to a file that is not there",
                        destination);
    }
    char directory[PATH_MAX];
    snprintf(directory, sizeof directory, "%s", destination);
    *strrchr(directory, '/') = '\0';
    const char *checked = *directory != '\0' ? directory : "/";
    if (strchr(checked, '%') != NULL || access(checked, W_OK | X_OK) == 0) return PROGRAM_OK;
    return cli_fail(&cli_record, "cannot write into %s: %s", checked, strerror(errno));
}
