/* make_raw - writes a raw event stream of a simulated program to the standard output.
 *
 *     make_raw [seed=N] [lanes=N] [steps=N] [slots=N] [shared=N] [share_every=N] [tick_every=N]
 *              [reallocs=N] [central=0|1] [cuts=0|1] [end=0|1] */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/raw_simulator.h"

static bool take(const char *argument, const char *name, uint64_t *value)
{
    size_t length = strlen(name);
    if (strncmp(argument, name, length) != 0 || argument[length] != '=') return false;
    *value = strtoull(argument + length + 1, nullptr, 0);
    return true;
}

int main(int argc, char **argv)
{
    RawSimulator::Options options;
    uint64_t seed = 1, lanes = 2, steps = 10000, slots = 100, shared = 64, share_every = 16;
    uint64_t tick_every = 2000, reallocs = 20, central = 1, cuts = 1, end = 1;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (!take(a, "seed", &seed) && !take(a, "lanes", &lanes) && !take(a, "steps", &steps) &&
            !take(a, "slots", &slots) && !take(a, "shared", &shared) &&
            !take(a, "share_every", &share_every) && !take(a, "tick_every", &tick_every) &&
            !take(a, "reallocs", &reallocs) && !take(a, "central", &central) &&
            !take(a, "cuts", &cuts) && !take(a, "end", &end)) {
            fprintf(stderr, "make_raw: what is '%s'?\n", a);
            return 2;
        }
    }
    options.seed = seed;
    options.lanes = static_cast<uint32_t>(lanes);
    options.steps = steps;
    options.slots = static_cast<uint32_t>(slots);
    options.shared_slots = static_cast<uint32_t>(shared);
    options.share_every = static_cast<uint32_t>(share_every);
    options.tick_every = static_cast<uint32_t>(tick_every);
    options.reallocs = static_cast<uint32_t>(reallocs);
    options.central = central != 0;
    options.random_cuts = cuts != 0;
    RawSimulator simulator(options);
    if (end != 0)
        simulator.raw.end();
    else
        simulator.raw.cut_all();
    const std::string &bytes = simulator.raw.bytes;
    return fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size() && fflush(stdout) == 0 ? 0
                                                                                                : 1;
}
