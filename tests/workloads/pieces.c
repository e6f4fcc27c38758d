/* pieces - records pieces of itself through malloctape.h; compiled as C and as C++.
 *
 *   pieces control DIRECTORY COUNT   COUNT recordings, DIRECTORY/1.lz4 ..., while three threads
 *                                    allocate; in each CALLS objects of 777 bytes, and PAUSED
 *                                    objects of 999 bytes that are not to be seen
 *   pieces states OUTPUT             what each function answers in each state; prints nothing if it
 *                                    is as it should be
 *   pieces child DIRECTORY           records to DIRECTORY/parent, and a forked child of it, from
 *                                    its first call, to DIRECTORY/child: CALLS objects of 999 bytes
 *                                    and of 777
 *   pieces environment OUTPUT        CALLS objects of 777 bytes, from a program whose environment
 *                                    cannot be written to
 *   pieces pauses COUNT              interrupts a recording COUNT times, while many threads
 *                                    allocate in bursts
 *   pieces without                   the same where no library is loaded */
#include "common/atomic.h"
#include "tracing/process/malloctape.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLS = 1000, PAUSED = 100, THREADS = 3, KEPT = 500, BURST_THREADS = 12, BURST = 3000 };

static int stopping;
static int failures;

static void expect(int good, const char *what, long number)
{
    if (good) return;
    fprintf(stderr, "pieces: %s (%ld)\n", what, number);
    failures++;
}

static void allocate(size_t bytes, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        void *object = malloc(bytes);
        if (object == NULL) expect(0, "out of memory", (long)bytes);
        free(object);
    }
}

/* Objects live from one piece to the next, and are released in another one than the one they were
 * made in. */
static void *allocate_until_stopped(void *unused)
{
    void *kept[KEPT] = {NULL};
    unsigned long at = 0;
    while (!atomic_load_relaxed(&stopping)) {
        at = at * 1103515245 + 12345;
        void **object = &kept[at / 65536 % KEPT];
        free(*object);
        *object = malloc(16 + at / 65536 % 300);
    }
    for (unsigned i = 0; i < KEPT; i++)
        free(kept[i]);
    return unused;
}

/* Many objects of one size at a time, so that most calls enter structures that all threads
 * share. */
static void *allocate_in_bursts(void *unused)
{
    void *objects[BURST];
    unsigned long at = (unsigned long)(size_t)&at;
    while (!atomic_load_relaxed(&stopping)) {
        at = at * 1103515245 + 12345;
        unsigned count = 500 + at / 65536 % (BURST - 500);
        for (unsigned i = 0; i < count; i++)
            objects[i] = malloc(16 + at / 65536 % 3000);
        for (unsigned i = 0; i < count; i++)
            free(objects[i]);
    }
    return unused;
}

static int pauses(int count)
{
    pthread_t threads[BURST_THREADS];
    for (int i = 0; i < BURST_THREADS; i++)
        pthread_create(&threads[i], NULL, allocate_in_bursts, NULL);
    for (int i = 0; i < count; i++) {
        usleep(1000);
        expect(malloctape_pause() == 0, "pause", i);
        usleep(100);
        expect(malloctape_resume() == 0, "resume", i);
    }
    atomic_store_relaxed(&stopping, 1);
    for (int i = 0; i < BURST_THREADS; i++)
        pthread_join(threads[i], NULL);
    return failures != 0;
}

static void record_piece(const char *directory, int number)
{
    char output[1200];
    struct malloctape_summary status;
    snprintf(output, sizeof output, "%s/%d.lz4", directory, number);
    expect(malloctape_start(output) == 0, "start", number);
    allocate(777, CALLS / 2);
    expect(malloctape_pause() == 0, "pause", number);
    allocate(999, PAUSED);
    expect(malloctape_resume() == 0, "resume", number);
    allocate(777, CALLS / 2);
    expect(malloctape_sync() == 0, "sync", number);
    expect(malloctape_status(&status) == 0 && status.activity == MALLOCTAPE_IS_RECORDING &&
               status.events >= 2 * CALLS && strcmp(status.output, output) == 0,
           "status", (long)status.events);
    expect(malloctape_stop() == 0, "stop", number);
    allocate(888, 10);
}

static int control(const char *directory, int count)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, allocate_until_stopped, NULL);
    for (int i = 1; i <= count; i++)
        record_piece(directory, i);
    atomic_store_relaxed(&stopping, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return failures != 0;
}

static int states(const char *output)
{
    struct malloctape_summary status;
    expect(malloctape_stop() == EBUSY && malloctape_pause() == EBUSY, "before the start", 0);
    expect(malloctape_resume() == EBUSY && malloctape_sync() == EBUSY, "before the start", 1);
    expect(malloctape_status(&status) == 0 && status.activity == MALLOCTAPE_NOT_RECORDING,
           "status before", (long)status.activity);
    expect(malloctape_start("/no/such/directory/raw") == ENOENT, "no directory", 0);
    expect(malloctape_start("%q") == EINVAL, "no name", 0);
    expect(malloctape_start(output) == 0 && malloctape_start(output) == EBUSY, "start", 0);
    expect(malloctape_resume() == EBUSY && malloctape_pause() == 0, "pause", 0);
    expect(malloctape_status(&status) == 0 && status.activity == MALLOCTAPE_IS_PAUSED,
           "status in a pause", (long)status.activity);
    expect(malloctape_pause() == EBUSY && malloctape_start(output) == EBUSY, "pause", 1);
    expect(malloctape_stop() == 0 && malloctape_stop() == EBUSY, "stop", 0);
    expect(malloctape_start(output) == 0, "start again", 0);
    allocate(777, CALLS);
    expect(malloctape_pause() == 0 && malloctape_events() == 2 * CALLS, "events in a pause",
           (long)malloctape_events());
    allocate(888, CALLS);
    expect(malloctape_reset(output) == 0, "reset", 0);
    allocate(888, CALLS / 2);
    expect(malloctape_events() == CALLS, "events", (long)malloctape_events());
    expect(malloctape_reset(output) == 0 && malloctape_stop() == 0, "reset, and nothing", 0);
    expect(malloctape_events() == 0, "events of nothing", (long)malloctape_events());
    return failures != 0;
}

static int child(const char *directory)
{
    char output[1200];
    snprintf(output, sizeof output, "%s/parent", directory);
    expect(malloctape_start(output) == 0, "start of the parent", 0);
    allocate(999, CALLS / 2);
    snprintf(output, sizeof output, "%s/child", directory);
    pid_t process = fork();
    if (process == 0) {
        expect(malloctape_stop() == EBUSY, "the child stops the parent", 0);
        expect(malloctape_start(output) == 0, "start of the child", 0);
        allocate(777, CALLS);
        _exit(failures != 0);
    }
    int status;
    expect(waitpid(process, &status, 0) == process && status == 0, "the child", status);
    allocate(999, CALLS / 2);
    return failures != 0;
}

static int environment(const char *output)
{
    static char *const entries[] = {(char *)"LD_PRELOAD=libm.so.6", (char *)"A=b", NULL};
    environ = (char **)(uintptr_t)entries;
    expect(malloctape_start(output) == 0, "start", 0);
    allocate(777, CALLS);
    expect(malloctape_stop() == 0, "stop", 0);
    return failures != 0;
}

static int without(void)
{
    struct malloctape_summary status;
    expect(malloctape_start("raw") == ENOSYS && malloctape_stop() == ENOSYS, "without", 0);
    expect(malloctape_pause() == ENOSYS && malloctape_resume() == ENOSYS, "without", 1);
    expect(malloctape_sync() == ENOSYS && malloctape_status(&status) == ENOSYS, "without", 2);
    expect(malloctape_reset("raw") == ENOSYS && malloctape_events() == 0, "without", 3);
    expect(status.activity == MALLOCTAPE_NOT_LOADED, "status without", (long)status.activity);
    return failures != 0;
}

int main(int count, char **words)
{
    if (count == 4 && strcmp(words[1], "control") == 0) return control(words[2], atoi(words[3]));
    if (count == 3 && strcmp(words[1], "states") == 0) return states(words[2]);
    if (count == 3 && strcmp(words[1], "child") == 0) return child(words[2]);
    if (count == 3 && strcmp(words[1], "pauses") == 0) return pauses(atoi(words[2]));
    if (count == 3 && strcmp(words[1], "environment") == 0) return environment(words[2]);
    if (count == 2 && strcmp(words[1], "without") == 0) return without();
    fputs("usage: see the head of tests/workloads/pieces.c\n", stderr);
    return 2;
}
