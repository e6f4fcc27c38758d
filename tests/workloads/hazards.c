/* hazards - does what is in the way of whoever attaches to a process, and looks whether it notices
 * anything, until its input ends. At the end "done".
 *
 * Threads that wait in vfork() for a child that takes its time; that sleep and poll with a timeout and
 * may not be woken early; that take signals on an alternative stack, in the middle of malloc(); that
 * load and unload a library; that fork children which allocate; that come and go; that compute with
 * vector registers; that ask the time (vdso); that look at errno and their signal mask. A signal that
 * nobody sent is an error. With a word, SIGURG is not, and sleeps may end early. */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_bool is_over;
static atomic_ulong alarms;
static int is_lenient;

static void fail(const char *what)
{
    char text[128];
    const int bytes = snprintf(text, sizeof text, "hazards: %s (errno %d)\n", what, errno);
    if (write(STDERR_FILENO, text, (size_t)bytes) < 0) _exit(2);
    _exit(1);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void on_alarm(int number)
{
    (void)number;
    alarms++;
}

static void on_other(int number)
{
    (void)number;
    fail("a signal that nobody sent");
}

/* Only this thread takes the alarms. */
static void open_alarms(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(how, &set, NULL);
}

static void *interrupted(void *unused)
{
    const size_t bytes = 65536;
    stack_t stack = {.ss_sp = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                                   -1, 0),
                     .ss_size = bytes},
            after;
    (void)unused;
    if (sigaltstack(&stack, NULL) != 0) fail("sigaltstack");
    open_alarms(SIG_UNBLOCK);
    while (!is_over) {
        void *object = malloc((size_t)(rand() % 5000));
        free(object);
    }
    open_alarms(SIG_BLOCK);
    if (sigaltstack(NULL, &after) != 0 || after.ss_sp != stack.ss_sp || after.ss_flags != 0)
        fail("the alternative stack is another one");
    return NULL;
}

/* The child shares our memory: no malloc there. */
static void *forks_to_exec(void *unused)
{
    static char program[] = "/bin/true", *words[] = {program, NULL}, *environment[] = {NULL};
    (void)unused;
    while (!is_over) {
        int status;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
        const pid_t child = vfork();
#pragma GCC diagnostic pop
        if (child == 0) {
            const struct timespec time = {0, 100000000};
            nanosleep(&time, NULL);
            execve(program, words, environment);
            _exit(7);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            fail("a program that was started has failed");
    }
    return NULL;
}

static void *forks(void *unused)
{
    (void)unused;
    while (!is_over) {
        int status;
        const pid_t child = fork();
        if (child == 0) {
            for (unsigned i = 0; i < 1000; i++)
                free(malloc(i));
            _exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            fail("a child has failed");
        usleep(20000);
    }
    return NULL;
}

static void *sleeps(void *unused)
{
    const struct timespec time = {0, 300000000};
    (void)unused;
    while (!is_over) {
        const double start = now();
        if (nanosleep(&time, NULL) != 0 && !is_lenient) fail("a sleep was interrupted");
        if (now() - start < 0.29 && !is_lenient) fail("a sleep was short");
        if (poll(NULL, 0, 200) != 0 && !is_lenient) fail("a poll was interrupted");
        if (now() - start < 0.48 && !is_lenient) fail("a poll was short");
    }
    return NULL;
}

static void *loads(void *unused)
{
    (void)unused;
    while (!is_over) {
        void *library = dlopen("libz.so.1", RTLD_NOW);
        if (library && dlclose(library) != 0) fail("dlclose");
        usleep(1000);
    }
    return NULL;
}

static void *lives_shortly(void *unused)
{
    free(malloc(100));
    return unused;
}

static void *makes_threads(void *unused)
{
    (void)unused;
    while (!is_over) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, lives_shortly, NULL) != 0 ||
            pthread_join(thread, NULL) != 0)
            fail("a thread cannot be made");
    }
    return NULL;
}

/* What is in registers all the time, vector registers and others. */
static void *computes(void *unused)
{
    sigset_t before, mask;
    (void)unused;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    while (!is_over) {
        double sums[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        long double slow = 1;
        errno = 77;
        for (unsigned i = 0; i < 100000; i++) {
            for (unsigned j = 0; j < 8; j++)
                sums[j] = sums[j] * 3 - 2 * (double)(j + 1);
            slow = slow * 3 - 2;
        }
        for (unsigned j = 0; j < 8; j++)
            if (sums[j] != j + 1) fail("a sum is wrong");
        if (slow != 1 || errno != 77) fail("a number is wrong");
        pthread_sigmask(SIG_SETMASK, NULL, &mask);
        if (memcmp(&mask, &before, sizeof mask) != 0) fail("the signal mask has changed");
        const double start = now();
        for (unsigned i = 0; i < 1000; i++)
            if (now() < start) fail("time goes back");
    }
    return NULL;
}

int main(int count, char **words)
{
    (void)words;
    static void *(*const kinds[])(void *) = {interrupted, forks_to_exec, forks,    sleeps,
                                             loads,       makes_threads, computes, computes};
    enum { KINDS = sizeof kinds / sizeof *kinds };
    pthread_t threads[KINDS];
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_ONSTACK | SA_RESTART};
    const struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
    char byte;
    sigaction(SIGALRM, &action, NULL);
    action.sa_handler = on_other;
    is_lenient = count > 1;
    if (!is_lenient) sigaction(SIGURG, &action, NULL);
    sigaction(SIGTRAP, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGCONT, &action, NULL);
    open_alarms(SIG_BLOCK);
    for (unsigned i = 0; i < KINDS; i++)
        if (pthread_create(&threads[i], NULL, kinds[i], NULL) != 0) fail("pthread_create");
    setitimer(ITIMER_REAL, &often, NULL);
    if (write(STDOUT_FILENO, "ready\n", 6) != 6) return 1;
    while (read(STDIN_FILENO, &byte, 1) == 1) {}
    setitimer(ITIMER_REAL, &never, NULL);
    is_over = 1;
    for (unsigned i = 0; i < KINDS; i++)
        pthread_join(threads[i], NULL);
    return alarms > 0 && write(STDOUT_FILENO, "done\n", 5) == 5 ? 0 : 1;
}
