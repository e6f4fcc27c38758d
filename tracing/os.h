/* os - everything the capture core asks of the operating system.
 *
 * The core runs inside other people's programs, in threads that may hold any lock, so this layer
 * uses system calls only: no libc function that takes a lock, allocates, or touches errno.
 * os_linux.c is the real one; tests put another one in its place.
 *
 * Errors    functions that can fail return a negative errno value, as the kernel does.
 * Threads   all functions may be called from any thread. File descriptors belong to the writer
 *           thread, which has a descriptor table of its own (os_thread_start): the program never sees them,
 *           and closing or reusing descriptors of the program does not disturb the trace. */
#ifndef MALLOCTAPE_OS_H
#define MALLOCTAPE_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Private zeroed memory, taken from the system when first touched. NULL if there is none. */
void *os_memory_reserve(size_t bytes);

/* The same, but a forked child finds it zeroed: what is in it is true for one process only. */
void *os_memory_reserve_per_process(size_t bytes);

void os_memory_release(void *memory, size_t bytes);

/* Memory that is zero and cannot be written. */
void *os_zeros_reserve(size_t bytes);

/* Writes the path of the current directory, with a slash behind it, and returns its length; 0 if it
 * has none or it is longer than `bytes`. */
size_t os_current_directory(char *path, size_t bytes);

/* Creates the file, mode 0600, in place of one that is there, and opens it for reading and writing.
 * Returns a descriptor. */
int os_file_create(const char *path);
int os_file_remove(const char *path);
void os_file_close(int file);

/* Writes at the current position; may write less than asked, returns the number of bytes. */
long os_file_write(int file, const void *data, size_t bytes);

/* Reads at most `bytes` from the start of a small file such as those in /proc. */
long os_file_read_start(int file, void *data, size_t bytes);
int os_file_open_read(const char *path);

/* Makes the file at least `bytes` long, with space for it really allocated, so that a store into
 * its mapping cannot fail for want of space. */
int os_file_allocate(int file, uint64_t bytes);

/* Maps `bytes` of the file from `offset`, shared, and not inherited by children. NULL if that cannot
 * be. */
void *os_file_map(int file, uint64_t offset, size_t bytes);

/* Message to the standard error as it was when the thread started (or of the caller). */
void os_message_write(const char *text, size_t bytes);

/* Monotonic clock in nanoseconds; wall clock in nanoseconds since the epoch. */
uint64_t os_clock_ns(void);
uint64_t os_wall_clock_ns(void);

/* Writes the host's name with a null byte behind it, cut to `bytes`; empty if it is unknown. */
void os_host_name(char *name, size_t bytes);

int os_process_id(void);
int os_thread_id(void);

/* Whether the thread with this id in this process has ended. */
bool os_thread_is_gone(int thread_id);

/* Sleeps until *word differs from `expected`, at most `timeout_ns` (0: no limit). May return
 * early. */
void os_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns);
void os_wake_all(const uint32_t *word);

void os_random(void *bytes, size_t count);

/* Starts the writer thread: a thread without anything of libc (no memory of the heap is taken, no
 * destructors, no signal is ever delivered to it), with its own copy of the descriptor table in
 * which only standard error stays open. `function` must only use this layer. When it returns,
 * `*done` is set to 1 and waiters are woken. */
int os_thread_start(void (*function)(void *), void *argument, uint32_t *done);

/* Ends the process at once. */
void os_process_exit(int status) __attribute__((noreturn));

#ifdef __cplusplus
}
#endif
#endif
