#include "common/complete.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/printable.h"

struct completing {
    const char *name, *help;
    const struct program_option *known;
};

void complete_word(const char *begun, const char *word, const char *about)
{
    if (strncmp(word, begun, strlen(begun)) != 0) return;
    printable_put(stdout, word);
    if (about != NULL && *about != '\0') {
        putchar('\t');
        printable_put(stdout, about);
    }
    putchar('\n');
}

/* ---- what the help says ---- */

static size_t complete_name_bytes(const char *text)
{
    return strspn(text, "-abcdefghijklmnopqrstuvwxyz");
}

/* The text after the option in its line of the help, where it may follow other options; NULL: the
 * help has no such line. If the help has only its letter, the text after that. */
static const char *help_find(const char *help, const struct program_option *option)
{
    char text[32];
    snprintf(text, sizeof text, "--%s", option->name);
    for (const char *line = help; line != NULL; line = strchr(line, '\n')) {
        const char *at = line += strspn(line, "\n ");
        bool is_it = false;
        while (*at == '-') {
            const size_t bytes = at[1] == '-' ? complete_name_bytes(at) : 2;
            is_it = is_it || (bytes == strlen(text) && memcmp(at, text, bytes) == 0) ||
                    (bytes == 2 && at[1] == option->letter);
            at += bytes;
            if (strncmp(at, ", ", 2) != 0) break;
            at += 2;
        }
        if (is_it) return at;
    }
    return NULL;
}

/* The name of the option's argument, of length *bytes; NULL: it has none. */
static const char *argument_find(const char *help, const struct program_option *option,
                                 size_t *bytes)
{
    const char *at = help_find(help, option);
    if (at == NULL || option->flag != NULL || strchr(" =", *at) == NULL) return NULL;
    *bytes = strspn(++at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return *bytes > 0 ? at : NULL;
}

/* The first line of the help about an option. */
static void about_option(const char *help, const struct program_option *option, char *about,
                         size_t room)
{
    const char *at = help_find(help, option);
    *about = '\0';
    if (at == NULL) return;
    if (*at == '=' || *at == '[' || (*at == ' ' && isupper((unsigned char)at[1])))
        at += 1 + strcspn(at + 1, " \n");
    at += strspn(at, " \n");
    snprintf(about, room, "%.*s", (int)strcspn(at, "\n"), at);
}

/* ---- arguments of options ---- */

static const struct program_option *option_find(const struct completing *completing,
                                                const char *name, size_t bytes, char letter)
{
    for (const struct program_option *known = completing->known; known->name != NULL; known++)
        if (bytes > 0 ? strlen(known->name) == bytes && memcmp(known->name, name, bytes) == 0
                      : known->letter == letter)
            return known;
    return NULL;
}

/* For `word_add`, which functions of other directories call back: the beginning of the word to complete,
 * and the length of the complete words of a list in it. */
static const char *adding_begun;
static int adding_list_bytes;

static void word_add(const char *word, const char *about)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%.*s%s", adding_list_bytes, adding_begun, word);
    complete_word(adding_begun, whole, about);
}

static bool is_name(const char *name, size_t bytes, const char *other)
{
    return strlen(other) == bytes && memcmp(name, other, bytes) == 0;
}

static void complete_argument(const struct completing *completing,
                              const struct program_option *option, const char *begun)
{
    size_t bytes = 0;
    const char *name = argument_find(completing->help, option, &bytes);
    const char *comma = strrchr(begun, ',');
    adding_begun = begun;
    adding_list_bytes = 0;
    if (comma != NULL && name != NULL && is_name(name, bytes, "LIST"))
        adding_list_bytes = (int)(comma - begun) + 1;
    for (unsigned i = 0; option->choices != NULL && option->choices[i] != NULL; i++)
        word_add(option->choices[i], NULL);
    if (option->values != NULL) option->values(word_add);
    if (name != NULL && option->choices == NULL && option->values == NULL &&
        (is_name(name, bytes, "FILE") || is_name(name, bytes, "OUT") || is_name(name, bytes, "IN")))
        puts(":file");
}

/* ---- other words ---- */

/* The next word of a line of usage that is not an option, with its dots; moves *of past it. False:
 * the line has no more. */
static bool usage_word(const char **of, char *word, size_t room)
{
    const char *at = *of;
    for (;;) {
        at += strspn(at, " ");
        if (strncmp(at, "[-", 2) == 0 || strncmp(at, "[OPTION", 7) == 0) {
            at += strcspn(at, "]\n");
            at += strspn(at, "].");
        } else if (*at == '-') { /* with an argument, if it is followed by one */
            at += strcspn(at, " \n");
            if (*at == ' ' && isupper((unsigned char)at[1])) at += 1 + strcspn(at + 1, " \n");
        } else {
            break;
        }
    }
    const size_t bytes = strcspn(at, " \n");
    snprintf(word, room, "%.*s", (int)bytes, at);
    *of = at + bytes;
    return bytes > 0;
}

/* "a|b|c". */
static bool is_choice(const char *word)
{
    return islower((unsigned char)*word);
}

static bool choice_has(const char *choice, const char *one)
{
    const char *at = strstr(choice, one), *end = at != NULL ? at + strlen(one) : NULL;
    return at != NULL && (at == choice || at[-1] == '|') && (*end == '|' || *end == '\0');
}

/* The word of a line of usage that follows the words `given`, which are not options; the last one
 * again if it may be repeated. False: there is none, or the words do not match this line. */
static bool usage_find(const char *line, char **given, int count, char *word, size_t room)
{
    for (int i = 0;; i++) {
        if (!usage_word(&line, word, room)) return false;
        if (i == count || strstr(word, "...") != NULL) return true;
        if (is_choice(word) && !choice_has(word, given[i])) return false;
    }
}

static void complete_usage(const struct completing *completing, char *word)
{
    const struct program_option *last = completing->known;
    while (last->name != NULL)
        last++;
    if (strcmp(word, "PID") == 0 && last->values != NULL)
        last->values(word_add);
    else if (is_choice(word))
        for (char *rest = word, *one; (one = strsep(&rest, "|")) != NULL;)
            word_add(one, NULL);
}

/* Completes by the lines of usage, which begin with the name. `line_words`: the number of words
 * from the first one on that is not an option. */
static void complete_other(const struct completing *completing, char **given, int count,
                           int line_words)
{
    const size_t name = strlen(completing->name);
    const char *line = completing->help + strcspn(completing->help, " ");
    bool is_file = false, is_program = false;
    char word[128];
    while (line != NULL && *(line += strspn(line, "\n ")) != '\0' &&
           strncmp(line, completing->name, name) == 0) {
        line += name;
        is_program = is_program ||
                     (usage_find(line, NULL, 0, word, sizeof word) && strcmp(word, "PROGRAM") == 0);
        if (usage_find(line, given, count, word, sizeof word)) {
            is_file =
                is_file || (isupper((unsigned char)word[*word == '[']) && strcmp(word, "PID") != 0);
            complete_usage(completing, word);
        }
        line = strchr(line, '\n');
    }
    if (is_program)
        printf(":program %d\n", line_words);
    else if (is_file)
        puts(":file");
}

static void complete_option(const struct completing *completing, const char *begun)
{
    char option[64], about[256];
    const char *equals = strchr(begun, '=');
    if (equals != NULL && begun[1] == '-') {
        const struct program_option *known =
            option_find(completing, begun + 2, (size_t)(equals - begun - 2), 0);
        if (known != NULL) complete_argument(completing, known, equals + 1);
        return;
    }
    for (const struct program_option *known = completing->known; known->name != NULL; known++) {
        snprintf(option, sizeof option, "--%s", known->name);
        about_option(completing->help, known, about, sizeof about);
        complete_word(begun, option, about);
    }
    complete_word(begun, "--help", "how to use it");
    complete_word(begun, "--version", "the version");
}

/* The option whose argument is the next word; or NULL. */
static const struct program_option *waiting_after(const struct completing *completing,
                                                  const char *word)
{
    const struct program_option *option =
        word[1] == '-' ? option_find(completing, word + 2, strlen(word + 2), 0)
                       : option_find(completing, NULL, 0, word[strlen(word) - 1]);
    return option != NULL && option->flag == NULL ? option : NULL;
}

void complete_words(const char *name, int count, char **words, const struct program_option *known,
                    const char *help, enum program_where where)
{
    const struct completing completing = {name, help, known};
    const struct program_option *waiting = NULL;
    bool options_end = false;
    int others = 0, first = count - 1; /* words that are no options; which one is the first */
    if (count == 0) return;
    for (int i = 0; i < count - 1; i++) {
        if (waiting != NULL) {
            waiting = NULL;
        } else if (!options_end && strcmp(words[i], "--") == 0) {
            options_end = true;
        } else if (!options_end && words[i][0] == '-' && words[i][1] != '\0') {
            waiting = waiting_after(&completing, words[i]);
        } else {
            if (others == 0) first = i;
            words[others++] = words[i]; /* to the front */
            options_end = options_end || where == PROGRAM_IN_FRONT;
        }
    }
    adding_begun = words[count - 1];
    adding_list_bytes = 0;
    if (waiting != NULL)
        complete_argument(&completing, waiting, adding_begun);
    else if (!options_end && *adding_begun == '-')
        complete_option(&completing, adding_begun);
    else
        complete_other(&completing, words, others, count - first);
}
