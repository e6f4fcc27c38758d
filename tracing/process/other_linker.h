/* other_linker - what a program gets whose dynamic linker cannot load this library.
 *
 * With another C library it would not start; where the library's file cannot be read, in another root
 * directory or by another user, the linker would complain on standard error. So the library is taken
 * out of LD_PRELOAD in the environment of that program, which is then not recorded, nor is what it
 * starts. Programs without a dynamic linker keep it, for what they start.
 *
 * Any thread, a vfork child, too: nothing is allocated. */
#ifndef MALLOCTAPE_OTHER_LINKER_H
#define MALLOCTAPE_OTHER_LINKER_H

#include <stddef.h>

/* How much room the environment without the library takes, if that is the program's; 0: it gets
 * `environment` as it is. `directory`, `path` and `flags` as for execveat(). Then
 * `record` is told. */
size_t other_linker_room(int directory, const char *path, int flags, char *const environment[]);

/* The same for a program that execvpe() finds in $PATH. */
size_t other_linker_room_in_path(const char *file, char *const environment[]);

/* Writes the environment to `room`, if there is any, and returns it; else `environment`. */
char *const *other_linker_environment(void *room, char *const environment[]);

/* To be used in the function that makes the call: the room is on its stack. */
#define OTHER_LINKER_ENVIRONMENT(bytes, environment) \
    other_linker_environment((bytes) ? __builtin_alloca(bytes) : NULL, (environment))

#endif
