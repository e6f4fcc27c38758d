/* writer_library - what is resident of the recorder's own code and static data.
 *
 *   libmalloctape.so                   all of the library
 *   libtcmalloc_minimal_tracing.so     what recorder_edge.c encloses; the rest would be there without the
 *                                      recorder, too
 *
 * /proc/self/pagemap says it: of a file, mincore() tells what the system has. */
#include "tracing/writer/writer.h"
#include "tracing/writer/writer_own.h"

#include "tracing/writer/recorder_edge.h"

/* Entries of pagemap that are read at a time, and what they say. */
#define LIBRARY_PAGES        128u
#define LIBRARY_PAGE_PRESENT (UINT64_C(1) << 63)
#define LIBRARY_PAGE_OF_FILE (UINT64_C(1) << 61)

/* Made by the linker: where this library is. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

struct library_part {
    const char *begin, *end;
};

/* Adds the pages that lie in the part as a whole. */
static void library_count(int pagemap, const struct library_part *part, uint64_t *pages,
                          uint64_t *of_files)
{
    const uint64_t page_bytes = os_page_bytes();
    const uint64_t end = (uintptr_t)part->end / page_bytes;
    uint64_t at = ((uintptr_t)part->begin + page_bytes - 1) / page_bytes;
    uint64_t entries[LIBRARY_PAGES];
    while (at < end) {
        const size_t count = end - at < LIBRARY_PAGES ? (size_t)(end - at) : LIBRARY_PAGES;
        const long got = os_file_read_at(pagemap, at * 8, entries, count * 8);
        for (long i = 0; i < got / 8; i++) {
            if (!(entries[i] & LIBRARY_PAGE_PRESENT)) continue;
            ++*pages;
            *of_files += (entries[i] & LIBRARY_PAGE_OF_FILE) != 0;
        }
        at += count;
    }
}

uint64_t writer_library_bytes(const struct writer *writer, uint64_t *of_files)
{
    const struct library_part parts[] = {{recorder_code_begin, recorder_code_end},
                                         {recorder_constants_begin, recorder_constants_end},
                                         {recorder_variables_begin, recorder_variables_end}};
    const struct library_part all = {__ehdr_start, _end};
    uint64_t pages = 0, file_pages = 0;
    if (recorder_code_begin == NULL)
        library_count(writer->residency.pagemap, &all, &pages, &file_pages);
    else
        for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++)
            library_count(writer->residency.pagemap, &parts[i], &pages, &file_pages);
    *of_files = file_pages * os_page_bytes();
    return pages * os_page_bytes();
}
