/* write_samples --list         the names of the samples
 * write_samples NAME           the sample of that name, to the standard output
 * write_samples NAME NAME...   each to the file of its name */
#include <cstdio>
#include <cstring>

#include "tests/samples/samples.h"

static bool write_to(FILE *file, const std::string &bytes)
{
    return file != nullptr && fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
}

static bool write_sample(const Samples &samples, const char *name, bool to_file)
{
    for (const Sample &sample : samples) {
        if (sample.name != name) continue;
        if (!to_file) return write_to(stdout, sample.write()) && fflush(stdout) == 0;
        FILE *file = fopen(name, "wb");
        bool written = write_to(file, sample.write());
        return file != nullptr && fclose(file) == 0 && written;
    }
    fprintf(stderr, "write_samples: there is no sample '%s'\n", name);
    return false;
}

int main(int argc, char **argv)
{
    Samples samples;
    add_raw_samples(&samples);
    add_bad_raw_samples(&samples);
    add_instruction_samples(&samples);
    add_verify_samples(&samples);
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (const Sample &sample : samples)
            puts(sample.name.c_str());
        return 0;
    }
    for (int i = 1; i < argc; i++)
        if (!write_sample(samples, argv[i], argc > 2)) return 1;
    return argc > 1 ? 0 : 2;
}
