#include "replay/huge_pages.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/atomic.h"

/* Linux 6.18. */
#ifndef PR_THP_DISABLE_EXCEPT_ADVISED
#define PR_THP_DISABLE_EXCEPT_ADVISED 2
#endif

const char *const huge_pages_names[] = {"system", "always", "madvise", "never", NULL};

/* Made by the linker: where this program is. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static int advises; /* atomic: what is mapped is advised */
static int reached; /* atomic: some was */

/* What the system does: one of the names above. */
static enum huge_pages system_has(void)
{
    static const char path[] = "/sys/kernel/mm/transparent_hugepage/enabled";
    char text[64] = "";
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        if (fgets(text, sizeof text, file) == NULL) text[0] = '\0';
        fclose(file);
    }
    if (strstr(text, "[always]") != NULL) return HUGE_PAGES_ALWAYS;
    return strstr(text, "[madvise]") != NULL ? HUGE_PAGES_MADVISE : HUGE_PAGES_NEVER;
}

/* What the allocator has mapped before main(): memory without a file. */
static void advise_present(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512], protection[8];
    unsigned long start, end, inode;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        if (sscanf(line, "%lx-%lx %7s %*x %*s %lu", &start, &end, protection, &inode) == 4 &&
            inode == 0 && strcmp(protection, "rw-p") == 0 && strstr(line, "[stack") == NULL)
            madvise((void *)start, end - start, MADV_HUGEPAGE);
    if (maps != NULL) fclose(maps);
}

static const char *begin_always(enum huge_pages has)
{
    if (has == HUGE_PAGES_ALWAYS) return NULL;
    if (has == HUGE_PAGES_NEVER) return "this system has no huge pages (transparent_hugepage)";
    advise_present();
    atomic_store_relaxed(&advises, 1);
    return NULL;
}

static const char *begin_madvise(enum huge_pages has)
{
    if (has != HUGE_PAGES_ALWAYS) return NULL;
    return prctl(PR_SET_THP_DISABLE, 1, PR_THP_DISABLE_EXCEPT_ADVISED, 0, 0) == 0
               ? NULL
               : "this system always has huge pages, and a kernel older than Linux 6.18";
}

bool huge_pages_reach_allocator(void)
{
    const char *tunables = getenv("GLIBC_TUNABLES");
    return !atomic_load_relaxed(&advises) || atomic_load_relaxed(&reached) ||
           (tunables != NULL && strstr(tunables, "glibc.malloc.hugetlb=1") != NULL);
}

const char *huge_pages_begin(enum huge_pages wanted)
{
    switch (wanted) {
    case HUGE_PAGES_ALWAYS: return begin_always(system_has());
    case HUGE_PAGES_MADVISE: return begin_madvise(system_has());
    case HUGE_PAGES_NEVER:
        return prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0 ? NULL : "the kernel refuses";
    default: return NULL;
    }
}

/* ---- what the allocator calls ---- */

/* A sanitizer replaces these functions by its own. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

static bool huge_pages_are_for(const void *caller)
{
    return (const char *)caller < __ehdr_start || (const char *)caller >= _end;
}

static void *map_advised(void *address, size_t length, int protection, int flags, int file,
                         off_t offset, const void *caller)
{
    void *made = (void *)syscall(SYS_mmap, address, length, protection, flags, file, offset);
    if (made != MAP_FAILED && (flags & MAP_ANONYMOUS) && (flags & MAP_PRIVATE) &&
        atomic_load_relaxed(&advises) && huge_pages_are_for(caller))
        atomic_store_relaxed(&reached, madvise(made, length, MADV_HUGEPAGE) == 0);
    return made;
}

void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset)
{
    return map_advised(address, length, protection, flags, file, offset,
                       __builtin_return_address(0));
}

void *mmap64(void *address, size_t length, int protection, int flags, int file, off_t offset)
{
    return map_advised(address, length, protection, flags, file, offset,
                       __builtin_return_address(0));
}

extern void *__sbrk(intptr_t bytes);

void *sbrk(intptr_t bytes)
{
    char *before = __sbrk(bytes);
    if (before == (void *)-1 || bytes <= 0 || !atomic_load_relaxed(&advises)) return before;
    const uintptr_t mask = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
    const uintptr_t start = ((uintptr_t)before + mask) & ~mask;
    const uintptr_t end = ((uintptr_t)before + (uintptr_t)bytes + mask) & ~mask;
    if (end > start)
        atomic_store_relaxed(&reached, madvise((void *)start, end - start, MADV_HUGEPAGE) == 0);
    return before;
}

#endif
