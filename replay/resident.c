#include "replay/resident.h"

#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/name_list.h"
#include "common/pages.h"
#include "replay/measure.h"

/* Libraries that can be told apart. */
#define LIBRARIES_MAX 64u

#define PAGE_PRESENT (UINT64_C(1) << 63)

/* ---- which libraries are the replay's own ---- */

/* The program, which comes first, and its libraries, in the order of the dynamic linker. */
struct loaded {
    unsigned count;
    struct library {
        const char *name; /* without its directory */
        bool own;
        struct dl_phdr_info info;
    } libraries[LIBRARIES_MAX];
};

static int add_library(struct dl_phdr_info *info, size_t bytes, void *to)
{
    struct loaded *loaded = to;
    (void)bytes;
    if (loaded->count == LIBRARIES_MAX) return 1;
    loaded->libraries[loaded->count++] =
        (struct library){.name = basename(info->dlpi_name), .info = *info};
    return 0;
}

static const ElfW(Dyn) * library_dynamic(const struct library *library)
{
    for (unsigned i = 0; i < library->info.dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &library->info.dlpi_phdr[i];
        if (header->p_type == PT_DYNAMIC)
            return (const ElfW(Dyn) *)(uintptr_t)(library->info.dlpi_addr + header->p_vaddr);
    }
    return NULL;
}

/* Marks the libraries that `by`, one of the replay's own, needs as the replay's own, too. Returns
 * whether there was a new one. */
static bool mark_needed(struct loaded *loaded, const struct library *by)
{
    const ElfW(Dyn) *dynamic = library_dynamic(by);
    const char *strings = NULL;
    bool more = false;
    for (const ElfW(Dyn) *at = dynamic; at != NULL && at->d_tag != DT_NULL; at++)
        if (at->d_tag == DT_STRTAB) strings = (const char *)(uintptr_t)at->d_un.d_ptr;
    for (const ElfW(Dyn) *at = dynamic; strings != NULL && at->d_tag != DT_NULL; at++) {
        if (at->d_tag != DT_NEEDED) continue;
        for (unsigned i = 0; i < loaded->count; i++) {
            struct library *library = &loaded->libraries[i];
            if (library->own || strcmp(library->name, strings + at->d_un.d_val) != 0) continue;
            library->own = true;
            more = true;
        }
    }
    return more;
}

void resident_add(struct resident *resident, const void *at, size_t bytes)
{
    if (at == NULL || resident->count == RESIDENT_SEGMENTS_MAX) return;
    resident->segments[resident->count++] = (struct resident_segment){(uintptr_t)at, bytes};
}

static void add_segments(struct resident *resident, const struct library *library)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (unsigned i = 0; i < library->info.dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &library->info.dlpi_phdr[i];
        uintptr_t at = library->info.dlpi_addr + header->p_vaddr;
        uintptr_t begin = at / page * page, end = (at + header->p_memsz + page - 1) / page * page;
        if (header->p_type == PT_LOAD) resident_add(resident, (const void *)begin, end - begin);
    }
}

static void find_segments(struct resident *resident, const char *program_has)
{
    static struct loaded loaded;
    loaded.count = 0;
    dl_iterate_phdr(add_library, &loaded);
    if (loaded.count == 0) return;
    loaded.libraries[0].own = true;
    for (unsigned i = 1; i < loaded.count; i++)
        loaded.libraries[i].own = name_list_has(program_has, loaded.libraries[i].name);
    for (bool more = true; more;) {
        more = false;
        for (unsigned i = 0; i < loaded.count; i++)
            if (loaded.libraries[i].own) more |= mark_needed(&loaded, &loaded.libraries[i]);
    }
    for (unsigned i = 0; i < loaded.count; i++)
        if (loaded.libraries[i].own) add_segments(resident, &loaded.libraries[i]);
}

/* ---- looking ---- */

void resident_open(struct resident *resident, const char *program_has)
{
    *resident = (struct resident){.statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC),
                                  .pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)};
    find_segments(resident, program_has);
}

void resident_close(struct resident *resident)
{
    if (resident->statm >= 0) close(resident->statm);
    if (resident->pagemap >= 0) close(resident->pagemap);
    resident->statm = resident->pagemap = -1;
}

size_t pagemap_read(int pagemap, uint64_t next, uint64_t end, bool present[PAGEMAP_STEP])
{
    uint64_t entries[PAGEMAP_STEP];
    const uint64_t wanted = end - next < PAGEMAP_STEP ? end - next : PAGEMAP_STEP;
    const ssize_t got =
        pread(pagemap, entries, wanted * sizeof *entries, (off_t)(next * sizeof *entries));
    const size_t count = got > 0 ? (size_t)got / sizeof *entries : 0;
    for (size_t i = 0; i < count; i++)
        present[i] = (entries[i] & PAGE_PRESENT) != 0;
    return count;
}

static uint64_t present_bytes(int pagemap, const void *at, size_t bytes)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t next = (uint64_t)(uintptr_t)at / page, end = next + (bytes + page - 1) / page;
    uint64_t pages = 0;
    bool present[PAGEMAP_STEP];
    for (size_t got = 1; next < end && got > 0; next += got) {
        got = pagemap_read(pagemap, next, end, present);
        for (size_t i = 0; i < got; i++)
            pages += present[i];
    }
    return pages * page;
}

/* Reads the size of the address space, the resident part of it, and the part of that which belongs
 * to files or is shared. All are 0 when the system does not say. */
static void resident_read_statm(struct resident *resident, uint64_t *shared)
{
    char text[128], *rest = text;
    ssize_t bytes = pread(resident->statm, text, sizeof text - 1, 0);
    text[bytes > 0 ? bytes : 0] = '\0';
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    resident->vm_size_bytes = strtoull(rest, &rest, 10) * page;
    resident->all_bytes = strtoull(rest, &rest, 10) * page;
    *shared = strtoull(rest, NULL, 10) * page;
}

static uint64_t library_bytes(const struct resident *resident)
{
    uint64_t present = 0;
    for (unsigned i = 0; i < resident->count; i++)
        present += present_bytes(resident->pagemap, (const void *)resident->segments[i].at,
                                 resident->segments[i].bytes);
    return present;
}

/* Sets the time of the next look from the cost of the one that has just ended. This cost counts as
 * at most twice the previous one, so that a look that was preempted does not delay the next too
 * much. */
static void set_next(struct resident *resident, uint64_t begin_ns)
{
    uint64_t end_ns = measure_now_ns(), cost_ns = end_ns - begin_ns;
    if (resident->cost_ns > 0 && cost_ns > 2 * resident->cost_ns) cost_ns = 2 * resident->cost_ns;
    resident->cost_ns = cost_ns;
    resident->next_ns = end_ns + cost_ns * LOOK_SHARE;
}

void resident_look(struct resident *resident, bool whole)
{
    uint64_t begin_ns = measure_now_ns(), shared;
    resident_read_statm(resident, &shared);
    resident->tables_bytes = pages_resident_bytes();
    if (whole || shared != resident->shared_bytes) {
        resident->shared_bytes = shared;
        resident->library_bytes = library_bytes(resident);
        if (whole) begin_ns = measure_now_ns();
    }
    set_next(resident, begin_ns);
}
