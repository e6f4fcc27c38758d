#include "cli/executable.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/program.h"

/* More than that of an interpreter line the kernel does not read either. */
enum { SCRIPT_LINE_BYTES = 256 };

/* A file has few segments; those of a real program are far below this. */
enum { SEGMENTS_MAX = 256 };

static int path_check(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) return PROGRAM_NOT_FOUND;
    if (!S_ISREG(status.st_mode) || access(path, X_OK) != 0) return PROGRAM_CANNOT_EXECUTE;
    return 0;
}

/* The better of two failures to report: that something is there but cannot be run. */
static int worse(int one, int other)
{
    return one == PROGRAM_CANNOT_EXECUTE || other == PROGRAM_CANNOT_EXECUTE ? PROGRAM_CANNOT_EXECUTE
                                                                            : PROGRAM_NOT_FOUND;
}

/* In a directory of $PATH that may not be searched there is nothing, as for a shell. */
static int path_search(struct executable *executable, const char *name)
{
    const char *directory = getenv("PATH");
    if (directory == NULL) directory = "/usr/local/bin:/usr/bin:/bin";
    int result = PROGRAM_NOT_FOUND;
    for (;;) {
        size_t length = strcspn(directory, ":");
        int written = snprintf(executable->path, sizeof executable->path, "%.*s%s%s", (int)length,
                               directory, length > 0 ? "/" : "", name);
        if (written > 0 && (size_t)written < sizeof executable->path) {
            int status = path_check(executable->path);
            if (status == 0) return 0;
            result = worse(result, status);
        }
        if (directory[length] == '\0') return result;
        directory += length + 1;
    }
}

/* Reads up to `bytes` bytes of the file's beginning; returns how many. */
static size_t head_read(const char *path, void *to, size_t bytes, off_t offset)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t got = pread(fd, to, bytes, offset);
    close(fd);
    return got > 0 ? (size_t)got : 0;
}

/* If `path` is a script, writes the path of its interpreter. */
static bool script_interpreter(const char *path, char *interpreter, size_t bytes)
{
    char line[SCRIPT_LINE_BYTES + 1];
    size_t length = head_read(path, line, SCRIPT_LINE_BYTES, 0);
    line[length] = '\0';
    if (strncmp(line, "#!", 2) != 0) return false;
    line[strcspn(line, "\n")] = '\0';
    const char *start = line + 2 + strspn(line + 2, " \t");
    snprintf(interpreter, bytes, "%.*s", (int)strcspn(start, " \t"), start);
    return *interpreter != '\0';
}

/* Whether the kernel would make the program a trusted one, whose linker ignores LD_PRELOAD. */
static bool is_privileged(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) return false;
    if ((status.st_mode & S_ISUID) && status.st_uid != geteuid()) return true;
    if ((status.st_mode & S_ISGID) && status.st_gid != getegid()) return true;
    return geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
}

static bool has_dynamic_linker(const char *path, const Elf64_Ehdr *header)
{
    Elf64_Phdr segments[SEGMENTS_MAX];
    if (header->e_phentsize != sizeof *segments || header->e_phnum > SEGMENTS_MAX) return true;
    size_t bytes = header->e_phnum * sizeof *segments;
    if (head_read(path, segments, bytes, (off_t)header->e_phoff) != bytes) return true;
    for (unsigned i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_INTERP) return true;
    return false;
}

/* What cannot be read or understood is not an obstacle: the kernel will tell. */
static enum executable_obstacle obstacle_find(const char *path)
{
    if (is_privileged(path)) return EXECUTABLE_PRIVILEGED;
    Elf64_Ehdr header;
    if (head_read(path, &header, sizeof header, 0) != sizeof header ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return EXECUTABLE_FINE;
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64)
        return EXECUTABLE_OTHER_SYSTEM;
    return has_dynamic_linker(path, &header) ? EXECUTABLE_FINE : EXECUTABLE_STATIC;
}

int executable_find(struct executable *executable, const char *name)
{
    int status;
    if (strchr(name, '/') != NULL) {
        snprintf(executable->path, sizeof executable->path, "%s", name);
        status = path_check(executable->path);
        if (status == PROGRAM_NOT_FOUND && errno == EACCES) status = PROGRAM_CANNOT_EXECUTE;
    } else {
        status = path_search(executable, name);
    }
    if (status != 0) return status;
    if (!script_interpreter(executable->path, executable->runs, sizeof executable->runs))
        memcpy(executable->runs, executable->path, sizeof executable->runs);
    executable->obstacle = obstacle_find(executable->runs);
    return 0;
}
