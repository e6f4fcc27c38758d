/* tell - lines about a recording, for people. */
#ifndef MALLOCTAPE_CLI_TELL_H
#define MALLOCTAPE_CLI_TELL_H

/* Prints a line on standard error. It is dropped if there is no reader, or if printing would block:
 * the reader may be waiting for our end. */
void cli_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
