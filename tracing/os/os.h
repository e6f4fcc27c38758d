/* os - everything the capture core asks of the operating system.
 *
 * The core runs inside other people's programs, in threads that may hold any lock. So this layer
 * makes system calls only: it calls no function of libc that takes a lock, allocates or sets errno.
 * os_linux.c is the real layer; tests have another one.
 *
 * Errors    a function that can fail returns a negative errno value, as the kernel does.
 * Threads   any. File descriptors belong to the writer thread, which has a descriptor table of its
 *           own (os_thread_start). The program never sees them, and may close or use its own
 *           descriptors as it likes. */
#ifndef MALLOCTAPE_OS_H
#define MALLOCTAPE_OS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Private zeroed memory, taken from the system when first touched. NULL if there is none. */
void *os_memory_reserve(size_t bytes);

/* The same, but a forked child finds it zeroed: what is in it is true for one process only. Linux
 * has such memory since 4.14. */
void *os_memory_reserve_per_process(size_t bytes);

/* The same at this address; NULL also if something is there already. */
void *os_memory_reserve_per_process_at(uintptr_t address, size_t bytes);

void os_memory_release(void *memory, size_t bytes);

/* Gives private memory back to the system, but keeps its addresses: it is zero again. */
void os_memory_clear(void *memory, size_t bytes);

/* A hint: most of this memory will be used soon, in no order. So the system may take larger pages. */
void os_memory_is_dense(void *memory, size_t bytes);

/* The size of a page of memory: 4, 16 or 64 KiB. */
size_t os_page_bytes(void);

/* Whether the word at this address can be read; the address is a multiple of 8. Changes nothing. A
 * thread that must not make system calls does not know: false. */
bool os_memory_is_readable(const void *address);

/* Copies memory that another thread may take away at any time: at most two pages. Returns how many
 * bytes could be read: all, those of the first page, or none. `thread_id`: the calling thread's. */
size_t os_memory_copy(int thread_id, void *to, const void *from, size_t bytes);

/* The same of words at several addresses, multiples of 8, at once. False: one cannot be read, or they
 * are too many. */
#define OS_WORDS_MAX 8u
bool os_memory_copy_words(int thread_id, uint64_t *to, const uintptr_t *from, uint32_t count);

/* Whether the calling thread may copy memory in this way. */
bool os_memory_can_be_copied(void);

/* How much of what these functions, and os_file_map(), have mapped is resident now, and how much of
 * it is of files; 0: not known. Writer thread. */
uint64_t os_memory_resident_bytes(uint64_t *of_files);

/* Which of so many pages from `start` on are resident: bit 0 of a byte for each. Of memory that is of
 * no file it says what the process has; of a file, what the system has of it. False: not all of that
 * is mapped, or the system does not say. */
bool os_memory_pages(uintptr_t start, size_t pages, uint8_t *resident);

/* Whether the system may move memory without a file elsewhere, or does not say so. */
bool os_memory_may_be_swapped(void);

/* Whether any of what these functions and os_file_map() have mapped lies between the addresses. */
bool os_memory_is_own(uintptr_t start, uintptr_t end);

/* In a forked child, before anything is mapped: forgets what the child has not inherited. */
void os_memory_forked(void);

/* Writes the path of the current directory, followed by a slash and a null byte; empty if it has
 * none or it is longer than `bytes`. */
void os_current_directory(char *path, size_t bytes);

/* Writes the path of the program's file, followed by a null byte; empty if it is unknown or longer
 * than `bytes`. */
void os_program_path(char *path, size_t bytes);

/* ---- files: descriptors belong to the writer thread; `directory` is one of them ---- */

/* Instead of a directory: names are relative to the current one. */
#define OS_NO_DIRECTORY (-100)

/* A descriptor for looking up names in a directory, whatever the current directory is later. */
int os_directory_open(const char *path);

enum os_file_kind {
    OS_FILE_MISSING = 0,
    OS_FILE_PLAIN,
    OS_FILE_DIRECTORY,
    OS_FILE_PIPE,
    OS_FILE_OTHER
};

struct os_file_status {
    enum os_file_kind kind; /* of the file, or where a symbolic link leads; a socket is a PIPE */
    bool is_own_name;       /* a file that has no other name, and the name is no symbolic link */
    uint64_t device, inode;
    uint64_t bytes; /* of a plain file */
};

/* Finds out what has this name. 0, also if there is nothing, or a negative errno. */
int os_file_look(int directory, const char *name, struct os_file_status *status);

/* The same for an open file, which must be open for writing: else -EBADF. */
int os_file_look_at(int file, struct os_file_status *status);

/* Whether there is a file, and no directory, that this process may execute. */
bool os_file_is_executable(const char *path);

/* Creates a new file, mode 0600, and opens it for reading and writing. Returns a descriptor, which
 * is never that of standard error. */
int os_file_create(int directory, const char *name);

/* The same without a name, so nothing is left of the file if the process ends. os_file_name() gives
 * it one; -EEXIST: a file has that name. Where the system cannot do that, the result is an error
 * such as -EOPNOTSUPP, and the caller falls back on os_file_create(). */
int os_file_create_nameless(int directory);
int os_file_name(int file, int directory, const char *name);

/* Opens what is there, without waiting for anybody: -ENXIO for a FIFO that nobody reads. */
int os_file_open_write(int directory, const char *name);
int os_file_open_read(const char *path);

/* Opens an existing file; what is written is appended. */
int os_file_open_append(const char *path);
int os_file_empty(int file);

/* Marks an open file as in use until it is closed or the process ends, where the system can do
 * that. os_file_is_locked() says whether the file of this name is marked. */
void os_file_lock(int file);
bool os_file_is_locked(int directory, const char *name);

/* Renames a file; one that has the name `to` is replaced. os_file_rename_new() replaces none:
 * -EEXIST. */
int os_file_rename(int directory, const char *from, const char *to);
int os_file_rename_new(int directory, const char *from, const char *to);
int os_file_remove(int directory, const char *name);
void os_file_close(int file);

/* Descriptors of a stream and of its spool; -1: none. */
struct os_files {
    int stream, spool;
};
#define OS_NO_FILES ((struct os_files){-1, -1})

static inline void os_files_close(const struct os_files *files)
{
    if (files->stream >= 0) os_file_close(files->stream);
    if (files->spool >= 0) os_file_close(files->spool);
}

/* Writes at the current position; may write less than asked, returns the number of bytes. */
long os_file_write(int file, const void *data, size_t bytes);

/* Waits until a write of OS_PIPE_BYTES would not have to wait; 0, -ETIMEDOUT, or -EINTR.
 * `timeout_ns` 0: no limit. */
#define OS_PIPE_BYTES 4096
int os_file_wait_writable(int file, uint64_t timeout_ns);

/* Opens a plain file again, for reading and for writing at its end: -ESTALE if it is not the one
 * that `was` describes. */
int os_file_open_again(int directory, const char *name, const struct os_file_status *was);

/* Reads at most `bytes` from the start of a file. The number of bytes, or a negative errno. */
long os_file_read_start(int file, void *data, size_t bytes);

/* The same from `offset` on. */
long os_file_read_at(int file, uint64_t offset, void *data, size_t bytes);

/* Makes the file at least `from + bytes` long and allocates the space of these bytes, so that no
 * store into their mapping can fail. The caller has allocated those before `from`. */
int os_file_allocate(int file, uint64_t from, size_t bytes);

/* Maps `bytes` of the file from `offset`, shared, at `at` in place of what is there; anywhere if
 * `at` is NULL. `touched`: all of it is resident at once, else what threads touch. Children do not
 * inherit it. NULL: it failed. */
void *os_file_map(int file, uint64_t offset, size_t bytes, void *at, bool touched);

/* Puts private memory in place of a mapping, so that a late store there does not reach the file.
 * False: there is none, and the mapping is as it was. */
bool os_file_unmap(void *memory, size_t bytes);

/* What file a descriptor of the program's is: its device, its inode, and the name by which it was
 * opened, ended by a zero byte (empty: not known, or longer than `bytes`). False: there is none. Any
 * thread of the program. */
bool os_program_file(int file, uint64_t *device, uint64_t *inode, char *name, size_t bytes);

/* ---- a command that reads what the writer thread writes ---- */

/* Runs "/bin/sh -c command" and returns a descriptor of the pipe that is its standard input. Its
 * two other streams are the standard error of the writer thread. It has a session of its own, so
 * that what is typed at the terminal does not end it before the stream does; no signal is blocked
 * or ignored, and nothing in its environment makes it record. *process is for os_command_wait(). */
int os_command_start(const char *command, int *process);

/* Waits until the command has ended. Its exit status, 128 plus the number of the signal that
 * killed it, or a negative errno: -ETIMEDOUT, or -ECHILD if somebody else has waited for it.
 * `timeout_ns` 0: no limit. */
int os_command_wait(int process, uint64_t timeout_ns);

/* ---- a socket through which others control this process; for the control thread ---- */

#define OS_REQUEST_BYTES_MAX 8192

/* Begins to listen for requests to this process. From now on the thread has no capabilities, unless
 * it is root's. A descriptor or a negative errno; -EADDRINUSE: another process has taken the
 * name. */
int os_control_listen(void);

enum os_asker {
    OS_ASKER_OTHER = 0,
    OS_ASKER_ROOT,
    /* May be root. The asker could do itself whatever the thread does: it has the user and the
     * group of the thread and of the process, which has never had others nor prevented being
     * traced. */
    OS_ASKER_EQUAL
};

/* Waits for a request, at most `timeout_ns`; one line, without its end. It is empty and has not
 * been read if an OS_ASKER_OTHER asks. `given`: the files that came with it, which the caller
 * closes. A descriptor for the answer, -EAGAIN: none came. */
int os_control_next(int listening, char *request, size_t bytes, uint64_t timeout_ns,
                    enum os_asker *asker, struct os_files *given);

/* Sends the answer and closes the descriptor. */
void os_control_answer(int file, const char *text, size_t bytes);

/* ---- the rest ---- */

/* Remembers what the standard error is. To be called once, before the program can have changed
 * it. */
void os_message_begin(void);

/* Writes to the calling thread's standard error (a thread of ours has a copy from when it started).
 * The message is dropped if that is no longer the file of os_message_begin(), because it may be any
 * file of the program's, or if it would have to wait for a reader, or there is none. Raises no
 * SIGPIPE. */
void os_message_write(const char *text, size_t bytes);

/* Monotonic clock in nanoseconds; wall clock in nanoseconds since the epoch. */
uint64_t os_clock_ns(void);
uint64_t os_wall_clock_ns(void);

/* Writes the host's name, followed by a null byte, cut to `bytes`; empty if it is unknown. */
void os_host_name(char *name, size_t bytes);

int os_process_id(void);
int os_thread_id(void);

/* Whether the thread with this id in this process has ended. If so, the caller sees all that it has
 * stored: the kernel has taken locks on both sides. */
bool os_thread_is_gone(int thread_id);

/* What the thread is doing, as far as the system tells. `cpu_ns` is the time it has run. */
struct os_thread_look {
    bool is_gone;
    bool sleeps; /* waits in a system call, or stopped */
    uint64_t cpu_ns;
};
void os_thread_look(int thread_id, struct os_thread_look *look);

/* Each thread of the process passes a full barrier between the beginning and the end of this call:
 * the caller then sees what the thread stored before its barrier, and after it the thread sees what
 * the caller stored before the call. False: the system cannot do that. */
bool os_threads_barrier(void);

/* Processor time that the process has used; or all its threads but the caller. */
struct os_usage {
    uint64_t user_ns, system_ns;
};
struct os_usage os_process_usage(bool without_caller);

/* How long the calling thread has run, in nanoseconds. */
uint64_t os_thread_run_ns(void);

/* If the thread is in a signal handler with a stack of its own (sigaltstack()), how many bytes that
 * has below this address; else SIZE_MAX. */
size_t os_stack_left(const void *address);

/* The most resident memory that the process has had, in bytes; 0: not known. */
uint64_t os_process_peak_bytes(void);

/* How many threads the process has; 0: not known. */
unsigned os_process_threads(void);

/* Whether all threads of the process have ended but `own` of ours. If so, our threads will give the
 * process the exit status of its first thread; that of its last one cannot be known. Without /proc
 * that of the first is not known either: the process's is then 0. */
bool os_process_is_abandoned(unsigned own);

/* Whether the process runs under Valgrind, which cannot run our thread. */
bool os_process_is_emulated(void);

/* Whether ThreadSanitizer watches the process: what our threads do, it reports as the program's
 * races, or it ends the program with an error of its own. */
bool os_process_is_sanitized(void);

/* Sleeps until *word differs from `expected`, at most `timeout_ns` (0: no limit). May return
 * early. 0, or a negative errno if the system does not let it sleep. */
int os_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns);

/* Wakes at most `count` threads that wait for the word, the longest sleepers first; OS_ALL: all. */
#define OS_ALL 0x7fffffffu
void os_wake(const uint32_t *word, uint32_t count);
static inline void os_wake_all(const uint32_t *word)
{
    os_wake(word, OS_ALL);
}

/* Sleeps for `ns`. May return early. Result as that of os_wait(). */
int os_sleep(uint64_t ns);

/* To be called when a seccomp filter may punish the program's threads for a system call, but not
 * ours. From then on the program's threads make no system call in this layer. They spin instead of
 * waiting, and wake nobody, so our threads must not sleep without a limit. They get no memory and
 * give none back, write no message, and read the clock as 0. Children inherit that, as they inherit
 * the filter. */
void os_confine(void);

/* Whether the calling thread belongs to the program. */
bool os_is_of_program(void);

/* Whether the calling thread must not make system calls. */
bool os_is_confined(void);

void os_random(void *bytes, size_t count);

/* Blocks all signals but SIGBUS for the calling thread, and returns the mask before; the second
 * function restores it. */
uint64_t os_signals_block(void);
void os_signals_restore(uint64_t before);

/* Unblocks signals for the calling thread; bit 0 stands for signal 1. Returns the mask before. */
uint64_t os_signals_unblock(uint64_t signals);

/* Sends the signal that a handler has got once more, to the calling thread or to the process. */
void os_signal_send_again(siginfo_t *info, bool to_thread);

/* Whether an exec by the calling thread would succeed. Another process tries it, and ends before
 * the first instruction of the new program. 0, also if that cannot be tried, or the negative errno
 * with which it would fail. */
int os_exec_try(int directory, const char *path, char *const words[], char *const environment[],
                int flags);

/* Writes the path of the dynamic linker that an exec of the file would start, with a null byte, and
 * returns its length. 0: none, or that is not known. Looks at it from another process. */
size_t os_exec_linker(int directory, const char *path, int flags, char *linker, size_t bytes);

/* Calls the function in a process that shares this one's memory but has its own copy of the
 * descriptor table, in which only standard error stays open, its own directories, a stack of its
 * own and no signals; it is over when this returns. If the caller is killed, the function is not
 * finished, unless it `survives`. 0 or a negative errno. */
int os_call_apart(void (*function)(void *), void *argument, bool survives);

/* A thread of ours. */
struct os_thread {
    void *memory;
    size_t bytes;
    uint32_t alive; /* 0 again when it has left its memory */
};

/* Starts a thread without anything of libc (no memory of the heap is taken, no destructors, no
 * signal is ever delivered to it), with its own copy of the descriptor table, in which only
 * standard error and `kept` stay open, and its own current and root directory.
 * `function` must only use this layer. When it returns, `*done` is set to 1 and waiters are
 * woken. */
int os_thread_start(struct os_thread *thread, void (*function)(void *), void *argument,
                    uint32_t *done, struct os_files kept);

/* Waits until the thread has left its memory, and gives that back. To be called after its end, or
 * in a forked child, where it does not exist (`alive` is 0). */
void os_thread_release(struct os_thread *thread);

/* Makes a system call that the program has asked for. Its result, or a negative errno. */
long os_system_call(long number, long a, long b, long c, long d, long e, long f);

/* Ends the process at once. */
void os_process_exit(int status) __attribute__((noreturn));

#endif
