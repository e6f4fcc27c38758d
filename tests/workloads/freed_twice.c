/* freed_twice HOW [MORE] - frees an object twice; then allocates MORE objects of its size, and
 * frees those if HOW says so.
 *
 * HOW is made of words: large (the object has pages of its own), thread (another thread frees it
 * the second time), realloc, sized (the second time it is those), all (what is allocated afterwards
 * is freed). tcmalloc then hands out the same address again and again, so nothing is written into
 * objects. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MORE_MAX 1000

extern void _ZdlPvm(void *object, size_t size) __attribute__((weak)); /* operator delete */

static void *object;

static void *free_object(void *unused)
{
    free(object);
    return unused;
}

int main(int count, char **words)
{
    const char *how = count > 1 ? words[1] : "";
    int more = count > 2 ? atoi(words[2]) : 0;
    void *allocated[MORE_MAX];
    pthread_t thread;
    if (more > MORE_MAX) return 2;
    object = malloc(strstr(how, "large") ? 1 << 20 : 10);
    free(object);
    if (strstr(how, "thread")) {
        if (pthread_create(&thread, NULL, free_object, NULL) != 0) return 2;
        pthread_join(thread, NULL);
    } else if (strstr(how, "realloc")) {
        object = realloc(object, 20);
    } else if (strstr(how, "sized") && _ZdlPvm != NULL) {
        _ZdlPvm(object, 10);
    } else {
        free(object);
    }
    for (int i = 0; i < more; i++)
        allocated[i] = malloc(10);
    for (int i = 0; i < more && strstr(how, "all"); i++)
        free(allocated[i]);
    return 0;
}
