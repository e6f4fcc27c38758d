#include "keep/each.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/output_name.h"
#include "keep/keeper.h"
#include "launch/installed.h"

enum { EACH_NUMBER_MAX = 10000, EACH_TRIES = 200, EACH_REST_US = 10000 };

int each_split(struct error *error)
{
    static const char *const words[] = {KEEPER_NAME, "--quiet", "--no-compress", "--", "-",
                                        "-",         NULL};
    struct installed program;
    int ends[2];
    if (!installed_find_program(&program, "postprocess")) {
        error_set(error, &error_system, ERROR_NO_OFFSET, "%.200s not found", program.path);
        return -1;
    }
    const pid_t process = pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;
    if (process < 0) error_set_system(error, "cannot start the keeper");
    if (process < 0) return -1;
    if (process == 0) { /* a recorder whose postprocess has ended must see that */
        const int nowhere = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (nowhere >= 0) dup2(nowhere, STDIN_FILENO);
        close(ends[1]);
        return ends[0];
    }
    if (dup2(ends[1], STDOUT_FILENO) >= 0) execv(program.path, (char *const *)words);
    error_set_system(error, "cannot start postprocess");
    return -1;
}

/* Makes FILE.keep if there is neither a FILE nor that; but the keeper of what the same process did
 * before an exec may be about to remove it. False: see errno; EEXIST: there is one. */
static bool each_make_directory(const char *file, char *directory)
{
    struct stat status;
    if (snprintf(directory, PATH_MAX, "%s.keep", file) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (unsigned i = 0; i < EACH_TRIES; i++) {
        if (lstat(file, &status) == 0) break;
        if (mkdir(directory, 0700) == 0) return true;
        if (errno != EEXIST) return false;
        usleep(EACH_REST_US);
    }
    errno = EEXIST;
    return false;
}

bool each_choose_names(struct keep_options *options, struct error *error)
{
    static char host[HOST_NAME_MAX + 1], file[PATH_MAX], directory[PATH_MAX], listen[PATH_MAX];
    char *end;
    const long process = strtol(options->process, &end, 10);
    const bool has_number = *end == '.';
    struct output_names names = {.process_id = (int)process,
                                 .host = host,
                                 .time_s = (uint64_t)time(NULL),
                                 .program = options->program,
                                 .program_number = has_number ? (uint32_t)atoi(end + 1) : 1};
    const char *const listens = options->listen != NULL ? options->listen : "";
    bool is_made;
    gethostname(host, sizeof host - 1);
    do {
        if (output_name_expand(options->output, &names, file, sizeof file) < 0 ||
            output_name_expand(listens, &names, listen, sizeof listen) < 0)
            return error_set(error, &error_system, ERROR_NO_OFFSET, "the name is too long");
        is_made = each_make_directory(file, directory);
    } while (!is_made && errno == EEXIST && ++names.program_number < EACH_NUMBER_MAX);
    if (!is_made) return error_set_system(error, "cannot make a directory");
    options->output = file;
    options->directory = directory;
    if (options->listen != NULL) options->listen = listen;
    return true;
}
