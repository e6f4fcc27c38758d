#include "launch/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"
#include "common/program.h"
#include "common/progress.h"

/* State that the signal handler uses. */
static volatile sig_atomic_t process_signal; /* the signal, or 0 */
static volatile pid_t process_child;         /* the child, or 0 */

static const int process_ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
enum { ENDING_SIGNALS = sizeof process_ending_signals / sizeof *process_ending_signals };

/* A program's message is looked for in the last bytes that it printed. */
enum { QUOTED_BYTES_MAX = 4096 };

/* How often to check for the end of a child that has closed its standard error. The end of any
 * other child is noticed because its standard error is closed. */
enum { LOOK_EVERY_MS = 50 };

/* ---- starting ---- */

/* If standard streams are closed, other files may have their descriptors. Moves such a file to a
 * higher one, so that dup2() neither overwrites it nor leaves it close-on-exec. */
static bool move_away(int *file)
{
    if (*file < 0 || *file > STDERR_FILENO) return true;
    *file = fcntl(*file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return *file >= 0;
}

static bool use_as(int file, int standard)
{
    return file < 0 || dup2(file, standard) >= 0;
}

/* Becomes the program, or writes errno to `errors`. */
static void process_become(const struct child *child, int errors)
{
    int input = child->input, output = child->output, error_output = child->error;
    if (move_away(&errors) && move_away(&input) && move_away(&output) && move_away(&error_output) &&
        use_as(input, STDIN_FILENO) && use_as(output, STDOUT_FILENO) &&
        use_as(error_output, STDERR_FILENO)) {
        if (child->enter != NULL) child->enter(child->of);
        execvp(child->path, child->words);
    }
    int error = errno;
    ssize_t written = write(errors, &error, sizeof error);
    (void)written; /* nobody is left to tell */
    _exit(127);
}

/* The errno that the child has written; 0: it has become the program. */
static int error_read(int from)
{
    int error = 0;
    ssize_t bytes;
    do
        bytes = read(from, &error, sizeof error);
    while (bytes < 0 && errno == EINTR);
    return bytes == (ssize_t)sizeof error ? error : 0;
}

int child_start(const struct child *child, pid_t *process)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return errno;
    *process = fork();
    int error = *process < 0 ? errno : 0;
    if (*process == 0) process_become(child, ends[1]);
    close(ends[1]);
    if (error == 0) error = error_read(ends[0]);
    close(ends[0]);
    if (error == 0) return 0;
    if (*process > 0) waitpid(*process, NULL, 0);
    *process = 0;
    return error;
}

/* ---- signals ---- */

static void process_on_signal(int number)
{
    process_signal = number;
    if (process_child > 0) kill(process_child, SIGKILL);
}

/* Installs the handler. Ignored signals stay ignored, as under nohup. */
static void signals_catch(void)
{
    struct sigaction action = {.sa_handler = process_on_signal}, before;
    for (int i = 0; i < ENDING_SIGNALS; i++) {
        sigaction(process_ending_signals[i], NULL, &before);
        if (before.sa_handler == SIG_DFL) sigaction(process_ending_signals[i], &action, NULL);
    }
}

static void signals_release(void)
{
    struct sigaction before;
    for (int i = 0; i < ENDING_SIGNALS; i++) {
        sigaction(process_ending_signals[i], NULL, &before);
        if (before.sa_handler == process_on_signal) signal(process_ending_signals[i], SIG_DFL);
    }
    if (process_signal != 0) raise(process_signal);
}

bool process_interrupted(void)
{
    return process_signal != 0;
}

/* ---- directory ---- */

bool process_directory_open(struct process_directory *directory)
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

void process_directory_path(const struct process_directory *directory, const char *name, char *path,
                            size_t path_bytes)
{
    snprintf(path, path_bytes, "%s/%s", directory->path, name);
}

void process_directory_close(struct process_directory *directory)
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

struct start {
    const struct process *process;
    sigset_t signals; /* as they were before */
};

/* A child, and the beginning and the end of what it printed. */
struct running_child {
    pid_t pid;
    int errors, status;
    bool timed_out;                   /* it was killed because it took too long */
    char first[QUOTED_BYTES_MAX + 1]; /* ends with a null byte */
    size_t first_bytes;
    char last[2 * QUOTED_BYTES_MAX + 1];
    size_t last_bytes;
};

/* In the child. */
static void process_enter(void *of)
{
    const struct start *start = of;
    sigprocmask(SIG_SETMASK, &start->signals, NULL);
    if (start->process->enter != NULL) start->process->enter(start->process->of);
}

/* The command line with which process->through starts the program; to be freed. NULL: no memory. */
static char **words_through(const struct process *process)
{
    size_t count = 0, of_program = 0;
    while (process->through[count] != NULL)
        count++;
    while (process->words[of_program] != NULL)
        of_program++;
    char **words = calloc(count + of_program + 1, sizeof *words);
    if (words == NULL) return NULL;
    memcpy(words, process->through, count * sizeof *words);
    memcpy(words + count, process->words, of_program * sizeof *words);
    words[count] = (char *)process->path;
    return words;
}

/* Starts a child. Signals are blocked meanwhile, so that none arrives between the child's start and
 * the setting of `running`. False: see errno. */
static bool process_child_run(struct running_child *child, const struct process *process)
{
    struct start start = {.process = process};
    char **words = process->through != NULL ? words_through(process) : NULL;
    sigset_t ending;
    int ends[2], nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if ((process->through != NULL && words == NULL) || nothing < 0 || pipe2(ends, O_CLOEXEC) != 0)
        return false;
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    child->errors = ends[0];
    sigemptyset(&ending);
    for (int i = 0; i < ENDING_SIGNALS; i++)
        sigaddset(&ending, process_ending_signals[i]);
    sigprocmask(SIG_BLOCK, &ending, &start.signals);
    const struct child program = {words != NULL ? words[0] : process->path,
                                  words != NULL ? words : process->words,
                                  process->input >= 0 ? process->input : nothing,
                                  ends[1],
                                  ends[1],
                                  process_enter,
                                  &start};
    signal(SIGCHLD, SIG_DFL); /* if it were ignored, a child would leave no status */
    int error = child_start(&program, &child->pid);
    process_child = error == 0 ? child->pid : 0;
    sigprocmask(SIG_SETMASK, &start.signals, NULL);
    free(words);
    close(ends[1]);
    close(nothing);
    if (error != 0) close(child->errors);
    errno = error;
    return error == 0;
}

/* Keeps the beginning of what was printed. */
static void keep_first(struct running_child *child, const char *bytes, size_t count)
{
    size_t room = sizeof child->first - 1 - child->first_bytes;
    if (count > room) count = room;
    memcpy(child->first + child->first_bytes, bytes, count);
    child->first_bytes += count;
    child->first[child->first_bytes] = '\0';
}

/* Reads what the child has printed and keeps the end of it. False: nothing more can come. */
static bool child_listen(struct running_child *child)
{
    for (;;) {
        if (child->last_bytes > QUOTED_BYTES_MAX) {
            memmove(child->last, child->last + child->last_bytes - QUOTED_BYTES_MAX,
                    QUOTED_BYTES_MAX);
            child->last_bytes = QUOTED_BYTES_MAX;
        }
        char *to = child->last + child->last_bytes;
        ssize_t got = read(child->errors, to, sizeof child->last - 1 - child->last_bytes);
        if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
        keep_first(child, to, (size_t)got);
        child->last_bytes += (size_t)got;
    }
}

/* Whether the child has ended. Does not reap it, so its process id is not reused yet. */
static bool child_has_ended(const struct running_child *child)
{
    siginfo_t ended = {.si_pid = 0};
    int failed = waitid(P_PID, (id_t)child->pid, &ended, WEXITED | WNOHANG | WNOWAIT);
    return failed != 0 || ended.si_pid != 0;
}

/* Waits until the child has ended, and kills it after `limit_s` seconds (0: no limit). */
static void child_await(struct running_child *child, double limit_s)
{
    double end = seconds_now() + limit_s;
    bool listening = true;
    while (!child_has_ended(child)) {
        struct pollfd wait = {.fd = listening ? child->errors : -1, .events = POLLIN};
        double left = limit_s > 0 ? end - seconds_now() : HUGE_VAL;
        if (left <= 0) {
            child->timed_out = true;
            kill(child->pid, SIGKILL);
            break;
        }
        poll(&wait, 1, listening && left > 1 ? 1000 : LOOK_EVERY_MS);
        if (listening) listening = child_listen(child);
    }
    process_child = 0; /* before its process id may be reused */
    while (waitpid(child->pid, &child->status, 0) < 0 && errno == EINTR)
        continue;
    if (listening) child_listen(child);
    close(child->errors);
    child->last[child->last_bytes] = '\0';
}

/* The line after "NAME: ", if it begins with that; else the whole line. */
static const char *process_skip_name(const char *line, const char *name)
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

/* The name that the program uses for itself: if another program starts it, its file's name, which
 * may differ from words[0]. */
static const char *process_name_of(const struct process *process)
{
    return process->through != NULL ? basename(process->path) : process->words[0];
}

/* The last line that a program printed, except for advice to read its help. Modifies the child's
 * text. */
static const char *process_quote(const struct process *process, struct running_child *child)
{
    const char *program = process_name_of(process);
    const char *last = process_skip_name(take_last_line(child->last), program);
    if (strncmp(last, "see ", 4) == 0 && *child->last != '\0')
        last = process_skip_name(take_last_line(child->last), program);
    return process_skip_name(last, process->file);
}

/* Copies the first line that is not from the program itself to process->printed. */
static void hand_out_printed(const struct process *process, const struct running_child *child)
{
    const char *line = child->first, *program = process_name_of(process);
    if (process->printed == NULL) return;
    *process->printed = '\0';
    while (*line != '\0') {
        int length = (int)strcspn(line, "\n");
        bool empty = (int)strspn(line, " \t") >= length;
        if (!empty && process_skip_name(line, program) == line) {
            snprintf(process->printed, process->printed_bytes, "%.*s", length, line);
            return;
        }
        line += length + (line[length] == '\n');
    }
}

static void explain(const struct process *process, struct running_child *child, char *why,
                    size_t bytes)
{
    const char *program = process->words[0];
    const char *quoted = process_quote(process, child);
    const char *between = *quoted != '\0' ? ": " : "";
    if (child->timed_out)
        snprintf(why, bytes, "%s had not ended after %.4g s and was stopped (--time-limit)%s%.300s",
                 program, process->limit_s, between, quoted);
    else if (WIFSIGNALED(child->status))
        snprintf(why, bytes, "%s was killed by signal %d (%s)%s%.300s", program,
                 WTERMSIG(child->status), strsignal(WTERMSIG(child->status)), between, quoted);
    else if (*quoted != '\0')
        snprintf(why, bytes, "%.500s", quoted);
    else
        snprintf(why, bytes, "%s ended with status %d", program, WEXITSTATUS(child->status));
}

bool process_run(const struct process *process, bool may_be_cut, char *why, size_t why_bytes)
{
    struct running_child child = {.pid = 0};
    if (process_signal != 0) return error_explain(why, why_bytes, "interrupted");
    if (!process_child_run(&child, process))
        return error_explain(why, why_bytes, "cannot run %s: %s", process->path, strerror(errno));
    child_await(&child, process->limit_s);
    hand_out_printed(process, &child);
    const bool killed = WIFSIGNALED(child.status) && !child.timed_out;
    if (process->end != NULL)
        *process->end = (struct process_end){killed ? WTERMSIG(child.status) : 0, child.timed_out};
    if (WIFEXITED(child.status) && (WEXITSTATUS(child.status) == PROGRAM_OK ||
                                    (may_be_cut && WEXITSTATUS(child.status) == PROGRAM_CUT)))
        return true;
    explain(process, &child, why, why_bytes);
    return false;
}
