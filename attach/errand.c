#include "attach/errand.h"

#include <dlfcn.h>

/* Puts a function into a section of its own, whose ends the linker tells, without anything that
 * would make it need others. */
#define COPIED __attribute__((section("errand_copied"), noinline, used, no_stack_protector))

extern const char __start_errand_copied[], __stop_errand_copied[];

COPIED static void errand_run(struct errand *errand);

static void errand_run(struct errand *errand)
{
    int (*lock)(uint64_t, clockid_t, const struct timespec *) =
        (int (*)(uint64_t, clockid_t, const struct timespec *))errand->lock;
    int (*unlock)(uint64_t) = (int (*)(uint64_t))errand->unlock;
    int *(*error_number)(void) = (int *(*)(void))errand->error_number;
    void *(*open)(uint64_t, int) = (void *(*)(uint64_t, int))errand->open;
    uint64_t (*find)(void *, uint64_t) = (uint64_t(*)(void *, uint64_t))errand->find;
    uint64_t (*explain)(void) = (uint64_t(*)(void))errand->explain;
    int *error = error_number();
    const int kept = *error;
    if (lock(errand->linker_lock, CLOCK_MONOTONIC, &errand->until) != 0) {
        errand->is_busy = 1;
        return;
    }
    if (errand->path != 0) {
        void *library = open(errand->path, RTLD_NOW);
        if (library != NULL) errand->function = find(library, errand->name);
        if (library == NULL || errand->function == 0) errand->why = explain();
    }
    if (errand->function != 0) {
        int (*function)(uint64_t) = (int (*)(uint64_t))errand->function;
        errand->result = function(errand->argument);
    }
    unlock(errand->linker_lock);
    *error = kept;
}

const void *errand_code(size_t *bytes)
{
    *bytes = (size_t)(__stop_errand_copied - __start_errand_copied);
    return __start_errand_copied;
}
