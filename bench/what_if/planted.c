/* planted - a program with a fault in how it asks for memory, or the same program mended.
 *
 *   planted leak | temporary | buffer [mended]
 *
 *   leak       entries of a journal that nobody frees, among sessions that come and go
 *              mended: the journal keeps the latest 1000
 *   temporary  for each record a small node that points to it
 *              mended: the pointer is in the record
 *   buffer     3000 tables that double, in turns: each copies into a new one and frees the old one
 *              mended: they have their last size from the beginning
 *
 * Prints the greatest RSS of the process, in KiB. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { STEPS = 1500 }; /* of a millisecond each, so that there is a curve of memory */

static uint64_t seed = 1;
static int mended;

static uint32_t random_below(uint32_t limit)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % limit;
}

static void wait_a_step(void)
{
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

static void *make_filled(size_t bytes)
{
    void *made = malloc(bytes);
    if (made == NULL) exit(1);
    return memset(made, 1, bytes);
}

/* ---- leak ---- */

enum { SESSIONS = 20000, REQUESTS = 300, JOURNAL = 1000 };
static void *sessions[SESSIONS], *journal[JOURNAL];

__attribute__((noinline)) static void session_replace(uint32_t at)
{
    free(sessions[at]);
    sessions[at] = make_filled(64 + random_below(1000));
}

__attribute__((noinline)) static void journal_add(unsigned number)
{
    char *entry = make_filled(32 + random_below(96));
    snprintf(entry, 32, "request %u", number);
    if (mended) free(journal[number % JOURNAL]);
    journal[number % JOURNAL] = entry;
}

static void leak_step(unsigned step)
{
    for (unsigned i = 0; i < REQUESTS; i++) {
        session_replace(random_below(SESSIONS));
        journal_add(step * REQUESTS + i);
    }
}

/* ---- temporary ---- */

enum { RECORDS = 200 };
struct record {
    struct record *next;
    char text[];
};
struct node {
    struct node *next;
    struct record *record;
    uint64_t hash;
};
static struct node *nodes;
static struct record *records;

__attribute__((noinline)) static void node_add(struct record *record)
{
    struct node *node = make_filled(sizeof *node);
    node->next = nodes;
    node->record = record;
    nodes = node;
}

static void temporary_step(unsigned step)
{
    (void)step;
    for (unsigned i = 0; i < RECORDS; i++) {
        struct record *record = make_filled(sizeof *record + 8 + random_below(120));
        record->next = records;
        records = record;
        if (!mended) node_add(record);
    }
}

/* ---- buffer ---- */

enum { TABLES = 3000, APPENDS = 500, TABLE_BYTES = 16384, ROW_BYTES = 64 };
static struct table {
    char *rows;
    size_t bytes, room;
} tables[TABLES];

__attribute__((noinline)) static void planted_grow(struct table *table)
{
    const size_t room = mended ? TABLE_BYTES : table->room > 0 ? 2 * table->room : ROW_BYTES;
    char *rows = malloc(room);
    if (rows == NULL) exit(1);
    if (table->bytes > 0) memcpy(rows, table->rows, table->bytes);
    free(table->rows);
    table->rows = rows;
    table->room = room;
}

static void buffer_step(unsigned step)
{
    (void)step;
    for (unsigned i = 0; i < APPENDS; i++) {
        struct table *table = &tables[random_below(TABLES)];
        if (table->bytes == TABLE_BYTES) continue;
        if (table->bytes == table->room) planted_grow(table);
        memset(table->rows + table->bytes, 1, ROW_BYTES);
        table->bytes += ROW_BYTES;
    }
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        void (*step)(unsigned step);
    } faults[] = {{"leak", leak_step}, {"temporary", temporary_step}, {"buffer", buffer_step}};
    struct rusage usage;
    mended = count > 2 && strcmp(words[2], "mended") == 0;
    for (size_t i = 0; i < sizeof faults / sizeof *faults && count > 1; i++)
        for (unsigned step = 0; step < STEPS && strcmp(words[1], faults[i].name) == 0; step++) {
            faults[i].step(step);
            wait_a_step();
        }
    getrusage(RUSAGE_SELF, &usage);
    printf("%ld\n", usage.ru_maxrss);
    return 0;
}
