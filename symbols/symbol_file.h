/* symbol_file - finds the file of a module, by its build id.
 *
 *   1. in each directory that the user named
 *        DIR/.build-id/12/3456.debug, the same without .debug
 *        DIR/PATH (a copy of another machine's files), DIR/NAME.debug, DIR/NAME
 *   2. PATH.debug, .debug/NAME.debug beside it, PATH
 *   3. /usr/lib/debug/.build-id/12/3456.debug
 *   4. a debuginfod server, if DEBUGINFOD_URLS names one
 *
 * PATH comes from a trace, which is untrusted. So a file is read only if it is a regular one, which
 * is checked before it is opened (no device, no FIFO), and only if its build id is that of the
 * module. A module without a build id is looked for in the user's directories only. */
#ifndef MALLOCTAPE_SYMBOLS_SYMBOL_FILE_H
#define MALLOCTAPE_SYMBOLS_SYMBOL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BUILD_ID_MAX = 64 };

struct symbol_places {
    const char *const *directories;
    size_t count;
    bool nowhere; /* no file is looked at: the directory "none" */
};

enum symbol_file_state {
    SYMBOL_FILE_FOUND,
    SYMBOL_FILE_MISSING,
    SYMBOL_FILE_OTHER, /* there is a file of that name, but of another build */
    SYMBOL_FILE_NO_ID  /* the module has no build id, and no file of its name was found */
};

struct symbol_module_name {
    const char *path;
    const uint8_t *build_id;
    size_t build_id_bytes;
};

/* A descriptor of the file, its path in `found` (of PATH_MAX bytes); -1: none. */
int symbol_file_open(const struct symbol_places *places, const struct symbol_module_name *module,
                     char *found, enum symbol_file_state *state);

/* The same for the separate file with debug information of a module: places 1 to 3, without
 * PATH. */
int symbol_file_open_debug(const struct symbol_places *places,
                           const struct symbol_module_name *module, char *found);

#endif
