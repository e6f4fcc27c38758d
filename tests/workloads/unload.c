/* unload COUNT - one thread loads and unloads a library while another one asks operator new, which it
 * has only from what is preloaded, COUNT times for more than there is. Exit status 7. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static atomic_bool done;

static void *load(void *unused)
{
    while (!done) {
        void *library = dlopen("libm.so.6", RTLD_NOW);
        if (!library) abort();
        dlclose(library);
    }
    return unused;
}

int main(int count, char **words)
{
    pthread_t thread;
    void *(*make)(size_t size, const void *nothrow);
    *(void **)&make = dlsym(RTLD_DEFAULT, "_ZnwmRKSt9nothrow_t");
    if (!make || count < 2 || pthread_create(&thread, NULL, load, NULL) != 0) return 1;
    for (long i = atol(words[1]); i > 0; i--)
        if (make(SIZE_MAX / 2, NULL)) return 1;
    done = true;
    pthread_join(thread, NULL);
    return 7;
}
