#include "keep/token.h"

#include <stdio.h>
#include <string.h>

bool token_read(char token[TOKEN_BYTES], const char *path, struct error *error)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) return error_set_system(error, "--token %s", path);
    if (fgets(token, TOKEN_BYTES, file) == NULL) *token = '\0';
    const int next = fgetc(file);
    fclose(file);
    const size_t bytes = strcspn(token, "\r\n");
    const bool is_whole = token[bytes] != '\0' || next == EOF;
    token[bytes] = '\0';
    if (!is_whole)
        return error_set(error, &error_system, ERROR_NO_OFFSET,
                         "--token %s: its first line is longer than %d bytes", path,
                         TOKEN_BYTES - 2);
    return bytes > 0 ||
           error_set(error, &error_system, ERROR_NO_OFFSET, "--token %s: it is empty", path);
}

bool token_is(const char *given, const char *token)
{
    const size_t bytes = strlen(token), given_bytes = strlen(given);
    volatile unsigned different = given_bytes != bytes;
    for (size_t i = 0; i < bytes; i++)
        different |= (unsigned char)token[i] ^ (unsigned char)given[i < given_bytes ? i : 0];
    return different == 0;
}
