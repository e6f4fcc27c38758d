#include "launch/installed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"

#ifndef MALLOCTAPE_LIBRARY_DIRECTORY
#error "the build gives MALLOCTAPE_LIBRARY_DIRECTORY, the library directory of make install"
#endif

/* The directory of the running program, without a final slash; empty if it is not known. */
static void own_directory(struct installed *installed)
{
    ssize_t length = readlink("/proc/self/exe", installed->path, sizeof installed->path - 1);
    installed->path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(installed->path, '/');
    if (slash != NULL) *slash = '\0';
}

/* Puts the path together; false if it is too long or nothing readable is there. */
static bool installed_is_there(struct installed *installed, const char *directory,
                               const char *between, const char *name)
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

bool installed_can_preload(const char *path, char *why, size_t why_bytes)
{
    return strpbrk(path, ": ") == NULL ||
           error_explain(why, why_bytes,
                         "%s: the path has a space or a colon, which LD_PRELOAD cannot contain",
                         path);
}

bool installed_find_library(struct installed *installed, const char *name, char *why,
                            size_t why_bytes)
{
    const char *forced = getenv(INSTALLED_LIBRARIES_VARIABLE);
    struct installed own;
    own_directory(&own);
    if (forced != NULL && *forced != '\0') {
        if (!installed_is_there(installed, forced, "", name))
            return error_explain(why, why_bytes, "%s not found; looked in %s (%s)", name, forced,
                                 INSTALLED_LIBRARIES_VARIABLE);
    } else if (!installed_is_there(installed, own.path, "/../lib/malloctape", name) &&
               !installed_is_there(installed, own.path, "/../lib", name) &&
               !installed_is_there(installed, MALLOCTAPE_LIBRARY_DIRECTORY, "/malloctape", name) &&
               !installed_is_there(installed, MALLOCTAPE_LIBRARY_DIRECTORY, "", name)) {
        return error_explain(why, why_bytes,
                             "%s not found; looked in %s/../lib and %s, and in malloctape there",
                             name, own.path, MALLOCTAPE_LIBRARY_DIRECTORY);
    }
    make_plain(installed);
    return installed_can_preload(installed->path, why, why_bytes);
}

/* Tries the installed name first: beside an installed program, the other name may belong to another
 * package. */
bool installed_find_program(struct installed *installed, const char *name)
{
    struct installed own;
    char prefixed[NAME_MAX];
    own_directory(&own);
    snprintf(prefixed, sizeof prefixed, "malloctape-%s", name);
    return (installed_is_there(installed, own.path, "", prefixed) ||
            installed_is_there(installed, own.path, "", name)) &&
           access(installed->path, X_OK) == 0;
}
