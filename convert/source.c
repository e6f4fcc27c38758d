#include "convert/source.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/output.h"
#include "convert/convert_files.h"

const struct error_kind source_errors[] = {SOURCE_ERROR_LIST(ERROR_LIST_KIND)};

enum { BUFFER_BYTES = 4 * SOURCE_PEEK_MAX, READ_BYTES = 128 * 1024 };

/* ---- opening ---- */

static bool archive_fail(struct source *source)
{
    const char *text = archive_error_string(source->archive);
    source->ended = true;
    return error_set(&source->error, &source_errors[SOURCE_PACKED], ERROR_NO_OFFSET, "%s",
                     text != NULL ? text : "no memory");
}

static bool archive_begin(struct source *source)
{
    struct archive *archive = source->archive = archive_read_new();
    struct archive_entry *entry;
    if (archive == NULL) return error_set_system(&source->error, "no memory");
    archive_read_support_filter_lz4(archive);
    archive_read_support_filter_gzip(archive);
    archive_read_support_filter_zstd(archive);
    archive_read_support_filter_xz(archive);
    archive_read_support_filter_bzip2(archive);
    archive_read_support_format_zip(archive);
    archive_read_support_format_raw(archive);
    archive_read_support_format_empty(archive);
    if (archive_read_open_fd(archive, source->fd, READ_BYTES) != ARCHIVE_OK)
        return archive_fail(source);
    int status;
    do
        status = archive_read_next_header(archive, &entry);
    while (status == ARCHIVE_OK && archive_entry_filetype(entry) == AE_IFDIR);
    if (status == ARCHIVE_EOF) source->ended = true;
    return status == ARCHIVE_EOF || status == ARCHIVE_OK || archive_fail(source);
}

bool source_open(struct source *source, const char *path)
{
    *source = (struct source){.fd = -1};
    source->by_name = strcmp(path, "-") != 0;
    source->fd = source->by_name ? open(path, O_RDONLY | O_CLOEXEC) : dup(STDIN_FILENO);
    if (source->fd < 0) return error_set_system(&source->error, "cannot open");
    source->buffer = malloc(BUFFER_BYTES);
    if (source->buffer == NULL) return error_set_system(&source->error, "no memory");
    source->next = source->end = source->buffer;
    return archive_begin(source);
}

void source_open_memory(struct source *source, const uint8_t *data, size_t bytes)
{
    *source = (struct source){
        .fd = -1, .next = data, .end = data + bytes, .end_offset = bytes, .ended = true};
}

void source_close(struct source *source)
{
    if (source->archive != NULL) archive_read_free(source->archive);
    if (source->map != NULL) munmap(source->map, source->map_bytes);
    if (source->fd >= 0) close(source->fd);
    free(source->buffer);
    *source = (struct source){.fd = -1, .ended = true};
}

/* ---- reading ---- */

/* After the data: a zip must hold one file only. */
static void archive_end(struct source *source)
{
    struct archive_entry *entry;
    source->ended = true;
    while (archive_format(source->archive) != ARCHIVE_FORMAT_RAW &&
           archive_read_next_header(source->archive, &entry) == ARCHIVE_OK)
        if (archive_entry_filetype(entry) != AE_IFDIR) {
            error_set(&source->error, &source_errors[SOURCE_FILES], ERROR_NO_OFFSET, "%s",
                      archive_entry_pathname(entry));
            return;
        }
}

static void fill(struct source *source)
{
    size_t there = (size_t)(source->end - source->next);
    memmove(source->buffer, source->next, there);
    source->next = source->buffer;
    ssize_t more = archive_read_data(source->archive, source->buffer + there, BUFFER_BYTES - there);
    if (more < 0) archive_fail(source);
    if (more == 0) archive_end(source);
    size_t got = more > 0 ? (size_t)more : 0;
    source->end = source->buffer + there + got;
    source->end_offset += got;
}

size_t source_peek(struct source *source, size_t bytes)
{
    while ((size_t)(source->end - source->next) < bytes && !source->ended)
        fill(source);
    return (size_t)(source->end - source->next);
}

bool source_line(struct source *source, struct fields *line)
{
    size_t searched = 0, there = source_peek(source, 1);
    const uint8_t *newline = NULL;
    source->line++;
    while (there > searched) {
        newline = memchr(source->next + searched, '\n', there - searched);
        if (newline != NULL || there > SOURCE_LINE_MAX) break;
        searched = there;
        there = source_peek(source, there + 1);
    }
    size_t bytes = newline != NULL ? (size_t)(newline - source->next) : there;
    if (bytes > SOURCE_LINE_MAX)
        return source_bad_line(source, "longer than %u bytes: this is not text", SOURCE_LINE_MAX);
    if (there == 0 || error_is_set(&source->error)) return false;
    line->at = (const char *)source->next;
    line->end = line->at + bytes;
    if (line->end > line->at && line->end[-1] == '\r') line->end--;
    source_skip(source, bytes + (newline != NULL));
    return true;
}

/* ---- all of it at once ---- */

static bool is_plain_file(const struct source *source, size_t *bytes)
{
    struct stat status;
    if (!source->by_name || archive_format(source->archive) != ARCHIVE_FORMAT_RAW ||
        archive_filter_code(source->archive, 0) != ARCHIVE_FILTER_NONE)
        return false;
    if (fstat(source->fd, &status) != 0 || !S_ISREG(status.st_mode)) return false;
    *bytes = (size_t)status.st_size;
    return true;
}

/* Writes the rest into a file without a name. */
static bool source_unpack(struct source *source, int fd, size_t *bytes)
{
    struct output output;
    size_t there;
    bool good = output_open_fd(&output, fd);
    while (good && (there = source_peek(source, 1)) > 0) {
        good = output_write(&output, source->next, there);
        source_skip(source, there);
    }
    *bytes = (size_t)output.offset;
    if (!output_close(&output)) error_set_system(&source->error, "cannot write a temporary file");
    return !error_is_set(&source->error);
}

static bool map_file(struct source *source, int fd, size_t bytes, size_t skipped)
{
    if (bytes == 0) return true;
    void *map = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) return error_set_system(&source->error, "cannot map");
    source->map = map;
    source->map_bytes = bytes;
    source->next = (uint8_t *)map + skipped;
    source->end = (uint8_t *)map + bytes;
    return true;
}

bool source_map(struct source *source)
{
    size_t bytes = 0, skipped = (size_t)source_offset(source);
    if (source->archive == NULL) return true;
    if (is_plain_file(source, &bytes) && skipped <= bytes) {
        source->ended = true;
        source->end_offset = bytes;
        return map_file(source, source->fd, bytes, skipped);
    }
    int fd = file_temporary(&source->error);
    if (fd < 0) return false;
    bytes = 0;
    bool good = source_unpack(source, fd, &bytes) && map_file(source, fd, bytes, 0);
    close(fd);
    return good;
}

void source_forget(struct source *source)
{
    if (source->map != NULL) madvise(source->map, source->map_bytes, MADV_DONTNEED);
}

/* ---- mistakes ---- */

bool source_bad_line(struct source *source, const char *message, ...)
{
    char text[200];
    va_list arguments;
    va_start(arguments, message);
    vsnprintf(text, sizeof text, message, arguments);
    va_end(arguments);
    return error_set(&source->error, &source_errors[SOURCE_LINE], ERROR_NO_OFFSET,
                     "line %" PRIu64 ": %s", source->line, text);
}

bool source_bad_bytes(struct source *source, uint64_t offset, const char *message, ...)
{
    char text[200];
    va_list arguments;
    va_start(arguments, message);
    vsnprintf(text, sizeof text, message, arguments);
    va_end(arguments);
    return error_set(&source->error, &source_errors[SOURCE_BYTES], offset, "%s", text);
}
