#include "symbols/symbol_file.h"

#include <dlfcn.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSTEM_DIRECTORY "/usr/lib/debug"

struct search {
    const struct symbol_places *places;
    const struct symbol_module_name *module;
    char *found;
    const char *link; /* a further name of the debug information; NULL: none */
    const char *from; /* NULL, or the file that names the one that is looked for */
    bool other;       /* a file of another build was seen */
    bool debug;       /* looks for debug information only, not for PATH itself */
};

/* ---- one file ---- */

/* Whether a path without links lies below a directory, which may be one. */
static bool is_below(const char *path, const char *directory)
{
    char real[PATH_MAX];
    if (realpath(directory, real) == NULL) return false;
    const size_t length = strlen(real);
    return strncmp(path, real, length) == 0 && (path[length] == '/' || strcmp(real, "/") == 0);
}

/* Whether a file that another one names may be read. */
static bool is_allowed(const struct search *search, const char *path)
{
    char beside[PATH_MAX];
    snprintf(beside, sizeof beside, "%.*s.", (int)(basename(search->from) - search->from),
             search->from);
    bool is = is_below(path, SYSTEM_DIRECTORY) || is_below(path, beside);
    for (size_t i = 0; i < search->places->count && !is; i++)
        is = is_below(path, search->places->directories[i]);
    return is;
}

/* Opens a file if it may be read, which O_PATH tells before it is opened; else -1. */
static int open_checked(const struct search *search, const char *path)
{
    char by_descriptor[40], real[PATH_MAX];
    struct stat status;
    const int place = open(path, O_PATH | O_CLOEXEC);
    int fd = -1;
    if (place < 0) return -1;
    snprintf(by_descriptor, sizeof by_descriptor, "/proc/self/fd/%d", place);
    const ssize_t length = readlink(by_descriptor, real, sizeof real - 1);
    real[length > 0 ? length : 0] = '\0';
    if (fstat(place, &status) == 0 && S_ISREG(status.st_mode) &&
        (uint64_t)status.st_size <= SYMBOL_FILE_BYTES_MAX &&
        (search->from == NULL || is_allowed(search, real)))
        fd = open(by_descriptor, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    close(place);
    return fd;
}

/* Whether a file is the module's: an ELF file with the same build id. */
static bool symbol_file_fits(const struct search *search, int fd)
{
    const struct symbol_module_name *module = search->module;
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    const void *id = NULL;
    if (elf == NULL) return false;
    const bool is_elf = elf_kind(elf) == ELF_K_ELF;
    const ssize_t bytes = is_elf ? dwelf_elf_gnu_build_id(elf, &id) : -1;
    const bool same = module->build_id_bytes == 0
                          ? is_elf
                          : bytes == (ssize_t)module->build_id_bytes &&
                                memcmp(id, module->build_id, module->build_id_bytes) == 0;
    elf_end(elf);
    return same;
}

/* Opens `path` if it is the module's file; else -1. `is_by_name`: notes a file of another build. */
static int try(struct search *search, const char *path, bool is_by_name)
{
    const int fd = open_checked(search, path);
    if (fd < 0) return -1;
    if (symbol_file_fits(search, fd)) {
        snprintf(search->found, PATH_MAX, "%s", path);
        return fd;
    }
    if (is_by_name) search->other = true;
    close(fd);
    return -1;
}

static int __attribute__((format(printf, 3, 4)))
try_path(struct search *search, bool is_by_name, const char *format, ...)
{
    char path[PATH_MAX];
    va_list list;
    va_start(list, format);
    const int length = vsnprintf(path, sizeof path, format, list);
    va_end(list);
    return length > 0 && length < (int)sizeof path ? try(search, path, is_by_name) : -1;
}

/* ---- where it may be ---- */

static int try_build_id(struct search *search, const char *directory)
{
    const struct symbol_module_name *module = search->module;
    char hex[2 * BUILD_ID_MAX + 1];
    if (module->build_id_bytes < 2 || module->build_id_bytes > BUILD_ID_MAX) return -1;
    for (size_t i = 0; i < module->build_id_bytes; i++)
        snprintf(hex + 2 * i, 3, "%02x", module->build_id[i]);
    int fd = try_path(search, false, "%s/.build-id/%.2s/%s.debug", directory, hex, hex + 2);
    if (fd < 0 && !search->debug)
        fd = try_path(search, false, "%s/.build-id/%.2s/%s", directory, hex, hex + 2);
    return fd;
}

/* Debug information in a directory that mirrors the paths of programs. */
static int try_mirror(struct search *search, const char *directory)
{
    const char *path = search->module->path, *link = search->link;
    int fd = try_path(search, false, "%s/%s.debug", directory, path);
    if (fd < 0 && link != NULL)
        fd = try_path(search, false, "%s/%.*s%s", directory, (int)(basename(path) - path), path,
                      link);
    if (fd < 0 && search->debug) fd = try_path(search, false, "%s/%s", directory, path);
    return fd;
}

static int try_directory(struct search *search, const char *directory)
{
    const char *path = search->module->path, *name = basename(path);
    int fd = try_build_id(search, directory);
    if (*name == '\0') return fd;
    if (fd < 0) fd = try_path(search, false, "%s/%s.debug", directory, name);
    if (fd < 0 && search->link != NULL)
        fd = try_path(search, false, "%s/%s", directory, search->link);
    if (search->debug) return fd < 0 ? try_mirror(search, directory) : fd;
    if (fd < 0) fd = try_path(search, true, "%s/%s", directory, path);
    if (fd < 0) fd = try_path(search, true, "%s/%s", directory, name);
    return fd;
}

/* A path that is not absolute, such as "[vdso]", does not name a file. */
static int try_own_path(struct search *search)
{
    const char *path = search->module->path, *name = basename(path);
    if (*path != '/' || *name == '\0' || search->module->build_id_bytes == 0) return -1;
    const int directory = (int)(name - path);
    int fd = try_path(search, false, "%s.debug", path);
    if (fd < 0) fd = try_path(search, false, "%.*s.debug/%s.debug", directory, path, name);
    if (fd < 0 && search->link != NULL)
        fd = try_path(search, false, "%.*s%s", directory, path, search->link);
    if (fd < 0 && search->link != NULL)
        fd = try_path(search, false, "%.*s.debug/%s", directory, path, search->link);
    if (fd < 0 && !search->debug) fd = try(search, path, true);
    return fd;
}

/* ---- debuginfod: https://sourceware.org/elfutils/Debuginfod.html ---- */

typedef struct debuginfod_client *begin_function(void);
typedef int find_function(struct debuginfod_client *client, const unsigned char *build_id,
                          int build_id_bytes, char **path);
typedef void end_function(struct debuginfod_client *client);

/* libdebuginfod is loaded only if a server is set, because it loads libcurl and many others. */
static int ask_server(struct search *search)
{
    const char *urls = getenv("DEBUGINFOD_URLS");
    const struct symbol_module_name *module = search->module;
    char *path = NULL;
    if (urls == NULL || *urls == '\0' || module->build_id_bytes == 0) return -1;
    void *library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return -1;
    begin_function *begin = (begin_function *)dlsym(library, "debuginfod_begin");
    find_function *find = (find_function *)dlsym(library, "debuginfod_find_debuginfo");
    end_function *end = (end_function *)dlsym(library, "debuginfod_end");
    struct debuginfod_client *client =
        begin != NULL && find != NULL && end != NULL ? begin() : NULL;
    int fd = -1;
    if (client != NULL) {
        fd = find(client, module->build_id, (int)module->build_id_bytes, &path);
        end(client);
    }
    if (fd >= 0) close(fd);
    fd = fd >= 0 && path != NULL ? try(search, path, false) : -1;
    free(path);
    return fd;
}

/* ---- all of them ---- */

static int symbol_file_find(struct search *search)
{
    int fd = -1;
    if (search->places->nowhere) return -1;
    for (size_t i = 0; i < search->places->count && fd < 0; i++)
        fd = try_directory(search, search->places->directories[i]);
    if (fd < 0) fd = try_own_path(search);
    if (fd < 0) fd = try_build_id(search, SYSTEM_DIRECTORY);
    if (fd < 0 && search->module->build_id_bytes > 0) fd = try_mirror(search, SYSTEM_DIRECTORY);
    return fd;
}

int symbol_file_open(const struct symbol_places *places, const struct symbol_module_name *module,
                     char *found, enum symbol_file_state *state)
{
    struct search search = {.places = places, .module = module, .found = found};
    int fd = symbol_file_find(&search);
    if (fd < 0 && !places->nowhere) fd = ask_server(&search);
    *state = fd >= 0                       ? SYMBOL_FILE_FOUND
             : search.other                ? SYMBOL_FILE_OTHER
             : module->build_id_bytes == 0 ? SYMBOL_FILE_NO_ID
                                           : SYMBOL_FILE_MISSING;
    return fd;
}

int symbol_file_open_debug(const struct symbol_places *places,
                           const struct symbol_module_name *module, const char *link, char *found)
{
    struct search search = {.places = places, .module = module, .found = found, .debug = true};
    if (link != NULL && *link != '\0' && strchr(link, '/') == NULL) search.link = link;
    const int fd = symbol_file_find(&search);
    return fd >= 0 ? fd : ask_server(&search);
}

/* Its name, beside the file that names it and in the user's directories. */
static int find_named(struct search *search)
{
    const char *path = search->module->path, *from = search->from;
    int fd = -1;
    for (size_t i = 0; i < search->places->count && fd < 0; i++) {
        const char *directory = search->places->directories[i];
        fd = try_build_id(search, directory);
        if (fd < 0) fd = try_path(search, false, "%s/%s", directory, path);
        if (fd < 0) fd = try_path(search, false, "%s/%s", directory, basename(path));
    }
    if (fd < 0) fd = try_build_id(search, SYSTEM_DIRECTORY);
    if (fd < 0 && *path == '/') fd = try(search, path, false);
    if (fd < 0 && *path != '/')
        fd = try_path(search, false, "%.*s%s", (int)(basename(from) - from), from, path);
    return fd;
}

int symbol_file_open_named(const struct symbol_places *places, const char *from,
                           const struct symbol_module_name *named, char *found)
{
    struct search search = {
        .places = places, .module = named, .found = found, .from = from, .debug = true};
    if (places->nowhere || *named->path == '\0') return -1;
    const int fd = find_named(&search);
    search.from = NULL; /* the server's files lie in its cache */
    return fd >= 0 ? fd : ask_server(&search);
}

/* ---- reading ---- */

Elf *symbol_file_read(int fd, uint64_t *bytes)
{
    struct stat status;
    Elf *elf = fd >= 0 && fstat(fd, &status) == 0 ? elf_begin(fd, ELF_C_READ_MMAP, NULL) : NULL;
    if (elf != NULL && (elf_kind(elf) != ELF_K_ELF || elf_cntl(elf, ELF_C_FDREAD) != 0)) {
        elf_end(elf);
        elf = NULL;
    }
    if (elf != NULL) *bytes = (uint64_t)status.st_size;
    if (fd >= 0) close(fd);
    return elf;
}
