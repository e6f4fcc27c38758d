/* postprocess_options - what the user of postprocess asks for. */
#ifndef MALLOCTAPE_POSTPROCESS_OPTIONS_H
#define MALLOCTAPE_POSTPROCESS_OPTIONS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

/* In messages: it is installed under another name than it is built, and has one more as a command of
 * malloctape. */
#define PROGRAM program_invocation_short_name

struct options {
    char **inputs;
    int inputs_count;
    const char *output; /* a file, or with `many` where files go */
    bool many;          /* one output for each input: output_name() says which */
    const char *json;
    bool quiet, salvage, compress, no_compress; /* neither: by the output's name */
    uint64_t memory_bytes;                      /* 0: no limit */
};

/* Returns PROGRAM_GO_ON or an exit status. */
int options_parse(struct options *options, int count, char **words);

/* Makes the directory that -o names with a slash at its end, unless it is there. False: see
 * errno. */
bool make_output_directory(const struct options *options);

/* The name of the output file for `input`. To be freed; NULL: no memory. */
char *output_name(const struct options *options, const char *input);

/* Whether the result goes to that file as an LZ4 frame. */
bool is_compressed(const struct options *options, const char *output);

/* "-" for /dev/stdin and /dev/stdout, as opening those again would truncate or fail; else
 * `path`. */
const char *plain_name(const char *path);

#endif
