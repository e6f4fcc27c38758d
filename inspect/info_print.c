#include "inspect/info.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/call_table.h"
#include "common/json_file.h"
#include "common/numbers.h"
#include "common/printable.h"

enum { WIDTH = 16 }; /* of the words in the text */

static const struct {
    const char *key, *text;
} spool_names[] = {
    [RAW_SPOOL_NONE] = {"none", "none"},
    [RAW_SPOOL_NOT_NEEDED] = {"not_needed", "not used: the stream is complete without it"},
    [RAW_SPOOL_USED] = {"used", "used: it had what the stream lacks"},
    [RAW_SPOOL_UNUSABLE] = {"unusable", "it cannot be used"},
};

/* ---- what text and JSON have in common ---- */

#define USE(numbers) use(of, numbers, sizeof(numbers) / sizeof *(numbers))

static const char *only_if(bool there, const char *text)
{
    return there ? text : NULL;
}

/* The numbers up to that of events, after which the kinds of calls are listed. */
static void info_times(const struct info *info, numbers_use *use, void *of)
{
    const struct original *original = &info->original;
    const bool usage = original->has_usage;
    const double peak = number_known((double)original->peak_rss_bytes);
    const struct number numbers[] = {
        {"duration_ns", "duration", UNIT_NS, number_known((double)info->duration_ns), ""},
        {"user_ns", "processor time", UNIT_NS, usage ? (double)original->user_ns : -1, " user"},
        {"system_ns", "", UNIT_NS, usage ? (double)original->system_ns : -1, " system"},
        {"peak_rss_bytes", "peak RSS", UNIT_BYTES, peak, ""},
        {"recorder_bytes", only_if(peak > 0, ""), UNIT_BYTES,
         number_known((double)original->recorder_bytes), " of it the recorder's"},
        {"events", "events", UNIT_COUNT, (double)info->events, ""},
    };
    USE(numbers);
}

static unsigned statistics_count(const struct info *info)
{
    const unsigned count = info->names.count;
    return count < info->statistics.count ? count : info->statistics.count;
}

/* Negative: not known. */
static double null_frees_of(const struct info *info)
{
    const unsigned at = statistics_find(&info->names, STATISTIC_NULL_FREES);
    return at < statistics_count(info) ? (double)info->statistics.values[at] : -1;
}

static void info_counts(const struct info *info, numbers_use *use, void *of)
{
    const bool raw = info->format == STREAM_RAW, used = info->spool == RAW_SPOOL_USED;
    const bool waited = raw && info->waits > 0, is_file = info->file_bytes > 0;
    const bool stacks = info->has_stacks;
    const double bytes = (double)info->file_bytes, events = (double)info->events;
    const double null_frees = null_frees_of(info);
    const bool mapped = info->has_mappings;
    const double mappings = (double)(info->mappings.records - info->mappings.found);
    const bool base = info->has_base;
    const struct number numbers[] = {
        {only_if(base, "base_objects"), only_if(base, "base"), UNIT_COUNT,
         (double)info->base_objects, " objects alive before"},
        {only_if(base, "base_bytes"), only_if(base, ""), UNIT_BYTES, (double)info->base_bytes, ""},
        {only_if(base, "base_calls"), only_if(base, ""), UNIT_COUNT, (double)info->base_calls,
         " calls that make them, not counted as events"},
        {"failed", "failed", UNIT_COUNT, (double)info->failed, ""},
        {"free_null", only_if(null_frees > 0, "frees of NULL"), UNIT_COUNT, null_frees,
         ", not counted as events"},
        {only_if(!raw, "freed_twice"), only_if(info->freed_twice > 0, "freed twice"), UNIT_COUNT,
         (double)info->freed_twice, ""},
        {only_if(!raw, "missed_frees"), only_if(info->missed_frees > 0, "missed frees"), UNIT_COUNT,
         (double)info->missed_frees, ""},
        {"threads", "threads", UNIT_COUNT, (double)info->threads, ""},
        {"lanes", "lanes", UNIT_COUNT, (double)info->lanes, ""},
        {"live_at_end", "live at end", UNIT_COUNT,
         info->live_is_known ? (double)info->live_at_end : -1, ""},
        {"lost_events", "lost events", UNIT_COUNT, (double)info->lost_events, ""},
        {"ticks", "ticks", UNIT_COUNT, (double)info->ticks, ""},
        {only_if(raw, "sequence_numbers"), only_if(raw, "sequence numbers"), UNIT_COUNT,
         (double)info->sequences, ""},
        {only_if(raw, "waits"), only_if(waited, "waited"), UNIT_COUNT, (double)info->waits,
         " times for a buffer"},
        {only_if(raw, "waited_ns"), only_if(waited, ""), UNIT_NS, (double)info->waited_ns,
         " in all"},
        {only_if(raw, "lock_waits"), only_if(raw && info->lock_waits > 0, "lock waits"), UNIT_COUNT,
         (double)info->lock_waits, ""},
        {only_if(raw, "lock_waited_ns"), only_if(raw && info->lock_waits > 0, ""), UNIT_NS,
         (double)info->lock_waited_ns, " in all"},
        {only_if(raw, "taken_bytes"), only_if(raw && info->taken_bytes > 0, "system memory"),
         UNIT_BYTES, (double)info->taken_bytes, " from it"},
        {only_if(raw, "released_bytes"), only_if(raw && info->taken_bytes > 0, ""), UNIT_BYTES,
         (double)info->released_bytes, " given back"},
        {only_if(stacks, "with_stacks"), only_if(stacks, "with call stacks"), UNIT_COUNT,
         (double)info->stacks, " calls"},
        {only_if(stacks, "stacks_unknown"), only_if(info->stacks_unknown > 0, "unknown stacks"),
         UNIT_COUNT, (double)info->stacks_unknown, ""},
        {only_if(stacks, "stack_nodes"), only_if(stacks, "stack nodes"), UNIT_COUNT,
         (double)info->stack_nodes,
         info->nodes_ran_out ? ", the most that there can be: calls with later stacks have none"
                             : ""},
        {only_if(stacks, "stack_codes"), only_if(stacks, "code addresses"), UNIT_COUNT,
         (double)info->stack_codes, ""},
        {only_if(stacks, "stack_codes_of_no_module"), only_if(info->codes_of_none > 0, ""),
         UNIT_COUNT, (double)info->codes_of_none, " of no file"},
        {only_if(stacks, "stack_modules"), only_if(stacks, "modules"), UNIT_COUNT,
         (double)info->stack_modules,
         info->modules_ran_out
             ? ", the most that there can be: for code of later ones no file is known"
             : ""},
        {only_if(mapped, "mappings"), only_if(mappings > 0, "mapping calls"), UNIT_COUNT, mappings,
         ""},
        {only_if(mapped, "mappings_failed"), only_if(info->mappings.failed > 0, ""), UNIT_COUNT,
         (double)info->mappings.failed, " of them failed"},
        {only_if(mapped, "mappings_lost"), only_if(info->mappings.lost > 0, ""), UNIT_COUNT,
         (double)info->mappings.lost, " more are missing"},
        {only_if(mapped, "mapped_peak_bytes"), only_if(mappings > 0, ""), UNIT_BYTES,
         (double)info->mappings.peak_bytes, " mapped at most"},
        {only_if(mapped, "residencies"), only_if(info->residencies > 0, "looks at RSS"), UNIT_COUNT,
         (double)info->residencies, ""},
        {only_if(!raw || mapped, "touched"), only_if(info->touched > 0, "touched pages"), UNIT_COUNT,
         (double)info->touched, raw ? " looks at large objects" : " large objects"},
        {only_if(!raw, "touched_bytes"), only_if(!raw && info->touched > 0, ""), UNIT_BYTES,
         (double)info->touched_bytes, " of them were resident"},
        {only_if(raw, "spool_events"), only_if(raw && used, "from the spool"), UNIT_COUNT,
         (double)info->spool_events, " events"},
        {only_if(!raw, "instructions"), only_if(!raw, "instructions"), UNIT_COUNT,
         (double)info->instructions, ""},
        {only_if(is_file, "file_bytes"), only_if(is_file, "size"), UNIT_COUNT, bytes, " bytes"},
        {only_if(is_file, "bytes_per_event"), only_if(is_file, ""), UNIT_PER_EVENT,
         events > 0 ? bytes / events : 0, ""},
    };
    USE(numbers);
}

/* ---- text ---- */

static void print_line_of(const char *name, const char *text)
{
    if (text == NULL || *text == '\0') return;
    printf("%-*s ", WIDTH, name);
    printable_say(stdout, "%s", text);
}

static void print_thin(const struct info *info)
{
    char thin[METADATA_THIN_TEXT];
    if (!(info->thin > 0)) return;
    metadata_thin_text(info->thin, thin);
    print_line_of("thinned", thin);
}

static void print_start(const struct info *info)
{
    char text[64];
    time_t seconds = (time_t)info->start_s;
    struct tm utc;
    if (info->start_s > 0 && gmtime_r(&seconds, &utc) != NULL &&
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc) > 0)
        print_line_of("started", text);
}

static void info_print_kinds(const struct info *info)
{
    for (unsigned kind = 0; kind < CALL_KINDS; kind++)
        if (info->by_kind[kind] > 0)
            printf("  %-26s %12" PRIu64 "  %5.1f %%\n", call_names[kind], info->by_kind[kind],
                   100.0 * (double)info->by_kind[kind] / (double)info->events);
}

static void info_print_statistics(const struct info *info)
{
    bool titled = false;
    for (unsigned i = 0; i < statistics_count(info); i++) {
        const char *name = info->names.names[i];
        if (info->statistics.values[i] == 0 || statistics_is_of_process(name)) continue;
        if (!titled) print_line_of("statistics", "nonzero values, from the last tick");
        titled = true;
        printf("  %-26s %12" PRIu64 "\n", name, info->statistics.values[i]);
    }
}

/* Without a version, the stream has no header, and everything came from the spool. */
static void print_format(const struct info *info)
{
    char version[16] = "";
    if (info->version_major > 0)
        snprintf(version, sizeof version, " %u.%u", info->version_major, info->version_minor);
    printf("%-*s %s%s%s%s\n", WIDTH, "format",
           info->format == STREAM_RAW ? "raw stream" : "instruction stream", version,
           info->has_addresses ? ", with addresses" : "", info->lz4 ? ", LZ4" : "");
}

static void print_machine(const struct info *info)
{
    if (info->architecture == NULL || *info->architecture == '\0') return;
    printf("%-*s %s", WIDTH, "machine", info->architecture);
    if (info->page_bytes > 0) printf(", pages of %lu bytes", info->page_bytes);
    putchar('\n');
}

void info_print(const struct info *info, const char *path)
{
    struct numbers_text text = {.to = stdout, .width = WIDTH};
    print_line_of("file", path);
    print_format(info);
    print_line_of("made from", info->source);
    print_line_of("which lacks", info->lacks);
    print_line_of("changed code", info->what_if);
    print_thin(info);
    print_line_of("program", info->program);
    print_machine(info);
    print_line_of("allocator", info->allocator);
    if (info->heap_unknown != NULL && *info->heap_unknown != '\0')
        printf("%-*s not known: %s\n", WIDTH, "its heap", info->heap_unknown);
    if (info->foreign_malloc != NULL && *info->foreign_malloc != '\0')
        printf("%-*s another malloc is in use: %s\n", WIDTH, "warning", info->foreign_malloc);
    print_line_of("process", info->pid);
    print_line_of("recording", info->recording);
    print_start(info);
    info_times(info, numbers_print, &text);
    info_print_kinds(info);
    info_counts(info, numbers_print, &text);
    info_print_statistics(info);
    if (!info->live_is_known)
        print_line_of("live at end", info->frees_too_many ? "not known, as objects were freed twice"
                                                          : "not known, as events are missing");
    if (info->format == STREAM_RAW) print_line_of("spool", spool_names[info->spool].text);
    print_line_of("end", info->ended);
}

void info_print_line(const struct info *info, const char *path)
{
    const bool is_foreign = info->foreign_malloc != NULL && *info->foreign_malloc != '\0';
    printable_say(stdout, "%12" PRIu64 " events  %-16s %s: %s%s", info->events,
                  info->program != NULL ? info->program : "", path, info->ended,
                  is_foreign ? "; another malloc is in use" : "");
}

void info_print_together(const struct together_most *most)
{
    printf("At most, %" PRIu32
           " process%s had %.1f MiB at once, after %.1f s: %.1f MiB of their own, "
           "%.1f MiB that can be shared (RSS added up: %.1f MiB).\n",
           most->processes, most->processes == 1 ? "" : "es",
           (double)(most->own_bytes + most->shared_bytes) / MIB, (double)most->since_ns / 1e9,
           (double)most->own_bytes / MIB, (double)most->shared_bytes / MIB,
           (double)most->rss_bytes / MIB);
    if (most->divided == 0) return;
    printf("With what they share divided among them: %.1f MiB (PSS of %" PRIu32 " of the %" PRIu32
           ", each looked at within %.1f s of that).\n",
           (double)most->proportional_bytes / MIB, most->divided, most->processes,
           (double)most->away_ns / 1e9);
}

/* ---- JSON ---- */

/* Puts a text; an empty one for NULL. */
static void info_print_put_text(json_t *object, const char *key, const char *text)
{
    json_put_text(object, key, text != NULL ? text : "");
}

static json_t *json_statistics(const struct info *info)
{
    json_t *object = json_object();
    for (unsigned i = 0; i < statistics_count(info); i++)
        json_put_number(object, info->names.names[i], info->statistics.values[i]);
    return object;
}

json_t *info_json(const struct info *info)
{
    json_t *object = json_object();
    char version[32];
    snprintf(version, sizeof version, "%u.%u", info->version_major, info->version_minor);
    info_print_put_text(object, "format", info->format == STREAM_RAW ? "raw" : "instructions");
    info_print_put_text(object, "version", version);
    json_object_set_new(object, "lz4", json_boolean(info->lz4));
    json_object_set_new(object, "addresses", json_boolean(info->has_addresses));
    json_object_set_new(object, "stacks", json_boolean(info->has_stacks));
    info_print_put_text(object, "source", info->source);
    info_print_put_text(object, "lacks", info->lacks);
    info_print_put_text(object, "what_if", info->what_if);
    json_put_real(object, "thin", info->thin > 0 ? info->thin : NAN);
    info_print_put_text(object, "program", info->program);
    info_print_put_text(object, "architecture", info->architecture);
    json_put_number(object, "page_bytes", info->page_bytes);
    info_print_put_text(object, "allocator", info->allocator);
    info_print_put_text(object, "heap_unknown", info->heap_unknown);
    info_print_put_text(object, "foreign_malloc", info->foreign_malloc);
    if (info->pid != NULL && *info->pid != '\0')
        json_put_number(object, "pid", strtoull(info->pid, NULL, 10));
    info_print_put_text(object, "recording", info->recording);
    json_put_real(object, "start", info->start_s);
    info_times(info, numbers_put, object);
    json_put_kinds(object, "by_kind", info->by_kind);
    info_counts(info, numbers_put, object);
    json_object_set_new(object, "statistics", json_statistics(info));
    if (info->format == STREAM_RAW)
        info_print_put_text(object, "spool", spool_names[info->spool].key);
    json_object_set_new(object, "truncated", json_boolean(info->truncated));
    info_print_put_text(object, "end", info->ended);
    return object;
}
