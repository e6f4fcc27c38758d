#include "report/account.h"

#include <string.h>

#include "common/json_file.h"
#include "report/words.h"

enum { EVENTS_SHOWN = 30 };

/* Of which values changes are events, and what they are called; NULL: none. */
static const struct {
    const char *name, *rises, *falls;
} kinds[] = {
    {"arenas", "arena made", NULL},
    {"mmap_threshold_bytes", "threshold moved", "threshold moved"},
    {"trim_threshold_bytes", "threshold moved", "threshold moved"},
    {"main_arena_bytes", NULL, "trimmed"},
    {"other_arenas_bytes", NULL, "trimmed"},
    {"abandoned_segments", "segment abandoned", "segment taken over"},
};

static const char *event_of(const char *name, uint64_t before, uint64_t after)
{
    for (size_t i = 0; before != after && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return after > before ? kinds[i].rises : kinds[i].falls;
    return NULL;
}

static void add_event(struct account *account, const struct account_event *event)
{
    if (account->events_count == ACCOUNT_EVENTS_MAX)
        account->events_left_out++;
    else
        account->events[account->events_count++] = *event;
}

void account_tick(struct account *account, uint64_t ns)
{
    if (!account_is_known(account)) return;
    const bool first = account->first.count == 0;
    if (first) account->first = account->before = account->now;
    for (unsigned i = 0; i < account->names.count; i++) {
        const uint64_t before = account->before.values[i], after = account->now.values[i];
        const char *what = event_of(account->names.names[i], before, after);
        if (what != NULL) add_event(account, &(struct account_event){ns, what, i, before, after});
        if (after > account->most[i]) account->most[i] = after;
    }
    account->before = account->now;
}

/* ---- text ---- */

static const char *words(const struct account *account, unsigned index, uint64_t value)
{
    return statistics_is_bytes(account->names.names[index]) ? words_bytes_exact(value)
                                                            : words_count(value);
}

static void print_events(const struct account *account, FILE *to)
{
    for (unsigned i = 0; i < account->events_count && i < EVENTS_SHOWN; i++) {
        const struct account_event *event = &account->events[i];
        fprintf(to, "  %9s  %-18s %s %s, before %s\n", words_ms(event->ns / 1000000), event->what,
                account->names.names[event->index], words(account, event->index, event->after),
                words(account, event->index, event->before));
    }
    const uint64_t all = account->events_count + account->events_left_out;
    if (all > EVENTS_SHOWN) fprintf(to, "  and %s more events\n", words_count(all - EVENTS_SHOWN));
}

void account_print(const struct account *account, FILE *to)
{
    if (!account_is_known(account)) return;
    bool titled = false;
    for (unsigned i = 0; i < account->names.count; i++) {
        if (account->most[i] == 0 || strcmp(account->names.names[i], STATISTIC_VM_SIZE) == 0 ||
            strcmp(account->names.names[i], STATISTIC_NULL_FREES) == 0)
            continue; /* that is the process's, and the program's */
        if (!titled)
            fprintf(to, "\n%-26s %17s %17s %17s\n", "the allocator says", "at the first tick",
                    "at most", "at the last tick");
        titled = true;
        fprintf(to, "  %-24s %17s %17s %17s\n", account->names.names[i],
                words(account, i, account->first.values[i]), words(account, i, account->most[i]),
                words(account, i, account->now.values[i]));
    }
    print_events(account, to);
}

/* ---- JSON ---- */

static json_t *json_events(const struct account *account)
{
    json_t *events = json_array();
    for (unsigned i = 0; i < account->events_count; i++) {
        const struct account_event *event = &account->events[i];
        json_t *one = json_object();
        json_put_number(one, "ns", event->ns);
        json_put_text(one, "event", event->what);
        json_put_text(one, "name", account->names.names[event->index]);
        json_put_number(one, "before", event->before);
        json_put_number(one, "after", event->after);
        json_array_append_new(events, one);
    }
    return events;
}

json_t *account_json(const struct account *account, const struct timeline *timeline)
{
    json_t *object = json_object(), *over_time = json_object(), *last = json_object();
    for (unsigned i = 0; account_is_known(account) && i < account->names.count; i++) {
        json_t *values = json_array();
        for (unsigned row = 0; row < timeline->count; row++)
            json_array_append_new(values, json_whole(timeline->rows[row].statistics[i]));
        json_object_set_new(over_time, account->names.names[i], values);
        json_put_number(last, account->names.names[i], account->now.values[i]);
    }
    json_object_set_new(object, "last", last);
    json_object_set_new(object, "timeline", over_time);
    json_object_set_new(object, "events", json_events(account));
    json_put_number(object, "events_left_out", account->events_left_out);
    return object;
}
