#include "sweep/sweep_command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"
#include "common/program.h"
#include "launch/process.h"

/* The contents of the file, which the caller frees; NULL: no memory, or it cannot be read. */
static char *sweep_read_file(FILE *file)
{
    char *text = NULL, part[4096];
    size_t bytes, there;
    FILE *to = open_memstream(&text, &bytes);
    if (to == NULL) return NULL;
    while ((there = fread(part, 1, sizeof part, file)) > 0)
        fwrite(part, 1, there, to);
    if (fclose(to) == 0 && !ferror(file)) return text;
    free(text);
    return NULL;
}

static int sweep_wait_for(pid_t process)
{
    int status = 0;
    while (waitpid(process, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Sets `why` to the last line of a program's messages. */
static void sweep_quote(FILE *messages, char *why, size_t why_bytes, const char *name, int status)
{
    rewind(messages);
    char *text = sweep_read_file(messages);
    size_t length = text != NULL ? strlen(text) : 0;
    while (length > 0 && text[length - 1] == '\n')
        text[--length] = '\0';
    const char *last = length > 0 ? strrchr(text, '\n') : NULL;
    if (length > 0)
        error_explain(why, why_bytes, "%s: %s", name, last != NULL ? last + 1 : text);
    else
        error_explain(why, why_bytes, "%s: exit status %d", name, status);
    free(text);
}

char *command_read(const char *const *words, char *why, size_t why_bytes)
{
    int ends[2] = {-1, -1};
    const int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
    FILE *messages = tmpfile();
    pid_t process = 0;
    char *text = NULL;
    int error = none < 0 || messages == NULL || pipe2(ends, O_CLOEXEC) != 0 ? errno : 0;
    const struct child child = {.path = words[0],
                                .words = (char *const *)words,
                                .input = none,
                                .output = ends[1],
                                .error = messages != NULL ? fileno(messages) : -1};
    if (error == 0) error = child_start(&child, &process);
    if (ends[1] >= 0) close(ends[1]);
    FILE *from = error == 0 ? fdopen(ends[0], "r") : NULL;
    if (from != NULL) text = sweep_read_file(from);
    if (from != NULL)
        fclose(from);
    else if (ends[0] >= 0)
        close(ends[0]);
    if (process > 0) {
        const int status = sweep_wait_for(process);
        if (status != PROGRAM_OK && status != PROGRAM_CUT) {
            sweep_quote(messages, why, why_bytes, words[0], status);
            free(text);
            text = NULL;
        } else if (text == NULL) {
            error_explain(why, why_bytes, "%s: no memory", words[0]);
        }
    } else {
        error_explain(why, why_bytes, "%s: %s", words[0], strerror(error));
    }
    if (messages != NULL) fclose(messages);
    if (none >= 0) close(none);
    return text;
}

void command_put_quoted(FILE *to, const char *word)
{
    fputc('\'', to);
    for (; *word != '\0'; word++)
        *word == '\'' ? fputs("'\\''", to) : fputc(*word, to);
    fputc('\'', to);
}
