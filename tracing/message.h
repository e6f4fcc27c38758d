/* message - one line on standard error, without libc. */
#ifndef MALLOCTAPE_MESSAGE_H
#define MALLOCTAPE_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

/* On stacks that may be small. */
#define MESSAGE_BYTES_MAX 1024

struct message {
    char text[MESSAGE_BYTES_MAX];
    size_t bytes;
};

/* Empty. */
void message_clear(struct message *message);

/* Begins with "malloctape: ". What does not fit is left out. */
void message_begin(struct message *message);
void message_text(struct message *message, const char *text);
void message_add(struct message *message, const struct message *more);
void message_number(struct message *message, uint64_t number);

/* The name of a negative errno value in plain words, or its number. */
void message_error(struct message *message, int error);

/* Ends the line and writes it. */
void message_write(struct message *message);

#endif
