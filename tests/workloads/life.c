/* life - a process that begins, lives and ends in the way it is told to.
 *
 *   life end HOW             two threads make CALLS objects of 777 bytes each, then the process
 *                            ends: return, exit, _exit, _Exit, quick_exit, abort, segv, chdir
 *                            (exit, in another directory), thread (the main thread ends first),
 *                            group (another thread calls exit). Exit status 7 where there is one
 *   life fork HOW FILE       children, forked while three threads allocate, allocate too and end
 *                            like HOW, or "exec". How many calls of 888 bytes the parent made goes
 *                            to FILE
 *   life storm CHILDREN      eight threads fork so many children each, which allocate and end in
 *                            every way. Prints how many calls of 888 bytes the parent made, and how
 *                            many children ended without a signal and without exec
 *   life exec PROGRAM ...    makes CALLS objects of 777 bytes, then execs
 *   life count FILE THREADS  allocates until it is killed; FILE has struct life_count for each
 *                            thread (life.h)
 *   life errno CALLS ALLOCATOR  sets errno around calls and ends with status 1 if a call that
 *                            succeeded changed it
 *   life look                prints what it can see of itself: descriptors, signal mask, and what
 *                            children see
 *   life tasks               prints how many threads the system says it has
 *   life late                allocates before main, in destructors and after them
 *   life fill                makes four million objects and returns 7
 *   life wrong WHAT          makes CALLS objects of 777 bytes, then frees what is none: something
 *                            on the stack, static, mapped, or at a small address */
#include "life.h"

#include "common/atomic.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLS = 10000, CHILDREN = 20, FILL_CALLS = 4000000 };

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "life: %s\n", what);
    _exit(1);
}

static void allocate(size_t bytes, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++) {
        void *object = malloc(bytes);
        if (!object) fail("out of memory");
        free(object);
    }
}

static void *allocate_some(void *unused)
{
    (void)unused;
    allocate(777, CALLS);
    return NULL;
}

static void end_like(const char *how, int status)
{
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (strcmp(how, "chdir") == 0 && chdir("/") != 0) fail("cannot change the directory");
    if (strcmp(how, "exit") == 0 || strcmp(how, "chdir") == 0) exit(status);
    if (strcmp(how, "_exit") == 0) _exit(status);
    if (strcmp(how, "_Exit") == 0) _Exit(status);
    if (strcmp(how, "quick_exit") == 0) quick_exit(status);
    if (strcmp(how, "abort") == 0) abort();
    if (strcmp(how, "segv") == 0) raise(SIGSEGV);
    if (strcmp(how, "thread") == 0) pthread_exit(NULL);
}

static void *exit_soon(void *unused)
{
    (void)unused;
    usleep(20000);
    exit(7);
}

static _Noreturn void free_wrongly(const char *what)
{
    static char of_program[64];
    char of_thread[64] = {0}; /* what lies before an object must be no size */
    void *volatile object = NULL;
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    allocate(777, CALLS);
    if (strcmp(what, "stack") == 0) object = of_thread + 16;
    if (strcmp(what, "static") == 0) object = of_program + 16;
    if (strcmp(what, "mapped") == 0)
        object = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (strcmp(what, "small") == 0) object = (void *)16;
    free(object);
    fail("freed it");
}

static int end(const char *how)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, allocate_some, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    if (strcmp(how, "group") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, exit_soon, NULL);
        pthread_join(thread, NULL);
    }
    end_like(how, 7);
    return 7;
}

/* --- fork --- */

static int stopping;

static void *allocate_until_stopped(void *argument)
{
    uint64_t *calls = argument;
    while (!atomic_load_relaxed(&stopping)) {
        allocate(888, 10);
        *calls += 10;
        if (*calls % 1000 == 0) usleep(500);
    }
    return NULL;
}

/* A child: status 5, or a signal. */
static void child_run(const char *how)
{
    allocate(999, 5000);
    void *kept = malloc(999);
    kept = realloc(kept, 100000);
    free(kept);
    if (strcmp(how, "exec") == 0) execl("/bin/sh", "sh", "-c", "exit 5", (char *)NULL);
    if (strcmp(how, "thread") == 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, allocate_some, NULL) != 0) fail("no thread in a child");
        pthread_join(thread, NULL);
        exit(5);
    }
    end_like(how, 5);
    fail("a child did not end");
}

static int child_is_as_wanted(const char *how, int status)
{
    if (strcmp(how, "abort") == 0) return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
    return WIFEXITED(status) && WEXITSTATUS(status) == 5;
}

static int fork_children(const char *how, const char *path)
{
    pthread_t threads[3];
    uint64_t calls[3] = {0};
    alarm(300); /* a child that hangs */
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, allocate_until_stopped, &calls[i]);
    for (int i = 0; i < CHILDREN; i++) {
        allocate(888, 100);
        pid_t child = fork();
        if (child == 0) child_run(how);
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child) fail("no child");
        if (!child_is_as_wanted(how, status)) fail("a child ended otherwise");
    }
    atomic_store_relaxed(&stopping, 1);
    uint64_t all = 100 * CHILDREN;
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        all += calls[i];
    }
    FILE *file = fopen(path, "w");
    if (!file || fprintf(file, "%llu\n", (unsigned long long)all) < 0 || fclose(file) != 0)
        fail("cannot write the number of calls");
    return 0;
}

/* --- fork storm --- */

enum { STORM_THREADS = 8 };

static const char *const storm_ends[] = {"exit",  "_exit", "_Exit", "quick_exit",
                                         "abort", "exec",  "thread"};
enum { STORM_ENDS = sizeof storm_ends / sizeof *storm_ends };

struct storm {
    pthread_t thread;
    int children;
    uint64_t calls;
    int ended; /* children that had an end of their own */
};

static void *fork_many(void *argument)
{
    struct storm *storm = argument;
    for (int i = 0; i < storm->children; i++) {
        const char *how = storm_ends[i % STORM_ENDS];
        allocate(888, 50);
        storm->calls += 50;
        pid_t child = fork();
        if (child == 0) child_run(how);
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child) fail("no child");
        if (!child_is_as_wanted(how, status)) fail("a child ended otherwise");
        storm->ended += strcmp(how, "abort") != 0 && strcmp(how, "exec") != 0;
    }
    return NULL;
}

static int fork_storm(int children)
{
    struct storm storms[STORM_THREADS];
    uint64_t calls = 0;
    int ended = 0;
    alarm(120); /* a child that hangs */
    for (int i = 0; i < STORM_THREADS; i++) {
        storms[i] = (struct storm){.children = children};
        if (pthread_create(&storms[i].thread, NULL, fork_many, &storms[i]) != 0) fail("no thread");
    }
    for (int i = 0; i < STORM_THREADS; i++) {
        pthread_join(storms[i].thread, NULL);
        calls += storms[i].calls;
        ended += storms[i].ended;
    }
    printf("%llu %d\n", (unsigned long long)calls, ended);
    return 0;
}

/* --- killed --- */

static void *count_calls(void *argument)
{
    struct life_count *count = argument;
    unsigned long bytes = 0;
    void *objects[64] = {NULL};
    count->thread_id = (uint64_t)syscall(SYS_gettid);
    for (unsigned long i = 0;; i++) {
        void **object = &objects[i % 64];
        if (*object) {
            atomic_store_seq_cst(&count->begun, count->begun + 1);
            free(*object);
            atomic_store_seq_cst(&count->done, count->done + 1);
        }
        bytes = (bytes * 31 + 17) % 2000;
        atomic_store_seq_cst(&count->begun, count->begun + 1);
        *object = malloc(bytes);
        atomic_store_seq_cst(&count->done, count->done + 1);
    }
    return NULL;
}

static int count_until_killed(const char *path, int threads)
{
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    size_t bytes = sizeof(struct life_count) * (size_t)threads;
    if (threads < 1 || file < 0 || ftruncate(file, (off_t)bytes) != 0) fail("no file");
    struct life_count *counts = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (counts == MAP_FAILED) fail("no mapping");
    for (int i = 1; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, count_calls, &counts[i]) != 0) fail("no thread");
    }
    count_calls(&counts[0]);
    return 0;
}

/* --- what the program sees --- */

static int check_errno(unsigned long calls, int is_tcmalloc)
{
    void *objects[256] = {NULL};
    for (unsigned long i = 0; i < calls; i++) {
        void **object = &objects[(i * 7) % 256];
        errno = 4242;
        free(*object);
        if (errno != 4242) fail("free changed errno");
        *object = i % 3 ? malloc(i % 5000) : calloc(1, i % 300000 ? 100 : 300000);
        if (errno != 4242) fail("malloc or calloc changed errno");
        if (i % 16 == 0) *object = realloc(*object, 1 + i % 9000);
        if (errno != 4242) fail("realloc changed errno");
    }
    errno = 4242;
    /* More than a number can say: tcmalloc refuses that without a word. */
    void *(*volatile product)(size_t, size_t) = calloc;
    if (product((size_t)1 << 33, (size_t)1 << 33)) fail("an object of impossible size");
    if (is_tcmalloc && errno != 4242) fail("calloc changed errno");
    if (malloc((size_t)1 << 62)) fail("an object of impossible size");
    if (errno != ENOMEM) fail("a failure did not set errno");
    return 0;
}

static unsigned directory_entries(const char *path, int print)
{
    unsigned count = 0;
    DIR *directory = opendir(path);
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        if (entry->d_name[0] == '.') continue;
        count++;
        char link[4096], target[4096];
        snprintf(link, sizeof link, "%s/%s", path, entry->d_name);
        ssize_t length = readlink(link, target, sizeof target - 1);
        if (!print || length < 0 || atoi(entry->d_name) == dirfd(directory)) continue;
        target[length] = 0;
        printf("descriptor %s %s\n", entry->d_name, target);
    }
    if (directory) closedir(directory);
    return count;
}

static void look_around(const char *who)
{
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    printf("%s\n", who);
    directory_entries("/proc/self/fd", 1);
    for (int number = 1; number < 32; number++) {
        struct sigaction action;
        if (sigismember(&mask, number)) printf("blocked %d\n", number);
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
            printf("signal %d is handled or ignored\n", number);
    }
    const char *output = getenv("TCMALLOC_TRACE_OUTPUT");
    printf("output %s\n", output ? output : "");
    fflush(stdout);
}

static int look(void)
{
    allocate(777, CALLS);
    /* The lowest free descriptor is the program's. */
    int file = open("/dev/null", O_RDONLY);
    printf("first free descriptor %d\n", file);
    close(file);
    look_around("process");
    pid_t child = fork();
    if (child == 0) {
        look_around("child");
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    printf("child status %d\n", status);
    fflush(stdout);
    status = system("echo \"shell ${TCMALLOC_TRACE_OUTPUT:-}\"; ls /proc/self/fd | wc -l");
    printf("shell status %d, other children %d\n", status, waitpid(-1, &status, WNOHANG));
    return 0;
}

/* --- before and after main --- */

static int is_late;
static void *kept[4];

__attribute__((constructor)) static void before_main(void)
{
    kept[0] = malloc(654321);
}

__attribute__((destructor)) static void after_main(void)
{
    if (!is_late) return;
    free(kept[1]);
    allocate(654323, 1);
}

static void at_exit(void)
{
    free(kept[0]);
    kept[1] = malloc(654322);
}

static int late(void)
{
    is_late = 1;
    atexit(at_exit);
    return 0;
}

int main(int count, char **words)
{
    const char *mode = count > 1 ? words[1] : "";
    if (strcmp(mode, "end") == 0 && count == 3) return end(words[2]);
    if (strcmp(mode, "fork") == 0 && count == 4) return fork_children(words[2], words[3]);
    if (strcmp(mode, "storm") == 0 && count == 3) return fork_storm(atoi(words[2]));
    if (strcmp(mode, "count") == 0 && count == 4)
        return count_until_killed(words[2], atoi(words[3]));
    if (strcmp(mode, "wrong") == 0 && count == 3) free_wrongly(words[2]);
    if (strcmp(mode, "errno") == 0 && count == 4)
        return check_errno(strtoul(words[2], NULL, 10), strcmp(words[3], "tcmalloc") == 0);
    if (strcmp(mode, "look") == 0) return look();
    if (strcmp(mode, "late") == 0) return late();
    if (strcmp(mode, "tasks") == 0) {
        printf("%u\n", directory_entries("/proc/self/task", 0));
        return 0;
    }
    if (strcmp(mode, "fill") == 0) {
        for (unsigned i = 0; i < FILL_CALLS; i++)
            allocate(i * 7919u % 4000, 1);
        return 7;
    }
    if (strcmp(mode, "exec") == 0 && count > 2) {
        allocate(777, CALLS);
        execvp(words[2], words + 2);
        fail("cannot execute");
    }
    fputs("usage: see the head of tests/workloads/life.c\n", stderr);
    return 2;
}
