#include "report/growth.h"

#include "common/call_table.h"
#include "common/json_file.h"
#include "report/words.h"

/* Of the words before numbers, in characters. */
enum { WIDTH = 15 };

/* Ranges of ages by their beginning in milliseconds; each ends where the next one begins. */
static const struct {
    uint64_t ms;
    const char *words;
} ages[] = {{0, "less than 1 s old"},   {1000, "1 s to 10 s"},     {10000, "10 s to 1 min"},
            {60000, "1 min to 10 min"}, {600000, "10 min to 1 h"}, {3600000, "1 h and more"}};
enum { AGES = sizeof ages / sizeof *ages };

struct grown {
    uint64_t objects, bytes;
};

static void grown_by_age(const struct tally *tally, struct grown by_age[AGES])
{
    for (uint64_t i = 0; i < tally->live; i++) {
        const struct tally_object *object = &tally->objects[i];
        unsigned age = AGES - 1;
        while (age > 0 && tally->ms - object->ms < ages[age].ms)
            age--;
        by_age[age].objects++;
        by_age[age].bytes += object->size;
    }
}

static uint64_t unknown_reallocs(const struct tally *tally)
{
    uint64_t count = 0;
    for (unsigned kind = 0; kind < CALL_KINDS; kind++)
        if (call_shapes[kind] == SHAPE_REALLOC) count += tally->unknown[kind];
    return count;
}

static uint64_t a_second(uint64_t count, uint64_t ns)
{
    return (uint64_t)((double)count * 1e9 / (double)ns);
}

static void growth_line(const char *name, FILE *to)
{
    fprintf(to, "%-*s ", WIDTH, name);
}

static void print_before(const struct tally *tally, bool is_forked, FILE *to)
{
    const uint64_t all = tally_sum_of(tally->unknown), reallocs = unknown_reallocs(tally);
    growth_line(is_forked ? "forked" : "attached", to);
    fprintf(to, "%s a running process: %s frees and %s reallocs are of objects %s\n",
            is_forked ? "from" : "to", words_count(all - reallocs), words_count(reallocs),
            is_forked ? "inherited at fork" : "from before");
    if (tally->first_rss.bytes == 0) return;
    growth_line("", to);
    fprintf(to, "RSS was %s then", words_bytes(tally->first_rss.bytes));
    if (tally->first_rss.heap_bytes > 0)
        fprintf(to, ", at most %s of it the heap", words_bytes(tally->first_rss.heap_bytes));
    fprintf(to, ", and %s at the end: what was made since has %s of it, %s\n",
            words_bytes(tally->last_rss.bytes), words_bytes(tally->live_bytes),
            words_share(tally->live_bytes < tally->last_rss.bytes ? tally->live_bytes
                                                                  : tally->last_rss.bytes,
                        tally->last_rss.bytes));
}

static void print_grown(const struct tally *tally, FILE *to)
{
    struct grown by_age[AGES] = {{0}};
    growth_line("grown", to);
    fprintf(to, "%s in %s objects made since then and alive at the end",
            words_bytes(tally->live_bytes), words_count(tally->live));
    if (tally->ns > 0)
        fprintf(to, ": %s per second", words_bytes(a_second(tally->live_bytes, tally->ns)));
    fputc('\n', to);
    grown_by_age(tally, by_age);
    for (unsigned i = AGES; i-- > 0;)
        if (by_age[i].objects > 0)
            fprintf(to, "%*s %11s in %s objects, %s\n", WIDTH, "", words_bytes(by_age[i].bytes),
                    words_count(by_age[i].objects), ages[i].words);
}

void growth_print(const struct report_trace *trace, FILE *to)
{
    const struct tally *tally = &trace->tally;
    if (!tally->has_older) return;
    print_before(tally, trace->is_forked, to);
    if (tally_took_ns(tally) > 0) {
        growth_line("rate", to);
        fprintf(to, "%s objects and %s allocated per second\n",
                words_count(a_second(tally->made, tally_took_ns(tally))),
                words_bytes(a_second(tally->bytes, tally_took_ns(tally))));
    }
    print_grown(tally, to);
    fputc('\n', to);
}

json_t *growth_json(const struct report_trace *trace)
{
    static const char columns[] = "ms objects bytes";
    const struct tally *tally = &trace->tally;
    struct grown by_age[AGES] = {{0}};
    if (!tally->has_older) return json_null();
    const uint64_t all = tally_sum_of(tally->unknown), reallocs = unknown_reallocs(tally);
    json_t *object = json_object();
    json_object_set_new(object, "forked", json_boolean(trace->is_forked));
    json_put_numbers(object,
                     "older_frees older_reallocs rss_before heap_before rss_end grown_objects "
                     "grown_bytes",
                     all - reallocs, reallocs, tally->first_rss.bytes, tally->first_rss.heap_bytes,
                     tally->last_rss.bytes, tally->live, tally->live_bytes);
    grown_by_age(tally, by_age);
    json_t *table = json_put_table(object, "by_age", columns);
    for (unsigned i = 0; i < AGES; i++)
        if (by_age[i].objects > 0)
            json_put_row(table, columns, ages[i].ms, by_age[i].objects, by_age[i].bytes);
    return object;
}
