#include "symbols/perf_map.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* More than any program has been seen to write; what follows is not read. A longer line counts up to
 * its limit. */
enum { LINES_MAX = 1 << 22, LINE_BYTES_MAX = 4096, FILE_BYTES_MAX = 1 << 28 };

static FILE *open_map(const char *path, double since_s)
{
    struct stat status;
    /* O_NONBLOCK: must not wait for the writer of a FIFO. The type is checked before reading. */
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
    FILE *file = NULL;
    if (fd < 0) return NULL;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
        (status.st_uid == 0 || status.st_uid == geteuid()) && (double)status.st_mtime >= since_s)
        file = fdopen(fd, "r");
    if (file == NULL) close(fd);
    return file;
}

/* Adds a line "START SIZE NAME"; ignores others. False: no memory. */
static bool add_line(struct perf_map *map, const char *line, struct strings *strings)
{
    char *at; /* behind what was read */
    const uint64_t begin = strtoull(line, &at, 16);
    const uint64_t bytes = *at == ' ' ? strtoull(at, &at, 16) : 0;
    if (bytes == 0 || *at != ' ' || begin + bytes < begin) return true;
    at += strspn(at, " ");
    /* The line's number is in the high bits, so that a later line wins. */
    const uint64_t of = (uint64_t)map->lines.count << 32 | strings_put(strings, at);
    return code_ranges_add(&map->lines, begin, begin + bytes, of) && !strings->no_memory;
}

/* Reads a line, or as much of it as fits, and adds to *bytes what it takes in the file. A file with
 * a hole has lines of zeros. False: there are no more. */
static bool perf_map_read_line(FILE *file, char line[LINE_BYTES_MAX], uint64_t *bytes)
{
    int next = 0;
    size_t length = 0;
    while (*bytes < FILE_BYTES_MAX && (next = getc_unlocked(file)) != EOF && next != '\n') {
        if (length + 1 < LINE_BYTES_MAX) line[length++] = (char)next;
        ++*bytes;
    }
    line[length] = '\0';
    ++*bytes;
    return length > 0 || next == '\n';
}

bool perf_map_read(struct perf_map *map, const char *path, double since_s, struct strings *strings)
{
    FILE *file = open_map(path, since_s);
    char line[LINE_BYTES_MAX];
    uint64_t bytes = 0;
    bool good = true;
    if (file == NULL) return false;
    while (good && map->lines.count < LINES_MAX && perf_map_read_line(file, line, &bytes))
        good = add_line(map, line, strings);
    fclose(file);
    code_ranges_sort(&map->lines);
    return good;
}

void perf_map_free(struct perf_map *map)
{
    code_ranges_free(&map->lines);
}

uint32_t perf_map_find(const struct perf_map *map, uint64_t address)
{
    const struct code_range *line = code_ranges_find(&map->lines, address);
    return line != NULL ? (uint32_t)line->of : 0;
}
