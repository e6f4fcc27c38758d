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

#include "common/arch.h"
#include "common/linker.h"
#include "common/program.h"

/* The kernel does not read more of an interpreter line, either. */
enum { SCRIPT_LINE_BYTES = 256 };

/* Files with more are not examined; real programs are far below this. */
enum { SEGMENTS_MAX = 256, DYNAMIC_ENTRIES_MAX = 256 };

/* Enough of a library's name to identify it. */
enum { LIBRARY_NAME_BYTES = 32 };

static int path_check(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) return PROGRAM_NOT_FOUND;
    if (!S_ISREG(status.st_mode) || access(path, X_OK) != 0) return PROGRAM_CANNOT_EXECUTE;
    return 0;
}

/* Which of two failures to report: that there is something that cannot be executed goes first. */
static int executable_worse(int one, int other)
{
    return one == PROGRAM_CANNOT_EXECUTE || other == PROGRAM_CANNOT_EXECUTE ? PROGRAM_CANNOT_EXECUTE
                                                                            : PROGRAM_NOT_FOUND;
}

/* A directory of $PATH that may not be searched counts as empty, as for a shell. */
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
            result = executable_worse(result, status);
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

/* Whether the kernel would start the program in secure mode, in which LD_PRELOAD is ignored. */
static bool is_privileged(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) return false;
    if ((status.st_mode & S_ISUID) && status.st_uid != geteuid()) return true;
    if ((status.st_mode & S_ISGID) && status.st_gid != getegid()) return true;
    return geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
}

/* Reads the segments of the program and returns how many; 0: they cannot be read. */
static unsigned segments_read(const char *path, const Elf64_Ehdr *header, Elf64_Phdr *segments)
{
    if (header->e_phentsize != sizeof *segments || header->e_phnum > SEGMENTS_MAX) return 0;
    size_t bytes = header->e_phnum * sizeof *segments;
    return head_read(path, segments, bytes, (off_t)header->e_phoff) == bytes ? header->e_phnum : 0;
}

static const Elf64_Phdr *segment_find(const Elf64_Phdr *segments, unsigned count, Elf64_Word type,
                                      Elf64_Addr address)
{
    for (unsigned i = 0; i < count; i++)
        if (segments[i].p_type == type &&
            (type != PT_LOAD || address - segments[i].p_vaddr < segments[i].p_filesz))
            return &segments[i];
    return NULL;
}

/* Whether the library whose name is at this offset is that of a sanitizer that must come before all
 * others. */
static bool is_sanitizer(const char *path, off_t name_at)
{
    static const char *const known[] = {"libasan.so", "libtsan.so", "libclang_rt.asan",
                                        "libclang_rt.tsan"};
    char name[LIBRARY_NAME_BYTES] = "";
    head_read(path, name, sizeof name, name_at);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(name, known[i], strlen(known[i])) == 0) return true;
    return false;
}

/* Looks through the libraries that the program is linked with. */
static bool has_sanitizer(const char *path, const Elf64_Phdr *segments, unsigned count)
{
    Elf64_Dyn entries[DYNAMIC_ENTRIES_MAX];
    const Elf64_Phdr *dynamic = segment_find(segments, count, PT_DYNAMIC, 0), *strings = NULL;
    Elf64_Addr names = 0;
    if (dynamic == NULL) return false;
    size_t used = head_read(path, entries, sizeof entries, (off_t)dynamic->p_offset);
    if (used > dynamic->p_filesz) used = dynamic->p_filesz;
    used /= sizeof *entries;
    for (size_t i = 0; i < used; i++)
        if (entries[i].d_tag == DT_STRTAB) names = entries[i].d_un.d_ptr;
    strings = segment_find(segments, count, PT_LOAD, names);
    if (strings == NULL) return false;
    names = names - strings->p_vaddr + strings->p_offset;
    for (size_t i = 0; i < used; i++)
        if (entries[i].d_tag == DT_NEEDED &&
            is_sanitizer(path, (off_t)(names + entries[i].d_un.d_val)))
            return true;
    return false;
}

/* Whether its dynamic linker, which a segment names, is the one of glibc. */
static bool has_our_linker(const char *path, const Elf64_Phdr *interpreter)
{
    char linker[PATH_MAX] = "";
    if (interpreter->p_filesz >= sizeof linker) return true;
    head_read(path, linker, interpreter->p_filesz, (off_t)interpreter->p_offset);
    return linker_is_glibc(linker);
}

/* A file that cannot be read or parsed counts as no obstacle: the kernel will report it. */
static enum executable_obstacle obstacle_find(const char *path)
{
    if (is_privileged(path)) return EXECUTABLE_PRIVILEGED;
    Elf64_Ehdr header;
    if (head_read(path, &header, sizeof header, 0) != sizeof header ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return EXECUTABLE_FINE;
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != ARCH_ELF_MACHINE)
        return EXECUTABLE_OTHER_SYSTEM;
    Elf64_Phdr segments[SEGMENTS_MAX];
    const unsigned count = segments_read(path, &header, segments);
    const Elf64_Phdr *interpreter = segment_find(segments, count, PT_INTERP, 0);
    if (count > 0 && interpreter == NULL) return EXECUTABLE_STATIC;
    if (count > 0 && !has_our_linker(path, interpreter)) return EXECUTABLE_OTHER_LIBC;
    return has_sanitizer(path, segments, count) ? EXECUTABLE_SANITIZER : EXECUTABLE_FINE;
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
