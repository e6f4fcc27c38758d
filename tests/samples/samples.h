/* samples - small streams of both formats, by name, for tests that read files.
 *
 * Names begin with the format. Those of *_bad_* must be refused by every reader; *_cut ends without
 * an end. verify_* are recordings, and orders of them, right and wrong. */
#ifndef TESTS_SAMPLES_SAMPLES_H
#define TESTS_SAMPLES_SAMPLES_H

#include <functional>
#include <string>
#include <vector>

struct Sample {
    std::string name;
    std::function<std::string()> write;
};
using Samples = std::vector<Sample>;

void add_raw_samples(Samples *samples);
void add_bad_raw_samples(Samples *samples);
void add_instruction_samples(Samples *samples);
void add_verify_samples(Samples *samples);

/* Payloads of mappings and of residency (FORMAT.md 4.5, 4.6), with everything that may be in them. */
constexpr uint64_t kMappingRecords = 12;
std::string mapping_records();
std::string residency_areas();

#endif
