/* cli - what the subcommands of malloctape have in common.
 *
 * A subcommand is one entry of the table in malloctape/malloctape_main.c and one `struct cli_command`
 * in a file of its own. Its function gets "malloctape NAME" as words[0] and returns the exit status of
 * the program (common/program.h).
 *
 *   malloctape/malloctape_main.c --table--> cli/ record.c, ctl.c, top.c
 *                                inspect/ info.c, dump.c, verify.c
 *                                change/ change_command.c
 *                                cut/ cut_command.c
 *                                compare/ compare.c
 *                                report/ report.c
 *                                cli/ programs.c --exec--> malloctape-convert: convert/
 *                                                          import.c, export.c; postprocess, replay;
 *                                                          malloctape-sweep: sweep/ sweep.c
 *
 * Other directories may include only this header of cli/. */
#ifndef MALLOCTAPE_CLI_H
#define MALLOCTAPE_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "common/error.h"
#include "common/program.h"

struct cli_command {
    const char *name;
    const char *line; /* what it does, in the list of `malloctape --help` */
    int (*run)(int count, char **words);
    const char *help; /* the text of `malloctape help NAME`; NULL: run() prints it with --help */
};

extern const struct cli_command cli_record;
extern const struct cli_command cli_info;
extern const struct cli_command cli_dump;
extern const struct cli_command cli_verify;
extern const struct cli_command cli_advise;
extern const struct cli_command cli_change;
extern const struct cli_command cli_cut;
extern const struct cli_command cli_compare;
extern const struct cli_command cli_report;
extern const struct cli_command cli_sweep;
extern const struct cli_command cli_ctl;
extern const struct cli_command cli_top;
extern const struct cli_command cli_import;
extern const struct cli_command cli_export;
extern const struct cli_command cli_order;
extern const struct cli_command cli_replay;

/* Runs the command; words[0], its name, becomes "malloctape NAME". Returns the exit status. */
int cli_run(const struct cli_command *command, int count, char **words);

/* Prints "malloctape NAME: message" on the standard error. Returns PROGRAM_FAILED. */
int cli_fail(const struct cli_command *command, const char *message, ...)
    __attribute__((format(printf, 2, 3)));

/* The same, for a mistake on the command line, with a pointer to the help. Returns
 * PROGRAM_USAGE. */
int cli_usage_error(const struct cli_command *command, const char *message, ...)
    __attribute__((format(printf, 2, 3)));

/* Files that a command writes. Any path may be NULL; the first is that of a page. */
struct cli_outputs {
    const char *const *paths;
    size_t count;
};

/* Whether these files can be written: to be checked before time is spent. False: a message has been
 * printed. */
bool cli_can_write(const struct cli_command *command, const struct cli_outputs *outputs);

/* Checks that no output is the input. Returns PROGRAM_GO_ON, or the exit status after a message. */
int cli_spare_input(const struct cli_command *command, const struct cli_outputs *outputs,
                    const char *input);

/* Writes the object as JSON, and frees it. False: a message has been printed. */
bool cli_write_json(const struct cli_command *command, json_t *object, const char *path);

/* Prints an error about the data of `file`. Returns PROGRAM_FAILED. */
int cli_data_error(const struct cli_command *command, const char *file, const struct error *error);

#endif
