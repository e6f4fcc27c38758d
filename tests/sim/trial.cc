#include "tests/sim/trial.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/checker.h"
#include "tests/sim/mutants.h"
#include "tests/sim/program.h"
#include "tests/sim/random.h"
#include "tests/sim/raw_writer.h"
#include "tests/sim/recorder.h"

Simulated simulate(const Options &options)
{
    Simulated result;
    Random random(options.seed ^ 0x5eed), writer_random(options.seed ^ 0xc0de);
    RawWriter writer(options, writer_random);
    Recorder recorder(options, random, writer, result.truth);
    Program(options, random, recorder, result.truth).run();
    result.truth.nodes = writer.nodes;
    result.raw = writer.file();
    result.chunks = writer.chunks();
    if (options.end == 3) result.spool = writer.spool();
    return result;
}

bool write_file(const std::string &path, const std::string &data)
{
    FILE *file = fopen(path.c_str(), "wb");
    if (file == nullptr) return false;
    bool written = fwrite(data.data(), 1, data.size(), file) == data.size();
    return fclose(file) == 0 && written;
}

static bool read_file(const std::string &path, std::string &data)
{
    FILE *file = fopen(path.c_str(), "rb");
    if (file == nullptr) return false;
    char buffer[65536];
    size_t count;
    data.clear();
    while ((count = fread(buffer, 1, sizeof buffer, file)) > 0)
        data.append(buffer, count);
    return fclose(file) == 0;
}

static int redirect(const std::string &path, int descriptor)
{
    int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    return fd < 0 ? fd : dup2(fd, descriptor);
}

/* Its exit status, or 128 and the signal that ended it. */
static int run_postprocess(const Setting &setting)
{
    std::string raw = setting.directory + "/raw", ordered = setting.directory + "/ordered";
    pid_t child = fork();
    if (child == 0) {
        if (redirect(setting.directory + "/messages", 2) < 0) _exit(127);
        alarm(100);
        execl(setting.postprocess.c_str(), "postprocess", "-q", raw.c_str(), ordered.c_str(),
              static_cast<char *>(nullptr));
        _exit(127);
    }
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return 127;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int expected_status(const Truth &truth)
{
    return truth.has_end && truth.lost_events == 0 && truth.end_status != 2 ? 0 : 3;
}

static void judge(const Setting &setting, const Options &options, const Truth &truth,
                  const std::string &mutant, bool *mutated, Verdict &verdict)
{
    int status = run_postprocess(setting);
    std::string messages, ordered;
    read_file(setting.directory + "/messages", messages);
    if (status != expected_status(truth)) {
        verdict.problem = "postprocess ended with " + std::to_string(status) + ", should be " +
                          std::to_string(expected_status(truth)) + "\n" + messages;
        return;
    }
    read_file(setting.directory + "/ordered", ordered);
    Instructions instructions = decode_instructions(ordered);
    if (!mutant.empty()) {
        Random random(options.seed);
        *mutated = mutate(mutant, random, options.opaque != 0, truth, instructions);
    }
    CheckResult result = check(options, truth, instructions);
    verdict.problem = result.problem;
    verdict.calls = result.calls;
    verdict.inversions = result.inversions;
}

Verdict try_options(const Setting &setting, const Options &options, const std::string &mutant,
                    bool *mutated)
{
    Verdict verdict;
    Simulated simulated = simulate(options);
    const Truth &truth = simulated.truth;
    verdict.whole_units = truth.whole_units;
    verdict.raw_bytes = simulated.raw.size();
    verdict.ticks = truth.ticks.size();
    for (const Record &record : truth.records)
        verdict.sequences += record.in_stream && is_sequence(record);
    std::string spool = setting.directory + "/raw.spool";
    unlink(spool.c_str());
    if (!write_file(setting.directory + "/raw", simulated.raw) ||
        (!simulated.spool.empty() && !write_file(spool, simulated.spool))) {
        verdict.problem = setting.directory + ": " + strerror(errno);
        return verdict;
    }
    try {
        judge(setting, options, truth, mutant, mutated, verdict);
    } catch (const std::runtime_error &error) {
        verdict.problem = error.what();
    }
    return verdict;
}
