#include "tests/sim/shrink.h"

#include <vector>

namespace {

struct Shrinker {
    Options options;
    const std::function<bool(const Options &)> &fails;

    bool attempt(uint64_t Options::*field, uint64_t value)
    {
        if (options.*field == value) return false;
        Options smaller = options;
        smaller.*field = value;
        if (!fails(smaller)) return false;
        options = smaller;
        return true;
    }

    /* Towards `least`, by halves and then by ones. */
    bool lower(uint64_t Options::*field, uint64_t least)
    {
        bool any = false;
        while (options.*field > least && attempt(field, least + (options.*field - least) / 2))
            any = true;
        for (int i = 0; i < 8 && options.*field > least && attempt(field, options.*field - 1); i++)
            any = true;
        return any;
    }
};

} // namespace

Options shrink(Options options, const std::function<bool(const Options &)> &fails)
{
    static uint64_t Options::*const features[] = {
        &Options::frames,     &Options::packed,    &Options::addresses, &Options::odd_sizes,
        &Options::large,      &Options::kinds,     &Options::failures,  &Options::heap_calls,
        &Options::exits,      &Options::reallocs,  &Options::losses,    &Options::pauses,
        &Options::unknown,    &Options::stall,     &Options::preempt,   &Options::sequences,
        &Options::tick_every, &Options::tick_skew, &Options::cut_every, &Options::end,
        &Options::share,      &Options::queue,     &Options::mail,      &Options::pingpong,
        &Options::relay};
    Shrinker shrinker = {options, fails};
    for (bool again = true; again;) {
        again = shrinker.lower(&Options::events, 1);
        again |= shrinker.lower(&Options::threads, 1);
        for (auto feature : features)
            again |= shrinker.attempt(feature, 0);
        again |= shrinker.lower(&Options::slots, 1);
        again |= shrinker.lower(&Options::classes, 1);
        again |= shrinker.lower(&Options::batch, 1);
    }
    return shrinker.options;
}
