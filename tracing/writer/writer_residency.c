/* writer_residency - what of the address space is resident (FORMAT.md 4.6).
 *
 *   brief      /proc/self/maps says which areas there are; mincore() which pages of memory without a
 *              file are resident, 1 us a MiB, and /proc/self/pagemap which pages of files, 20 us a MiB:
 *              the latter only when there are others of files than before
 *   detailed   /proc/self/smaps, for which the kernel goes through all pages: 50 to 130 us a MiB
 *
 * Looks together may take one part in 200 of the process's time, and some milliseconds more. */
#include "tracing/writer/writer.h"
#include "tracing/writer/writer_own.h"

#include "common/text.h"
#include "stream/chunk_seal.h"
#include "stream/residency.h"
#include "tracing/data/notice.h"
#include "tracing/data/shadow.h"

#include <string.h>

/* What looks may take: one part in so many of the time since the start, and this. */
#define RESIDENCY_ONE_IN          200
#define RESIDENCY_ALLOWANCE_NS    UINT64_C(4000000)
/* One look, as the program cannot map meanwhile. */
#define RESIDENCY_DETAILED_MAX_NS UINT64_C(50000000)
/* Before anything was measured. */
#define RESIDENCY_BRIEF_NS        UINT64_C(1000000)
#define RESIDENCY_NS_PER_MIB      UINT64_C(130000)
/* A peak is clearly new if it is higher by one part in so many, and in between there is a look after
 * so long. */
#define RESIDENCY_HIGHER_BY       20
#define RESIDENCY_SELDOM_NS       UINT64_C(10000000000)

/* The memory: text of a file of /proc, what pages are resident, the payload, and names. */
#define RESIDENCY_TEXT_BYTES    32768u
#define RESIDENCY_PAGES         4096u
#define RESIDENCY_PAYLOAD_BYTES (512u * 1024)
#define RESIDENCY_RUNS_MAX      2048u
#define RESIDENCY_KNOWN_MAX     1024u

/* What was found of the area of a file. */
struct residency_known {
    uint64_t start, end, inode, resident;
};

struct residency_memory {
    char text[RESIDENCY_TEXT_BYTES + 1];
    uint8_t resident[RESIDENCY_PAGES];
    uint64_t entries[RESIDENCY_PAGES]; /* of pagemap */
    struct residency_run runs[RESIDENCY_RUNS_MAX];
    struct residency_known known[RESIDENCY_KNOWN_MAX];
    char name[RESIDENCY_NAME_BYTES_MAX], latest_name[RESIDENCY_NAME_BYTES_MAX];
    uint8_t payload[RESIDENCY_PAYLOAD_BYTES];
};

/* Areas with more pages are not looked through in a brief look: it would take too long. */
#define RESIDENCY_AREA_PAGES_MAX ((uint64_t)4 << 20)
#define RESIDENCY_FILE_PAGES_MAX ((uint64_t)256 << 10)
/* What is of files must have changed by so much before these are looked through again. The kernel's own
 * count is off by some pages for each processor. */
#define RESIDENCY_KNOWN_APART    (UINT64_C(256) << 10)
/* So many pages of the shadow table are looked at for one area. */
#define RESIDENCY_HEAP_PAGES     16384

/* One look. */
struct residency_look {
    struct residency_memory *memory;
    struct residency_looks *files;
    uint64_t page_bytes;
    uint64_t file_pages; /* of files, that were looked through */
    uint32_t known; /* the next one of memory->known; files->known: they are being looked through */
    bool detailed;
    bool is_beginning; /* mappings are written, of areas that are there when recording begins */
    /* The text: lines are taken from `next` on. */
    int file;
    uint64_t offset;
    char *next, *end;
    /* What has been written. */
    uint8_t *at;
    uint64_t areas, latest_end, latest_device, latest_inode;
    uint32_t latest_name_bytes;
    bool has_latest;
};

/* ---- lines of a file of /proc ---- */

/* NULL: there are no more. A line that is longer than the memory is cut. */
static char *residency_line(struct residency_look *look)
{
    struct residency_memory *memory = look->memory;
    for (;;) {
        char *line_end = memchr(look->next, '\n', (size_t)(look->end - look->next));
        if (line_end) {
            char *line = look->next;
            *line_end = 0;
            look->next = line_end + 1;
            return line;
        }
        const size_t left = (size_t)(look->end - look->next);
        if (left == RESIDENCY_TEXT_BYTES) return NULL;
        memmove(memory->text, look->next, left);
        const long got = os_file_read_at(look->file, look->offset, memory->text + left,
                                         RESIDENCY_TEXT_BYTES - left);
        look->next = memory->text;
        look->end = memory->text + left + (got > 0 ? got : 0);
        if (got <= 0) return NULL;
        look->offset += (uint64_t)got;
    }
}

static uint64_t residency_hexadecimal(const char **from)
{
    uint64_t value = 0;
    for (;; (*from)++) {
        const char c = **from;
        if (c >= '0' && c <= '9')
            value = value * 16 + (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value * 16 + (uint64_t)(c - 'a') + 10;
        else
            return value;
    }
}

/* As stat() says a device. */
static uint64_t residency_device(uint64_t major, uint64_t minor)
{
    return (minor & 0xff) | (major & 0xfff) << 8 | (minor & ~UINT64_C(0xff)) << 12 |
           (major & ~UINT64_C(0xfff)) << 32;
}

/* "START-END rwxp OFFSET MAJOR:MINOR INODE   NAME". False: it is none. */
static bool residency_parse_area(struct residency_look *look, const char *line,
                                 struct residency_area *area)
{
    static const char letters[] = "rwx";
    const char *at = line;
    *area = (struct residency_area){.start = residency_hexadecimal(&at) / look->page_bytes};
    if (at == line || *at++ != '-') return false;
    area->end = residency_hexadecimal(&at) / look->page_bytes;
    if (*at++ != ' ' || strlen(at) < 5) return false;
    for (unsigned i = 0; i < 3; i++)
        if (at[i] == letters[i]) area->protection |= 1u << i;
    if (at[3] == 's') area->protection |= RESIDENCY_SHARED;
    at += 5;
    area->offset = residency_hexadecimal(&at);
    const uint64_t major = residency_hexadecimal((at++, &at));
    const uint64_t minor = residency_hexadecimal((at++, &at));
    area->inode = text_read_decimal(*at ? ++at : at);
    area->device = residency_device(major, minor);
    area->has_file = area->inode != 0;
    at += strspn(at, "0123456789");
    at += strspn(at, " ");
    const size_t bytes = strlen(at);
    area->name_bytes =
        (uint32_t)(bytes < RESIDENCY_NAME_BYTES_MAX ? bytes : RESIDENCY_NAME_BYTES_MAX);
    memcpy(look->memory->name, at, area->name_bytes);
    area->name = look->memory->name;
    area->is_recorder =
        os_memory_is_own(area->start * look->page_bytes, area->end * look->page_bytes);
    return true;
}

/* A line "Key:   NUMBER kB" about an area. */
static void residency_parse_size(struct residency_area *area, const char *line)
{
    const struct {
        const char *key;
        uint64_t *size;
    } sizes[] = {{"Rss:", &area->resident},           {"Pss:", &area->proportional},
                 {"Private_Clean:", &area->unshared}, {"Private_Dirty:", &area->unshared},
                 {"Anonymous:", &area->anonymous},    {"AnonHugePages:", &area->huge},
                 {"ShmemPmdMapped:", &area->huge},    {"FilePmdMapped:", &area->huge},
                 {"Swap:", &area->swapped},           {"Locked:", &area->locked}};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t bytes = strlen(sizes[i].key);
        if (strncmp(line, sizes[i].key, bytes) != 0) continue;
        *sizes[i].size += text_read_decimal(line + bytes + strspn(line + bytes, " "));
        return;
    }
}

/* ---- pages ---- */

/* Adds pages to the runs, one after another. */
struct residency_pages {
    struct residency_run *runs;
    uint64_t count; /* more than RESIDENCY_RUNS_MAX: there were too many to keep */
    uint64_t skipped, resident;
    bool was_resident;
};

static void residency_add_page(struct residency_pages *pages, bool is_resident)
{
    pages->resident += is_resident;
    if (!is_resident) {
        pages->skipped++;
    } else if (pages->was_resident) {
        if (pages->count <= RESIDENCY_RUNS_MAX) pages->runs[pages->count - 1].resident++;
    } else {
        if (pages->count < RESIDENCY_RUNS_MAX)
            pages->runs[pages->count] = (struct residency_run){pages->skipped, 1};
        pages->skipped = 0;
        pages->count++;
    }
    pages->was_resident = is_resident;
}

static void residency_look_through(struct residency_look *look, const struct residency_area *area,
                                   struct residency_pages *pages)
{
    struct residency_memory *memory = look->memory;
    for (uint64_t at = area->start; at < area->end; at += RESIDENCY_PAGES) {
        const size_t left = (size_t)(area->end - at);
        const size_t count = left < RESIDENCY_PAGES ? left : RESIDENCY_PAGES;
        if (!area->has_file) {
            if (!os_memory_pages(at * look->page_bytes, count, memory->resident))
                memset(memory->resident, 0, count);
            for (size_t i = 0; i < count; i++)
                residency_add_page(pages, memory->resident[i] & 1);
            continue;
        }
        const long got = os_file_read_at(look->files->pagemap, at * 8, memory->entries, count * 8);
        for (size_t i = 0; i < count; i++)
            residency_add_page(pages, (long)(8 * i) < got && memory->entries[i] >> 63);
    }
}

/* ---- areas of files ---- */

/* Of a brief look at a peak; another one looks through all. */
static void residency_begin_files(struct residency_looks *looks, bool may_know)
{
    const uint64_t now = looks->shared_bytes, then = looks->known_bytes;
    if (may_know && (now > then ? now - then : then - now) <= RESIDENCY_KNOWN_APART) return;
    looks->known = 0;
    looks->known_bytes = now;
}

/* Whether it is known what is resident of the area; areas come in order. */
static bool residency_recall(struct residency_look *look, struct residency_area *area)
{
    const struct residency_known *known = look->memory->known;
    while (look->known < look->files->known && known[look->known].start < area->start)
        look->known++;
    if (look->known == look->files->known || known[look->known].start != area->start ||
        known[look->known].end != area->end || known[look->known].inode != area->inode)
        return false;
    area->resident = known[look->known].resident;
    return true;
}

/* While files are looked through for the first time: one that comes later is looked through each time. */
static void residency_remember(struct residency_look *look, const struct residency_area *area)
{
    struct residency_looks *looks = look->files;
    if (look->known != looks->known || looks->known == RESIDENCY_KNOWN_MAX) return;
    look->memory->known[looks->known++] =
        (struct residency_known){area->start, area->end, area->inode, area->resident};
    look->known = looks->known;
}

/* What is resident of an area, if it is not known yet, and where, if only part of it is. */
static uint64_t residency_find_pages(struct residency_look *look, struct residency_area *area)
{
    struct residency_pages pages = {.runs = look->memory->runs};
    const uint64_t count = area->end - area->start;
    const uint64_t kib = look->page_bytes / 1024;
    if (look->detailed && (area->has_file || area->resident == 0 || area->resident >= count * kib))
        return 0;
    if (count > RESIDENCY_AREA_PAGES_MAX || (!look->detailed && !(area->protection & 15u)))
        return 0;
    if (area->has_file && residency_recall(look, area)) return 0;
    if (area->has_file && (look->file_pages += count) > RESIDENCY_FILE_PAGES_MAX) return 0;
    residency_look_through(look, area, &pages);
    if (!look->detailed) area->resident = pages.resident * kib;
    if (area->has_file) residency_remember(look, area);
    area->has_runs = !area->has_file && pages.resident > 0 && pages.resident < count &&
                     pages.count <= RESIDENCY_RUNS_MAX;
    area->runs = area->has_runs ? pages.count : 0;
    return area->runs;
}

/* ---- the heap ---- */

/* Whether recorded objects have been in a range of addresses. Of much memory it is looked at some. */
static bool residency_has_objects(uint64_t start, uint64_t end)
{
    const uint64_t pages = (end - start) / SHADOW_PAGE_BYTES + 1;
    const uint64_t step = (pages / RESIDENCY_HEAP_PAGES + 1) * SHADOW_PAGE_BYTES;
    if (!shadow_has_begun()) return false;
    for (uint64_t at = start; at < end; at += step) {
        const void *address = (const void *)(uintptr_t)at;
        if (!shadow_covers(address))
            at |= (UINT64_C(1) << SHADOW_REGION_BITS) - 1;
        else if (shadow_is_open(shadow_page_of(address)))
            return true;
    }
    return false;
}

static bool residency_is_nameless(const struct residency_area *area)
{
    return !area->has_file && !area->is_recorder && area->name_bytes == 0 &&
           !(area->protection & RESIDENCY_SHARED);
}

/* ---- what is there at the beginning ---- */

static void residency_put_found(struct residency_look *look, const struct residency_area *area)
{
    const struct mapping_record record = {
        .what = MAPPING_FOUND,
        .address = area->start * look->page_bytes,
        .length = (area->end - area->start) * look->page_bytes,
        .protection = area->protection & (RESIDENCY_READ | RESIDENCY_WRITE | RESIDENCY_EXECUTE)};
    if (!residency_is_nameless(area) ||
        look->at + MAPPING_BYTES_MAX > look->memory->payload + RESIDENCY_PAYLOAD_BYTES)
        return;
    if (!record.protection) no_access_at(record.address, record.length, true);
    look->at = mapping_record_put(look->at, &record, &look->latest_end);
    look->areas++;
}

/* ---- the payload ---- */

static bool residency_has_room(const struct residency_look *look, uint64_t runs)
{
    return look->at + RESIDENCY_AREA_BYTES_MAX + runs * RESIDENCY_RUN_BYTES_MAX <=
           look->memory->payload + RESIDENCY_PAYLOAD_BYTES;
}

/* The kernel goes through the areas while the program changes them: one may begin before the end of
 * one that was written, of which it has become a part. False: nothing is left of it. */
static bool residency_cut_area(const struct residency_look *look, struct residency_area *area)
{
    if (area->start >= look->latest_end) return area->end > area->start;
    if (area->end <= look->latest_end) return false;
    if (area->has_file) area->offset += (look->latest_end - area->start) * look->page_bytes;
    area->start = look->latest_end;
    return true;
}

static void residency_end_area(struct residency_look *look, struct residency_area *area)
{
    struct residency_memory *memory = look->memory;
    if (look->is_beginning) return residency_put_found(look, area);
    if (!residency_cut_area(look, area)) return;
    const uint64_t runs = residency_find_pages(look, area);
    if (area->resident + area->swapped + area->locked == 0 || !residency_has_room(look, runs))
        return;
    area->is_heap =
        residency_is_nameless(area) &&
        residency_has_objects(area->start * look->page_bytes, area->end * look->page_bytes);
    area->same_file = look->has_latest && look->latest_device == area->device &&
                      look->latest_inode == area->inode &&
                      look->latest_name_bytes == area->name_bytes &&
                      memcmp(memory->latest_name, area->name, area->name_bytes) == 0;
    look->at = residency_put_area(look->at, area, &look->latest_end);
    for (uint64_t i = 0; i < runs; i++)
        look->at = residency_put_run(look->at, &memory->runs[i]);
    look->areas++;
    look->has_latest = true;
    look->latest_device = area->device;
    look->latest_inode = area->inode;
    look->latest_name_bytes = area->name_bytes;
    memcpy(memory->latest_name, area->name, area->name_bytes);
}

/* Goes through all areas. False: there are none to read. */
static bool residency_read(struct residency_look *look)
{
    struct residency_area area, next;
    bool has_area = false;
    const char *line;
    look->next = look->end = look->memory->text;
    while ((line = residency_line(look)) != NULL) {
        /* Keys begin with a capital letter. */
        if (line[0] >= 'A' && line[0] <= 'Z') {
            if (has_area) residency_parse_size(&area, line);
            continue;
        }
        if (has_area) residency_end_area(look, &area);
        has_area = residency_parse_area(look, line, &next);
        area = next;
    }
    if (has_area) residency_end_area(look, &area);
    return has_area;
}

static void residency_refuse(struct writer *writer)
{
    if (writer->residency.is_refused) return;
    writer->residency.is_refused = true;
    notice_text("what is resident cannot be recorded: /proc/self/maps or smaps cannot be read");
}

static struct residency_memory *residency_memory_of(struct writer *writer)
{
    struct residency_looks *looks = &writer->residency;
    if (!looks->memory) looks->memory = os_memory_reserve(sizeof(struct residency_memory));
    return (struct residency_memory *)(void *)looks->memory;
}

/* Puts the chunk into the sink. The areas have been written behind room for the head, of which it is
 * known only now how many there are. */
static void residency_commit(struct writer *writer, const struct residency_look *look,
                             enum residency_why why, uint64_t now)
{
    const struct residency head = {.since_start_ns = writer_since(now, writer->start_ns),
                                   .why = why,
                                   .is_brief = !look->detailed,
                                   .page_bytes = (uint32_t)look->page_bytes,
                                   .areas = look->areas};
    const size_t bytes = (size_t)(look->at - look->memory->payload);
    const size_t room_bytes = RAW_CHUNK_HEADER_BYTES + RESIDENCY_BYTES_MAX + bytes;
    if (writer_error(writer) || !writer_fits(writer, room_bytes)) return;
    uint8_t *room = sink_room(&writer->sink, room_bytes);
    uint8_t *payload = room + RAW_CHUNK_HEADER_BYTES, *at = residency_put(payload, &head);
    memcpy(at, look->memory->payload, bytes);
    sink_commit(&writer->sink, chunk_seal_residency(room, (size_t)(at - payload) + bytes));
}

static void residency_take_look(struct writer *writer, enum residency_why why, bool detailed)
{
    struct residency_looks *looks = &writer->residency;
    const uint64_t now = os_clock_ns(), rss = writer->tick.rss_bytes;
    const uint64_t ran = os_thread_run_ns();
    struct residency_look look = {.memory = residency_memory_of(writer),
                                  .files = looks,
                                  .page_bytes = os_page_bytes(),
                                  .detailed = detailed,
                                  .file = detailed ? looks->smaps : looks->maps};
    if (!look.memory) return;
    look.at = look.memory->payload;
    residency_begin_files(looks, why == RESIDENCY_PEAK);
    writer_drain_cells(writer, spool_cells_taken(&writer->spool.cells));
    writer_look_at_large(writer);
    if (look.file < 0 || !residency_read(&look)) return residency_refuse(writer);
    residency_commit(writer, &look, why, now);
    const uint64_t took = os_thread_run_ns() - ran;
    looks->spent_ns += took;
    looks->latest_ns = now;
    if (rss > looks->peak_bytes) looks->peak_bytes = rss;
    if (detailed)
        looks->ns_per_mib = took / (rss / (1 << 20) + 1) + 1;
    else
        looks->brief_ns = took;
}

/* ---- when ---- */

/* What looks may still take. */
static uint64_t residency_left_ns(const struct writer *writer, uint64_t now)
{
    const uint64_t all =
        RESIDENCY_ALLOWANCE_NS + writer_since(now, writer->start_ns) / RESIDENCY_ONE_IN;
    return writer_since(all, writer->residency.spent_ns);
}

static uint64_t residency_detailed_ns(const struct writer *writer)
{
    const uint64_t per_mib = writer->residency.ns_per_mib;
    return (per_mib ? per_mib : RESIDENCY_NS_PER_MIB) * (writer->tick.rss_bytes / (1 << 20) + 1);
}

static uint64_t residency_brief_ns(const struct writer *writer)
{
    return writer->residency.brief_ns ? writer->residency.brief_ns : RESIDENCY_BRIEF_NS;
}

static bool residency_affords_details(const struct writer *writer, uint64_t left_ns)
{
    const uint64_t detailed = residency_detailed_ns(writer);
    return detailed <= left_ns && detailed <= RESIDENCY_DETAILED_MAX_NS;
}

bool writer_residency_is_due(const struct writer *writer, uint64_t now)
{
    const struct residency_looks *looks = &writer->residency;
    const uint64_t left = residency_left_ns(writer, now), brief = residency_brief_ns(writer);
    /* The less there is left, the more must be gained by a look. */
    uint64_t higher_by = RESIDENCY_HIGHER_BY;
    while (higher_by > 2 && brief * higher_by > left)
        higher_by /= 2;
    return !looks->is_refused && brief <= left &&
           writer->tick.rss_bytes > looks->peak_bytes + looks->peak_bytes / higher_by;
}

void writer_look_at_residency(struct writer *writer, uint64_t now)
{
    const struct residency_looks *looks = &writer->residency;
    const bool details = residency_affords_details(writer, residency_left_ns(writer, now) / 4);
    if (looks->is_refused) return;
    if (writer_residency_is_due(writer, now))
        residency_take_look(writer, RESIDENCY_PEAK, details);
    else if (now - looks->latest_ns >= RESIDENCY_SELDOM_NS && details)
        residency_take_look(writer, RESIDENCY_LOOK, true);
}

void writer_residency_now(struct writer *writer, enum residency_why why)
{
    const uint64_t left = residency_left_ns(writer, os_clock_ns());
    if (writer->residency.is_refused) return;
    residency_take_look(writer, why, residency_affords_details(writer, left));
}

void writer_put_found(struct writer *writer)
{
    struct residency_look look = {.memory = residency_memory_of(writer),
                                  .page_bytes = os_page_bytes(),
                                  .is_beginning = true,
                                  .file = os_file_open_read("/proc/self/maps")};
    if (look.memory && look.file >= 0) {
        look.at = look.memory->payload;
        residency_read(&look);
        const size_t bytes = (size_t)(look.at - look.memory->payload);
        uint8_t *room = sink_room(&writer->sink, RAW_CHUNK_HEADER_BYTES + bytes);
        memcpy(room + RAW_CHUNK_HEADER_BYTES, look.memory->payload, bytes);
        if (bytes) sink_commit(&writer->sink, chunk_seal_mappings(room, bytes, 0, 0));
    }
    os_file_close(look.file);
}

void writer_open_residency(struct writer *writer)
{
    writer->residency.maps = os_file_open_read("/proc/self/maps");
    writer->residency.smaps = os_file_open_read("/proc/self/smaps");
    writer->residency.pagemap = os_file_open_read("/proc/self/pagemap");
}

void writer_close_residency(struct writer *writer)
{
    struct residency_looks *looks = &writer->residency;
    os_file_close(looks->maps);
    os_file_close(looks->smaps);
    os_file_close(looks->pagemap);
    if (looks->memory) os_memory_release(looks->memory, sizeof(struct residency_memory));
    looks->memory = NULL;
}
