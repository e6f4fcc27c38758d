/* recorded_settings - which settings of a recorded allocator a replay takes over.
 *
 *   lines env.NAME=VALUE of a trace --recorded_settings_add()--> set[0], set[1] ...   these alone
 *                                                                ignored              for people
 *
 * A trace is untrusted. Only numbers and switches that a known allocator reads from the environment
 * are taken over; from a variable with several settings, only such ones. Settings that load a
 * library, name a file, print, or write a profile are ignored. */
#ifndef MALLOCTAPE_RECORDED_SETTINGS_H
#define MALLOCTAPE_RECORDED_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct recorded_setting {
    char *name, *value; /* of an environment variable */
};

/* All zero: none. */
struct recorded_settings {
    struct recorded_setting *set;
    size_t count;
    char *ignored; /* "NAME=VALUE, NAME=VALUE", printable, truncated if long; NULL: none */
};

/* False: no memory. */
bool recorded_settings_add(struct recorded_settings *settings, const char *name, const char *value);

/* Adds all settings in a stream's metadata, which ends with a zero byte. False: no memory. */
bool recorded_settings_take(struct recorded_settings *settings, const char *metadata);

void recorded_settings_free(struct recorded_settings *settings);

/* The message about ignored settings; one argument, `ignored`. */
#define RECORDED_SETTINGS_IGNORED                                                          \
    "recorded settings are ignored that no known allocator has, or that name files, load " \
    "libraries or print: %s"

#ifdef __cplusplus
}
#endif
#endif
