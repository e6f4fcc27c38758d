#include "cli/cli.h"
#include "common/json_file.h"
#include "common/output.h"
#include "page/html_page.h"

bool cli_can_write(const struct cli_command *command, const struct cli_outputs *outputs)
{
    const char *const *paths = outputs->paths;
    struct error error = {0};
    char why[512];
    if (paths[0] != NULL && !html_page_is_possible(why, sizeof why)) {
        cli_fail(command, "no page: %s", why);
        return false;
    }
    for (size_t i = 0; i < outputs->count; i++) {
        if (paths[i] == NULL || output_can_open(paths[i], &error)) continue;
        cli_data_error(command, paths[i], &error);
        return false;
    }
    return true;
}

int cli_spare_input(const struct cli_command *command, const struct cli_outputs *outputs,
                    const char *input)
{
    for (size_t i = 0; i < outputs->count; i++)
        if (outputs->paths[i] != NULL && output_would_replace(outputs->paths[i], input))
            return cli_usage_error(command, "%s would be both read and written", outputs->paths[i]);
    return PROGRAM_GO_ON;
}

bool cli_write_json(const struct cli_command *command, json_t *object, const char *path)
{
    struct error error = {0};
    bool done = json_file_write(object, path, &error);
    if (!done) cli_data_error(command, path, &error);
    json_decref(object);
    return done;
}
