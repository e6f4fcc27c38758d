#include "common/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SECONDS_BEFORE_FIRST 1.0
#define SECONDS_BETWEEN      0.25

/* No percentage is shown for smaller files: most may have been read when little has been done. */
#define FILE_BYTES_MIN (1 << 20)

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Does not use stdio, which would allocate a buffer. */
static void line_write(const char *text)
{
    char line[512];
    int bytes = snprintf(line, sizeof line, "\r%s\033[K", text);
    if (bytes >= (int)sizeof line) bytes = (int)sizeof line - 1;
    if (write(STDERR_FILENO, line, (size_t)bytes) < 0) return; /* then without */
}

void progress_text(const char *text)
{
    if (isatty(STDERR_FILENO) == 1) line_write(text);
}

void progress_open(struct progress *progress, const char *program, const char *unit, int input,
                   bool wanted)
{
    struct stat file;
    *progress = (struct progress){.program = program,
                                  .unit = unit,
                                  .enabled = wanted && isatty(STDERR_FILENO) == 1,
                                  .started_s = seconds_now()};
    progress->next_s = progress->started_s + SECONDS_BEFORE_FIRST;
    if (fstat(input, &file) == 0 && S_ISREG(file.st_mode) && file.st_size >= FILE_BYTES_MIN)
        progress->file_bytes = (uint64_t)file.st_size;
}

void progress_show(struct progress *progress, uint64_t done, uint64_t bytes_read)
{
    char text[256];
    double now = progress->enabled ? seconds_now() : 0;
    if (!progress->enabled || now < progress->next_s) return;
    double seconds = now - progress->started_s;
    int bytes = snprintf(text, sizeof text, "%s: %.1f M %s/s", progress->program,
                         (double)done / seconds / 1e6, progress->unit);
    if (bytes_read > 0 && bytes_read <= progress->file_bytes) {
        double share = (double)bytes_read / (double)progress->file_bytes;
        snprintf(text + bytes, sizeof text - (size_t)bytes, ", %.0f %%, %.0f s left", share * 100,
                 seconds / share - seconds);
    }
    line_write(text);
    progress->next_s = now + SECONDS_BETWEEN;
    progress->shown = true;
}

void progress_close(struct progress *progress)
{
    if (progress->shown) line_write("");
    progress->shown = false;
}
