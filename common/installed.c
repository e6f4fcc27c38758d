#include "common/installed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef MALLOCTAPE_LIBRARY_DIRECTORY
#error \
    "the build gives MALLOCTAPE_LIBRARY_DIRECTORY, where make install puts the preloaded libraries"
#endif

/* Directory of the running program, without a slash at the end; empty if the system does not
 * tell. */
static void own_directory(struct installed *installed)
{
    ssize_t length = readlink("/proc/self/exe", installed->path, sizeof installed->path - 1);
    installed->path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(installed->path, '/');
    if (slash != NULL) *slash = '\0';
}

/* Puts the path together; false if it is too long or nothing readable is there. */
static bool is_there(struct installed *installed, const char *directory, const char *between,
                     const char *name)
{
    int length =
        snprintf(installed->path, sizeof installed->path, "%s%s/%s", directory, between, name);
    return length > 0 && (size_t)length < sizeof installed->path &&
           access(installed->path, R_OK) == 0;
}

/* Leaves out "bin/.." in the middle, so that what a user sees is a plain path. */
static void make_plain(struct installed *installed)
{
    char *real = realpath(installed->path, NULL);
    if (real != NULL) snprintf(installed->path, sizeof installed->path, "%s", real);
    free(real);
}

bool installed_find_library(struct installed *installed, const char *name)
{
    const char *forced = getenv(INSTALLED_LIBRARIES_VARIABLE);
    struct installed own;
    own_directory(&own);
    bool found = false;
    if (forced != NULL && *forced != '\0')
        found = is_there(installed, forced, "", name);
    else
        found = is_there(installed, own.path, "/../lib", name) ||
                is_there(installed, own.path, "/../lib/malloctape", name) ||
                is_there(installed, MALLOCTAPE_LIBRARY_DIRECTORY, "", name);
    if (found)
        make_plain(installed);
    else if (forced != NULL && *forced != '\0')
        snprintf(installed->path, sizeof installed->path, "%.*s (%s)", PATH_MAX / 2, forced,
                 INSTALLED_LIBRARIES_VARIABLE);
    else
        snprintf(installed->path, sizeof installed->path, "%.*s/../lib, %.*s/../lib/malloctape, %s",
                 PATH_MAX / 4, own.path, PATH_MAX / 4, own.path, MALLOCTAPE_LIBRARY_DIRECTORY);
    return found;
}

bool installed_find_program(struct installed *installed, const char *name)
{
    struct installed own;
    own_directory(&own);
    return is_there(installed, own.path, "", name) && access(installed->path, X_OK) == 0;
}
