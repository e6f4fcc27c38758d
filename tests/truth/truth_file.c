#include "truth_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LIVE_NEVER = 0, LIVE_ROOM_FIRST = 1 << 16 };

_Noreturn void truth_fail(const char *what, const char *detail)
{
    fprintf(stderr, "truth_check: %s: %s\n", what, detail);
    exit(2);
}

void *truth_memory(size_t count, size_t bytes)
{
    void *memory = calloc(count ? count : 1, bytes);
    if (memory == NULL) truth_fail("truth", "out of memory");
    return memory;
}

/* --- live objects --- */

static struct live_entry *live_find(const struct live_table *table, uint64_t address)
{
    size_t at = (size_t)((address >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 20);
    for (;; at++) {
        struct live_entry *entry = &table->entries[at & (table->room - 1)];
        if (entry->address == address || entry->address == LIVE_NEVER) return entry;
    }
}

static bool is_alive(const struct live_entry *entry)
{
    return entry->address != LIVE_NEVER && entry->object != TRUTH_NO_OBJECT;
}

static void live_grow(struct live_table *table)
{
    struct live_table grown = {.room = LIVE_ROOM_FIRST};
    size_t alive = 0;
    for (size_t i = 0; i < table->room; i++)
        alive += is_alive(&table->entries[i]);
    while (grown.room < 4 * alive)
        grown.room *= 2;
    grown.entries = truth_memory(grown.room, sizeof *grown.entries);
    for (size_t i = 0; i < table->room; i++)
        if (is_alive(&table->entries[i]))
            *live_find(&grown, table->entries[i].address) = table->entries[i];
    grown.used = alive;
    free(table->entries);
    *table = grown;
}

uint32_t live_take(struct live_table *table, uint64_t address)
{
    if (table->room == 0) return TRUTH_NO_OBJECT;
    struct live_entry *entry = live_find(table, address);
    if (entry->address != address) return TRUTH_NO_OBJECT;
    uint32_t object = entry->object;
    entry->object = TRUTH_NO_OBJECT;
    return object;
}

uint32_t live_put(struct live_table *table, uint64_t address, uint32_t object)
{
    if (2 * table->used >= table->room) live_grow(table);
    struct live_entry *entry = live_find(table, address);
    uint32_t before = TRUTH_NO_OBJECT;
    if (entry->address == address)
        before = entry->object;
    else
        table->used++;
    entry->address = address;
    entry->object = object;
    return before;
}

void live_free(struct live_table *table)
{
    free(table->entries);
}

/* --- the file --- */

static void map(struct truth_file *file, const char *path)
{
    struct stat status;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 || fstat(descriptor, &status) != 0) truth_fail(path, "cannot be read");
    file->memory_bytes = (size_t)status.st_size;
    if (file->memory_bytes < TRUTH_HEADER_BYTES) truth_fail(path, "no truth");
    file->memory = mmap(NULL, file->memory_bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    close(descriptor);
    if (file->memory == MAP_FAILED) truth_fail(path, "cannot be mapped");
    file->header = file->memory;
    file->records = (const struct truth_record *)((char *)file->memory + TRUTH_HEADER_BYTES);
    uint64_t room = (file->memory_bytes - TRUTH_HEADER_BYTES) / sizeof *file->records;
    if (file->header->magic != TRUTH_MAGIC || file->header->room != room)
        truth_fail(path, "no truth");
    if (file->header->tickets > room || room >= TRUTH_NO_OBJECT)
        truth_fail(path, "there was no room for all of it (TRUTH_RECORDS)");
    file->count = (uint32_t)file->header->tickets;
}

static void sort_by_thread(struct truth_file *file)
{
    for (uint32_t i = 0; i < file->count; i++)
        if (file->records[i].thread >= file->threads_count)
            file->threads_count = file->records[i].thread + 1;
    file->threads = truth_memory(file->threads_count, sizeof *file->threads);
    file->calls = truth_memory(file->count, sizeof *file->calls);
    for (uint32_t i = 0; i < file->count; i++) {
        struct truth_thread *thread = &file->threads[file->records[i].thread];
        if (file->records[i].kind == TRUTH_THREAD) thread->id = file->records[i].size;
        thread->count += truth_is_call(&file->records[i]);
    }
    uint32_t *to = file->calls;
    for (uint32_t i = 0; i < file->threads_count; i++) {
        file->threads[i].calls = to;
        to += file->threads[i].count;
        file->threads[i].count = 0;
    }
    for (uint32_t i = 0; i < file->count; i++) {
        struct truth_thread *thread = &file->threads[file->records[i].thread];
        if (truth_is_call(&file->records[i]))
            file->calls[thread->calls - file->calls + thread->count++] = i;
    }
}

static void begins(struct live_table *live, uint64_t address, uint32_t object, const char *path)
{
    if (address != 0 && live_put(live, address, object) != TRUTH_NO_OBJECT)
        truth_fail(path, "two objects at one address at once");
}

/* One that never returned may have ended its object: nobody can ask for it again. */
bool truth_is_failed_realloc(const struct truth_record *record)
{
    return record->kind == CALL_REALLOC_MOVED && record->result == 0 &&
           (record->flags & TRUTH_RETURNED) != 0;
}

static void pair(struct truth_file *file, const char *path)
{
    struct live_table live = {0};
    file->ended = truth_memory(file->count, sizeof *file->ended);
    for (uint32_t i = 0; i < file->count; i++) {
        const struct truth_record *record = &file->records[i];
        file->ended[i] = TRUTH_NO_OBJECT;
        if (record->kind == TRUTH_REALLOC_DONE) {
            begins(&live, record->result, (uint32_t)record->object, path);
        } else if (truth_is_call(record) && record->object != 0) {
            file->ended[i] = live_take(&live, record->object);
            file->strangers += file->ended[i] == TRUTH_NO_OBJECT;
            if (truth_is_failed_realloc(record) && file->ended[i] != TRUTH_NO_OBJECT)
                live_put(&live, record->object, file->ended[i]);
        } else if (truth_is_call(record)) {
            begins(&live, record->result, i, path);
        }
    }
    live_free(&live);
}

void truth_file_open(struct truth_file *file, const char *path)
{
    *file = (struct truth_file){0};
    map(file, path);
    sort_by_thread(file);
    pair(file, path);
}

void truth_file_close(struct truth_file *file)
{
    munmap(file->memory, file->memory_bytes);
    free(file->threads);
    free(file->calls);
    free(file->ended);
}
