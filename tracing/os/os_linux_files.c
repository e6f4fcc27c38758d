/* os_linux_files - the operating system layer of the capture core on Linux: files, by name and by
 * descriptor, and their contents in memory. */
#include "tracing/os/os.h"

#include "tracing/os/os_linux.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILE_PATH_BYTES 40

int os_linux_keep_from_messages(int file)
{
    if (file != STDERR_FILENO) return file;
    int other = (int)system_call(SYS_fcntl, file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1, 0, 0, 0);
    os_file_close(file);
    return other;
}

static int open_file(int directory, const char *path, int flags)
{
    return os_linux_keep_from_messages((int)system_call(SYS_openat, directory, (long)path,
                                                        flags | O_CLOEXEC | O_NOCTTY, 0600, 0, 0));
}

/* It is opened again by its name: the program's umask may not keep its user from that. Where that is as
 * it should be, the program makes no call that it may be forbidden to make. */
static int file_for_user(int file)
{
    struct stat system;
    if (file >= 0 && system_call(SYS_fstat, file, (long)&system, 0, 0, 0, 0) == 0 &&
        (system.st_mode & 0600) != 0600)
        system_call(SYS_fchmod, file, 0600, 0, 0, 0, 0);
    return file;
}

int os_directory_open(const char *path)
{
    return open_file(AT_FDCWD, path, O_PATH | O_DIRECTORY);
}

static void status_from_system(const struct stat *system, struct os_file_status *status)
{
    switch (system->st_mode & S_IFMT) {
    case S_IFREG: status->kind = OS_FILE_PLAIN; break;
    case S_IFDIR: status->kind = OS_FILE_DIRECTORY; break;
    case S_IFIFO:
    case S_IFSOCK: status->kind = OS_FILE_PIPE; break;
    default: status->kind = OS_FILE_OTHER;
    }
    status->is_own_name = system->st_nlink == 1;
    status->device = system->st_dev;
    status->inode = system->st_ino;
    status->bytes = (uint64_t)system->st_size;
}

int os_file_look(int directory, const char *name, struct os_file_status *status)
{
    struct stat link, target;
    *status = (struct os_file_status){.kind = OS_FILE_MISSING};
    long result =
        system_call(SYS_newfstatat, directory, (long)name, (long)&link, AT_SYMLINK_NOFOLLOW, 0, 0);
    if (result == -ENOENT) return 0;
    if (result < 0) return (int)result;
    if (!S_ISLNK(link.st_mode)) {
        status_from_system(&link, status);
        return 0;
    }
    result = system_call(SYS_newfstatat, directory, (long)name, (long)&target, 0, 0, 0);
    if (result < 0) return (int)result;
    status_from_system(&target, status);
    status->is_own_name = false;
    return 0;
}

int os_file_look_at(int file, struct os_file_status *status)
{
    struct stat system;
    long flags = system_call(SYS_fcntl, file, F_GETFL, 0, 0, 0, 0);
    if (flags < 0) return (int)flags;
    if ((flags & O_ACCMODE) == O_RDONLY || flags & O_PATH) return -EBADF;
    long result = system_call(SYS_fstat, file, (long)&system, 0, 0, 0, 0);
    if (result == 0) status_from_system(&system, status);
    return (int)result;
}

bool os_file_is_executable(const char *path)
{
    struct stat status;
    return system_call(SYS_newfstatat, AT_FDCWD, (long)path, (long)&status, 0, 0, 0) == 0 &&
           S_ISREG(status.st_mode) &&
           system_call(SYS_faccessat, AT_FDCWD, (long)path, X_OK, 0, 0, 0) == 0;
}

int os_file_create(int directory, const char *name)
{
    return file_for_user(open_file(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW));
}

/* The path of a descriptor of this thread, which has a table of its own. */
static void put_path_of_file(int file, char *path)
{
    struct text text = {path, 0, FILE_PATH_BYTES};
    text_string(&text, "/proc/thread-self/fd/");
    text_decimal(&text, (unsigned)file);
    text_end(&text);
}

int os_file_create_nameless(int directory)
{
    char path[FILE_PATH_BYTES];
    struct stat status;
    int file = file_for_user(open_file(directory, ".", O_RDWR | O_TMPFILE));
    if (file < 0) return file;
    /* Without /proc there is no path by which to name it later. */
    put_path_of_file(file, path);
    if (system_call(SYS_newfstatat, AT_FDCWD, (long)path, (long)&status, 0, 0, 0) == 0) return file;
    os_file_close(file);
    return -EOPNOTSUPP;
}

int os_file_name(int file, int directory, const char *name)
{
    char path[FILE_PATH_BYTES];
    put_path_of_file(file, path);
    return (int)system_call(SYS_linkat, AT_FDCWD, (long)path, directory, (long)name,
                            AT_SYMLINK_FOLLOW, 0);
}

int os_file_open_write(int directory, const char *name)
{
    return open_file(directory, name, O_WRONLY | O_NONBLOCK);
}

int os_file_open_read(const char *path)
{
    return open_file(AT_FDCWD, path, O_RDONLY);
}

int os_file_open_again(int directory, const char *name, const struct os_file_status *was)
{
    struct os_file_status now;
    int file = open_file(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) return file;
    int result = os_file_look_at(file, &now);
    if (result == 0 && (now.device != was->device || now.inode != was->inode)) result = -ESTALE;
    if (result == 0) system_call(SYS_lseek, file, 0, SEEK_END, 0, 0, 0);
    if (result == 0) return file;
    os_file_close(file);
    return result;
}

int os_file_open_append(const char *path)
{
    return open_file(AT_FDCWD, path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK);
}

int os_file_empty(int file)
{
    return (int)system_call(SYS_ftruncate, file, 0, 0, 0, 0, 0);
}

void os_file_lock(int file)
{
    system_call(SYS_flock, file, LOCK_EX | LOCK_NB, 0, 0, 0, 0);
}

bool os_file_is_locked(int directory, const char *name)
{
    int file = open_file(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) return false;
    bool locked = system_call(SYS_flock, file, LOCK_SH | LOCK_NB, 0, 0, 0, 0) == -EAGAIN;
    os_file_close(file);
    return locked;
}

int os_file_rename(int directory, const char *from, const char *to)
{
    return (int)system_call(SYS_renameat, directory, (long)from, directory, (long)to, 0, 0);
}

/* Where the file system cannot do this atomically, a hard link is made first; where it has none
 * either, a file that appears meanwhile is replaced. */
int os_file_rename_new(int directory, const char *from, const char *to)
{
    struct os_file_status there;
    long result =
        system_call(SYS_renameat2, directory, (long)from, directory, (long)to, RENAME_NOREPLACE, 0);
    if (result != -EINVAL && result != -ENOSYS) return (int)result;
    result = system_call(SYS_linkat, directory, (long)from, directory, (long)to, 0, 0);
    if (result == 0) return os_file_remove(directory, from);
    if (result == -EEXIST) return -EEXIST;
    result = os_file_look(directory, to, &there);
    if (result == 0 && there.kind != OS_FILE_MISSING) result = -EEXIST;
    return result < 0 ? (int)result : os_file_rename(directory, from, to);
}

int os_file_remove(int directory, const char *name)
{
    return (int)system_call(SYS_unlinkat, directory, (long)name, 0, 0, 0, 0);
}

void os_file_close(int file)
{
    system_call(SYS_close, file, 0, 0, 0, 0, 0);
}

void os_linux_close_files(int first, int last)
{
#ifdef SYS_close_range
    if (first > last || system_call(SYS_close_range, first, last, 0, 0, 0, 0) == 0) return;
#endif
    for (int file = first; file <= last && file < 65536; file++)
        os_file_close(file);
}

long os_file_write(int file, const void *data, size_t bytes)
{
    long result;
    do
        result = system_call(SYS_write, file, (long)data, (long)bytes, 0, 0, 0);
    while (result == -EINTR);
    return result;
}

int os_file_wait_writable(int file, uint64_t timeout_ns)
{
    struct pollfd wanted = {.fd = file, .events = POLLOUT};
    struct timespec timeout = os_linux_timespec(timeout_ns);
    long result =
        system_call(SYS_ppoll, (long)&wanted, 1, timeout_ns ? (long)&timeout : 0, 0, 0, 0);
    /* An error of the file is left to the next write. */
    if (result == 0) return -ETIMEDOUT;
    return result < 0 ? (int)result : 0;
}

long os_file_read_start(int file, void *data, size_t bytes)
{
    return system_call(SYS_pread64, file, (long)data, (long)bytes, 0, 0, 0);
}

long os_file_read_at(int file, uint64_t offset, void *data, size_t bytes)
{
    return system_call(SYS_pread64, file, (long)data, (long)bytes, (long)offset, 0, 0);
}

/* Where the file system cannot preallocate, writing zeros does the same, more slowly. */
static int allocate_by_writing(int file, uint64_t bytes)
{
    static const char zeros[4096];
    long end = system_call(SYS_lseek, file, 0, SEEK_END, 0, 0, 0);
    if (end < 0) return (int)end;
    uint64_t at = (uint64_t)end;
    while (at < bytes) {
        size_t part = bytes - at < sizeof zeros ? (size_t)(bytes - at) : sizeof zeros;
        long result = system_call(SYS_pwrite64, file, (long)zeros, (long)part, (long)at, 0, 0);
        if (result < 0) return (int)result;
        at += (uint64_t)result;
    }
    return 0;
}

int os_file_allocate(int file, uint64_t from, size_t bytes)
{
    int result = (int)system_call(SYS_fallocate, file, 0, (long)from, (long)bytes, 0, 0);
    if (result == -EOPNOTSUPP || result == -ENOSYS)
        result = allocate_by_writing(file, from + bytes);
    return result;
}

/* How many bytes of its page precede this offset or address: only whole pages can be mapped. */
static size_t begun_page(uint64_t at)
{
    return (size_t)(at & (os_page_bytes() - 1));
}

void *os_file_map(int file, uint64_t offset, size_t bytes, void *at, bool touched)
{
    int flags = MAP_SHARED | (touched ? MAP_POPULATE : 0) | (at != NULL ? MAP_FIXED : 0);
    const size_t before = begun_page(offset);
    uint8_t *start = at != NULL ? (uint8_t *)at - before : NULL;
    bytes += before;
    start = os_linux_map(start, bytes, PROT_READ | PROT_WRITE, flags, file, offset - before);
    if (start == NULL) return NULL;
    /* Otherwise the kernel reads ahead around each page that is touched. */
    if (!touched) os_linux_advise(start, bytes, MADV_RANDOM);
    os_linux_advise(start, bytes, MADV_DONTFORK);
    os_linux_advise(start, bytes, MADV_DONTDUMP);
    if (at == NULL) os_linux_own_add(start, bytes, false);
    return start + before;
}

bool os_file_unmap(void *memory, size_t bytes)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    const size_t before = begun_page((uintptr_t)memory);
    uint8_t *start = (uint8_t *)memory - before;
    bytes += before;
    if (os_linux_map(start, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == NULL) return false;
    os_linux_advise(start, bytes, MADV_DONTFORK);
    return true;
}
