#include "tests/sim/options.h"

#include <algorithm>
#include <cstdlib>

#include "tests/sim/random.h"

static void choose_program(Options &o, Random &r)
{
    o.threads = std::max<uint64_t>(2, r.of_bits(6) + 1);
    o.slots = 1 + r.of_bits(9);
    o.classes = r.between(1, 40);
    o.batch = r.one_in(3) ? r.between(1, 3) : r.between(2, 32);
    o.cache_batches = r.between(1, 3);
    o.burst = 1 + r.of_bits(9);
    o.preempt = !r.one_in(4);
    o.stall = r.one_in(8);
    o.sequences = !r.one_in(10);
    o.kinds = !r.one_in(3);
    o.large = r.one_in(2);
    o.odd_sizes = r.one_in(6);
    o.share = r.one_in(3) ? 0 : r.between(1, 40);
    o.queue = r.one_in(3) ? 0 : r.between(1, 40);
    o.mail = r.one_in(3) ? 0 : r.between(1, 40);
    o.pingpong = r.one_in(3) ? 0 : r.between(1, 40);
    o.relay = r.one_in(3) ? 0 : r.between(1, 20);
    o.own = r.one_in(5) ? 1 : r.between(10, 100);
}

static void choose_calls(Options &o, Random &r)
{
    o.reallocs = r.one_in(4) ? 0 : r.between(2, 100);
    o.failures = r.one_in(2) ? 0 : r.between(10, 1000);
    o.heap_calls = r.one_in(2) ? 0 : r.between(50, 1000);
    o.exits = r.one_in(3) ? 0 : r.between(50, 20000);
}

static void choose_recording(Options &o, Random &r)
{
    static const uint64_t ends[] = {0, 0, 0, 0, 1, 1, 2, 3, 3, 4};
    o.tick_every = r.one_in(8) ? 0 : 200 + r.of_bits(15);
    o.tick_skew = r.one_in(3) ? 0 : r.between(1, 300);
    o.cut_every = r.one_in(4) ? 0 : 10 + r.of_bits(12);
    o.unknown = r.one_in(3) ? r.between(1, 5000) : 0;
    o.pauses = r.one_in(6) ? r.between(1, 5) : 0;
    o.losses = r.one_in(6) ? r.between(1, 20) : 0;
    o.end = ends[r.below(sizeof ends / sizeof ends[0])];
    o.addresses = r.one_in(4);
    o.slot_units = (4096 * r.between(1, 16) - 64) / 2;
    o.packed = r.one_in(2);
    o.frames = r.one_in(3);
    if (o.stall != 0 && r.one_in(2)) o.stall = 2;
    o.opaque = r.one_in(3);
    if (o.opaque != 0) o.sequences = 1;
    o.split = r.one_in(2);
    o.stacks = r.one_in(3);
    if (o.stacks != 0 && r.one_in(2)) o.stacks = 2;
    o.maps = r.one_in(2) ? 20 + r.of_bits(12) : 0;
}

Options Options::of_seed(uint64_t seed, uint64_t events)
{
    Options options;
    Random random(seed);
    options.seed = seed;
    options.events = events;
    choose_program(options, random);
    choose_calls(options, random);
    choose_recording(options, random);
    return options;
}

bool Options::set(const std::string &text)
{
    size_t equals = text.find('=');
    if (equals == std::string::npos || equals + 1 == text.size()) return false;
    std::string key = text.substr(0, equals);
    char *rest;
    uint64_t value = strtoull(text.c_str() + equals + 1, &rest, 10);
    if (*rest != '\0') return false;
#define SIM_OPTION_SET(name, initial, what) \
    if (key == #name) {                     \
        name = value;                       \
        return true;                        \
    }
    SIM_OPTION_LIST(SIM_OPTION_SET)
#undef SIM_OPTION_SET
    return false;
}

std::string Options::words() const
{
    Options usual = of_seed(seed, events);
    std::string words = "seed=" + std::to_string(seed) + " events=" + std::to_string(events);
#define SIM_OPTION_WORD(name, initial, what) \
    if (name != usual.name) words += " " #name "=" + std::to_string(name);
    SIM_OPTION_LIST(SIM_OPTION_WORD)
#undef SIM_OPTION_WORD
    return words;
}

std::string options_help()
{
    std::string text;
#define SIM_OPTION_HELP(name, initial, what) \
    text += "  " #name "=N" +                \
            std::string(std::max<int>(1, 15 - static_cast<int>(sizeof #name)), ' ') + what + "\n";
    SIM_OPTION_LIST(SIM_OPTION_HELP)
#undef SIM_OPTION_HELP
    return text;
}
