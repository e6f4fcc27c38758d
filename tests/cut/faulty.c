/* An allocator with a fault, over glibc's, for what looks for the fewest calls that show one. FAULT is
 *   leak   one of 1 000 objects of 48 bytes that a thread makes is not freed, if another thread frees it
 *   page   a page is lost when a thread asks for up to 32, 512 to 1 024, and 100 to 200 bytes in a row
 * When it happens, the file that FAULT_SHOWN names is made. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *object);

enum { FAULT_UNKNOWN, FAULT_NONE, FAULT_LEAK, FAULT_PAGE };

struct head {     /* in front of each object */
    void *begins; /* what glibc knows it by */
    char *maker;
    size_t bytes, serial;
};

static __thread char thread; /* its address is the thread's name */
static __thread size_t made_48, matched;
static int fault;

static void find_fault(void)
{
    const char *name = getenv("FAULT");
    fault = name == NULL                ? FAULT_NONE
            : strcmp(name, "leak") == 0 ? FAULT_LEAK
            : strcmp(name, "page") == 0 ? FAULT_PAGE
                                        : FAULT_NONE;
}

static void show(void)
{
    static int shown;
    const char *path = getenv("FAULT_SHOWN");
    if (path == NULL || __atomic_exchange_n(&shown, 1, __ATOMIC_RELAXED)) return;
    const int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (file >= 0) close(file);
}

static void lose_page(size_t bytes)
{
    const size_t least[] = {0, 512, 100}, most[] = {32, 1024, 200};
    if (bytes < least[matched] || bytes > most[matched]) matched = 0;
    if (bytes < least[matched] || bytes > most[matched] || ++matched < 3) return;
    matched = 0;
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED) *page = 1;
    show();
}

void *memalign(size_t alignment, size_t bytes)
{
    const size_t before = alignment > sizeof(struct head) ? alignment : sizeof(struct head);
    if (fault == FAULT_UNKNOWN) find_fault();
    if (bytes > SIZE_MAX / 2) {
        errno = ENOMEM;
        return NULL;
    }
    char *begins = alignment <= 16 ? __libc_malloc(bytes + before)
                                   : __libc_memalign(alignment, bytes + before);
    if (begins == NULL) return NULL;
    struct head *head = (struct head *)(begins + before) - 1;
    *head = (struct head){begins, &thread, bytes, bytes == 48 ? ++made_48 : 0};
    if (fault == FAULT_PAGE) lose_page(bytes);
    return head + 1;
}

void free(void *object)
{
    struct head *head = (struct head *)object - 1;
    if (object == NULL) return;
    if (fault == FAULT_LEAK && head->serial % 1000 == 337 && head->maker != &thread)
        show();
    else
        __libc_free(head->begins);
}

void *malloc(size_t bytes)
{
    return memalign(16, bytes);
}

void *calloc(size_t count, size_t each)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, each, &bytes)) return NULL;
    void *object = memalign(16, bytes);
    return object != NULL ? memset(object, 0, bytes) : NULL;
}

void *realloc(void *object, size_t bytes)
{
    void *other = memalign(16, bytes);
    if (object == NULL || other == NULL) return other;
    const size_t before = ((struct head *)object - 1)->bytes;
    memcpy(other, object, before < bytes ? before : bytes);
    free(object);
    return other;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return memalign(alignment, bytes);
}

int posix_memalign(void **object, size_t alignment, size_t bytes)
{
    *object = memalign(alignment, bytes);
    return *object != NULL ? 0 : ENOMEM;
}

size_t malloc_usable_size(void *object)
{
    return object != NULL ? ((struct head *)object - 1)->bytes : 0;
}
