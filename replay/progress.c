#include "replay/progress.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/options.h"

#define PROGRESS_FIRST_NS UINT64_C(1000000000)
#define PROGRESS_EVERY_NS UINT64_C(500000000)

/* Of less than this most may have been read when little has been carried out. */
#define PROGRESS_FILE_BYTES (4 << 20)

void progress_open(struct progress *progress, const struct input *input, bool wanted,
                   uint64_t now_ns)
{
    struct stat file;
    *progress = (struct progress){.wanted = wanted && isatty(STDERR_FILENO) == 1,
                                  .started_ns = now_ns,
                                  .next_ns = now_ns + PROGRESS_FIRST_NS};
    if (progress->wanted && fstat(input->fd, &file) == 0 && S_ISREG(file.st_mode) &&
        file.st_size >= PROGRESS_FILE_BYTES)
        progress->file_bytes = (uint64_t)file.st_size;
}

/* Not through stdio, which would ask for a buffer. */
static void progress_write(const char *text, int bytes)
{
    if (write(STDERR_FILENO, text, (size_t)bytes) < 0) return; /* then without */
}

void progress_show(struct progress *progress, uint64_t file_offset, uint64_t events,
                   uint64_t now_ns)
{
    char text[160];
    if (!progress->wanted || now_ns < progress->next_ns) return;
    progress->next_ns = now_ns + PROGRESS_EVERY_NS;
    progress->shown = true;
    double seconds = (double)(now_ns - progress->started_ns) / 1e9;
    double millions = (double)events / 1e6;
    int bytes = snprintf(text, sizeof text, "\r" REPLAY_PROGRAM ": %.1f M events, %.1f M/s",
                         millions, millions / seconds);
    if (progress->file_bytes > 0 && file_offset > 0 && file_offset <= progress->file_bytes) {
        double share = (double)file_offset / (double)progress->file_bytes;
        bytes += snprintf(text + bytes, sizeof text - (size_t)bytes, ", %.0f %%, %.0f s left",
                          share * 100, seconds / share - seconds);
    }
    bytes += snprintf(text + bytes, sizeof text - (size_t)bytes, "\x1b[K");
    progress_write(text, bytes);
}

void progress_close(struct progress *progress)
{
    static const char clear[] = "\r\x1b[K";
    if (progress->shown) progress_write(clear, sizeof clear - 1);
}
