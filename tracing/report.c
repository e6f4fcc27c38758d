#include "report.h"

#include "os.h"

/* False: nobody gets it. */
static bool send(const char *to, struct message *line)
{
    if (!*to) return false;
    int file = os_file_open_append(to);
    if (file < 0) return false;
    line->text[line->bytes] = '\n';
    bool sent = os_file_write(file, line->text, line->bytes + 1) == (long)line->bytes + 1;
    os_file_close(file);
    return sent;
}

static struct message line_of(const char *word, int process)
{
    struct message line;
    message_clear(&line);
    message_text(&line, word);
    message_number(&line, (uint64_t)process);
    return line;
}

void report_begin(const char *to, int process, const char *output)
{
    struct message line = line_of("begin ", process);
    message_text(&line, " ");
    message_text(&line, output);
    send(to, &line);
}

void report_end(const char *to, int process, uint64_t events, bool foreign,
                const struct message *summary)
{
    struct message line = line_of("end ", process);
    message_text(&line, " ");
    message_number(&line, events);
    message_text(&line, foreign ? " 1 " : " 0 ");
    message_add(&line, summary);
    send(to, &line);
}

void report_forget(const char *to, int process)
{
    struct message line = line_of("forget ", process);
    send(to, &line);
}

void report_unfollowed(const char *to, int process, const char *program)
{
    struct message line = line_of("unfollowed ", process);
    message_text(&line, " ");
    message_text(&line, program);
    send(to, &line);
}

void report_line(const char *to, struct message *message)
{
    if (!send(to, message)) message_write(message);
}
