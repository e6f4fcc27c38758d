/* planted - a program with a fault in how it asks for memory, or the same program mended.
 *
 *   planted FAULT [mended]
 *
 *   leak       entries of a journal that nobody frees, among sessions that come and go
 *              mended: the journal keeps the latest 1000
 *   temporary  for each record a small node that points to it
 *              mended: the pointer is in the record
 *   buffer     3000 tables that double, in turns: each copies into a new one and frees the old one
 *              mended: they have their last size from the beginning
 *
 *   scratch    each request makes three objects, and frees them at once
 *              mended: they are on the stack
 *   class      points of 140 bytes, of which 4 are not needed; glibc takes 160 for them
 *              mended: 136, for which it takes 144
 *   pinned     texts of requests, which end in bursts; sessions, made in between, live on
 *              mended: sessions have memory of their own, in blocks
 *   tree       a tree of nodes for each document, freed one by one
 *              mended: they lie in blocks, which are freed together
 *
 * Promises that look good by sums of bytes, and are false (they cannot be mended):
 *
 *   twin       nodes for each record of a first table, freed before a second one that is as large
 *   holes      nodes for each of the latest records, where others have left holes in pages that still
 *              others keep
 *   outlive    a tree as above, of which a few nodes in each document are kept
 *
 * Prints the greatest RSS of the process, in KiB, and its processor time, in milliseconds. */
#include <stdbool.h>
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

/* ---- scratch ---- */

enum { LOOKUPS = 300, KEPT = 20000 };
static volatile char seen;
static void *kept[KEPT];

__attribute__((noinline)) static void lookup(uint32_t number)
{
    char own[3][160], *texts[3];
    for (unsigned i = 0; i < 3; i++) {
        texts[i] = mended ? own[i] : malloc(160);
        if (texts[i] == NULL) exit(1);
        memset(texts[i], (int)number, 160);
    }
    seen = texts[number % 3][number % 160];
    for (unsigned i = 0; i < 3 && !mended; i++)
        free(texts[i]);
}

__attribute__((noinline)) static void keep(uint32_t at)
{
    free(kept[at]);
    kept[at] = make_filled(64 + random_below(400));
}

static void scratch_step(unsigned step)
{
    for (unsigned i = 0; i < LOOKUPS; i++) {
        lookup(step + i);
        if (i % 30 == 0) keep(random_below(KEPT));
    }
}

/* ---- class ---- */

enum { POINTS = 200 };

__attribute__((noinline)) static void point_add(void)
{
    void **point = make_filled(mended ? 136 : 140);
    *point = records;
    records = (struct record *)point;
}

static void class_step(unsigned step)
{
    (void)step;
    for (unsigned i = 0; i < POINTS; i++) {
        point_add();
        if (i % 10 == 0) keep(random_below(KEPT));
    }
}

/* ---- pinned ---- */

enum { TEXTS = 200, ROUNDS = 60, BLOCK_BYTES = 65536, SESSION_BYTES = 96 };
static void *texts[TEXTS * ROUNDS];
static char *block;
static uint32_t texts_more; /* bytes of each, as bursts go on */
static size_t block_used = BLOCK_BYTES;

__attribute__((noinline)) static void session_make(void)
{
    if (!mended) {
        records = make_filled(SESSION_BYTES);
        return;
    }
    if (BLOCK_BYTES - block_used < SESSION_BYTES) {
        block = malloc(BLOCK_BYTES);
        if (block == NULL) exit(1);
        block_used = 0;
    }
    memset(block + block_used, 1, SESSION_BYTES);
    block_used += SESSION_BYTES;
}

__attribute__((noinline)) static void text_make(uint32_t at)
{
    texts[at] = make_filled(200 + texts_more + random_below(800));
}

/* A burst of requests, of which nothing stays but sessions; each burst has larger texts. */
static void pinned_step(unsigned step)
{
    const unsigned at = step % ROUNDS;
    for (unsigned i = 0; i < TEXTS; i++) {
        text_make(at * TEXTS + i);
        if (i % 8 == 0 && step < 5 * ROUNDS) session_make();
    }
    if (at + 1 < ROUNDS) return;
    for (unsigned i = 0; i < TEXTS * ROUNDS; i++)
        free(texts[i]);
    texts_more += 300;
}

/* ---- tree, outlive ---- */

enum { NODES = 600, LEFT_ONE_IN = 60 };
static bool keeps_some;
static void *tree[NODES], *chunks[64];
static unsigned chunks_count;

__attribute__((noinline)) static void *tree_node(size_t bytes)
{
    if (!mended) return make_filled(bytes);
    if (BLOCK_BYTES - block_used < bytes) {
        block = chunks[chunks_count++] = malloc(BLOCK_BYTES);
        if (block == NULL) exit(1);
        block_used = 0;
    }
    block_used += (bytes + 15) / 16 * 16;
    return memset(block + block_used - (bytes + 15) / 16 * 16, 1, bytes);
}

static void tree_free(void)
{
    for (unsigned i = 0; i < NODES && !mended; i++)
        if (!keeps_some || i % LEFT_ONE_IN != 0) free(tree[i]);
    while (chunks_count > 0)
        free(chunks[--chunks_count]);
    block_used = BLOCK_BYTES;
}

static void tree_step(unsigned step)
{
    (void)step;
    for (unsigned i = 0; i < NODES; i++)
        tree[i] = tree_node(24 + random_below(40));
    for (unsigned i = 0; i < 100; i++)
        keep(random_below(KEPT));
    tree_free();
}

static void outlive_step(unsigned step)
{
    keeps_some = true;
    tree_step(step);
}

/* ---- twin ---- */

__attribute__((noinline)) static void *row_make(void)
{
    return make_filled(100);
}

__attribute__((noinline)) static void *index_make(void)
{
    return make_filled(88);
}

enum { ROWS = 200000 };
static void *rows[2 * ROWS];

static void twin_step(unsigned step)
{
    const unsigned half = STEPS / 2, part = ROWS / half, first = step % half * part;
    if (step == half)
        for (unsigned i = 0; i < 2 * ROWS; i++)
            free(rows[i]);
    for (unsigned i = first; i < first + part; i++) {
        rows[i] = row_make();
        rows[ROWS + i] = step < half ? index_make() : make_filled(82);
    }
}

/* ---- holes ---- */

static void holes_step(unsigned step)
{
    const unsigned third = STEPS / 3, part = ROWS / third, first = step % third * part;
    for (unsigned i = first; i < first + part; i++) {
        if (step < third) {
            rows[i] = make_filled(100);
        } else if (step < 2 * third) {
            if (i % 16 != 0) free(rows[i]);
        } else if (i % 4 == 0) {
            rows[ROWS + i] = row_make();
            rows[ROWS + i + 1] = index_make();
        }
    }
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        void (*step)(unsigned step);
    } faults[] = {{"leak", leak_step},       {"temporary", temporary_step}, {"buffer", buffer_step},
                  {"scratch", scratch_step}, {"class", class_step},         {"pinned", pinned_step},
                  {"tree", tree_step},       {"outlive", outlive_step},     {"twin", twin_step},
                  {"holes", holes_step}};
    struct rusage usage;
    mended = count > 2 && strcmp(words[2], "mended") == 0;
    for (size_t i = 0; i < sizeof faults / sizeof *faults && count > 1; i++)
        for (unsigned step = 0; step < STEPS && strcmp(words[1], faults[i].name) == 0; step++) {
            faults[i].step(step);
            wait_a_step();
        }
    getrusage(RUSAGE_SELF, &usage);
    printf("%ld %ld\n", usage.ru_maxrss,
           (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
               (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000);
    return 0;
}
