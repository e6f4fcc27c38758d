#include "replay/main_thread.h"

#include "replay/futex.h"

enum { MAIN_DONE, MAIN_IDLE, MAIN_GIVEN, MAIN_ENDED };

static struct {
    uint32_t state; /* atomic; waited for */
    void *(*function)(void *);
    void *argument;
    void (*dispatch)(void *);
    void *dispatch_argument;
    pthread_t thread;
} main_thread;

static void set_state(uint32_t state)
{
    atomic_store_release(&main_thread.state, state);
    futex_wake(&main_thread.state);
}

static void *dispatcher_main(void *nothing)
{
    main_thread.dispatch(main_thread.dispatch_argument);
    set_state(MAIN_ENDED);
    return nothing;
}

void main_thread_run(void (*dispatch)(void *), void *argument)
{
    pthread_t dispatcher;
    main_thread.dispatch = dispatch;
    main_thread.dispatch_argument = argument;
    main_thread.thread = pthread_self();
    main_thread.state = MAIN_IDLE;
    if (pthread_create(&dispatcher, NULL, dispatcher_main, NULL) != 0) {
        main_thread.state = MAIN_DONE;
        dispatch(argument);
        return;
    }
    uint32_t state;
    while ((state = atomic_load_acquire(&main_thread.state)) != MAIN_ENDED) {
        if (state != MAIN_GIVEN) {
            futex_wait(&main_thread.state, state);
            continue;
        }
        main_thread.function(main_thread.argument);
        set_state(MAIN_DONE);
    }
    pthread_join(dispatcher, NULL);
}

bool main_thread_take(void *(*function)(void *), void *argument)
{
    if (atomic_load_acquire(&main_thread.state) != MAIN_IDLE) return false;
    main_thread.function = function;
    main_thread.argument = argument;
    set_state(MAIN_GIVEN);
    return true;
}

void main_thread_join(pthread_t thread)
{
    if (!pthread_equal(thread, main_thread.thread)) {
        pthread_join(thread, NULL);
        return;
    }
    while (atomic_load_acquire(&main_thread.state) == MAIN_GIVEN)
        futex_wait(&main_thread.state, MAIN_GIVEN);
}
