/* composed - functions of the malloc family that only call others of it, in both front ends.
 *
 * The C library has them, or another allocator with which the program is linked (mimalloc, snmalloc
 * and rpmalloc have some). If calls reached those, they would get objects of our allocator, or
 * return objects of their own, which then come to free() here. A call is recorded as the calls it
 * makes. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

void *malloc(size_t size);
void *realloc(void *object, size_t size);
void *aligned_alloc(size_t alignment, size_t size);
void free(void *object);

void *reallocarray(void *object, size_t count, size_t size);
void *reallocf(void *object, size_t size);
int reallocarr(void *object, size_t count, size_t size);
void *_aligned_malloc(size_t alignment, size_t size);
void vfree(void *object);

EXPORT void *reallocarray(void *object, size_t count, size_t size)
{
    size_t bytes;
    if (!__builtin_mul_overflow(count, size, &bytes)) return realloc(object, bytes);
    errno = ENOMEM;
    return NULL;
}

/* As in the BSDs: a failure frees the object. */
EXPORT void *reallocf(void *object, size_t size)
{
    void *moved = realloc(object, size);
    if (moved == NULL && size) free(object);
    return moved;
}

/* As in NetBSD: `object` is the address of a pointer to the object. Returns an errno value. */
EXPORT int reallocarr(void *object, size_t count, size_t size)
{
    int kept_errno = errno;
    void *moved = NULL;
    size_t bytes;
    memcpy(&moved, object, sizeof moved);
    if (__builtin_mul_overflow(count, size, &bytes)) return EOVERFLOW;
    if (bytes) {
        moved = realloc(moved, bytes);
    } else {
        free(moved);
        moved = NULL;
    }
    errno = kept_errno;
    if (moved == NULL && bytes) return ENOMEM;
    memcpy(object, &moved, sizeof moved);
    return 0;
}

/* mimalloc's, in its order of arguments. */
EXPORT void *_aligned_malloc(size_t alignment, size_t size)
{
    return aligned_alloc(alignment, size);
}

EXPORT void vfree(void *object)
{
    free(object);
}

static char *composed_copy(const char *text, size_t length)
{
    char *made = malloc(length + 1);
    if (made == NULL) return NULL;
    memcpy(made, text, length);
    made[length] = 0;
    return made;
}

EXPORT char *strdup(const char *text)
{
    return composed_copy(text, strlen(text));
}

EXPORT char *strndup(const char *text, size_t length_max)
{
    return composed_copy(text, strnlen(text, length_max));
}
