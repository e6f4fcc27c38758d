#include "report/history.h"

#include <string.h>

#include "common/json_file.h"
#include "common/printable.h"
#include "report/words.h"

enum { EVENTS_SHOWN = 30 };

/* The values whose changes are events, and what a rise and a fall are called; NULL: no event. */
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

static const char *history_event_of(const char *name, uint64_t before, uint64_t after)
{
    for (size_t i = 0; before != after && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return after > before ? kinds[i].rises : kinds[i].falls;
    return NULL;
}

static void add_event(struct history *history, const struct history_event *event)
{
    if (history->events_count == HISTORY_EVENTS_MAX)
        history->events_left_out++;
    else
        history->events[history->events_count++] = *event;
}

void history_tick(struct history *history, uint64_t ns)
{
    if (!history_is_known(history)) return;
    const bool first = history->first.count == 0;
    if (first) history->first = history->before = history->now;
    for (unsigned i = 0; i < history->names.count; i++) {
        const uint64_t before = history->before.values[i], after = history->now.values[i];
        const char *what = history_event_of(printable_text(history->names.names[i]), before, after);
        if (what != NULL) add_event(history, &(struct history_event){ns, what, i, before, after});
        if (after > history->most[i]) history->most[i] = after;
    }
    history->before = history->now;
}

/* ---- text ---- */

static const char *history_words(const struct history *history, unsigned index, uint64_t value)
{
    return statistics_is_bytes(history->names.names[index]) ? words_bytes_exact(value)
                                                            : words_count(value);
}

static void print_events(const struct history *history, FILE *to)
{
    for (unsigned i = 0; i < history->events_count && i < EVENTS_SHOWN; i++) {
        const struct history_event *event = &history->events[i];
        fprintf(to, "  %9s  %-18s %s %s, before %s\n", words_ms(event->ns / 1000000), event->what,
                printable_text(history->names.names[event->index]),
                history_words(history, event->index, event->after),
                history_words(history, event->index, event->before));
    }
    const uint64_t all = history->events_count + history->events_left_out;
    if (all > EVENTS_SHOWN) fprintf(to, "  and %s more events\n", words_count(all - EVENTS_SHOWN));
}

void history_print(const struct history *history, FILE *to)
{
    if (!history_is_known(history)) return;
    bool titled = false;
    for (unsigned i = 0; i < history->names.count; i++) {
        if (history->most[i] == 0 || statistics_is_of_process(history->names.names[i])) continue;
        if (!titled)
            fprintf(to, "\n%-26s %17s %17s %17s\n", "the allocator says", "at the first tick",
                    "at most", "at the last tick");
        titled = true;
        fprintf(to, "  %-24s %17s %17s %17s\n", printable_text(history->names.names[i]),
                history_words(history, i, history->first.values[i]),
                history_words(history, i, history->most[i]),
                history_words(history, i, history->now.values[i]));
    }
    print_events(history, to);
}

/* ---- JSON ---- */

static json_t *json_events(const struct history *history)
{
    json_t *events = json_array();
    for (unsigned i = 0; i < history->events_count; i++) {
        const struct history_event *event = &history->events[i];
        json_t *one = json_object();
        json_put_number(one, "ns", event->ns);
        json_put_text(one, "event", event->what);
        json_put_text(one, "name", printable_text(history->names.names[event->index]));
        json_put_number(one, "before", event->before);
        json_put_number(one, "after", event->after);
        json_array_append_new(events, one);
    }
    return events;
}

json_t *history_json(const struct history *history, const struct timeline *timeline)
{
    json_t *object = json_object(), *over_time = json_object(), *last = json_object();
    for (unsigned i = 0; history_is_known(history) && i < history->names.count; i++) {
        json_t *values = json_array();
        for (unsigned row = 0; row < timeline->count; row++)
            json_array_append_new(values, json_whole(timeline->rows[row].statistics[i]));
        json_object_set_new(over_time, printable_text(history->names.names[i]), values);
        json_put_number(last, printable_text(history->names.names[i]), history->now.values[i]);
    }
    json_object_set_new(object, "last", last);
    json_object_set_new(object, "timeline", over_time);
    json_object_set_new(object, "events", json_events(history));
    json_put_number(object, "events_left_out", history->events_left_out);
    return object;
}
