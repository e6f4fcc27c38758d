#include "common/json_file.h"

#include <stdio.h>

#include "common/output.h"

static int put(const char *text, size_t bytes, void *output)
{
    return output_write(output, text, bytes) ? 0 : -1;
}

bool json_file_write(const json_t *value, const char *path, struct error *error)
{
    struct output output;
    fflush(stdout); /* what stands before it there */
    bool opened = output_open(&output, path);
    bool dumped = opened && json_dump_callback(value, put, &output,
                                               JSON_INDENT(2) | JSON_REAL_PRECISION(12)) == 0;
    if (dumped) output_write(&output, "\n", 1);
    bool written = output_close(&output);
    if (dumped && written) return true;
    if (written) return error_set(error, &error_system, ERROR_NO_OFFSET, "no memory for the JSON");
    *error = output.error;
    return false;
}
