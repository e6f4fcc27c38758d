#include <assert.h>
#include <getopt.h>
#include <string.h>

#include "cli/cli.h"

enum {
    OPTIONS_MAX = 16,
    WITHOUT_LETTER = 256 /* and the index: what getopt_long() returns */
};

static int code_of(const struct cli_option *known, int index)
{
    return known[index].letter != 0 ? known[index].letter : WITHOUT_LETTER + index;
}

static int argument_of(const struct cli_option *option)
{
    if (option->flag == NULL) return required_argument;
    return option->take == NULL ? no_argument : optional_argument;
}

static int option_take(const struct cli_option *option, void *of)
{
    if (option->flag != NULL) *option->flag = true;
    if (option->word != NULL) *option->word = optarg;
    return option->take != NULL ? option->take(of, optarg) : CLI_GO_ON;
}

int cli_options(const struct cli_command *command, int count, char **words,
                const struct cli_option *known, enum cli_where where, void *of)
{
    struct option names[OPTIONS_MAX + 2] = {{NULL, 0, NULL, 0}};
    char letters[2 * OPTIONS_MAX + 3], *letter = letters;
    int options = 0, code, status = CLI_GO_ON;
    if (where == CLI_IN_FRONT) *letter++ = '+';
    for (; known[options].name != NULL; options++) {
        const int argument = argument_of(&known[options]);
        assert(options < OPTIONS_MAX);
        names[options] =
            (struct option){known[options].name, argument, NULL, code_of(known, options)};
        if (known[options].letter != 0) *letter++ = known[options].letter;
        if (known[options].letter != 0 && argument == required_argument) *letter++ = ':';
    }
    names[options] = (struct option){"help", no_argument, NULL, 'h'};
    memcpy(letter, "h", 2);
    while (status == CLI_GO_ON && (code = getopt_long(count, words, letters, names, NULL)) != -1) {
        int at = 0;
        while (at < options && code_of(known, at) != code)
            at++;
        if (at < options)
            status = option_take(&known[at], of);
        else
            status = code == 'h' ? program_help(command->help) : cli_usage_error(command, NULL);
    }
    return status;
}
