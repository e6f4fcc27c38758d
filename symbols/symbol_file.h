/* symbol_file - finds the file of a module by its build id, and the files that this one names.
 *
 *   1. in each directory that the user named
 *        DIR/.build-id/12/3456.debug, the same without .debug
 *        DIR/PATH (a copy of another machine's files), DIR/NAME.debug, DIR/NAME
 *   2. PATH.debug, .debug/NAME.debug beside it, PATH
 *   3. /usr/lib/debug/.build-id/12/3456.debug
 *   4. a debuginfod server, if DEBUGINFOD_URLS names one
 *
 * With debug information apart, NAME is also what .gnu_debuglink says, in all these directories and
 * in /usr/lib/debug/DIRECTORY-OF-PATH.
 *
 * PATH comes from a trace, and other names from the files themselves: none is trusted. So a file is
 * read only if it is a regular one of at most SYMBOL_FILE_BYTES_MAX, which is checked before it is
 * opened (no device, no FIFO), and only if its build id is that of the module. A module without a
 * build id is looked for in the user's directories only. A file that another one names is read only
 * if it lies, links followed, below the user's directories, the directory of that file or
 * /usr/lib/debug. */
#ifndef MALLOCTAPE_SYMBOLS_SYMBOL_FILE_H
#define MALLOCTAPE_SYMBOLS_SYMBOL_FILE_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BUILD_ID_MAX = 64 };

#define SYMBOL_FILE_BYTES_MAX (UINT64_C(1) << 34)

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
 * PATH. `link` is the name in the module's .gnu_debuglink; NULL: none. */
int symbol_file_open_debug(const struct symbol_places *places,
                           const struct symbol_module_name *module, const char *link, char *found);

/* The same for a file that the file `from` names, a path relative to its directory or absolute:
 * with debug information that several files share (.gnu_debugaltlink), whose build id is known, or
 * with that of one unit (.dwo, .dwp; no build id). */
int symbol_file_open_named(const struct symbol_places *places, const char *from,
                           const struct symbol_module_name *named, char *found);

/* Takes over the descriptor, which may be -1, and sets *bytes to the size of the file. NULL: it is not
 * an ELF file. */
Elf *symbol_file_read(int fd, uint64_t *bytes);

#endif
