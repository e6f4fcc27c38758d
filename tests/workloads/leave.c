/* leave HOW THREADS - each thread makes 100 000 objects of 777 bytes and frees most of them; then
 * the process leaves by a way that nothing of ours sees: "group" by the system call exit_group with
 * status 5, "kill" by SIGKILL, "crash" by SIGSEGV; or, "stats", normally after malloc_stats(). */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OBJECTS = 100000, KEPT = 100 };

static void *work(void *unused)
{
    void *kept[KEPT] = {NULL};
    for (int i = 0; i < OBJECTS; i++) {
        free(kept[i % KEPT]);
        kept[i % KEPT] = malloc(777);
    }
    return unused;
}

int main(int count, char **words)
{
    pthread_t threads[64];
    int others = count > 2 ? atoi(words[2]) - 1 : 0;
    const char *how = count > 1 ? words[1] : "group";
    for (int i = 0; i < others; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    work(NULL);
    for (int i = 0; i < others; i++)
        pthread_join(threads[i], NULL);
    if (strcmp(how, "kill") == 0) kill(getpid(), SIGKILL);
    if (strcmp(how, "crash") == 0) kill(getpid(), SIGSEGV);
    if (strcmp(how, "stats") != 0) syscall(SYS_exit_group, 5);
    malloc_stats();
    return 0;
}
