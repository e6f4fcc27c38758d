#include "launch/allocators.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocators/facts_tcmalloc.h"
#include "common/arch.h"
#include "common/error.h"
#include "launch/installed.h"

const struct known_allocator known_allocators[] = {
#define KNOWN_ALLOCATOR_LINE(name, where, files, package, no_switching, help) \
    {name, where, files, package, no_switching, help},
    KNOWN_ALLOCATOR_LIST(KNOWN_ALLOCATOR_LINE)
#undef KNOWN_ALLOCATOR_LINE
        {NULL, ALLOCATOR_NOTHING, NULL, NULL, false, NULL},
};

/* For glob(): on some systems the second level is named after the architecture. */
#define DIRECTORIES \
    "/usr/local/lib,/usr/local/lib/*,/usr/lib/*,/lib/*,/usr/lib64,/lib64,/usr/lib,/lib"

/* ---- files ---- */

static bool elf_header(const char *path, Elf64_Ehdr *header)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool whole = read(fd, header, sizeof *header) == (ssize_t)sizeof *header;
    close(fd);
    return whole && memcmp(header->e_ident, ELFMAG, SELFMAG) == 0;
}

/* Whether the dynamic linker could load it into a program like this one. */
static bool is_own_kind_of_library(const char *path)
{
    Elf64_Ehdr library, own;
    return elf_header(path, &library) && elf_header("/proc/self/exe", &own) &&
           library.e_type == ET_DYN && library.e_machine == own.e_machine &&
           library.e_ident[EI_CLASS] == own.e_ident[EI_CLASS];
}

/* Appends the directories of a search path, split as the dynamic linker does, for glob(): each
 * followed by a comma. Returns the end; writes at most 2 bytes for each byte of `path`, its zero
 * byte included. */
static char *put_directories(char *pattern, const char *path)
{
    for (bool empty = true;; path++) {
        const bool ends = *path == ':' || *path == ';' || *path == '\0';
        if (ends && empty) *pattern++ = '.';
        if (!ends && strchr(",{}[*?\\", *path) != NULL) *pattern++ = '\\';
        *pattern++ = ends ? ',' : *path;
        if (*path == '\0') return pattern;
        empty = ends;
    }
}

/* Finds the first suitable file of that name; the user's directories come before the system's. */
static bool search_file(struct allocator_found *found, const char *file, int file_length)
{
    const char *own = getenv("LD_LIBRARY_PATH");
    if (own == NULL || *own == '\0') own = "/usr/local/lib"; /* the first one anyway */
    char *pattern = malloc(2 * strlen(own) + sizeof "{.," DIRECTORIES "}/" + (size_t)file_length);
    if (pattern == NULL) return false;
    *pattern = '{';
    sprintf(put_directories(pattern + 1, own), DIRECTORIES "}/%.*s", file_length, file);
    glob_t matches;
    const bool any = glob(pattern, GLOB_BRACE, NULL, &matches) == 0;
    free(pattern);
    if (!any) return false;
    size_t at = 0;
    while (at < matches.gl_pathc && !is_own_kind_of_library(matches.gl_pathv[at]))
        at++;
    const bool there =
        at < matches.gl_pathc && strlen(matches.gl_pathv[at]) < sizeof found->library;
    if (there) strcpy(found->library, matches.gl_pathv[at]);
    globfree(&matches);
    return there;
}

static bool find_system(struct allocator_found *found, const char *files, const char *package)
{
    for (const char *file = files; *file != '\0';) {
        const size_t length = strcspn(file, " ");
        if (search_file(found, file, (int)length)) return true;
        file += length + strspn(file + length, " ");
    }
    return error_explain(
        found->why, sizeof found->why, "not installed: no %.*s in the library directories%s%s",
        (int)strcspn(files, " "), files, package != NULL ? "; Debian has it in " : "",
        package != NULL ? package : "");
}

static bool find_ours(struct allocator_found *found, const char *file)
{
    struct installed installed;
    if (!installed_find_library(&installed, file, found->why, sizeof found->why)) return false;
    memcpy(found->library, installed.path, sizeof found->library);
    return true;
}

static bool allocators_find_path(struct allocator_found *found, const char *path)
{
    if (access(path, R_OK) != 0)
        return error_explain(found->why, sizeof found->why, "%s: %s", path, strerror(errno));
    if (!is_own_kind_of_library(path))
        return error_explain(found->why, sizeof found->why,
                             "%s: not a shared library for this architecture", path);
    if (realpath(path, found->library) == NULL)
        return error_explain(found->why, sizeof found->why, "%s: %s", path, strerror(errno));
    return true;
}

/* ---- a C library other than the system's ---- */

#define LIBC_FILE   "libc.so.6"
#define LINKER_FILE ARCH_LINKER

/* Where the other libraries are that a replay needs. */
#define SYSTEM_DIRECTORIES                                            \
    "/usr/local/lib:/lib/" ARCH_DIRECTORY ":/usr/lib/" ARCH_DIRECTORY \
    ":/lib64:/usr/lib64:/lib:/usr/lib"

/* The path in "glibc:PATH"; or NULL. */
static const char *own_libc(const char *name)
{
    static const char before[] = "glibc:";
    return strncmp(name, before, sizeof before - 1) == 0 ? name + sizeof before - 1 : NULL;
}

/* Finds the dynamic linker: in the directory itself, or where it is in glibc's build directory. */
static bool find_linker(struct allocator_found *found, const char *directory)
{
    static const char *const between[] = {"/", "/elf/"};
    for (size_t i = 0; i < sizeof between / sizeof *between; i++) {
        int length = snprintf(found->linker, sizeof found->linker, "%s%s" LINKER_FILE, directory,
                              between[i]);
        if (length > 0 && (size_t)length < sizeof found->linker && access(found->linker, X_OK) == 0)
            return true;
    }
    *found->linker = '\0';
    return false;
}

static bool allocators_find_libc(struct allocator_found *found, const char *path)
{
    char directory[PATH_MAX];
    if (access(path, R_OK) != 0 || realpath(path, directory) == NULL)
        return error_explain(found->why, sizeof found->why, "%s: %s", path, strerror(errno));
    /* Symbolic links are not followed: the dynamic linker goes by the name in the path. */
    const char *slash = strrchr(path, '/');
    if (slash == NULL || strcmp(slash + 1, LIBC_FILE) != 0)
        return error_explain(found->why, sizeof found->why, "%s: not the path of a " LIBC_FILE,
                             path);
    const int length = (int)(slash - path);
    snprintf(directory, sizeof directory, "%.*s", length, path);
    if (!find_linker(found, directory))
        return error_explain(found->why, sizeof found->why, "no " LINKER_FILE " beside %s", path);
    snprintf(found->directories, sizeof found->directories, "%s:" SYSTEM_DIRECTORIES, directory);
    return true;
}

char *const *allocators_through(const struct allocator_found *found, char *words[ALLOCATOR_WORDS])
{
    if (*found->linker == '\0') return NULL;
    words[0] = (char *)found->linker;
    words[1] = (char *)"--library-path";
    words[2] = (char *)found->directories;
    words[3] = NULL;
    return words;
}

/* ---- names ---- */

static const struct known_allocator *known_find(const char *name)
{
    if (strcmp(name, "system") == 0) name = "glibc";
    for (const struct known_allocator *known = known_allocators; known->name != NULL; known++)
        if (strcmp(known->name, name) == 0) return known;
    return NULL;
}

static bool allocators_is_library(const char *name)
{
    return strchr(name, '/') != NULL || strstr(name, ".so") != NULL;
}

bool allocators_know(const char *name)
{
    return allocators_is_library(name) || known_find(name) != NULL;
}

static bool find_known(struct allocator_found *found)
{
    switch (found->known->where) {
    case ALLOCATOR_OURS: return find_ours(found, found->known->files);
    case ALLOCATOR_SYSTEM: return find_system(found, found->known->files, found->known->package);
    default: return true;
    }
}

bool allocators_find(struct allocator_found *found, const char *name)
{
    const char *libc = own_libc(name);
    *found =
        (struct allocator_found){.known = allocators_is_library(name) ? NULL : known_find(name)};
    if (libc != NULL) {
        found->known = known_find("glibc");
        return allocators_find_libc(found, libc);
    }
    bool there;
    if (found->known != NULL)
        there = find_known(found);
    else if (strchr(name, '/') != NULL)
        there = allocators_find_path(found, name);
    else
        there = find_system(found, name, NULL);
    return there && installed_can_preload(found->library, found->why, sizeof found->why);
}

void allocators_offer(void (*add)(const char *name, const char *about))
{
    struct allocator_found found;
    for (const struct known_allocator *known = known_allocators; known->name != NULL; known++)
        if (allocators_find(&found, known->name)) add(known->name, known->help);
}

void allocators_enter(const struct allocator_found *found)
{
    static const char no_switching[] = "NO_THREAD_CACHE_SWITCH";
    unsetenv("LD_PRELOAD");
    unsetenv(no_switching);
    if (found == NULL) return;
    if (*found->library != '\0') setenv("LD_PRELOAD", found->library, 1);
    if (found->known != NULL && found->known->no_switching) setenv(no_switching, "1", 1);
}

bool allocators_was_used(const struct allocator_found *found, const char *reported, char *why,
                         size_t why_bytes)
{
    if (*found->library == '\0' || reported == NULL || strncmp(reported, "glibc", 5) != 0)
        return true;
    snprintf(why, why_bytes, "%s has no malloc or was not loaded: the C library's malloc was used",
             found->library);
    return false;
}

bool allocators_is_of_recorder(const char *allocator)
{
    return allocator != NULL &&
           strncmp(allocator, TCMALLOC_RECORDED, strlen(TCMALLOC_RECORDED)) == 0;
}

const char *allocators_name_recorded(const char *allocator)
{
    if (allocator == NULL) return NULL;
    if (allocators_is_of_recorder(allocator)) return "tcmalloc";
    size_t bytes = strcspn(allocator, " ");
    for (const struct known_allocator *known = known_allocators; known->name != NULL; known++)
        if (known->where != ALLOCATOR_NOTHING && strlen(known->name) == bytes &&
            memcmp(known->name, allocator, bytes) == 0)
            return known->name;
    return NULL;
}
