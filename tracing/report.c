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

void report_begin(const char *to, int process, const char *output)
{
    struct message line;
    message_clear(&line);
    message_put(&line, "begin %lu %s", (uint64_t)process, output);
    send(to, &line);
}

void report_end(const char *to, int process, uint64_t events, bool foreign,
                const struct message *summary)
{
    struct message line;
    message_clear(&line);
    message_put(&line, "end %lu %lu %s %s", (uint64_t)process, events, foreign ? "1" : "0",
                summary->text);
    send(to, &line);
}

void report_forget(const char *to, int process)
{
    struct message line;
    message_clear(&line);
    message_put(&line, "forget %lu", (uint64_t)process);
    send(to, &line);
}

void report_unfollowed(const char *to, int process, const char *program)
{
    struct message line;
    message_clear(&line);
    message_put(&line, "unfollowed %lu %s", (uint64_t)process, program);
    send(to, &line);
}

void report_line(const char *to, struct message *message)
{
    if (!send(to, message)) message_write(message);
}
