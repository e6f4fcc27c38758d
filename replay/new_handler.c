#include "replay/new_handler.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local jmp_buf *new_handler_exit;

static void new_handler_leave(void)
{
    jmp_buf *to = new_handler_exit;
    new_handler_exit = NULL;
    if (to != NULL) longjmp(*to, 1);
    /* If a handler returns, operator new calls it again, forever. */
    abort();
}

static void *find_set_new_handler(void)
{
    return dlsym(RTLD_DEFAULT, "_ZSt15set_new_handlerPFvvE");
}

bool new_handler_exists(void)
{
    return find_set_new_handler() != NULL;
}

void new_handler_free_pool(void)
{
    void *found = dlsym(RTLD_DEFAULT, "_ZN9__gnu_cxx9__freeresEv");
    void (*free_pool)(void);
    memcpy(&free_pool, &found, sizeof found);
    if (free_pool != NULL) free_pool();
}

void new_handler_install(void)
{
    void *found = find_set_new_handler();
    void *(*set)(void (*)(void));
    memcpy(&set, &found, sizeof found);
    if (set != NULL) set(new_handler_leave);
}

void new_handler_arm(jmp_buf *to)
{
    new_handler_exit = to;
}
