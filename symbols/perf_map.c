#include "symbols/perf_map.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"

/* More than any program was seen to write. */
enum { LINES_MAX = 1 << 22 };

struct perf_map_line {
    uint64_t begin, end;
    uint32_t name;
    uint32_t number; /* in the file */
};

static FILE *open_map(const char *path, double since_s)
{
    struct stat status;
    /* Not to wait for whoever writes into a FIFO; what it is, is looked at before it is read. */
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
    FILE *file = NULL;
    if (fd < 0) return NULL;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
        (status.st_uid == 0 || status.st_uid == geteuid()) && (double)status.st_mtime >= since_s)
        file = fdopen(fd, "r");
    if (file == NULL) close(fd);
    return file;
}

static int by_place(const void *one, const void *other)
{
    const struct perf_map_line *a = one, *b = other;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* "START SIZE NAME"; false: no memory. What is none is left out. */
static bool add_line(struct perf_map *map, char *line, struct strings *strings)
{
    char *at;
    const uint64_t begin = strtoull(line, &at, 16);
    const uint64_t bytes = *at == ' ' ? strtoull(at, &at, 16) : 0;
    if (bytes == 0 || *at != ' ' || begin + bytes < begin) return true;
    at += strspn(at, " ");
    at[strcspn(at, "\n")] = '\0';
    if (!array_reserve(&map->lines, &map->room, map->count + 1, sizeof *map->lines)) return false;
    map->lines[map->count] = (struct perf_map_line){begin, begin + bytes, strings_put(strings, at),
                                                    (uint32_t)map->count};
    map->count++;
    return !strings->no_memory;
}

bool perf_map_read(struct perf_map *map, const char *path, double since_s, struct strings *strings)
{
    FILE *file = open_map(path, since_s);
    char *line = NULL;
    size_t room = 0;
    bool good = true;
    if (file == NULL) return false;
    while (good && map->count < LINES_MAX && getline(&line, &room, file) >= 0)
        good = add_line(map, line, strings);
    free(line);
    fclose(file);
    if (map->count > 1) qsort(map->lines, map->count, sizeof *map->lines, by_place);
    return good;
}

void perf_map_free(struct perf_map *map)
{
    free(map->lines);
    *map = (struct perf_map){.lines = NULL};
}

uint32_t perf_map_find(const struct perf_map *map, uint64_t address)
{
    size_t low = 0, high = map->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (map->lines[middle].begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && address < map->lines[low - 1].end ? map->lines[low - 1].name : 0;
}
