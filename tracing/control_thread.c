#include "control_thread.h"

#include "../common/atomic.h"
#include "os.h"

static struct {
    struct os_thread thread;
    bool running;
    uint32_t done;
    uint32_t finish;
} control;

int control_thread_start(void (*run)(void *unused))
{
    int result = os_thread_start(&control.thread, run, NULL, &control.done, -1);
    control.running = result == 0;
    return result;
}

bool control_thread_is_running(void)
{
    return control.running && !atomic_load_acquire(&control.done);
}

bool control_thread_is_to_end(void)
{
    return atomic_load_relaxed(&control.finish);
}

void control_thread_end(void)
{
    if (!control.running) return;
    atomic_store_relaxed(&control.finish, 1);
    os_thread_release(&control.thread);
    control.running = false;
}

void control_thread_forget(void)
{
    if (!control.running) return;
    control.running = false;
    control.thread.alive = 0;
    os_thread_release(&control.thread);
}
