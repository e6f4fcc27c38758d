/* target - what is known about a running process from /proc and the files that it has mapped,
 * without stopping it.
 *
 * Memory: from malloc(), until target_close(). One thread. */
#ifndef MALLOCTAPE_ATTACH_TARGET_H
#define MALLOCTAPE_ATTACH_TARGET_H

#include <libelf.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A mapping (proc(5), maps). */
struct target_mapping {
    uint64_t start, end, offset;
    bool is_executable, is_private;
    size_t module; /* index of the mapped file */
};

/* A file that is mapped as executable. */
struct target_module {
    char path[PATH_MAX];
    uint64_t base;     /* to be added to the addresses of its symbols */
    Elf *elf;          /* NULL until it was asked for */
    Elf_Data *symbols; /* .dynsym; NULL: it has none */
    size_t symbols_count, strings_section;
    int file;
};

struct target {
    pid_t process;
    struct target_mapping *mappings; /* of modules only, ascending */
    size_t mappings_count;
    struct target_module *modules;
    size_t modules_count;
    uint64_t kernel_code_start, kernel_code_end; /* vdso(7); 0: none */
    const char *original;                        /* or NULL */
};

#define TARGET_NONE SIZE_MAX

/* The prefix of the name of a memory file (memfd_create(2)) that is a copy of a file. */
#define TARGET_COPY "malloctape/"

/* The name of the recorder's library. */
#define TARGET_LIBRARY "libmalloctape.so"

/* `original`: the file of which the process may have a copy in memory. False: there is no such
 * process, or it is another user's; see errno. */
bool target_open(struct target *target, pid_t process, const char *original);
void target_close(struct target *target);

/* The module with the code at this address, or TARGET_NONE. */
size_t target_module_at(const struct target *target, uint64_t address);

/* The first module whose file name begins with `name`, or TARGET_NONE. */
size_t target_module_named(const struct target *target, const char *name);

/* The address of a function that a module exports; 0: it has none of that name. */
uint64_t target_function(struct target *target, size_t module, const char *name);

/* The length of the exported function at this address; 0: unknown. */
uint64_t target_function_bytes(struct target *target, size_t module, uint64_t address);

/* The address of a variable that a module exports; 0: it has none of that name. Its value in the
 * file, before the process began, goes to `initial`, up to *bytes of it, which becomes how many. */
uint64_t target_variable(struct target *target, size_t module, const char *name, void *initial,
                         size_t *bytes);

/* Reads the process's memory. The result: how many bytes could be read. */
size_t target_read(const struct target *target, uint64_t address, void *to, size_t bytes);

/* The start of `bytes` of memory that nothing in the process uses, at a multiple of 64: in the rest
 * of the last page of a segment of a module, where none of its own addresses is; 0: there is none.
 * Only a tracer can write there. */
uint64_t target_spare(struct target *target, size_t bytes);

/* A line "NAME:\tVALUE" of /proc/PROCESS/status. False: there is none. */
bool target_status(pid_t process, const char *name, char *value, size_t bytes);

#endif
