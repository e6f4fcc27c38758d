/* resolver [NULLS [leave]] - a program whose dynamic linker calls the allocator: an IFUNC
 * resolver of its own makes, moves and frees objects before main(), of which one is freed there.
 * Then two threads free NULL NULLS times each, and make and free 10 objects of 777 bytes each. With
 * "leave" the first thread ends before them, and all by the system call alone. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static char *kept;
static long nulls;
static int leaves;

static int answer(void)
{
    return 42;
}

static int (*resolve(void))(void)
{
    char *object = malloc(100);
    memset(object, 0x5a, 100);
    kept = realloc(object, 300000);
    free(calloc(3, 7));
    free(NULL);
    return answer;
}

static int resolved(void) __attribute__((ifunc("resolve")));

static void *work(void *unused)
{
    if (leaves) usleep(50000);
    for (long i = 0; i < nulls; i++)
        free(NULL);
    for (int i = 0; i < 10; i++)
        free(malloc(777));
    if (leaves) syscall(SYS_exit, 3);
    return unused;
}

int main(int count, char **words)
{
    pthread_t threads[2];
    if (count > 1) nulls = atol(words[1]);
    leaves = count > 2;
    if (resolved() != 42 || kept[99] != 0x5a) return 1;
    free(kept);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0) return 1;
    if (leaves) syscall(SYS_exit, 9);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 7;
}
