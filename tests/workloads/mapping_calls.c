/* mapping_calls FILE - each call that changes the address space, once: what a recording has to tell of
 * them, in their order. FILE is mapped. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

enum { PAGE = 4096 };

int main(int count, char **words)
{
    /* The first call of the allocator begins the recording. */
    free(malloc(10));
    int file = count > 1 ? open(words[1], O_RDONLY) : -1;
    if (file < 0) return 2;
    char *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *of_file = mmap64(NULL, 100, PROT_READ, MAP_SHARED, file, PAGE);
    mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 1, 3 * PAGE);
    madvise(pages, PAGE, MADV_DONTNEED);
    posix_madvise(pages, PAGE, POSIX_MADV_WILLNEED);
    mprotect(pages, PAGE, PROT_READ); /* of no interest: it was accessible, and is */
    mprotect(pages, PAGE, PROT_NONE);
    mprotect(pages, PAGE, PROT_READ | PROT_WRITE);
    pages = mremap(pages, 3 * PAGE, 500 * PAGE, MREMAP_MAYMOVE);
    mremap((char *)1, PAGE, 2 * PAGE, 0);
    munmap(pages + PAGE, 499 * PAGE);
    munmap((char *)1, PAGE);
    munmap(of_file, 100);
    int id = shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0600);
    void *segment = shmat(id, NULL, 0);
    shmctl(id, IPC_RMID, NULL);
    shmdt(segment);
    shmdt(segment);
    void *end = sbrk(PAGE);
    return brk(end) != 0;
}
