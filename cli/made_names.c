#include "cli/made_names.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/recordings.h"
#include "cli/tell.h"

enum { KEPT_MAX = 64 << 20, PIECE_BYTES = 1 << 16 };

/* Opens the file as symbols/perf_map.c does: anybody may have put something there. */
static int open_made(pid_t process, double since_s)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)process);
    const int file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) return -1;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
        (status.st_uid == 0 || status.st_uid == geteuid()) && (double)status.st_mtime >= since_s)
        return file;
    close(file);
    return -1;
}

/* False: not everything was copied. */
static bool made_names_copy(int from, FILE *to)
{
    static char piece[PIECE_BYTES];
    size_t kept = 0;
    ssize_t bytes;
    while ((bytes = read(from, piece, sizeof piece)) > 0) {
        size_t taken = (size_t)bytes;
        if (kept + taken > KEPT_MAX) {
            while (taken > 0 && piece[taken - 1] != '\n')
                taken--;
            fwrite(piece, 1, taken, to);
            return false;
        }
        fwrite(piece, 1, taken, to);
        kept += taken;
    }
    return bytes == 0;
}

void made_names_keep(pid_t process, double since_s, const char *output)
{
    char path[PATH_MAX];
    struct stat status;
    if ((size_t)snprintf(path, sizeof path, "%s.perf.map", output) >= sizeof path) return;
    /* Remove that of an older recording with this name. */
    if (lstat(path, &status) == 0 && S_ISREG(status.st_mode)) unlink(path);
    const int from = open_made(process, since_s);
    if (from < 0) return;
    const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *to = file >= 0 ? fdopen(file, "w") : NULL;
    bool good = to != NULL && made_names_copy(from, to);
    if (to != NULL && fclose(to) != 0) good = false;
    if (to == NULL && file >= 0) close(file);
    if (!good)
        cli_tell("malloctape record: %s: not all names of generated code were kept (at "
                 "most 64 MiB are)",
                 path);
    close(from);
}

double made_names_since(pid_t process)
{
    char path[64], line[1024] = "";
    struct timespec now, running;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "re");
    if (file == NULL) return 0;
    if (fgets(line, sizeof line, file) == NULL) line[0] = '\0';
    fclose(file);
    /* Field 22. The name in parentheses before it may contain anything. */
    char *at = strrchr(line, ')');
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    clock_gettime(CLOCK_REALTIME, &now);
    clock_gettime(CLOCK_BOOTTIME, &running);
    return at == NULL ? 0
                      : (double)(now.tv_sec - running.tv_sec - 1) +
                            strtod(at, NULL) / (double)sysconf(_SC_CLK_TCK);
}
