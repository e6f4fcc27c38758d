/* truth_file - a truth (truth.h), read: the calls of each thread, and for each the object that it
 * ended.
 *
 * A call is named by the number of its record; so is the object that it began. One thread; memory
 * for all of it. */
#ifndef MALLOCTAPE_TRUTH_FILE_H
#define MALLOCTAPE_TRUTH_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "truth.h"

#define TRUTH_NO_OBJECT UINT32_MAX

struct truth_thread {
    uint64_t id;
    const uint32_t *calls; /* in the thread's order */
    uint32_t count;
};

struct truth_file {
    const struct truth_header *header;
    const struct truth_record *records;
    uint32_t count;
    struct truth_thread *threads; /* by number; the one at 0 has no calls */
    uint32_t threads_count;
    uint32_t *ended; /* by call: the object that it ended, or (a realloc that failed) left */
    uint32_t *calls;
    uint64_t strangers; /* frees of objects that no record made */
    void *memory;
    size_t memory_bytes;
};

static inline bool truth_is_call(const struct truth_record *record)
{
    return record->kind != 0 && record->kind < CALL_KINDS;
}

bool truth_is_failed_realloc(const struct truth_record *record);

/* Prints what is wrong with the file, and ends the program; also when memory ends. */
void truth_file_open(struct truth_file *file, const char *path);
void truth_file_close(struct truth_file *file);

/* Memory or the end of the program. All zeros. */
void *truth_memory(size_t count, size_t bytes);
_Noreturn void truth_fail(const char *what, const char *detail);

/* Addresses of live objects. */
struct live_table {
    struct live_entry {
        uint64_t address; /* 0: none; 1: none any more */
        uint32_t object;
    } * entries;
    size_t room, used; /* a power of two */
};

/* What is alive there is forgotten and returned; TRUTH_NO_OBJECT if nothing is. */
uint32_t live_take(struct live_table *table, uint64_t address);
/* The object that was alive there, TRUTH_NO_OBJECT as it should be. */
uint32_t live_put(struct live_table *table, uint64_t address, uint32_t object);
void live_free(struct live_table *table);

#endif
