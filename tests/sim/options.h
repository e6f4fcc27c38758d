/* options - what a simulation is like. A seed decides everything; each option can then be set by
 * name, which is how failures are made smaller:
 *
 *     simulate seed=17 threads=2 events=500 preempt=0
 *
 * Every option is a number; flags are 0 or 1. The list below is the only place that knows them
 * all. */
#ifndef TESTS_SIM_OPTIONS_H
#define TESTS_SIM_OPTIONS_H

#include <cstdint>
#include <string>

/* X(name, default before the seed decides, what) */
#define SIM_OPTION_LIST(X)                                                                        \
    X(seed, 1, "of everything random")                                                            \
    X(threads, 2, "that live at once, 1 to 64")                                                   \
    X(events, 20000, "calls to make, at least")                                                   \
    X(slots, 50, "objects a thread holds for itself")                                             \
    X(classes, 8, "small size classes, 1 to 40")                                                  \
    X(batch, 8, "objects a cache fetches or returns at once")                                     \
    X(cache_batches, 2, "batches of a class that a cache keeps")                                  \
    X(burst, 20, "steps before another thread runs, about")                                       \
    X(preempt, 1, "threads are also stopped in the middle of calls")                              \
    X(stall, 0, "and for several windows; 2: more than once in a call")                           \
    X(tick_every, 2000, "steps; 0: no ticks")                                                     \
    X(tick_skew, 30, "steps while the lanes of one tick are cut, at most")                        \
    X(cut_every, 500, "steps between other cuts of a lane, about; 0: none")                       \
    X(sequences, 1, "the allocator has shared structures")                                        \
    X(opaque, 0, "and nothing is known of them (FORMAT.md 2.7)")                                  \
    X(split, 0, "which splits and merges the memory of objects, if nothing is known of it")       \
    X(kinds, 1, "all kinds of calls, not only malloc and free")                                   \
    X(large, 1, "some objects are larger than any class")                                         \
    X(odd_sizes, 0, "sizes and alignments of any magnitude")                                      \
    X(reallocs, 10, "one action in so many reallocates; 0: none")                                 \
    X(failures, 100, "one action in so many fails; 0: none")                                      \
    X(heap_calls, 300, "one action in so many is heap-wide; 0: none")                             \
    X(exits, 2000, "one action in so many ends its thread; 0: none")                              \
    X(share, 10, "weight: objects are exchanged through a pool of all threads")                   \
    X(queue, 10, "weight: objects go through one queue")                                          \
    X(mail, 10, "weight: objects go to one other thread, which frees them")                       \
    X(pingpong, 10, "weight: two threads free and make one object in turn")                       \
    X(relay, 5, "weight: objects go on to a third thread")                                        \
    X(own, 40, "weight: a thread makes and frees its own")                                        \
    X(unknown, 0, "calls before recording begins")                                                \
    X(pauses, 0, "recording is interrupted so often")                                             \
    X(stacks, 0, "most calls have call stacks: 1 allocations, 2 frees, too")                      \
    X(maps, 0, "one step in so many is a mapping call, or a look at what is resident; 0: none")   \
    X(losses, 0, "so often a lane loses records")                                                 \
    X(long_losses, 0, "and for more than a window")                                               \
    X(end, 0, "0 complete, 1 stopped while threads run, 2 cut, 3 killed, with a spool, 4 status") \
    X(addresses, 0, "addresses are recorded")                                                     \
    X(slot_units, 2016, "units of a slot; a spool's slots are 64 bytes more")                     \
    X(packed, 1, "some chunks are packed")                                                        \
    X(frames, 0, "the file has LZ4 frames")                                                       \
    X(fault, 0, "the recording is wrong, see faults.h")

struct Options {
#define SIM_OPTION_FIELD(name, initial, what) uint64_t name = (initial);
    SIM_OPTION_LIST(SIM_OPTION_FIELD)
#undef SIM_OPTION_FIELD

    /* What this seed stands for, with about so many events. */
    static Options of_seed(uint64_t seed, uint64_t events);

    /* From "name=value". False: there is no such option, or no number. */
    bool set(const std::string &text);

    /* The words that make these options out of those of the seed. */
    std::string words() const;
};

/* For --help. */
std::string options_help();

#endif
