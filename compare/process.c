#include "compare/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/program.h"

/* What a signal handler can see. */
static volatile sig_atomic_t interrupted; /* the signal, or 0 */
static volatile pid_t running;            /* the child, or 0 */

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { ENDING_SIGNALS = sizeof ending_signals / sizeof *ending_signals };

/* Of a child that could not become the program. */
enum { CANNOT_EXECUTE = 127 };

/* What is quoted of a program lies in so many bytes at the end of what it told. */
enum { QUOTED_BYTES_MAX = 4096 };

/* ---- signals ---- */

static void on_signal(int number)
{
    interrupted = number;
    if (running > 0) kill(running, SIGKILL);
}

/* One that is ignored stays ignored: nohup. */
static void signals_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal}, before;
    for (int i = 0; i < ENDING_SIGNALS; i++) {
        sigaction(ending_signals[i], NULL, &before);
        if (before.sa_handler == SIG_DFL) sigaction(ending_signals[i], &action, NULL);
    }
}

static void signals_release(void)
{
    struct sigaction before;
    for (int i = 0; i < ENDING_SIGNALS; i++) {
        sigaction(ending_signals[i], NULL, &before);
        if (before.sa_handler == on_signal) signal(ending_signals[i], SIG_DFL);
    }
    if (interrupted != 0) raise(interrupted);
}

bool compare_process_interrupted(void)
{
    return interrupted != 0;
}

/* ---- directory ---- */

bool compare_directory_open(struct compare_directory *directory)
{
    const char *parent = getenv("TMPDIR");
    if (parent == NULL || *parent == '\0') parent = "/tmp";
    int length =
        snprintf(directory->path, sizeof directory->path, "%s/malloctape-compare-XXXXXX", parent);
    if (length < 0 || (size_t)length >= sizeof directory->path) {
        errno = ENAMETOOLONG;
        return false;
    }
    signals_catch();
    if (mkdtemp(directory->path) != NULL) return true;
    int why = errno;
    signals_release();
    errno = why;
    return false;
}

void compare_directory_path(const struct compare_directory *directory, const char *name, char *path,
                            size_t path_bytes)
{
    snprintf(path, path_bytes, "%s/%s", directory->path, name);
}

void compare_directory_close(struct compare_directory *directory)
{
    DIR *files = opendir(directory->path);
    struct dirent *file;
    while (files != NULL && (file = readdir(files)) != NULL)
        if (strcmp(file->d_name, ".") != 0 && strcmp(file->d_name, "..") != 0)
            unlinkat(dirfd(files), file->d_name, 0);
    if (files != NULL) closedir(files);
    rmdir(directory->path);
    signals_release();
}

/* ---- processes ---- */

/* The child's own part. */
static void become(const struct compare_process *process)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    int errors = open(process->errors, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (errors < 0 || dup2(process->input >= 0 ? process->input : nothing, STDIN_FILENO) < 0 ||
        dup2(nothing, STDOUT_FILENO) < 0 || dup2(errors, STDERR_FILENO) < 0)
        _exit(CANNOT_EXECUTE);
    if (process->enter != NULL) process->enter(process->of);
    execv(process->path, process->words);
    dprintf(STDERR_FILENO, "%s: %s\n", process->path, strerror(errno));
    _exit(CANNOT_EXECUTE);
}

/* Behind "NAME: ", if that is how the line begins. */
static const char *skip_name(const char *line, const char *name)
{
    size_t length = strlen(name);
    return strncmp(line, name, length) == 0 && strncmp(line + length, ": ", 2) == 0
               ? line + length + 2
               : line;
}

/* Cuts the last line that is not empty off the text and returns it. */
static const char *take_last_line(char *text)
{
    size_t length = strlen(text);
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == ' '))
        length--;
    text[length] = '\0';
    char *last = strrchr(text, '\n');
    if (last != NULL) *last++ = '\0';
    return last != NULL ? last : text;
}

/* What a program told last, but for the advice to read its help. */
static void quote(const struct compare_process *process, char *line, size_t bytes)
{
    char text[QUOTED_BYTES_MAX + 1];
    const char *program = process->words[0];
    FILE *file = fopen(process->errors, "re");
    size_t length = 0;
    *line = '\0';
    if (file == NULL) return;
    if (fseek(file, -QUOTED_BYTES_MAX, SEEK_END) != 0) rewind(file);
    length = fread(text, 1, QUOTED_BYTES_MAX, file);
    fclose(file);
    text[length] = '\0';
    const char *last = skip_name(take_last_line(text), program);
    if (strncmp(last, "see ", 4) == 0 && *text != '\0')
        last = skip_name(take_last_line(text), program);
    snprintf(line, bytes, "%.*s", (int)bytes - 1, skip_name(last, process->file));
}

static void explain(const struct compare_process *process, int status, char *why, size_t bytes)
{
    const char *program = process->words[0];
    char told[512];
    quote(process, told, sizeof told);
    const char *between = *told != '\0' ? ": " : "";
    if (WIFSIGNALED(status))
        snprintf(why, bytes, "%s was killed by signal %d (%s)%s%s", program, WTERMSIG(status),
                 strsignal(WTERMSIG(status)), between, told);
    else if (*told != '\0')
        snprintf(why, bytes, "%s", told);
    else
        snprintf(why, bytes, "%s ended with status %d", program, WEXITSTATUS(status));
}

/* False: see errno. */
static bool await(pid_t child, int *status)
{
    pid_t got;
    do
        got = waitpid(child, status, 0);
    while (got < 0 && errno == EINTR);
    running = 0;
    return got == child;
}

/* Signals wait meanwhile, so that none falls between the start of a child and its becoming known. */
static pid_t start(const struct compare_process *process)
{
    sigset_t ending, before;
    sigemptyset(&ending);
    for (int i = 0; i < ENDING_SIGNALS; i++)
        sigaddset(&ending, ending_signals[i]);
    sigprocmask(SIG_BLOCK, &ending, &before);
    pid_t child = fork();
    if (child == 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        become(process);
    }
    running = child;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return child;
}

bool compare_process_run(const struct compare_process *process, bool may_be_cut, char *why,
                         size_t why_bytes)
{
    int status;
    if (interrupted != 0) {
        snprintf(why, why_bytes, "interrupted");
        return false;
    }
    pid_t child = start(process);
    if (child < 0 || !await(child, &status)) {
        snprintf(why, why_bytes, "cannot run %s: %s", process->path, strerror(errno));
        return false;
    }
    if (WIFEXITED(status) &&
        (WEXITSTATUS(status) == PROGRAM_OK || (may_be_cut && WEXITSTATUS(status) == PROGRAM_CUT)))
        return true;
    explain(process, status, why, why_bytes);
    return false;
}
