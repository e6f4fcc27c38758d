#include "common/program.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/complete.h"
#include "common/printable.h"
#include "malloctape_config.h"

int program_version(const char *name)
{
    printf("%s (malloctape) %s\n", printable_text(name), PACKAGE_VERSION);
    return PROGRAM_OK;
}

int program_end(const char *name, int status)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return status;
    /* The failure was earlier: write again, to get the reason. */
    if (errno == 0 && write(STDOUT_FILENO, "\n", 1) == 1) errno = 0;
    fprintf(stderr, "%s: cannot write to the standard output%s%s\n", printable_text(name),
            errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
    return status == PROGRAM_OK || status == PROGRAM_CUT ? PROGRAM_FAILED : status;
}

int program_help(const char *text)
{
    fputs(text, stdout);
    return PROGRAM_OK;
}

void program_say(const char *name, const char *message, va_list arguments)
{
    fprintf(stderr, "%s: ", printable_text(name));
    printable_say_list(stderr, message, arguments);
}

int program_usage_error(const char *name, const char *message, ...)
{
    if (message != NULL) {
        va_list arguments;
        va_start(arguments, message);
        program_say(name, message, arguments);
        va_end(arguments);
    }
    fprintf(stderr, "%s: see %s --help\n", printable_text(name), printable_text(name));
    return PROGRAM_USAGE;
}

/* ---- options ---- */

enum {
    OPTIONS_MAX = 24,
    WITHOUT_LETTER = 256 /* and the index: what getopt_long() returns */
};

static int program_code_of(const struct program_option *known, int index)
{
    return known[index].letter != 0 ? known[index].letter : WITHOUT_LETTER + index;
}

static int argument_of(const struct program_option *option)
{
    if (option->flag == NULL) return required_argument;
    return option->take == NULL ? no_argument : optional_argument;
}

static bool count_parse(const char *text, uint64_t *count)
{
    char *end;
    errno = 0;
    *count = strtoull(text, &end, 10);
    return errno == 0 && *text >= '0' && *text <= '9' && *end == '\0';
}

static int choice_take(const struct program_option *option, const char *program)
{
    char all[128] = "";
    for (unsigned at = 0; option->choices[at] != NULL; at++) {
        *option->choice = at;
        if (strcmp(optarg, option->choices[at]) == 0) return PROGRAM_GO_ON;
        const size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", at > 0 ? ", " : "", option->choices[at]);
    }
    return program_usage_error(program, "--%s: '%s' is not one of: %s", option->name, optarg, all);
}

static int option_take(const struct program_option *option, const char *program, void *of)
{
    if (option->flag != NULL) *option->flag = true;
    if (option->word != NULL) *option->word = optarg;
    if (option->count != NULL && !count_parse(optarg, option->count))
        return program_usage_error(program, "--%s: '%s' is not a number", option->name, optarg);
    if (option->choice != NULL) return choice_take(option, program);
    return option->take != NULL ? option->take(of, optarg) : PROGRAM_GO_ON;
}

/* How many options begin with a word; one that is equal counts alone. */
static int options_alike(const struct option *names, const char *word, size_t bytes)
{
    int alike = 0;
    for (const struct option *one = names; one->name != NULL; one++) {
        if (strncmp(one->name, word, bytes) != 0) continue;
        if (strlen(one->name) == bytes) return 1;
        alike++;
    }
    return alike;
}

/* Says what is wrong with the option that getopt_long() has just refused. */
static int option_refuse(char **words, const struct option *names,
                         const struct program_option *known, bool lacks_argument)
{
    const char *word = words[optind - 1], *program = words[0];
    const char *long_name = NULL;
    for (int i = 0; known[i].name != NULL; i++)
        if (program_code_of(known, i) == optopt) long_name = known[i].name;
    if (lacks_argument && long_name != NULL && strncmp(word, "--", 2) == 0)
        return program_usage_error(program, "option '--%s' requires an argument", long_name);
    if (lacks_argument)
        return program_usage_error(program, "option requires an argument -- '%c'", optopt);
    if (optopt != 0 && strncmp(word, "--", 2) == 0 && strchr(word, '=') != NULL)
        return program_usage_error(program, "option '%.*s' doesn't allow an argument",
                                   (int)strcspn(word, "="), word);
    if (optopt != 0) return program_usage_error(program, "invalid option -- '%c'", optopt);
    const bool several = options_alike(names, word + 2, strcspn(word + 2, "=")) > 1;
    return program_usage_error(
        program, several ? "option '%s' is ambiguous" : "unrecognized option '%s'", word);
}

int program_options(int count, char **words, const struct program_option *known, const char *help,
                    enum program_where where, void *of)
{
    struct option names[OPTIONS_MAX + 3] = {{NULL, 0, NULL, 0}};
    char letters[2 * OPTIONS_MAX + 5], *letter = letters;
    int options = 0, code, status = PROGRAM_GO_ON;
    if (count > 1 && strcmp(words[1], COMPLETE_OPTION) == 0) {
        complete_words(words[0], count - 2, words + 2, known, help, where);
        return PROGRAM_OK;
    }
    if (where == PROGRAM_IN_FRONT) *letter++ = '+';
    *letter++ = ':'; /* so getopt_long() tells what is missing, and says nothing */
    for (; known[options].name != NULL; options++) {
        const int argument = argument_of(&known[options]);
        assert(options < OPTIONS_MAX);
        names[options] =
            (struct option){known[options].name, argument, NULL, program_code_of(known, options)};
        if (known[options].letter != 0) *letter++ = known[options].letter;
        if (known[options].letter != 0 && argument == required_argument) *letter++ = ':';
    }
    names[options] = (struct option){"help", no_argument, NULL, 'h'};
    names[options + 1] = (struct option){"version", no_argument, NULL, 'V'};
    memcpy(letter, "hV", 3);
    while (status == PROGRAM_GO_ON &&
           (code = getopt_long(count, words, letters, names, NULL)) != -1) {
        int at = 0;
        while (at < options && program_code_of(known, at) != code)
            at++;
        if (at < options)
            status = option_take(&known[at], words[0], of);
        else if (code == 'h')
            status = program_help(help);
        else
            status = code == 'V' ? program_version(words[0])
                                 : option_refuse(words, names, known, code == ':');
    }
    return status;
}
