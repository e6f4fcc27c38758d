/* simulate - tests ordering with programs that never were.
 *
 *     simulate [OPTION]... [seed=N] [name=N]...
 *
 *     --seeds=FIRST-LAST   that many programs; a total at the end
 *     --postprocess=FILE   the program under test; bin/postprocess if not given
 *     --directory=DIR      where files go; they stay. Else a temporary one
 *     --mutant=NAME        spoils each result, which must then be found out; or each recording
 *                          (faults.h), which must be found out once; "all": each in turn
 *     --no-shrink          does not make failures smaller
 *     --write              only writes DIR/raw, perhaps DIR/raw.spool, and DIR/chunks
 *                          (raw_writer.h)
 *     --compare=FULL,PART  how much of the order in FULL is in PART (prefix.h)
 *     --help               the list of names
 *
 * A failure is made smaller and printed with the command that repeats it. Exit status: 0 all is
 * right, 1 it is not, 2 wrong options. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/sim/faults.h"
#include "tests/sim/mutants.h"
#include "tests/sim/prefix.h"
#include "tests/sim/shrink.h"
#include "tests/sim/trial.h"

namespace {

struct Command {
    Setting setting = {"bin/postprocess", ""};
    uint64_t first = 1, last = 1, events = 20000;
    bool write = false, quiet = false, shrinks = true;
    std::string mutant, compare;
    std::vector<std::string> words; /* name=N */
};

struct Sum {
    uint64_t seeds = 0, failed = 0, calls = 0, sequences = 0, ticks = 0, bytes = 0;
    uint64_t threads_least = UINT64_MAX, threads_most = 0;
    uint64_t inversions = 0, whole_inversions = 0;
    uint64_t mutants = 0, mutants_found = 0;
    uint64_t fault_found[kFaults] = {};
    bool fault_tried[kFaults] = {};
};

const char *const fault_names[] = {"",
#define SIM_FAULT_NAME(identifier, name) name,
                                   SIM_FAULT_LIST(SIM_FAULT_NAME)
#undef SIM_FAULT_NAME
};

const char *value_of(const char *word, const char *name)
{
    size_t length = strlen(name);
    return strncmp(word, name, length) == 0 && word[length] == '=' ? word + length + 1 : nullptr;
}

int usage(const char *problem)
{
    fprintf(stderr, "simulate: %s\nTry 'simulate --help'.\n", problem);
    return 2;
}

bool parse_seeds(const char *text, Command &command)
{
    char *end;
    command.first = command.last = strtoull(text, &end, 10);
    if (*end == '-') command.last = strtoull(end + 1, &end, 10);
    return *end == '\0' && command.first <= command.last;
}

/* -1 to go on, or an exit status. */
int parse(int argc, char **argv, Command &command)
{
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *value;
        if ((value = value_of(word, "--seeds")) != nullptr ||
            (value = value_of(word, "seed")) != nullptr) {
            if (!parse_seeds(value, command)) return usage("a seed is a number");
        } else if ((value = value_of(word, "--postprocess")) != nullptr) {
            command.setting.postprocess = value;
        } else if ((value = value_of(word, "--directory")) != nullptr) {
            command.setting.directory = value;
        } else if ((value = value_of(word, "--mutant")) != nullptr) {
            command.mutant = value;
        } else if ((value = value_of(word, "events")) != nullptr) {
            command.events = strtoull(value, nullptr, 10);
        } else if ((value = value_of(word, "--compare")) != nullptr) {
            command.compare = value;
        } else if (strcmp(word, "--write") == 0) {
            command.write = true;
        } else if (strcmp(word, "--no-shrink") == 0) {
            command.shrinks = false;
        } else if (strcmp(word, "--quiet") == 0) {
            command.quiet = true;
        } else if (strcmp(word, "--help") == 0) {
            printf("Usage: simulate [OPTION]... [seed=N] [name=N]...\n\n%s\nMutants:\n",
                   options_help().c_str());
            for (const std::string &name : mutant_names())
                printf("  %s\n", name.c_str());
            printf("Faults, as mutants, or as fault=N:\n");
            for (unsigned fault = 1; fault < kFaults; fault++)
                printf("  %s (%u)\n", fault_names[fault], fault);
            return 0;
        } else {
            Options options;
            if (!options.set(word)) return usage((std::string("what is '") + word + "'?").c_str());
            command.words.push_back(word);
        }
    }
    return -1;
}

Options options_of(const Command &command, uint64_t seed)
{
    Options options = Options::of_seed(seed, command.events);
    for (const std::string &word : command.words)
        options.set(word);
    return options;
}

void report_failure(const Command &command, const Options &options, const Verdict &verdict)
{
    printf("seed %llu fails: %s\n", static_cast<unsigned long long>(options.seed),
           verdict.problem.c_str());
    fflush(stdout);
    if (!command.shrinks) return;
    uint64_t attempts = 0;
    Options smallest = shrink(options, [&](const Options &smaller) {
        return ++attempts < 400 && !try_options(command.setting, smaller).problem.empty();
    });
    Verdict last = try_options(command.setting, smallest);
    printf("smallest found: %s\nrepeat with: tests/sim/simulate --directory=. %s\n",
           last.problem.c_str(), smallest.words().c_str());
    fflush(stdout);
}

/* Spoils the recording of a program; that must be noticed once. */
void try_faults(const Command &command, Options options, Sum &sum)
{
    for (unsigned fault = 1; fault < kFaults; fault++) {
        if (command.mutant != "all" && command.mutant != fault_names[fault]) continue;
        sum.fault_tried[fault] = true;
        options.fault = fault;
        if (fault >= kAfterLow) options.opaque = options.sequences = 1;
        if (fault == kFirstOnly) { /* seldom seen in the order: it is right by chance */
            options.split = 1;
            options.share = 60;
            options.reallocs = 5;
        }
        Verdict verdict = try_options(command.setting, options);
        if (verdict.problem.empty()) continue;
        sum.fault_found[fault]++;
        if (!command.quiet)
            printf("fault %s of seed %llu: %s\n", fault_names[fault],
                   static_cast<unsigned long long>(options.seed), verdict.problem.c_str());
    }
}

/* Spoils the result of a program that is right; that must be noticed. */
void try_mutants(const Command &command, const Options &options, Sum &sum)
{
    Verdict sound = try_options(command.setting, options);
    if (!sound.problem.empty()) {
        sum.mutants++;
        printf("seed %llu fails without a mutant: %s\n",
               static_cast<unsigned long long>(options.seed), sound.problem.c_str());
        return;
    }
    for (const std::string &name : mutant_names()) {
        if (command.mutant != "all" && command.mutant != name) continue;
        bool mutated = false;
        Verdict verdict = try_options(command.setting, options, name, &mutated);
        if (!mutated) continue;
        sum.mutants++;
        sum.mutants_found += !verdict.problem.empty();
        if (verdict.problem.empty())
            printf("mutant %s of seed %llu was not noticed\n", name.c_str(),
                   static_cast<unsigned long long>(options.seed));
        else if (!command.quiet)
            printf("mutant %s of seed %llu: %s\n", name.c_str(),
                   static_cast<unsigned long long>(options.seed), verdict.problem.c_str());
    }
    try_faults(command, options, sum);
}

void one_seed(const Command &command, uint64_t seed, Sum &sum)
{
    Options options = options_of(command, seed);
    if (!command.mutant.empty()) {
        try_mutants(command, options, sum);
        return;
    }
    Verdict verdict = try_options(command.setting, options);
    sum.seeds++;
    sum.calls += verdict.calls;
    sum.sequences += verdict.sequences;
    sum.ticks += verdict.ticks;
    sum.bytes += verdict.raw_bytes;
    (verdict.whole_units ? sum.whole_inversions : sum.inversions) += verdict.inversions;
    if (options.threads < sum.threads_least) sum.threads_least = options.threads;
    if (options.threads > sum.threads_most) sum.threads_most = options.threads;
    if (verdict.problem.empty()) return;
    sum.failed++;
    report_failure(command, options, verdict);
}

int print_sum(const Command &command, const Sum &sum)
{
    using ull = unsigned long long;
    if (!command.mutant.empty()) {
        printf("mutants: %llu, found: %llu\n", static_cast<ull>(sum.mutants),
               static_cast<ull>(sum.mutants_found));
        bool found = sum.mutants == sum.mutants_found, any = sum.mutants > 0;
        for (unsigned fault = 1; fault < kFaults; fault++) {
            if (!sum.fault_tried[fault]) continue;
            printf("fault %s: found in %llu programs\n", fault_names[fault],
                   static_cast<ull>(sum.fault_found[fault]));
            found = found && sum.fault_found[fault] > 0;
            any = true;
        }
        return found && any ? 0 : 1;
    }
    printf("seeds %llu, failed %llu; calls %llu, sequence numbers %llu, ticks %llu, "
           "raw bytes %llu; threads %llu to %llu\n",
           static_cast<ull>(sum.seeds), static_cast<ull>(sum.failed), static_cast<ull>(sum.calls),
           static_cast<ull>(sum.sequences), static_cast<ull>(sum.ticks),
           static_cast<ull>(sum.bytes), static_cast<ull>(sum.threads_least),
           static_cast<ull>(sum.threads_most));
    printf("whole calls in another order than their numbers: %llu where calls were "
           "interrupted, %llu where not\n",
           static_cast<ull>(sum.inversions), static_cast<ull>(sum.whole_inversions));
    return sum.failed == 0 ? 0 : 1;
}

int only_write(const Command &command)
{
    Simulated simulated = simulate(options_of(command, command.first));
    std::string spool = command.setting.directory + "/raw.spool";
    unlink(spool.c_str());
    bool written = write_file(command.setting.directory + "/raw", simulated.raw) &&
                   write_file(command.setting.directory + "/chunks", simulated.chunks) &&
                   (simulated.spool.empty() || write_file(spool, simulated.spool));
    if (!written) perror(command.setting.directory.c_str());
    return written ? 0 : 1;
}

int only_compare(const std::string &files)
{
    size_t comma = files.find(',');
    if (comma == std::string::npos) return usage("--compare wants two files");
    try {
        puts(compare_prefix(files.substr(0, comma), files.substr(comma + 1)).c_str());
        return 0;
    } catch (const std::runtime_error &error) {
        puts(error.what());
        return 1;
    }
}

void remove_directory(const std::string &directory)
{
    for (const char *name : {"/raw", "/raw.spool", "/ordered", "/messages"})
        unlink((directory + name).c_str());
    rmdir(directory.c_str());
}

} // namespace

int main(int argc, char **argv)
{
    Command command;
    int status = parse(argc, argv, command);
    if (status >= 0) return status;
    if (!command.compare.empty()) return only_compare(command.compare);
    char temporary[] = "/tmp/simulate.XXXXXX";
    bool keep = !command.setting.directory.empty();
    if (!keep) command.setting.directory = mkdtemp(temporary) != nullptr ? temporary : ".";
    if (command.write) return only_write(command);
    Sum sum;
    for (uint64_t seed = command.first; seed <= command.last; seed++)
        one_seed(command, seed, sum);
    if (!keep) remove_directory(command.setting.directory);
    return print_sum(command, sum);
}
