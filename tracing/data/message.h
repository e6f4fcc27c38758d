/* message - one line on standard error, without libc.
 *
 *     message_begin(&message);
 *     message_put(&message, "%s: %lu events", output, events); */
#ifndef MALLOCTAPE_MESSAGE_H
#define MALLOCTAPE_MESSAGE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* Messages are built on stacks, which may be small. */
#define MESSAGE_BYTES_MAX 1024

struct message {
    char text[MESSAGE_BYTES_MAX]; /* ends with a null byte */
    size_t bytes;                 /* before that */
};

/* Makes it empty. */
void message_clear(struct message *message);

/* Begins with "malloctape: ". */
void message_begin(struct message *message);

/* Adds to it, with %s and %lu as printf() has them. What does not fit is left out. */
void message_put(struct message *message, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void message_put_list(struct message *message, const char *format, va_list arguments);

/* Adds the meaning of a negative errno value in plain words, or its number. */
void message_error(struct message *message, int error);

/* Ends the line and writes it. */
void message_write(struct message *message);

#endif
