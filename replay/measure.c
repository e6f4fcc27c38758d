#include "replay/measure.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static double measure_seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/* VmHWM, because getrusage() would include the peak from before exec(). */
static uint64_t measure_peak_rss_bytes(void)
{
    char text[8192];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t bytes = read(fd, text, sizeof text - 1);
    close(fd);
    if (bytes <= 0) return 0;
    text[bytes] = '\0';
    const char *line = strstr(text, "VmHWM:");
    return line != NULL ? strtoull(line + 6, NULL, 10) * 1024 : 0;
}

/* Adds (sign 1) or subtracts (-1) the counters since the start of the process: the difference of
 * two readings is reported. */
static void measure_usage(struct measurement *measurement, int sign)
{
    struct rusage self;
    getrusage(RUSAGE_SELF, &self);
    measurement->user_seconds += sign * measure_seconds_of(self.ru_utime);
    measurement->system_seconds += sign * measure_seconds_of(self.ru_stime);
    measurement->minor_faults += (uint64_t)(sign * self.ru_minflt);
    measurement->major_faults += (uint64_t)(sign * self.ru_majflt);
}

/* The same of children that have ended. */
static void measure_reading(struct measurement *measurement, int sign)
{
    struct rusage children;
    getrusage(RUSAGE_CHILDREN, &children);
    measurement->reading_seconds +=
        sign * (measure_seconds_of(children.ru_utime) + measure_seconds_of(children.ru_stime));
}

void measure_begin(struct measurement *measurement)
{
    *measurement = (struct measurement){.started_ns = measure_now_ns()};
    measure_reading(measurement, -1);
    measure_usage(measurement, -1);
}

/* What the system counts since the process began, it can be asked to count from now on. */
static void measure_forget_peak(void)
{
    const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (write(fd, "5", 1) < 0) { /* an old kernel: the peak may be that of the base */
    }
    close(fd);
}

void measure_restart(struct measurement *measurement)
{
    const uint64_t base_rss_bytes = measurement->base_rss_bytes;
    const uint64_t base_net_bytes = measurement->base_net_bytes;
    const double reading_seconds = measurement->reading_seconds;
    *measurement = (struct measurement){.started_ns = measure_now_ns(),
                                        .base_rss_bytes = base_rss_bytes,
                                        .base_net_bytes = base_net_bytes,
                                        .reading_seconds = reading_seconds};
    measure_forget_peak();
    measure_usage(measurement, -1);
}

void measure_end(struct measurement *measurement)
{
    measurement->elapsed_ns = measure_now_ns() - measurement->started_ns;
    measure_usage(measurement, 1);
}

void measure_end_of_reading(struct measurement *measurement)
{
    measure_reading(measurement, 1);
    measurement->peak_rss_bytes = measure_peak_rss_bytes();
}
