/* instructions - an instruction stream, decoded from INSTRUCTIONS.md alone.
 *
 * Shares no code with the product's reader. Everything is kept: the checker goes over it more than
 * once. */
#ifndef TESTS_SIM_INSTRUCTIONS_H
#define TESTS_SIM_INSTRUCTIONS_H

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/sim/truth.h"

constexpr uint32_t kNoRegister = UINT32_MAX;

enum InstructionNumber : uint8_t {
    kLane = 48,
    kInsThreadBegin = 49,
    kInsThreadEnd = 50,
    kInsThreadCacheDeleted = 51,
    kInsTick = 52,
    kInsLost = 53,
    kInsFreedTwice = 54,
    kInsUsage = 55,
    kInsStatistic = 56,
    kInsTouched = 60
};

struct Instruction {
    uint8_t number = 0;
    bool failed = false, unknown = false;
    uint8_t count = 0; /* of operands */
    uint32_t lane = 0;
    uint32_t object = kNoRegister; /* that ends, stays or begins */
    uint64_t size = 0, address = 0;
    uint32_t stack = 0;
    uint64_t operands[4] = {0, 0, 0, 0}; /* of `misc`, without the count */
    bool has_usage = false;              /* of a tick */
    uint64_t usage[4] = {0, 0, 0, 0};
    uint64_t statistics[4] = {0, 0, 0, 0}; /* of a tick; the simulator has no more */
    std::vector<uint64_t> touched;         /* before a call */
};

struct Instructions {
    uint64_t features = 0, info = 0;
    std::map<std::string, std::string> metadata;
    std::vector<Passed> passed;                              /* windows: ticks before */
    std::vector<Instruction> all;                            /* `lane` instructions excepted */
    std::map<uint32_t, std::pair<uint32_t, uint32_t>> nodes; /* parent and code */
    std::map<uint32_t, uint64_t> codes;                      /* offsets in module 1 */
    uint64_t status = 0, live = 0, registers = 0, threads = 0, lost = 0,
             freed_twice = 0; /* counted */
    uint64_t kinds[48] = {};
    uint64_t most_live = 0; /* counted, as is: */
    uint64_t live_counted = 0;
};

/* Throws std::runtime_error with the offset where something is not as the document has it. */
Instructions decode_instructions(const std::string &stream);

#endif
