#include "cli/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef MALLOCTAPE_LIBRARY_DIRECTORY
#error \
    "the build gives MALLOCTAPE_LIBRARY_DIRECTORY, where make install puts the preloaded libraries"
#endif

/* Directory of the running program, without a slash at the end; empty if the system does not tell. */
static void own_directory(struct place *place)
{
    ssize_t length = readlink("/proc/self/exe", place->path, sizeof place->path - 1);
    place->path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(place->path, '/');
    if (slash != NULL) *slash = '\0';
}

/* Puts the path together; false if it is too long or nothing readable is there. */
static bool is_there(struct place *place, const char *directory, const char *between,
                     const char *name)
{
    int length = snprintf(place->path, sizeof place->path, "%s%s/%s", directory, between, name);
    return length > 0 && (size_t)length < sizeof place->path && access(place->path, R_OK) == 0;
}

/* Leaves out "bin/.." in the middle, so that what a user sees is a plain path. */
static void make_plain(struct place *place)
{
    char *real = realpath(place->path, NULL);
    if (real != NULL) snprintf(place->path, sizeof place->path, "%s", real);
    free(real);
}

bool place_find_library(struct place *place, const char *name)
{
    const char *forced = getenv(PLACE_LIBRARIES_VARIABLE);
    struct place own;
    own_directory(&own);
    bool found = false;
    if (forced != NULL && *forced != '\0')
        found = is_there(place, forced, "", name);
    else
        found = is_there(place, own.path, "/../lib", name) ||
                is_there(place, own.path, "/../lib/malloctape", name) ||
                is_there(place, MALLOCTAPE_LIBRARY_DIRECTORY, "", name);
    if (found)
        make_plain(place);
    else if (forced != NULL && *forced != '\0')
        snprintf(place->path, sizeof place->path, "%.*s (%s)", PATH_MAX / 2, forced,
                 PLACE_LIBRARIES_VARIABLE);
    else
        snprintf(place->path, sizeof place->path, "%.*s/../lib, %.*s/../lib/malloctape, %s",
                 PATH_MAX / 4, own.path, PATH_MAX / 4, own.path, MALLOCTAPE_LIBRARY_DIRECTORY);
    return found;
}

bool place_find_program(struct place *place, const char *name)
{
    struct place own;
    own_directory(&own);
    return is_there(place, own.path, "", name) && access(place->path, X_OK) == 0;
}
