#include "replay/main_thread.h"

#include <semaphore.h>

static struct {
    bool is_free;
    sem_t given, done;
    void *(*function)(void *); /* NULL: there is nothing to do */
    void *argument;
    void (*dispatch)(void *);
    void *dispatch_argument;
    pthread_t thread;
} main_thread;

static void main_thread_wait_for(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        continue;
}

static void *dispatcher_main(void *nothing)
{
    main_thread.dispatch(main_thread.dispatch_argument);
    main_thread_take(NULL, NULL);
    return nothing;
}

void main_thread_run(void (*dispatch)(void *), void *argument)
{
    pthread_t dispatcher;
    main_thread.dispatch = dispatch;
    main_thread.dispatch_argument = argument;
    main_thread.thread = pthread_self();
    main_thread.is_free = true;
    sem_init(&main_thread.given, 0, 0);
    sem_init(&main_thread.done, 0, 0);
    if (pthread_create(&dispatcher, NULL, dispatcher_main, NULL) != 0) {
        main_thread.is_free = false;
        dispatch(argument);
        return;
    }
    main_thread_wait_for(&main_thread.given);
    if (main_thread.function != NULL) main_thread.function(main_thread.argument);
    sem_post(&main_thread.done);
    pthread_join(dispatcher, NULL);
}

bool main_thread_take(void *(*function)(void *), void *argument)
{
    if (!main_thread.is_free) return false;
    main_thread.is_free = false;
    main_thread.function = function;
    main_thread.argument = argument;
    sem_post(&main_thread.given);
    return true;
}

void main_thread_join(pthread_t thread)
{
    if (pthread_equal(thread, main_thread.thread))
        main_thread_wait_for(&main_thread.done);
    else
        pthread_join(thread, NULL);
}
