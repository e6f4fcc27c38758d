/* prefix - how much of an order is still there when the recording was damaged. */
#ifndef TESTS_SIM_PREFIX_H
#define TESTS_SIM_PREFIX_H

#include <cstdint>
#include <string>
#include <vector>

#include "tests/sim/instructions.h"

struct Prefix {
    uint64_t instructions = 0; /* that are the same from the beginning, register for register */
    uint64_t ticks = 0;        /* among them */
    /* Each lane has the beginning of what it had, about the same objects or unknown ones. */
    bool lanes_agree = true;
    std::vector<uint64_t> lanes; /* instructions of each */
};

/* `part` is the order of a damaged recording, `full` that of the whole one. */
Prefix common_prefix(const Instructions &full, const Instructions &part);

/* The same for two files, as text: "same N ticks N lanes N,N,... agree" or "... disagree". Throws
 * what decode_instructions() throws, or when a file cannot be read. */
std::string compare_prefix(const std::string &full_path, const std::string &part_path);

#endif
