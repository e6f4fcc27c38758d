/* trial - one simulated program from its options to the verdict.
 *
 *   Options -> Program -> raw file, spool -> postprocess -> decode_instructions() -> check() */
#ifndef TESTS_SIM_TRIAL_H
#define TESTS_SIM_TRIAL_H

#include <cstdint>
#include <string>

#include "tests/sim/instructions.h"
#include "tests/sim/options.h"
#include "tests/sim/truth.h"

struct Setting {
    std::string postprocess; /* the program */
    std::string directory;   /* for `raw`, `raw.spool`, `ordered` and `messages` */
};

/* A finished simulation. */
struct Simulated {
    Truth truth;
    std::string raw, spool; /* `spool` is empty when the process ended well */
    std::string chunks;     /* RawWriter::chunks() */
};
Simulated simulate(const Options &options);

struct Verdict {
    std::string problem; /* empty: everything is right */
    uint64_t calls = 0, sequences = 0, ticks = 0, inversions = 0, raw_bytes = 0;
    bool whole_units = false;
};

/* `mutant`: the name of a way to spoil the result, or nothing. Then *mutated says whether there was
 * a place for it. */
Verdict try_options(const Setting &setting, const Options &options, const std::string &mutant = "",
                    bool *mutated = nullptr);

bool write_file(const std::string &path, const std::string &data);

#endif
