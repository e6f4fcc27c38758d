/* new_handler - while its recording is paused, a program runs out of memory; its new handler gets
 * some, resumes the recording and uses the allocator, before the allocation that it was called for
 * succeeds. */
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <new>

#include "tracing/process/malloctape.h"

namespace {

enum { OBJECTS = 20, BYTES = 700 };

void limit_memory(rlim_t bytes)
{
    rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_AS, &limit);
}

void use_allocator()
{
    void *volatile objects[OBJECTS];
    for (int i = 0; i < OBJECTS; i++)
        objects[i] = malloc(BYTES);
    for (int i = 0; i < OBJECTS; i++)
        free(objects[i]);
}

int called;

void handle()
{
    called++;
    std::set_new_handler(nullptr);
    limit_memory(RLIM_INFINITY);
    malloctape_resume();
    use_allocator();
}

/* All that the heap has. What it has is still there when the program ends. */
void use_up_heap()
{
    for (int bytes : {200000, 30000, 8192, 4000, int{BYTES}})
        for (void *object = malloc(bytes); object != nullptr; object = malloc(bytes)) {}
}

} // namespace

int main()
{
    std::set_new_handler(handle);
    limit_memory(1 << 20);
    use_up_heap();
    malloctape_pause();
    void *volatile object = operator new(BYTES);
    use_allocator();
    operator delete(object);
    if (called == 1) return 0;
    fprintf(stderr, "the handler was called %d times\n", called);
    return 1;
}
