#include "sweep/collect.h"

#include <string.h>

#include "cli/cli.h"
#include "sweep/collection.h"

static bool write_page(const struct collection *collection, const char *path)
{
    char why[512];
    const bool done = collection_html_write(collection, path, why, sizeof why);
    if (!done) cli_fail(&cli_sweep, "no page: %s", why);
    return done;
}

static bool write_rows(const struct collection *collection, const char *path)
{
    char why[512];
    const bool done = collection_avro_write(collection, path, why, sizeof why);
    if (!done) cli_fail(&cli_sweep, "%s: %s", path, why);
    return done;
}

static bool collect_write_all(const struct collection *collection,
                              const struct sweep_collect_options *options)
{
    bool good = true;
    if (options->json == NULL || strcmp(options->json, "-") != 0)
        collection_print(collection, stdout);
    if (options->json != NULL)
        good = cli_write_json(&cli_sweep, collection_json(collection), options->json);
    if (options->avro != NULL) good = write_rows(collection, options->avro) && good;
    if (options->html != NULL) good = write_page(collection, options->html) && good;
    return good;
}

int sweep_collect(const char *directory, const struct sweep_collect_options *options)
{
    const char *const paths[] = {options->html, options->json, options->avro};
    const struct cli_outputs outputs = {paths, sizeof paths / sizeof *paths};
    struct collection collection;
    char why[512];
    if (!cli_can_write(&cli_sweep, &outputs)) return PROGRAM_FAILED;
    bool good = collection_open(&collection, directory, why, sizeof why);
    if (good)
        good = collect_write_all(&collection, options) && collection.missing == 0 &&
               collection.unread == 0 && collection.failed == 0;
    else
        cli_fail(&cli_sweep, "%s: %s", directory, why);
    collection_close(&collection);
    return good ? PROGRAM_OK : PROGRAM_FAILED;
}
