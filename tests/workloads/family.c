/* family - a process that knows its children and its descriptors, and ends with status 1 if there
 * is one too many.
 *
 *   family children HOW    two children of its own, while it allocates; HOW: plain, ignore (SIGCHLD
 *                          ignored), reaper (it inherits orphans)
 *   family close CALLS     closes descriptors 0 to 1023, opens files of its own in their place,
 *                          makes so many calls of malloc and free, and looks whether anybody has
 *                          written to a file
 *   family fill CALLS      opens descriptors until there are no more, then allocates
 *   family chroot DIR CALLS  moves to another root and another user, then allocates
 *   family rename FROM TO  renames a directory between 2 000 calls and 2 000 more; status 7
 *   family work CALLS      so many calls of any size, and a line for every 100 000; status 7
 *   family tty SECONDS     tells "ready", then allocates until SIGINT comes, at most so long; then
 *                          ends with status 3 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FILES = 200, LAST = 1023 };

static volatile sig_atomic_t children_ended, interrupted;

static void count_child(int number)
{
    (void)number;
    children_ended++;
}

static void interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* Descriptor 2 may be closed. */
static void fail(const char *what)
{
    ssize_t ignored = write(2, what, strlen(what));
    (void)ignored;
    _exit(1);
}

static void allocate(unsigned long calls)
{
    for (unsigned long i = 0; i < calls / 2; i++) {
        void *object = malloc(i % 3000);
        if (!object) fail("out of memory\n");
        free(object);
    }
}

static void wait_for_own_child(int ignored)
{
    pid_t child = fork();
    int status;
    if (child == 0) _exit(3);
    if (child < 0) fail("no child\n");
    pid_t found = wait(&status);
    /* Nobody is left behind by children whose signal is ignored. */
    if (ignored ? found != -1 || errno != ECHILD : found != child || WEXITSTATUS(status) != 3)
        fail("not the own child\n");
}

static int know_children(const char *how)
{
    int ignored = strcmp(how, "ignore") == 0;
    signal(SIGCHLD, ignored ? SIG_IGN : count_child);
    if (strcmp(how, "reaper") == 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) fail("prctl\n");
    for (int i = 0; i < 2; i++) {
        allocate(200000);
        if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD) fail("there is another child\n");
        wait_for_own_child(ignored);
        usleep(150000);
    }
    if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD) fail("there is one more child\n");
    if (!ignored && children_ended != 2) fail("a signal of another child\n");
    return 7;
}

static int close_descriptors(unsigned long calls)
{
    static int files[FILES];
    /* The first slot is full: the recording goes on with the descriptors that it has. */
    allocate(20000);
    for (int file = 0; file <= LAST; file++)
        close(file);
    for (int i = 0; i < FILES; i++) {
        files[i] = open(".", O_TMPFILE | O_RDWR, 0600);
        if (files[i] != i) fail("somebody has a descriptor of ours\n");
    }
    allocate(calls);
    for (int i = 0; i < FILES; i++) {
        struct stat status;
        if (fstat(files[i], &status) != 0 || status.st_size != 0 ||
            lseek(files[i], 0, SEEK_CUR) != 0)
            return 1;
    }
    return 7;
}

static int fill_descriptors(unsigned long calls)
{
    while (open("/dev/null", O_RDWR) >= 0)
        continue;
    if (errno != EMFILE) fail("cannot fill\n");
    allocate(calls);
    return 7;
}

static int change_root(const char *directory, unsigned long calls)
{
    allocate(1000);
    if (chroot(directory) != 0 || chdir("/") != 0 || setgid(65534) != 0 || setuid(65534) != 0)
        fail("cannot change the root\n");
    allocate(calls);
    return 7;
}

static int rename_directory(const char *from, const char *to)
{
    allocate(2000);
    if (rename(from, to) != 0) fail("cannot rename\n");
    allocate(2000);
    return 7;
}

static int work(unsigned long calls)
{
    static void *objects[1000];
    uint64_t state = 88172645463325252u;
    for (unsigned long i = 0; i < calls / 2; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        void **object = &objects[state % 1000];
        free(*object);
        *object = malloc((state >> 32) % 5000);
        if (!*object) fail("out of memory\n");
        if (i % 50000 == 0) printf("%lu %lx\n", i, (unsigned long)state);
        if (i % 50000 == 0) fflush(stdout);
    }
    return 7;
}

static int until_interrupted(unsigned long seconds)
{
    time_t end = time(NULL) + (time_t)seconds;
    signal(SIGINT, interrupt);
    puts("ready");
    fflush(stdout);
    while (!interrupted && time(NULL) < end) {
        allocate(1000);
        usleep(1000);
    }
    return interrupted ? 3 : 1;
}

int main(int count, char **words)
{
    const char *mode = count > 1 ? words[1] : "";
    unsigned long number = count > 2 ? strtoul(words[count - 1], NULL, 10) : 0;
    if (strcmp(mode, "children") == 0 && count == 3) return know_children(words[2]);
    if (strcmp(mode, "close") == 0 && count == 3) return close_descriptors(number);
    if (strcmp(mode, "fill") == 0 && count == 3) return fill_descriptors(number);
    if (strcmp(mode, "chroot") == 0 && count == 4) return change_root(words[2], number);
    if (strcmp(mode, "rename") == 0 && count == 4) return rename_directory(words[2], words[3]);
    if (strcmp(mode, "work") == 0 && count == 3) return work(number);
    if (strcmp(mode, "tty") == 0 && count == 3) return until_interrupted(number);
    fputs("usage: see the head of tests/workloads/family.c\n", stderr);
    return 2;
}
