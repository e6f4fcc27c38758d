/* error - an error in data or from the system, as a value.
 *
 * Errors are for bad input and failed system calls; programming errors are assertions, not errors.
 * A module lists its errors once, as an X-macro of lines X(IDENTIFIER, "name", "text"):
 *
 *     #define PEAR_ERROR_LIST(X)                                              \
 *         X(PEAR_CUT, "pear_cut", "the stream ends inside a block (PEAR.md 4)")
 *     enum pear_error { PEAR_ERROR_LIST(ERROR_LIST_ENUM) };
 *     extern const struct error_kind pear_errors[];                           in pear.h
 *     const struct error_kind pear_errors[] = { PEAR_ERROR_LIST(ERROR_LIST_KIND) };   in pear.c
 *
 * and reports with error_set(error, &pear_errors[PEAR_CUT], offset, "block %u", number). The first
 * error stays set: later ones that follow from it would only hide it. Whoever owns the terminal
 * prints it once:
 *
 *     postprocess: raw.lz4: offset 0x1a2f0: the stream ends inside a block (PEAR.md 4): block 17 */
#ifndef MALLOCTAPE_ERROR_H
#define MALLOCTAPE_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct error_kind {
    const char *name; /* for tests and JSON; never changes */
    const char *text; /* for people; names the section of the format */
};

#define ERROR_LIST_ENUM(identifier, name, text) identifier,
#define ERROR_LIST_KIND(identifier, name, text) {name, text},

/* For errors that have no offset in a stream. */
#define ERROR_NO_OFFSET UINT64_MAX

/* All zero: no error. A plain value, to be copied freely. */
struct error {
    const struct error_kind *kind; /* NULL: no error */
    uint64_t offset;               /* in the decoded stream, or ERROR_NO_OFFSET */
    char detail[240];              /* particulars that are not in the text; may be empty */
};

static inline bool error_is_set(const struct error *error)
{
    return error->kind != NULL;
}

/* Records an error unless one is recorded already. `detail` may be NULL. Returns false, so that a
 * function that returns success can end with `return error_set(...)`. */
bool error_set(struct error *error, const struct error_kind *kind, uint64_t offset,
               const char *detail, ...) __attribute__((format(printf, 4, 5)));

/* The same for a failed system call: the text of errno follows the detail. */
bool error_set_system(struct error *error, const char *detail, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes a message into `why`, for functions without a struct error. Returns false. */
bool error_explain(char *why, size_t why_bytes, const char *message, ...)
    __attribute__((format(printf, 3, 4)));

/* The kind of errors that error_set_system() records. */
extern const struct error_kind error_system;

/* Writes the message described above, without program and file, to `to` and returns `to`. */
char *error_text(const struct error *error, char *to, size_t bytes);

/* Prints the whole message and a newline. `file` may be NULL. */
void error_print(FILE *to, const char *program, const char *file, const struct error *error);

#ifdef __cplusplus
}
#endif
#endif
