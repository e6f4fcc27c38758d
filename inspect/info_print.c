#include "inspect/info.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/call_table.h"
#include "common/json_file.h"

#define SPOOL_NAME(identifier, name, text) name,
#define SPOOL_TEXT(identifier, name, text) text,
static const char *const spool_names[] = {RAW_SPOOL_LIST(SPOOL_NAME)};
static const char *const spool_texts[] = {RAW_SPOOL_LIST(SPOOL_TEXT)};

#define MIB (1024.0 * 1024)

static double bytes_per_event(const struct info *info)
{
    return info->events > 0 ? (double)info->file_bytes / (double)info->events : 0;
}

/* ---- text ---- */

static void line(const char *name, const char *text)
{
    if (text != NULL && *text != '\0') printf("%-16s %s\n", name, text);
}

static void line_number(const char *name, uint64_t number)
{
    printf("%-16s %" PRIu64 "\n", name, number);
}

static void print_start(const struct info *info)
{
    char text[64];
    time_t seconds = (time_t)info->start_s;
    struct tm utc;
    if (info->start_s > 0 && gmtime_r(&seconds, &utc) != NULL &&
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc) > 0)
        line("started", text);
}

static void print_kinds(const struct info *info)
{
    for (unsigned kind = 0; kind < CALL_KINDS; kind++)
        if (info->by_kind[kind] > 0)
            printf("  %-26s %12" PRIu64 "  %5.1f %%\n", call_names[kind], info->by_kind[kind],
                   100.0 * (double)info->by_kind[kind] / (double)info->events);
}

static void print_raw(const struct info *info)
{
    line_number("sequence numbers", info->sequences);
    if (info->waits > 0)
        printf("%-16s %" PRIu64 " times for a buffer, %.3f s in all\n", "waited", info->waits,
               (double)info->waited_ns / 1e9);
    if (info->lock_waits > 0)
        printf("%-16s %" PRIu64 ", %.3f s in all\n", "lock waits", info->lock_waits,
               (double)info->lock_waited_ns / 1e9);
    if (info->taken_bytes > 0)
        printf("%-16s %.1f MiB from it, %.1f MiB given back\n", "system memory",
               (double)info->taken_bytes / MIB, (double)info->released_bytes / MIB);
    line("spool", spool_texts[info->spool]);
    if (info->spool == RAW_SPOOL_USED) line_number("  events", info->spool_events);
}

/* Without a version, the header was not there, and the spool had all there is. */
static void print_format(const struct info *info)
{
    char version[16] = "";
    if (info->version_major > 0)
        snprintf(version, sizeof version, " %u.%u", info->version_major, info->version_minor);
    printf("%-16s %s%s%s%s\n", "format",
           info->format == STREAM_RAW ? "raw stream" : "instruction stream", version,
           info->has_addresses ? ", with addresses" : "", info->lz4 ? ", LZ4" : "");
}

/* What the recorder did not say is left out. */
static void print_original(const struct original *original)
{
    if (original->has_usage)
        printf("%-16s %.3f s user, %.3f s system\n", "processor time",
               (double)original->user_ns / 1e9, (double)original->system_ns / 1e9);
    if (original->peak_rss_bytes == 0) return;
    printf("%-16s %.1f MiB", "peak RSS", (double)original->peak_rss_bytes / MIB);
    if (original->has_usage)
        printf(", of which the recorder's %.1f MiB", (double)original->recorder_bytes / MIB);
    putchar('\n');
}

void info_print(const struct info *info, const char *path)
{
    printf("%-16s %s\n", "file", path);
    print_format(info);
    line("made from", info->source);
    line("which lacks", info->lacks);
    line("program", info->program);
    line("allocator", info->allocator);
    if (info->foreign_malloc != NULL && *info->foreign_malloc != '\0')
        printf("%-16s malloc of this process is not ours: %s\n", "warning", info->foreign_malloc);
    line("process", info->pid);
    line("recording", info->recording);
    print_start(info);
    printf("%-16s %.3f s\n", "duration", (double)info->duration_ns / 1e9);
    print_original(&info->original);
    line_number("events", info->events);
    print_kinds(info);
    line_number("failed", info->failed);
    if (info->freed_twice > 0) line_number("freed twice", info->freed_twice);
    line_number("threads", info->threads);
    line_number("lanes", info->lanes);
    if (info->live_is_known)
        line_number("live at end", info->live_at_end);
    else
        line("live at end", "not known, as events are missing");
    line_number("lost events", info->lost_events);
    line_number("ticks", info->ticks);
    if (info->format == STREAM_RAW)
        print_raw(info);
    else
        line_number("instructions", info->instructions);
    if (info->file_bytes > 0)
        printf("%-16s %" PRIu64 " bytes, %.3f per event\n", "size", info->file_bytes,
               bytes_per_event(info));
    line("end", info->ended);
}

/* ---- JSON ---- */

/* Without a text, an empty one. */
static void put_text(json_t *object, const char *key, const char *text)
{
    json_put_text(object, key, text != NULL ? text : "");
}

static void put_origin(json_t *object, const struct info *info)
{
    char version[32];
    snprintf(version, sizeof version, "%u.%u", info->version_major, info->version_minor);
    put_text(object, "format", info->format == STREAM_RAW ? "raw" : "instructions");
    put_text(object, "version", version);
    json_object_set_new(object, "lz4", json_boolean(info->lz4));
    json_object_set_new(object, "addresses", json_boolean(info->has_addresses));
    put_text(object, "source", info->source);
    put_text(object, "lacks", info->lacks);
    put_text(object, "program", info->program);
    put_text(object, "allocator", info->allocator);
    put_text(object, "foreign_malloc", info->foreign_malloc);
    if (info->pid != NULL && *info->pid != '\0')
        json_put_number(object, "pid", strtoull(info->pid, NULL, 10));
    put_text(object, "recording", info->recording);
    json_object_set_new(object, "start", json_real(info->start_s));
}

static void put_if(bool known, json_t *object, const char *key, uint64_t number)
{
    if (known)
        json_put_number(object, key, number);
    else
        json_object_set_new(object, key, json_null());
}

static void put_original(json_t *object, const struct original *original)
{
    put_if(original->peak_rss_bytes > 0, object, "peak_rss_bytes", original->peak_rss_bytes);
    put_if(original->has_usage, object, "recorder_bytes", original->recorder_bytes);
    put_if(original->has_usage, object, "user_ns", original->user_ns);
    put_if(original->has_usage, object, "system_ns", original->system_ns);
}

static void put_raw(json_t *object, const struct info *info)
{
    json_put_number(object, "sequence_numbers", info->sequences);
    json_put_number(object, "waits", info->waits);
    json_put_number(object, "waited_ns", info->waited_ns);
    json_put_number(object, "lock_waits", info->lock_waits);
    json_put_number(object, "lock_waited_ns", info->lock_waited_ns);
    json_put_number(object, "taken_bytes", info->taken_bytes);
    json_put_number(object, "released_bytes", info->released_bytes);
    put_text(object, "spool", spool_names[info->spool]);
    json_put_number(object, "spool_events", info->spool_events);
}

static void put_instructions(json_t *object, const struct info *info)
{
    json_put_number(object, "instructions", info->instructions);
    json_put_number(object, "freed_twice", info->freed_twice);
}

static json_t *json_info(const struct info *info)
{
    json_t *object = json_object();
    put_origin(object, info);
    json_put_number(object, "duration_ns", info->duration_ns);
    put_original(object, &info->original);
    json_put_number(object, "events", info->events);
    json_put_kinds(object, "by_kind", info->by_kind);
    json_put_number(object, "failed", info->failed);
    json_put_number(object, "threads", info->threads);
    json_put_number(object, "lanes", info->lanes);
    json_object_set_new(object, "live_at_end",
                        info->live_is_known ? json_integer((json_int_t)info->live_at_end)
                                            : json_null());
    json_put_number(object, "lost_events", info->lost_events);
    json_put_number(object, "ticks", info->ticks);
    if (info->format == STREAM_RAW)
        put_raw(object, info);
    else
        put_instructions(object, info);
    json_object_set_new(object, "truncated", json_boolean(info->truncated));
    put_text(object, "end", info->ended);
    if (info->file_bytes > 0) {
        json_put_number(object, "file_bytes", info->file_bytes);
        json_object_set_new(object, "bytes_per_event", json_real(bytes_per_event(info)));
    }
    return object;
}

bool info_write_json(const struct info *info, const char *to, struct error *error)
{
    json_t *object = json_info(info);
    bool done = json_file_write(object, to, error);
    json_decref(object);
    return done;
}
