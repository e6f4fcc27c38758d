/* address_space - the functions of libc by which a program changes its address space: each makes the
 * call, and has it recorded (mappings.h).
 *
 * What gives pages up is recorded before its call: afterwards another thread may get them. What gets
 * pages is recorded after it. They may be called before anything is ready, inside the allocator, by
 * signal handlers and in children that share the memory: nothing here takes a lock, and until libc's
 * functions have been found, the system is called instead. */
#include "tracing/core/mappings.h"
#include "tracing/data/new_memory.h"
#include "tracing/os/next_function.h"
#include "tracing/os/os.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>

#define EXPORT __attribute__((visibility("default")))
/* What calls the function in which this stands. */
#define MAKER  ((struct mappings_maker){__builtin_return_address(0), __builtin_frame_address(0)})

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

/* The program's calls lead here even if libc declares the functions otherwise. */
EXPORT void *space_mmap(void *address, size_t length, int protection, int flags, int file,
                        off_t offset) __asm__("mmap");
EXPORT void *space_mmap64(void *address, size_t length, int protection, int flags, int file,
                          off_t offset) __asm__("mmap64");
EXPORT int space_munmap(void *address, size_t length) __asm__("munmap");
EXPORT void *space_mremap(void *address, size_t length, size_t new_length, int flags,
                          ...) __asm__("mremap");
EXPORT int space_madvise(void *address, size_t length, int advice) __asm__("madvise");
EXPORT int space_posix_madvise(void *address, size_t length, int advice) __asm__("posix_madvise");
EXPORT int space_mprotect(void *address, size_t length, int protection) __asm__("mprotect");
EXPORT void *space_shmat(int id, const void *address, int flags) __asm__("shmat");
EXPORT int space_shmdt(const void *address) __asm__("shmdt");
EXPORT int space_brk(void *end) __asm__("brk");
EXPORT void *space_sbrk(intptr_t bytes) __asm__("sbrk");

/* The result of a system call, as libc returns it. */
static long space_as_libc(long result)
{
    if (result >= 0 || result < -4095) return result;
    errno = (int)-result;
    return -1;
}

/* ---- mmap, munmap ---- */

static void *map_by_system(void *address, size_t length, int protection, int flags, int file,
                           off_t offset)
{
    return (void *)space_as_libc(
        os_system_call(SYS_mmap, (long)address, (long)length, protection, flags, file, offset));
}

static void note_map(void *made, void *address, size_t length, int protection, int flags, int file,
                     off_t offset, struct mappings_maker maker)
{
    if (flags & MAP_FIXED && (flags & MAP_SHARED || !(flags & MAP_ANONYMOUS)))
        new_memory_may_be_filled();
    if (!mappings_are_recorded()) return;
    const bool failed = made == MAP_FAILED;
    if (protection == PROT_NONE && !failed) no_access_at((uintptr_t)made, length, true);
    struct mapping_record record = {.what = MAPPING_MAP,
                                    .failed = failed,
                                    .address = (uint64_t)(failed ? address : made),
                                    .length = length,
                                    .protection = (uint32_t)protection,
                                    .flags = (uint32_t)flags,
                                    .offset = (uint64_t)offset};
    mappings_record(&record, flags & MAP_ANONYMOUS ? -1 : file, maker);
}

void *space_mmap(void *address, size_t length, int protection, int flags, int file, off_t offset)
{
    const struct next_functions *libc = next_functions_found();
    void *made = (libc != NULL ? libc->mmap : map_by_system)(address, length, protection, flags,
                                                             file, offset);
    note_map(made, address, length, protection, flags, file, offset, MAKER);
    return made;
}

void *space_mmap64(void *address, size_t length, int protection, int flags, int file, off_t offset)
{
    const struct next_functions *libc = next_functions_found();
    void *made = (libc != NULL ? libc->mmap64 : map_by_system)(address, length, protection, flags,
                                                               file, offset);
    note_map(made, address, length, protection, flags, file, offset, MAKER);
    return made;
}

/* Whether the call surely fails. Otherwise it hardly ever does: where the process would have too many
 * areas. */
static bool space_refuses(const void *address, size_t length)
{
    const uintptr_t from = (uintptr_t)address;
    return from % os_page_bytes() != 0 || length == 0 || from + length < from ||
           (from + length) >> 63;
}

/* It may take long, as pages are given back: others' records are not to wait. So it is recorded before
 * the call, and once more if that fails. */
int space_munmap(void *address, size_t length)
{
    const struct next_functions *libc = next_functions_found();
    struct mapping_record record = {
        .what = MAPPING_UNMAP, .address = (uint64_t)address, .length = length};
    const bool recorded = mappings_are_recorded();
    if (recorded && !space_refuses(address, length)) mappings_record(&record, -1, MAKER);
    int result = libc != NULL ? libc->munmap(address, length)
                              : (int)space_as_libc(os_system_call(SYS_munmap, (long)address,
                                                                  (long)length, 0, 0, 0, 0));
    if (result == 0 || !recorded) return result;
    record.failed = true;
    mappings_record(&record, -1, MAKER);
    return result;
}

/* ---- mremap ---- */

/* Whether the call leaves the old pages mapped. */
static bool space_keeps_old(size_t length, int flags)
{
    return length == 0 || flags & MREMAP_DONTUNMAP;
}

void *space_mremap(void *address, size_t length, size_t new_length, int flags, ...)
{
    const struct next_functions *libc = next_functions_found();
    const bool recorded = mappings_are_recorded(), keeps = space_keeps_old(length, flags);
    struct mapping_record record = {.what = MAPPING_MOVE_FROM,
                                    .address = (uint64_t)address,
                                    .length = length,
                                    .flags = (uint32_t)flags};
    void *to = NULL;
    va_list more;
    va_start(more, flags);
    if (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) to = va_arg(more, void *);
    if (flags & MREMAP_FIXED) new_memory_may_be_filled();
    va_end(more);
    struct mappings_place place = {.is_entered = false};
    if (recorded && !keeps) place = mappings_begin(&record, MAKER);
    void *made = libc != NULL
                     ? libc->mremap(address, length, new_length, flags, to)
                     : (void *)space_as_libc(os_system_call(SYS_mremap, (long)address, (long)length,
                                                            (long)new_length, flags, (long)to, 0));
    record.failed = made == MAP_FAILED;
    mappings_end(&place, &record);
    if (!recorded || (record.failed && !keeps)) return made;
    struct mapping_record got = {.what = MAPPING_MOVE_TO,
                                 .failed = record.failed,
                                 .address = (uint64_t)(record.failed ? to : made),
                                 .length = new_length,
                                 .flags = (uint32_t)flags};
    mappings_record(&got, -1, MAKER);
    return made;
}

/* ---- advice and protection ---- */

static void space_note_change(unsigned what, const void *address, size_t length, int how,
                              bool failed, struct mappings_maker maker)
{
    struct mapping_record record = {.what = (uint8_t)what,
                                    .failed = failed,
                                    .address = (uint64_t)address,
                                    .length = length,
                                    .protection = (uint32_t)how};
    mappings_record(&record, -1, maker);
}

int space_madvise(void *address, size_t length, int advice)
{
    const struct next_functions *libc = next_functions_found();
    int result = libc != NULL ? libc->madvise(address, length, advice)
                              : (int)space_as_libc(os_system_call(SYS_madvise, (long)address,
                                                                  (long)length, advice, 0, 0, 0));
    if (mappings_are_recorded())
        space_note_change(MAPPING_ADVISE, address, length, advice, result != 0, MAKER);
    return result;
}

/* libc takes POSIX_MADV_DONTNEED for no advice at all. */
int space_posix_madvise(void *address, size_t length, int advice)
{
    int result = next_functions()->posix_madvise(address, length, advice);
    if (mappings_are_recorded() && advice != POSIX_MADV_DONTNEED)
        space_note_change(MAPPING_ADVISE, address, length, advice, result != 0, MAKER);
    return result;
}

int space_mprotect(void *address, size_t length, int protection)
{
    const struct next_functions *libc = next_functions_found();
    int result = libc != NULL
                     ? libc->mprotect(address, length, protection)
                     : (int)space_as_libc(os_system_call(SYS_mprotect, (long)address, (long)length,
                                                         protection, 0, 0, 0));
    const bool none = protection == PROT_NONE;
    if (mappings_are_recorded() && no_access_at((uintptr_t)address, length, none) | none)
        space_note_change(MAPPING_PROTECT, address, length, protection, result != 0, MAKER);
    return result;
}

/* ---- shared memory of System V ---- */

void *space_shmat(int id, const void *address, int flags)
{
    void *made = next_functions()->shmat(id, address, flags);
    const int kept_errno = errno;
    struct shmid_ds segment;
    if (address != NULL) new_memory_may_be_filled();
    if (!mappings_are_recorded()) return made;
    struct mapping_record record = {.what = MAPPING_ATTACH,
                                    .failed = made == (void *)-1,
                                    .flags = (uint32_t)flags,
                                    .has_file = true,
                                    .inode = (uint64_t)(unsigned)id};
    record.address = (uint64_t)(record.failed ? address : made);
    record.protection = flags & SHM_RDONLY ? PROT_READ : PROT_READ | PROT_WRITE;
    if (!record.failed && !os_is_confined() &&
        os_system_call(SYS_shmctl, id, IPC_STAT, (long)&segment, 0, 0, 0) == 0)
        record.length = segment.shm_segsz;
    errno = kept_errno;
    mappings_record(&record, -1, MAKER);
    return made;
}

int space_shmdt(const void *address)
{
    struct mapping_record record = {.what = MAPPING_DETACH, .address = (uint64_t)address};
    struct mappings_place place = {.is_entered = false};
    if (mappings_are_recorded()) place = mappings_begin(&record, MAKER);
    int result = next_functions()->shmdt(address);
    record.failed = result != 0;
    mappings_end(&place, &record);
    return result;
}

/* ---- the data segment ---- */

static void space_note_break(const void *end, bool failed, struct mappings_maker maker)
{
    struct mapping_record record = {
        .what = MAPPING_BREAK, .failed = failed, .address = (uint64_t)end};
    mappings_record(&record, -1, maker);
}

int space_brk(void *end)
{
    int result = next_functions()->brk(end);
    if (mappings_are_recorded()) space_note_break(end, result != 0, MAKER);
    return result;
}

void *space_sbrk(intptr_t bytes)
{
    char *before = next_functions()->sbrk(bytes);
    if (bytes != 0 && mappings_are_recorded())
        space_note_break(before == (char *)-1 ? NULL : before + bytes, before == (char *)-1, MAKER);
    return before;
}
