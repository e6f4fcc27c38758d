/* storage - a program with a megabyte of thread-local variables of its own. Two threads make 10 000
 * objects of 777 bytes each; exit status 7. */
#include <pthread.h>
#include <string.h>

#include "allocate.h"

static __thread char of_thread[1 << 20];

static void *work(void *unused)
{
    memset(of_thread, 1, sizeof of_thread);
    allocate(10000);
    return unused;
}

int main(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL) != 0) fail("no thread");
    work(NULL);
    pthread_join(thread, NULL);
    return 7;
}
