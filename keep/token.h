/* token - what whoever asks the keeper must know. Threads: any. */
#ifndef MALLOCTAPE_KEEP_TOKEN_H
#define MALLOCTAPE_KEEP_TOKEN_H

#include <stdbool.h>

#include "common/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TOKEN_BYTES = 256 };

/* Takes the first line of a file. False: see error; also if it is empty, or has no room. */
bool token_read(char token[TOKEN_BYTES], const char *path, struct error *error);

/* Whether they are equal. Takes as long wherever they differ. */
bool token_is(const char *given, const char *token);

#ifdef __cplusplus
}
#endif
#endif
