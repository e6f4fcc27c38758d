/* edges - calls and moments at which recorders have gone wrong.
 *
 *   edges align0        memalign with an alignment of 0, which tcmalloc accepts, among other calls
 *   edges forks COUNT   COUNT children, one after another, each allocating, while three threads
 *                       make and release large objects; prints how many children did not end within
 *                       ten seconds */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OBJECTS = 10, THREADS = 3, LARGE_OBJECTS = 256, WAITS_MAX = 10000 };

static int align0(void)
{
    void *objects[OBJECTS];
    for (int i = 0; i < OBJECTS; i++)
        objects[i] = memalign(0, 100);
    void *volatile other = malloc(1000);
    free(other);
    for (int i = 0; i < OBJECTS; i++)
        free(objects[i]);
    return 0;
}

static void *make_large_objects(void *unused)
{
    (void)unused;
    for (;;) {
        void *objects[LARGE_OBJECTS];
        for (size_t i = 0; i < LARGE_OBJECTS; i++)
            objects[i] = malloc(300000 + i * 8192);
        for (size_t i = 0; i < LARGE_OBJECTS; i++)
            free(objects[i]);
    }
    return NULL;
}

static int child_ends(void)
{
    pid_t child = fork();
    if (child == 0) {
        void *volatile object = malloc(900000);
        free(object);
        _exit(0);
    }
    for (int waits = 0; waits < WAITS_MAX; waits++) {
        if (waitpid(child, NULL, WNOHANG) == child) return 1;
        usleep(1000);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}

static int forks(int count)
{
    int hung = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, make_large_objects, NULL) != 0) return 1;
    }
    for (int i = 0; i < count; i++)
        hung += !child_ends();
    printf("%d\n", hung);
    fflush(stdout);
    _exit(hung != 0);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "align0") == 0) return align0();
    if (argc == 3 && strcmp(argv[1], "forks") == 0) return forks(atoi(argv[2]));
    fprintf(stderr, "usage: edges align0 | forks COUNT\n");
    return 2;
}
