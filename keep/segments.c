#include "keep/segments.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* A segment is this part of the time, and of the bytes, that are kept. */
enum { SEGMENT_PART = 10 };

/* Where there are many, those that are asked for are no smaller part. */
enum { SEGMENTS_ASKED_PART = 100 };

/* Where the disk is full, this part of what had room is kept, so that FILE has room, too. It is more
 * than nothing, from which it would not grow again. */
enum { SEGMENTS_FIT_PERCENT = 40, SEGMENTS_FIT_LEAST = 1 << 16 };

/* And this part is set aside. */
enum { SEGMENTS_ASIDE_PERCENT = 20 };

struct segment_file {
    struct output output;
    struct instruction_writer writer;
    int fd;
};

static const char *segment_name(char *name, uint64_t number, bool is_join)
{
    snprintf(name, SEGMENT_NAME_BYTES, "%" PRIu64 ".%s", number, is_join ? "join" : "lz4");
    return name;
}

const char *segments_name(char name[SEGMENT_NAME_BYTES], const struct segment *segment)
{
    return segment_name(name, segment->number, false);
}

static bool segments_fail(struct segments *segments, const struct error *error)
{
    if (!error_is_set(&segments->error)) segments->error = *error;
    return false;
}

static bool segments_fail_system(struct segments *segments, const char *what)
{
    error_set_system(&segments->error, "%s", what);
    return false;
}

int segments_open_file(const struct segments *segments, const struct segment *segment, bool is_join)
{
    char name[SEGMENT_NAME_BYTES];
    return openat(segments->directory, segment_name(name, segment->number, is_join),
                  O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

/* ---- one file ---- */

static void segment_file_close(struct segment_file *file)
{
    if (file == NULL) return;
    instruction_writer_close(&file->writer);
    output_close(&file->output);
    close(file->fd);
    free(file);
}

/* The first segment of all has no base. */
static struct segment_file *segment_file_open(struct segments *segments, uint64_t number)
{
    char name[SEGMENT_NAME_BYTES];
    struct instruction_header header = segments->header;
    if (number > 0) header.features |= INSTRUCTION_FEATURE_BASE;
    struct segment_file *file = calloc(1, sizeof *file);
    if (file == NULL) {
        segments_fail_system(segments, "no memory for a segment");
        return NULL;
    }
    file->fd = openat(segments->directory, segment_name(name, number, false),
                      O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file->fd < 0) {
        segments_fail_system(segments, "cannot make a segment");
        free(file);
        return NULL;
    }
    if (output_open_fd(&file->output, file->fd) && output_compress(&file->output) &&
        instruction_writer_open(&file->writer, &file->output, &header))
        return file;
    segments_fail(segments,
                  error_is_set(&file->output.error) ? &file->output.error : &file->writer.error);
    segment_file_close(file);
    unlinkat(segments->directory, name, 0);
    return NULL;
}

static uint64_t segment_file_bytes(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 ? (uint64_t)status.st_size : 0;
}

/* ---- the end of one ---- */

static void segments_count_bytes(struct segments *segments, uint64_t bytes)
{
    segments->list[segments->count - 1].bytes += bytes;
    segments->bytes += bytes;
    if (segments->bytes > segments->peak_bytes) segments->peak_bytes = segments->bytes;
}

/* Finishes the last segment of the list. */
static bool segment_end(struct segments *segments, enum instruction_status status)
{
    struct segment_file *file = segments->file;
    segments->totals = *instruction_writer_totals(&file->writer);
    bool good = instruction_writer_finish(&file->writer, status);
    if (!good) segments_fail(segments, &file->writer.error);
    instruction_writer_close(&file->writer);
    if (!output_close(&file->output)) good = segments_fail(segments, &file->output.error);
    segments_count_bytes(segments, segment_file_bytes(file->fd));
    close(file->fd);
    free(file);
    segments->file = NULL;
    return good;
}

static void segment_remove(const struct segments *segments, const struct segment *segment)
{
    char name[SEGMENT_NAME_BYTES];
    for (unsigned is_join = 0; is_join < 2; is_join++)
        unlinkat(segments->directory, segment_name(name, segment->number, is_join), 0);
}

void segments_drop_first(struct segments *segments)
{
    segment_remove(segments, &segments->list[0]);
    segments->bytes -= segments->list[0].bytes;
    segments->count--;
    memmove(segments->list, segments->list + 1, segments->count * sizeof *segments->list);
}

static void segments_drop_older(struct segments *segments)
{
    while (segments->older_count > 0)
        segment_remove(segments, &segments->older[--segments->older_count]);
}

/* All but the last one, which is being written, may go. */
static void segments_drop_old(struct segments *segments)
{
    const uint64_t now = segments->follow->copy.ns;
    while (segments->count > 1 &&
           (segments->count == SEGMENTS_MAX ||
            (now > segments->keep_ns && segments->list[1].start_ns <= now - segments->keep_ns) ||
            (segments->max_bytes > 0 && segments->bytes > segments->max_bytes)))
        segments_drop_first(segments);
    if (now - segments->list[0].start_ns >= segments->older_ns &&
        now - segments->older_end_ns >= segments->keep_ns)
        segments_drop_older(segments);
}

/* ---- the beginning of one ---- */

static bool join_write(struct segments *segments, uint64_t number, const uint32_t *rows,
                       uint64_t live)
{
    char name[SEGMENT_NAME_BYTES];
    const int fd = openat(segments->directory, segment_name(name, number, true),
                          O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct output output;
    if (fd < 0) return segments_fail_system(segments, "cannot make a segment");
    bool good = output_open_fd(&output, fd) && output_write(&output, rows, live * sizeof *rows);
    if (!output_close(&output)) good = false;
    if (!good) segments_fail(segments, &output.error);
    segments_count_bytes(segments, segment_file_bytes(fd));
    close(fd);
    return good;
}

static void segments_append(struct segments *segments, uint64_t number)
{
    segments->list[segments->count++] =
        (struct segment){.number = number, .start_ns = segments->follow->copy.ns};
}

bool segments_open(struct segments *segments)
{
    segments->file = segment_file_open(segments, segments->next_number);
    if (segments->file == NULL) return false;
    segments->follow->copy.writer = &segments->file->writer;
    segments_append(segments, segments->next_number++);
    return true;
}

/* Writes a base into a new file, and ends the one before. */
static bool segments_turn_to(struct segments *segments, struct segment_file *next)
{
    uint32_t *rows;
    uint64_t live;
    if (!follow_turn(segments->follow, &next->writer, &rows, &live))
        return segments_fail_system(segments, "no memory for a segment");
    bool good = segment_end(segments, INSTRUCTION_STATUS_CUT);
    segments->file = next;
    segments_append(segments, segments->next_number);
    good = good && join_write(segments, segments->next_number, rows, live);
    segments->next_number++;
    segments->base_bytes = segment_file_bytes(next->fd);
    free(rows);
    return good;
}

bool segments_turn(struct segments *segments)
{
    struct copy *copy = &segments->follow->copy;
    if (error_is_set(&segments->error)) return false;
    struct segment_file *next = segment_file_open(segments, segments->next_number);
    if (next == NULL) return false;
    if (segments->count == SEGMENTS_MAX) segments_drop_first(segments);
    struct instruction_writer *before = copy->writer;
    const bool good = segments_turn_to(segments, next);
    if (copy->writer == before) {
        char name[SEGMENT_NAME_BYTES];
        segment_file_close(next);
        unlinkat(segments->directory, segment_name(name, segments->next_number, false), 0);
    }
    segments_drop_old(segments);
    return good;
}

static void segments_fit(struct segments *segments, uint64_t bytes)
{
    if (bytes < SEGMENTS_FIT_LEAST) bytes = SEGMENTS_FIT_LEAST;
    if (segments->max_bytes == 0 || bytes < segments->max_bytes) segments->max_bytes = bytes;
}

/* For twice as much of segments, and FILE. */
static bool segments_have_room(const struct segments *segments)
{
    struct statvfs there;
    if (fstatvfs(segments->directory, &there) != 0) return false;
    return (uint64_t)there.f_bavail * there.f_frsize / 4 > segments->max_bytes;
}

void segments_grow(struct segments *segments, uint64_t most)
{
    if (segments->max_bytes == most || !segments_have_room(segments)) return;
    const bool fits = segments->max_bytes <= UINT64_MAX / 4;
    const uint64_t bytes = fits ? 2 * segments->max_bytes : 0;
    segments->max_bytes = most > 0 && (bytes == 0 || bytes > most) ? most : bytes;
}

/* Of what there is and what was set aside before: what lasts longer. The last two may end where they
 * could not be written, which may be at their beginning: so the one before stays, too, unless they are
 * large. */
static void segments_set_aside(struct segments *segments)
{
    const uint64_t now = segments->follow->copy.ns, had = segments->bytes;
    while (segments->count > 3 && segments->bytes > had * SEGMENTS_ASIDE_PERCENT / 100)
        segments_drop_first(segments);
    while (segments->count > 0 && segments->bytes > had / 2)
        segments_drop_first(segments);
    const uint64_t ns = segments->count > 0 ? now - segments->list[0].start_ns : 0;
    if (ns >= segments->older_ns || segments->older_count == 0) {
        segments_drop_older(segments);
        memcpy(segments->older, segments->list, segments->count * sizeof *segments->list);
        segments->older_count = segments->count;
        segments->older_ns = ns;
        segments->older_end_ns = now;
        segments->count = 0;
    }
    segments_remove(segments);
    segments->bytes = 0;
}

bool segments_restart(struct segments *segments)
{
    const uint64_t last = segment_file_bytes(segments->file->fd), had = segments->bytes + last;
    uint32_t *rows;
    uint64_t live;
    segments->follow->copy.writer = NULL;
    segment_file_close(segments->file);
    segments->file = NULL;
    segments_count_bytes(segments, last);
    segments_set_aside(segments);
    segments->error = (struct error){.kind = NULL};
    segments_fit(segments, had * SEGMENTS_FIT_PERCENT / 100);
    struct segment_file *next = segment_file_open(segments, segments->next_number);
    if (next == NULL) return false;
    segments->file = next;
    segments_append(segments, segments->next_number++);
    if (!follow_turn(segments->follow, &next->writer, &rows, &live))
        return segments_fail_system(segments, "no memory for a segment");
    free(rows);
    segments->base_bytes = segment_file_bytes(next->fd);
    return !instruction_writer_failed(&next->writer) ||
           segments_fail(segments, &next->writer.error);
}

bool segments_turn_for(struct segments *segments)
{
    const uint64_t age = segments->follow->copy.ns - segments->list[segments->count - 1].start_ns;
    if (segments->count > SEGMENTS_MAX / 2 && age < segments->keep_ns / SEGMENTS_ASKED_PART)
        return !error_is_set(&segments->error);
    return segments_turn(segments);
}

static bool segments_is_time(const struct segments *segments)
{
    const struct segment *last = &segments->list[segments->count - 1];
    const uint64_t age = segments->follow->copy.ns - last->start_ns;
    if (age >= segments->keep_ns / SEGMENT_PART && age > 0) return true;
    if (segments->max_bytes == 0) return false;
    const uint64_t bytes = segment_file_bytes(segments->file->fd);
    return bytes >= segments->max_bytes / SEGMENT_PART + 2 * segments->base_bytes;
}

bool segments_look(struct segments *segments)
{
    if (error_is_set(&segments->error)) return false;
    if (instruction_writer_failed(&segments->file->writer))
        return segments_fail(segments, &segments->file->writer.error);
    return !segments_is_time(segments) || segments_turn(segments);
}

bool segments_finish(struct segments *segments, enum instruction_status status)
{
    segments->follow->copy.writer = NULL;
    segments->is_finished = segments->file != NULL && segment_end(segments, status);
    return segments->is_finished;
}

void segments_remove(struct segments *segments)
{
    while (segments->count > 0)
        segments_drop_first(segments);
}

bool segments_take_older(struct segments *segments)
{
    segments_remove(segments);
    segments->is_finished = false;
    segments->count = segments->older_count;
    segments->older_count = 0;
    memcpy(segments->list, segments->older, segments->count * sizeof *segments->list);
    return segments->count > 0;
}

/* Before a segment that began anew others were set aside. Only the last one may have no .join because
 * its keeper was killed. */
static void segments_find_older(struct segments *segments)
{
    char name[SEGMENT_NAME_BYTES];
    size_t i = segments->count - 1;
    while (--i > 0)
        if (faccessat(segments->directory, segment_name(name, segments->list[i].number, true), F_OK,
                      0) != 0)
            break;
    segments->older_count = i;
    segments->count -= i;
    memcpy(segments->older, segments->list, i * sizeof *segments->list);
    memmove(segments->list, segments->list + i, segments->count * sizeof *segments->list);
}

static int segment_order(const void *one, const void *other)
{
    const struct segment *a = one, *b = other;
    return (a->number > b->number) - (a->number < b->number);
}

bool segments_find(struct segments *segments)
{
    char name[SEGMENT_NAME_BYTES];
    DIR *directory = fdopendir(dup(segments->directory));
    if (directory == NULL) return false;
    segments->count = 0;
    for (const struct dirent *entry;
         (entry = readdir(directory)) != NULL && segments->count < SEGMENTS_MAX;) {
        const uint64_t number = strtoull(entry->d_name, NULL, 10);
        if (strcmp(entry->d_name, segment_name(name, number, false)) == 0)
            segments->list[segments->count++].number = number;
    }
    closedir(directory);
    qsort(segments->list, segments->count, sizeof *segments->list, segment_order);
    if (segments->count > 1) segments_find_older(segments);
    return segments->count > 0;
}
