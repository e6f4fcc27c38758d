#include "postprocess/progress.h"

#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SECONDS_BEFORE_FIRST 1.0
#define SECONDS_BETWEEN      0.2

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void progress_start(struct progress *progress, int fd, bool quiet)
{
    struct stat status;
    *progress = (struct progress){.enabled = !quiet && isatty(STDERR_FILENO)};
    progress->start = seconds_now();
    progress->latest = progress->start + SECONDS_BEFORE_FIRST - SECONDS_BETWEEN;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        progress->bytes_total = (uint64_t)status.st_size;
}

void progress_show(void *context, uint64_t bytes_in, uint64_t instructions)
{
    struct progress *progress = context;
    double now = progress->enabled ? seconds_now() : 0;
    if (!progress->enabled || now - progress->latest < SECONDS_BETWEEN) return;
    double seconds = now - progress->start;
    double done = progress->bytes_total > 0 ? (double)bytes_in / (double)progress->bytes_total : 0;
    fprintf(stderr, "\r");
    if (done > 0) fprintf(stderr, "%4.0f %%", 100 * done);
    fprintf(stderr, "  %.1f M instructions/s", (double)instructions / seconds / 1e6);
    if (done > 0) fprintf(stderr, "  %.0f s left", seconds / done - seconds);
    fprintf(stderr, "\033[K");
    fflush(stderr);
    progress->latest = now;
    progress->shown = true;
}

void progress_end(struct progress *progress)
{
    if (progress->shown) fprintf(stderr, "\r\033[K");
    progress->shown = false;
}
