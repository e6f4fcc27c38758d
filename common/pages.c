#include "common/pages.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *pages_result(long address)
{
    return address == -1 ? NULL : (void *)address;
}

void *pages_map(size_t bytes)
{
    return pages_result(syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L));
}

void *pages_map_shared(size_t bytes)
{
    return pages_result(syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L));
}

void *pages_grow(void *at, size_t bytes_old, size_t bytes_new)
{
    if (at == NULL) return pages_map(bytes_new);
    return pages_result(syscall(SYS_mremap, at, bytes_old, bytes_new, MREMAP_MAYMOVE, NULL));
}

void pages_unmap(void *at, size_t bytes)
{
    if (at == NULL) return;
#ifdef __SANITIZE_THREAD__
    munmap(at, bytes); /* whoever maps the addresses next has nothing to do with who had them */
#else
    syscall(SYS_munmap, at, bytes);
#endif
}
