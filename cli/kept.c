#include "cli/kept.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/tell.h"
#include "cli/told_to_end.h"
#include "common/amount.h"
#include "common/printable.h"
#include "keep/keep_socket.h"
#include "keep/triggers.h"
#include "launch/installed.h"
#include "launch/process.h"
#include "reading/stream.h"

/* How long the keeper may take to open the FIFO. */
enum { KEPT_OPEN_TRIES = 10000, KEPT_OPEN_WAIT_US = 1000 };

/* A keeper that a recorder starts would find a mistake only after the program has begun. */
static int kept_check_conditions(const struct kept *kept)
{
    struct triggers triggers = {.count = 0};
    char why[128];
    for (size_t i = 0; i < kept->when_count; i++)
        if (!triggers_add(&triggers, kept->when[i], why, sizeof why))
            return cli_usage_error(&cli_record, "--when %s: %s", kept->when[i], why);
    return PROGRAM_GO_ON;
}

int kept_check(const struct kept *kept)
{
    uint64_t ns, bytes;
    if (kept->keep == NULL) {
        const char *const alone = kept->listen != NULL   ? "--listen"
                                  : kept->token != NULL  ? "--token"
                                  : kept->when_count > 0 ? "--when"
                                                         : NULL;
        if (alone == NULL) return PROGRAM_GO_ON;
        return cli_usage_error(&cli_record, "%s needs --keep", alone);
    }
    if (!amount_parse_keep(kept->keep, &ns, &bytes))
        return cli_usage_error(&cli_record, "--keep %s: TIME or TIME,BYTES, as 10m,500M",
                               kept->keep);
    return kept_check_conditions(kept);
}

/* ---- beginning ---- */

/* Removes a directory of segments. Whether it is gone. */
static bool kept_remove_directory(const char *path)
{
    DIR *directory = opendir(path);
    if (directory == NULL) return errno == ENOENT;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
        unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
    return rmdir(path) == 0;
}

/* What an earlier keeper could not finish stays, under another name; what was there under that
 * goes. Whether the name is free now. */
static bool kept_set_aside(const struct kept *kept)
{
    char older[PATH_MAX];
    const int directory = open(kept->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory < 0) return errno == ENOENT;
    const bool is_used = flock(directory, LOCK_EX | LOCK_NB) != 0;
    close(directory);
    if (is_used) {
        errno = EBUSY;
        return false;
    }
    if (rmdir(kept->directory) == 0) return true;
    snprintf(older, sizeof older, "%.*s.older", PATH_MAX - 8, kept->directory);
    return kept_remove_directory(older) && rename(kept->directory, older) == 0;
}

static int kept_fail(const struct kept *kept, const char *what)
{
    return cli_fail(&cli_record, "%s: %s: %s", kept->directory, what, strerror(errno));
}

/* Waits until the keeper is ready. Returns an exit status. */
static int kept_run(struct kept *kept, const char *path, const char *const *words)
{
    int ends[2];
    char ready[8];
    if (pipe2(ends, O_CLOEXEC) != 0) return kept_fail(kept, "cannot make a pipe");
    const struct child child = {
        .path = path, .words = (char *const *)words, .input = -1, .output = ends[1], .error = -1};
    const int failed = child_start(&child, &kept->keeper);
    close(ends[1]);
    const bool is_ready = failed == 0 && read(ends[0], ready, sizeof ready) > 0;
    close(ends[0]);
    if (is_ready) return PROGRAM_OK;
    if (failed != 0) return cli_fail(&cli_record, "cannot start the keeper: %s", strerror(failed));
    if (waitpid(kept->keeper, &kept->status, 0) == kept->keeper) kept->keeper = 0;
    kept_remove_directory(kept->directory);
    return WIFEXITED(kept->status) ? WEXITSTATUS(kept->status) : PROGRAM_FAILED;
}

size_t kept_words(const struct kept *kept, const char *words[KEPT_WORDS_MAX])
{
    size_t count = 0;
    words[count++] = "--keep";
    words[count++] = kept->keep;
    words[count++] = "-o";
    words[count++] = kept->output;
    for (size_t i = 0; i < kept->when_count; i++) {
        words[count++] = "--when";
        words[count++] = kept->when[i];
    }
    if (kept->listen != NULL) words[count++] = "--listen", words[count++] = kept->listen;
    if (kept->token != NULL) words[count++] = "--token", words[count++] = kept->token;
    if (kept->quiet) words[count++] = "--quiet";
    return count;
}

static int kept_start(struct kept *kept)
{
    struct installed program;
    const char *words[KEPT_WORDS_MAX + 4] = {"malloctape-keep"};
    if (!installed_find_program(&program, "malloctape-keep"))
        return cli_fail(&cli_record, "%s not found", program.path);
    size_t count = 1 + kept_words(kept, words + 1);
    words[count++] = "--";
    words[count++] = kept->directory;
    words[count] = NULL;
    return kept_run(kept, program.path, words);
}

static void kept_tell_lost(struct kept *kept)
{
    if (WIFSIGNALED(kept->status))
        cli_tell(
            "malloctape record: signal %d has ended the keeper: nothing more is recorded; what it "
            "has kept is written at the end",
            WTERMSIG(kept->status));
    else
        cli_tell("malloctape record: the keeper has ended: nothing more is recorded");
}

static void kept_look_at_keeper(struct kept *kept)
{
    if (kept->keeper <= 0 || waitpid(kept->keeper, &kept->status, WNOHANG) != kept->keeper) return;
    kept->keeper = 0;
    if (!WIFEXITED(kept->status) || WEXITSTATUS(kept->status) == PROGRAM_FAILED)
        kept_tell_lost(kept);
}

/* Waits until somebody reads. Returns an exit status. */
static int kept_hold(struct kept *kept)
{
    kept->held = -1;
    for (unsigned i = 0; i < KEPT_OPEN_TRIES && kept->held < 0 && kept->keeper > 0; i++) {
        kept->held = open(kept->fifo, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        if (kept->held >= 0 || errno != ENXIO) break;
        usleep(KEPT_OPEN_WAIT_US);
        kept_look_at_keeper(kept);
    }
    if (kept->held < 0) return kept_fail(kept, "the keeper does not read");
    kept->holds = true;
    fcntl(kept->held, F_SETFL, 0);
    return PROGRAM_OK;
}

int kept_begin(struct kept *kept, const char *output)
{
    kept->output = output;
    const int bytes = snprintf(kept->directory, sizeof kept->directory, "%s.keep", output);
    if (bytes < 0 || (size_t)bytes + sizeof "/fifo.spool" > sizeof kept->directory)
        return cli_fail(&cli_record, "the name of the output is too long");
    snprintf(kept->fifo, sizeof kept->fifo, "%.*s/fifo", PATH_MAX - 6, kept->directory);
    if (!kept_set_aside(kept)) return kept_fail(kept, "is in the way");
    if (mkdir(kept->directory, 0700) != 0 || chmod(kept->directory, 0700) != 0)
        return kept_fail(kept, "cannot be made");
    if (mkfifo(kept->fifo, 0600) != 0 || chmod(kept->fifo, 0600) != 0)
        return kept_fail(kept, "cannot make a FIFO in it");
    const int status = kept_start(kept);
    return status == PROGRAM_OK ? kept_hold(kept) : status;
}

/* ---- while it goes on ---- */

static void kept_let_go(struct kept *kept)
{
    if (kept->holds) close(kept->held);
    kept->holds = false;
}

/* There are segments once the recorder has written. */
static bool kept_has_begun(const struct kept *kept)
{
    DIR *directory = opendir(kept->directory);
    bool has_begun = directory == NULL;
    for (const struct dirent *entry; !has_begun && (entry = readdir(directory)) != NULL;)
        has_begun = strstr(entry->d_name, ".lz4") != NULL;
    if (directory != NULL) closedir(directory);
    return has_begun;
}

void kept_look(struct kept *kept)
{
    if (kept->holds && kept_has_begun(kept)) kept_let_go(kept);
    kept_look_at_keeper(kept);
}

bool kept_give(struct kept *kept, int given[2])
{
    char spool[PATH_MAX + 8];
    snprintf(spool, sizeof spool, "%s.spool", kept->fifo);
    given[0] = kept->held;
    given[1] = open(spool, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    kept->holds = given[1] < 0;
    return given[1] >= 0 || !kept_fail(kept, "cannot make a spool in it");
}

bool kept_may_replace(const char *path)
{
    struct stream stream;
    struct error error = {0};
    const bool opened = stream_open(&stream, path, &error);
    if (opened) stream_close(&stream);
    return opened;
}

/* By now the environment has what makes a program record itself. */
static void kept_enter_unrecorded(void *of)
{
    (void)of;
    unsetenv("LD_PRELOAD");
}

void kept_rescue(const char *file, const char *directory)
{
    struct installed program;
    pid_t process;
    const char *const words[] = {"malloctape-keep", "--rescue", "-o", file, "--", directory, NULL};
    const struct child child = {.path = program.path,
                                .words = (char *const *)words,
                                .input = -1,
                                .output = -1,
                                .error = -1,
                                .enter = kept_enter_unrecorded};
    if (installed_find_program(&program, "malloctape-keep") && child_start(&child, &process) == 0)
        waitpid(process, NULL, 0);
}

/* False: somebody has asked us not to. */
static bool kept_wait(struct kept *kept)
{
    struct told_to_end told;
    told_to_end_begin(&told);
    while (kept->keeper > 0) {
        if (waitpid(kept->keeper, &kept->status, WNOHANG) == kept->keeper) {
            kept->keeper = 0;
            if (WIFSIGNALED(kept->status)) kept_tell_lost(kept);
        } else if (told_to_end_wait(&told)) {
            cli_tell("malloctape record: signal %d: the keeper goes on writing %s", told.signal,
                     kept->output);
            return false;
        }
    }
    return true;
}

bool kept_end(struct kept *kept)
{
    kept_let_go(kept);
    if (!kept_wait(kept)) return false;
    if (WIFSIGNALED(kept->status)) kept_rescue(kept->output, kept->directory);
    return WIFEXITED(kept->status) && WEXITSTATUS(kept->status) != PROGRAM_FAILED;
}

/* ---- ctl ---- */

static int kept_connect(pid_t process)
{
    struct sockaddr_un address;
    const socklen_t bytes = keep_socket_address(&address, process);
    const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (file >= 0 && connect(file, (struct sockaddr *)&address, bytes) == 0) return file;
    if (file >= 0) close(file);
    return -1;
}

/* Anybody could have taken the name. */
static bool kept_is_ours(int file)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    return getsockopt(file, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0 || geteuid() == 0);
}

bool kept_request(pid_t process, const char *word, const char *path, char *answer, size_t room)
{
    char request[PATH_MAX + 16], here[PATH_MAX] = "";
    size_t used = 0;
    ssize_t some;
    *answer = '\0';
    if (path[0] != '/' && getcwd(here, sizeof here) == NULL) return false;
    const int bytes = snprintf(request, sizeof request, "%s %s%s%s\n", word, here,
                               *here != '\0' ? "/" : "", path);
    if (strchr(path, '\n') != NULL || (size_t)bytes >= sizeof request) return false;
    const int file = kept_connect(process);
    const bool is_sent = file >= 0 && kept_is_ours(file) &&
                         send(file, request, (size_t)bytes, MSG_NOSIGNAL) == bytes;
    while (is_sent && used < room - 1 && (some = read(file, answer + used, room - 1 - used)) > 0)
        used += (size_t)some;
    if (file >= 0) close(file);
    answer[used] = '\0';
    answer[strcspn(answer, "\n")] = '\0';
    if (file >= 0 && used == 0) snprintf(answer, room, "the keeper does not answer");
    return strncmp(answer, "ok: ", 4) == 0;
}

int kept_ask(pid_t process, const char *path)
{
    char answer[600];
    if (kept_request(process, "keep", path, answer, sizeof answer)) {
        printable_print(stdout, answer + 4, strlen(answer + 4));
        putchar('\n');
        return PROGRAM_OK;
    }
    if (*answer != '\0')
        return cli_fail(&cli_ctl, "the keeper of process %d: %s", (int)process, answer);
    return cli_fail(
        &cli_ctl,
        "process %d has no keeper (`malloctape record --keep`), or %s cannot be sent to it",
        (int)process, path);
}
