/* hooks - a program with malloc hooks of its own.
 *
 *   hooks add|set    CALLS mallocs and frees, also of NULL, before it has hooks, and as many with
 *                    them. Ends with status 1 if a hook has missed a call, and 77 if there are no
 *                    hooks to be had */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 1000 };

typedef void new_hook(const void *object, size_t bytes);
typedef void delete_hook(const void *object);

static unsigned long allocated, died, died_of_nothing;
static void *volatile nothing; /* or the compiler would leave its frees out */

static void count_allocation(const void *object, size_t bytes)
{
    (void)object;
    allocated += bytes == 777;
}

static void count_free(const void *object)
{
    died += object != NULL;
    died_of_nothing += object == NULL;
}

static void allocate(void)
{
    for (int i = 0; i < CALLS; i++) {
        free(malloc(777));
        free(nothing);
    }
}

int main(int count, char **words)
{
    int (*add_new)(new_hook *), (*add_delete)(delete_hook *);
    new_hook *(*set_new)(new_hook *);
    delete_hook *(*set_delete)(delete_hook *);
    *(void **)&add_new = dlsym(RTLD_DEFAULT, "MallocHook_AddNewHook");
    *(void **)&add_delete = dlsym(RTLD_DEFAULT, "MallocHook_AddDeleteHook");
    *(void **)&set_new = dlsym(RTLD_DEFAULT, "MallocHook_SetNewHook");
    *(void **)&set_delete = dlsym(RTLD_DEFAULT, "MallocHook_SetDeleteHook");
    if (!add_new || !add_delete || !set_new || !set_delete) return 77;
    allocate();
    if (count > 1 && strcmp(words[1], "set") == 0) {
        set_new(count_allocation);
        set_delete(count_free);
    } else {
        add_new(count_allocation);
        add_delete(count_free);
    }
    allocate();
    unsigned long allocations = allocated, frees = died, of_nothing = died_of_nothing;
    printf("%lu allocations, %lu frees, %lu of NULL\n", allocations, frees, of_nothing);
    return allocations == CALLS && frees == CALLS && of_nothing == CALLS ? 0 : 1;
}
