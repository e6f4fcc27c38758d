#include "replay/engine_auto.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replay/lane_shares.h"

enum { SWITCH, THREADS };

/* Returns SWITCH for a stream that cannot be read: the replay will say what is wrong with it. */
static int count_lanes(const char *file)
{
    static struct instruction_reader reader;
    struct input input;
    struct lane_shares shares;
    struct instruction_batch batch;
    struct error error = {0};
    if (!input_open(&input, file) || !instruction_reader_open(&reader, &input) ||
        !lane_shares_open(&shares, &error))
        return SWITCH;
    instruction_reader_use_indices(&reader);
    while (instruction_reader_next(&reader, &batch))
        lane_shares_add(&shares, &batch);
    return lane_shares_engine(&shares) == &engine_threads ? THREADS : SWITCH;
}

const struct engine *engine_auto(const char *file)
{
    struct stat status;
    int ended;
    if (file == NULL || stat(file, &status) != 0 || !S_ISREG(status.st_mode)) return NULL;
    const pid_t child = _Fork();
    if (child == 0) _exit(count_lanes(file));
    while (child > 0 && waitpid(child, &ended, 0) < 0)
        if (errno != EINTR) return &engine_switch;
    const bool threads = child > 0 && WIFEXITED(ended) && WEXITSTATUS(ended) == THREADS;
    return threads ? &engine_threads : &engine_switch;
}
