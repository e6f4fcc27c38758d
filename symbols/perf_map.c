#include "symbols/perf_map.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* More lines than any program has been seen to write. */
enum { LINES_MAX = 1 << 22 };

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
static bool add_line(struct perf_map *map, char *line, struct strings *strings)
{
    char *at;
    const uint64_t begin = strtoull(line, &at, 16);
    const uint64_t bytes = *at == ' ' ? strtoull(at, &at, 16) : 0;
    if (bytes == 0 || *at != ' ' || begin + bytes < begin) return true;
    at += strspn(at, " ");
    at[strcspn(at, "\n")] = '\0';
    /* The line's number is in the high bits, so that a later line wins. */
    const uint64_t of = (uint64_t)map->lines.count << 32 | strings_put(strings, at);
    return code_ranges_add(&map->lines, begin, begin + bytes, of) && !strings->no_memory;
}

bool perf_map_read(struct perf_map *map, const char *path, double since_s, struct strings *strings)
{
    FILE *file = open_map(path, since_s);
    char *line = NULL;
    size_t room = 0;
    bool good = true;
    if (file == NULL) return false;
    while (good && map->lines.count < LINES_MAX && getline(&line, &room, file) >= 0)
        good = add_line(map, line, strings);
    free(line);
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
