#include "replay/snapshot.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/call_table.h"
#include "common/output.h"
#include "common/pages.h"
#include "replay/resident.h"

/* /proc/self/maps has at most 65 530 lines of some 60 bytes. */
#define MAPS_BYTES (8u << 20)

struct snapshot {
    struct output output;
    struct error *error;
    int pagemap;
    uint64_t page_bytes;
    char *maps; /* the text, ending with a zero byte */
    uint64_t pages;
    bool counting; /* pages are counted, not written */
};

/* ---- what is mapped ---- */

static bool maps_read(struct snapshot *snapshot)
{
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t got = 0;
    while (maps >= 0 && used < MAPS_BYTES - 1 &&
           (got = read(maps, snapshot->maps + used, MAPS_BYTES - 1 - used)) > 0)
        used += (size_t)got;
    if (maps >= 0) close(maps);
    return used > 0 && got == 0;
}

/* One line of the maps. */
struct mapping {
    uint64_t begin, end;
    bool file;  /* part of a program or library: a file, not shared */
    bool plain; /* has no name, or that of the heap or of anonymous memory */
};

/* "55d4-55d5 rw-p 00000000 00:00 0     [heap]" */
static struct mapping mapping_parse(char *line)
{
    struct mapping mapping;
    char *at;
    mapping.begin = strtoull(line, &at, 16);
    mapping.end = strtoull(at + 1, &at, 16);
    const bool shared = at[strcspn(at, "sp")] == 's';
    for (unsigned field = 0; field < 3 && *at != '\0'; field++) /* to that of the inode */
        at = at + 1 + strcspn(at + 1, " ");
    const bool inode = strtoull(at, &at, 10) != 0;
    at += strspn(at, " ");
    mapping.file = inode && !shared;
    mapping.plain =
        !inode && (*at == '\0' || strncmp(at, "[heap]", 6) == 0 || strncmp(at, "[anon", 5) == 0);
    return mapping;
}

/* ---- pages ---- */

static bool page_put(struct snapshot *snapshot, uint64_t address)
{
    if (pages_have((const void *)(uintptr_t)address)) return true;
    snapshot->pages += snapshot->counting;
    return snapshot->counting || output_write(&snapshot->output, &address, sizeof address);
}

static bool snapshot_mapping_put(struct snapshot *snapshot, const struct mapping *mapping)
{
    const uint64_t end = mapping->end / snapshot->page_bytes;
    bool present[PAGEMAP_STEP];
    size_t got;
    for (uint64_t next = mapping->begin / snapshot->page_bytes; next < end; next += got) {
        got = pagemap_read(snapshot->pagemap, next, end, present);
        if (got == 0) return error_set_system(snapshot->error, "cannot read /proc/self/pagemap");
        for (size_t i = 0; i < got; i++)
            if (present[i] && !page_put(snapshot, (next + i) * snapshot->page_bytes)) return false;
    }
    return true;
}

/* A mapping that directly follows a file's holds that file's variables, and is not the heap's. */
static bool pages_put(struct snapshot *snapshot)
{
    uint64_t file_end = 0;
    for (char *line = snapshot->maps; *line != '\0';) {
        char *newline = strchrnul(line, '\n'), *next = newline + (*newline != '\0');
        *newline = '\0';
        const struct mapping mapping = mapping_parse(line);
        const bool variables = mapping.plain && mapping.begin == file_end;
        if (mapping.file || variables) file_end = mapping.end;
        if (mapping.plain && !variables && !snapshot_mapping_put(snapshot, &mapping)) return false;
        *newline = next > newline ? '\n' : '\0';
        line = next;
    }
    return true;
}

/* ---- which object has which index ---- */

bool snapshot_row_follow(struct snapshot_row *row, const struct instruction_batch *batch,
                         size_t count, struct error *error)
{
    if (!pages_reserve(&row->entries, &row->capacity, batch->registers, INSTRUCTION_BLOCK_MAX,
                       sizeof *row->entries))
        return error_set_system(error, "no memory to follow objects");
    struct instruction_walk walk = instruction_walk_over(batch, count);
    struct instruction one;
    while (instruction_walk_next(&walk, &one)) {
        const unsigned does = instruction_does[one.opcode];
        if (does == INSTRUCTION_BEGINS) {
            row->entries[one.object].index = (uint32_t)row->live;
            row->entries[row->live++].object = one.object;
        } else if (does == INSTRUCTION_ENDS) {
            const uint32_t gap = row->entries[one.object].index;
            const uint32_t last = row->entries[--row->live].object;
            row->entries[gap].object = last;
            row->entries[last].index = gap;
        }
    }
    return true;
}

void snapshot_row_close(struct snapshot_row *row)
{
    pages_unmap(row->entries, row->capacity * sizeof *row->entries);
    *row = (struct snapshot_row){.entries = NULL};
}

/* ---- the file ---- */

static bool snapshot_write_all(struct snapshot *snapshot, void *const *addresses, uint64_t live)
{
    snapshot->counting = true;
    if (!pages_put(snapshot)) return false;
    snapshot->counting = false;
    const uint64_t header[SNAPSHOT_HEADER_WORDS] = {
        [SNAPSHOT_HEADER_MAGIC] = SNAPSHOT_MAGIC,
        [SNAPSHOT_HEADER_PAGE_BYTES] = snapshot->page_bytes,
        [SNAPSHOT_HEADER_OBJECTS] = live,
        [SNAPSHOT_HEADER_PAGES] = snapshot->pages,
    };
    output_write(&snapshot->output, header, sizeof header);
    output_write(&snapshot->output, addresses, live * sizeof *addresses);
    return pages_put(snapshot);
}

bool snapshot_write(const char *path, void *const *addresses, uint64_t live, struct error *error)
{
    struct snapshot snapshot = {.error = error,
                                .pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC),
                                .page_bytes = (uint64_t)sysconf(_SC_PAGESIZE),
                                .maps = pages_map(MAPS_BYTES)};
    bool good = output_open(&snapshot.output, path) && snapshot.maps != NULL;
    good = good && (maps_read(&snapshot) || error_set_system(error, "cannot read /proc/self/maps"));
    good = good && snapshot_write_all(&snapshot, addresses, live);
    good = output_close(&snapshot.output) && good;
    if (!good && !error_is_set(error)) *error = snapshot.output.error;
    pages_unmap(snapshot.maps, MAPS_BYTES);
    if (snapshot.pagemap >= 0) close(snapshot.pagemap);
    return good;
}
