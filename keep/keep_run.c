#include "keep/keep_run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/output.h"
#include "common/program.h"
#include "keep/control.h"
#include "keep/each.h"
#include "keep/keeper.h"
#include "keep/listen.h"
#include "launch/installed.h"
#include "launch/process.h"
#include "stream/metadata.h"
#include "stream/spool_reader.h"

#define KEEPER_SPARED "-900"

/* ---- the stream ---- */

struct following {
    pid_t ordering;
    int pipe;
    struct input input;
    struct instruction_reader reader;
};

/* postprocess opens the FIFO, which waits for the recorder. */
static bool following_open(struct following *following, const char *directory, struct error *error)
{
    struct installed program;
    char fifo[PATH_MAX];
    int ends[2];
    snprintf(fifo, sizeof fifo, "%s/fifo", directory);
    if (!installed_find_program(&program, "postprocess"))
        return error_set(error, &error_system, ERROR_NO_OFFSET, "%.200s not found", program.path);
    if (pipe2(ends, O_CLOEXEC) != 0) return error_set_system(error, "cannot make a pipe");
    const char *const words[] = {KEEPER_NAME, "--quiet", "--no-compress", "--", fifo, "-", NULL};
    const struct child child = {.path = program.path,
                                .words = (char *const *)words,
                                .input = -1,
                                .output = ends[1],
                                .error = -1};
    errno = child_start(&child, &following->ordering);
    close(ends[1]);
    following->pipe = ends[0];
    if (errno != 0) return error_set_system(error, "cannot start postprocess");
    return true;
}

/* Waits until the recording has begun. */
static bool following_begin(struct following *following, struct error *error)
{
    input_open_fd(&following->input, following->pipe);
    if (instruction_reader_open(&following->reader, &following->input)) return true;
    *error = following->reader.error;
    return false;
}

static void following_close(struct following *following)
{
    instruction_reader_close(&following->reader);
    input_close(&following->input);
    if (following->pipe >= 0) close(following->pipe);
    if (following->ordering > 0) waitpid(following->ordering, NULL, 0);
}

/* ---- what the header says ---- */

/* Empty if it is not there. */
static void keeper_take_value(const struct instruction_header *header, const char *key, char *value,
                              size_t bytes)
{
    size_t length = 0;
    const char *at = metadata_value(header->metadata, header->metadata_bytes, key, &length);
    snprintf(value, bytes, "%.*s", (int)length, at != NULL ? at : "");
}

static void keeper_take_header(struct keeper *keeper, const struct instruction_header *header)
{
    char text[32];
    keeper_take_value(header, "pid", text, sizeof text);
    keeper->process = atoi(text);
    keeper->start_s = metadata_start_s(header->metadata, header->metadata_bytes);
    keeper_take_value(header, "run", keeper->run, sizeof keeper->run);
    keeper->segments.header = *header;
}

/* The spool of a process that was killed, from which postprocess has taken the rest; or of one whose
 * keeper was killed. While it is written it is locked. */
static void keeper_remove_spool(const struct keeper *keeper)
{
    uint8_t id[RAW_RECORDING_ID_BYTES];
    char path[PATH_MAX];
    if (strlen(keeper->run) != 2 * sizeof id) return;
    for (size_t i = 0; i < sizeof id; i++) {
        unsigned byte;
        if (sscanf(keeper->run + 2 * i, "%2x", &byte) != 1) return;
        id[i] = (uint8_t)byte;
    }
    if (!spool_elsewhere_path(spool_scratch_directory(), id, path, sizeof path) ||
        !spool_is_there(path))
        return;
    const int spool = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (spool >= 0 && flock(spool, LOCK_EX | LOCK_NB) == 0) unlink(path);
    if (spool >= 0) close(spool);
}

/* ---- triggers ---- */

struct firing {
    struct keeper *keeper;
    const char *text; /* of the condition */
    char path[PATH_MAX];
};

/* FILE.1.lz4 of FILE.lz4, so that it is compressed, too. */
static void keeper_name_beside(const struct keeper *keeper, const char *what, char path[PATH_MAX])
{
    const char *output = keeper->options->output;
    const size_t stem = strlen(output) - (output_is_lz4(output) ? strlen(".lz4") : 0);
    snprintf(path, PATH_MAX, "%.*s.%s%s", (int)stem, output, what, output + stem);
}

static void *firing_run(void *of)
{
    struct firing *firing = of;
    struct instruction_totals totals;
    struct error error = {0};
    if (keeper_write(firing->keeper, firing->path, &totals, &error))
        keeper_say(firing->keeper, "%s: %" PRIu64 " events; because of %s", firing->path,
                   totals.calls, firing->text);
    else
        keeper_fail(firing->path, &error);
    free(firing);
    return NULL;
}

/* With the lock. */
static void keeper_fire(struct keeper *keeper, const struct trigger *trigger)
{
    struct firing *firing = malloc(sizeof *firing);
    pthread_t thread;
    char number[16];
    if (firing == NULL) return;
    *firing = (struct firing){.keeper = keeper, .text = trigger->text};
    snprintf(number, sizeof number, "%u", ++keeper->fired);
    keeper_name_beside(keeper, number, firing->path);
    if (pthread_create(&thread, NULL, firing_run, firing) == 0)
        pthread_detach(thread);
    else
        free(firing);
}

static void keeper_look_at_triggers(struct keeper *keeper)
{
    const struct copy *copy = &keeper->follow.copy;
    const struct trigger_values values = {copy->ns, copy->rss_bytes, keeper->follow.base.live_bytes,
                                          copy->heap_bytes, copy->all_calls};
    const struct trigger *fired = triggers_look(&keeper->triggers, &values);
    if (fired != NULL) keeper_fire(keeper, fired);
}

/* ---- following ---- */

/* Most likely the disk is full. It is tried once for each hundredth of the time that is kept, and said
 * when it had gone well for as long as is kept. False: keeper_end() says why. */
static bool keeper_restart(struct keeper *keeper)
{
    struct segments *segments = &keeper->segments;
    const struct error why = segments->error;
    const uint64_t ns = keeper->follow.copy.ns, passed = ns - keeper->restarted_ns;
    if (keeper->has_restarted && passed < segments->keep_ns / 100) return false;
    const bool says = !keeper->has_restarted || passed >= segments->keep_ns;
    keeper->has_restarted = true;
    keeper->restarted_ns = keeper->grown_ns = ns;
    if (!segments_restart(segments)) return false;
    if (!says) return true;
    keeper_fail(keeper->options->directory, &why);
    keeper_say(keeper,
               "keeping begins anew, with at most %" PRIu64 " bytes, and more when there is room",
               segments->max_bytes);
    return true;
}

/* The disk may have been full for a while only. */
static void keeper_grow(struct keeper *keeper)
{
    const uint64_t ns = keeper->follow.copy.ns;
    if (!keeper->has_restarted || ns - keeper->grown_ns < keeper->segments.keep_ns) return;
    keeper->grown_ns = ns;
    segments_grow(&keeper->segments, keeper->options->max_bytes);
}

/* With the lock. False: nothing more can be kept. */
static bool keeper_take(struct keeper *keeper, const struct instruction_batch *batch)
{
    if (!follow_take(&keeper->follow, batch)) {
        error_set_system(&keeper->segments.error, "no memory for objects");
        return false;
    }
    if (batch->ticks_count > 0) keeper_look_at_triggers(keeper);
    keeper_grow(keeper);
    return segments_look(&keeper->segments) || keeper_restart(keeper);
}

static bool keeper_follow(struct keeper *keeper, struct instruction_reader *reader)
{
    struct instruction_batch batch;
    bool good = true;
    while (good && instruction_reader_next(reader, &batch)) {
        pthread_mutex_lock(&keeper->lock);
        good = keeper_take(keeper, &batch);
        pthread_mutex_unlock(&keeper->lock);
    }
    return good;
}

/* The only segment becomes FILE as it is, if both lie on one file system. */
static bool keeper_take_only(struct keeper *keeper, struct instruction_totals *totals)
{
    const struct segments *segments = &keeper->segments;
    char name[SEGMENT_NAME_BYTES];
    if (segments->count != 1 || !segments->is_finished || !output_is_lz4(keeper->options->output))
        return false;
    *totals = segments->totals;
    return renameat(segments->directory, segments_name(name, &segments->list[0]), AT_FDCWD,
                    keeper->options->output) == 0;
}

/* Everything has been finished: the segments become a file, which is FILE mostly. */
static bool keeper_write_all(struct keeper *keeper, const char *output,
                             struct instruction_totals *totals, struct error *error)
{
    if (output == keeper->options->output && keeper_take_only(keeper, totals)) return true;
    struct joined *joined = malloc(sizeof *joined);
    bool good = joined != NULL && joined_open(joined, &keeper->segments, keeper->segments.count);
    if (joined != NULL && !good) *error = joined->error;
    if (joined == NULL) error_set_system(error, "no memory");
    good = good && keeper_write_joined(joined, output, error);
    if (good) *totals = joined->totals;
    free(joined);
    return good;
}

/* Nothing of what was kept is needed any more; nor are answers, which a killed keeper has left. */
static void keeper_remove_directory(const struct keeper *keeper)
{
    DIR *directory = fdopendir(dup(keeper->segments.directory));
    unlinkat(keeper->segments.directory, "fifo", 0);
    unlinkat(keeper->segments.directory, "fifo.spool", 0);
    if (directory != NULL) rewinddir(directory);
    for (const struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;)
        if (strncmp(entry->d_name, KEEPER_ANSWER, strlen(KEEPER_ANSWER)) == 0)
            unlinkat(keeper->segments.directory, entry->d_name, 0);
    if (directory != NULL) closedir(directory);
    rmdir(keeper->options->directory);
}

/* The last segment ends where its keeper was killed, or the disk was full. If it has not begun to be
 * written, those before are all there is. */
static bool keeper_write_cut(struct keeper *keeper, const char *path,
                             struct instruction_totals *totals, struct error *error)
{
    struct segments *segments = &keeper->segments;
    const size_t found = segments->count;
    bool written = false;
    while (!written && segments->count > 0) {
        *error = (struct error){.kind = NULL};
        written = keeper_write_all(keeper, path, totals, error);
        segments->count -= !written;
    }
    segments->count = found;
    return written;
}

/* FILE has been written, or not. What was set aside when the disk was full becomes FILE.before, or FILE
 * if there is none. False: what is there is still needed. */
static bool keeper_write_older(struct keeper *keeper, bool has_file)
{
    struct segments *segments = &keeper->segments;
    struct instruction_totals totals = {0};
    struct error error = {0};
    char path[PATH_MAX];
    if (segments->older_count == 0) {
        if (has_file) segments_remove(segments);
        return has_file;
    }
    segments_take_older(segments);
    if (has_file)
        keeper_name_beside(keeper, "before", path);
    else
        snprintf(path, sizeof path, "%s", keeper->options->output);
    if (!keeper_write_cut(keeper, path, &totals, &error)) {
        keeper_fail(path, &error);
        return false;
    }
    segments_remove(segments);
    keeper_say(keeper, "%s: %" PRIu64 " events, up to when something could not be written", path,
               totals.calls);
    return true;
}

static bool keeper_is_of_no_use(const struct keeper *keeper)
{
    char forked[8];
    keeper_take_value(&keeper->segments.header, "forked", forked, sizeof forked);
    return keeper->options->process != NULL && *forked != '\0' &&
           keeper->follow.copy.all_calls < EACH_FORKED_CALLS;
}

/* Returns an exit status. */
static int keeper_end(struct keeper *keeper, const struct instruction_reader *reader)
{
    struct segments *segments = &keeper->segments;
    struct instruction_totals totals = {0};
    struct error error = {0};
    const enum instruction_status status =
        reader->state == INSTRUCTIONS_END ? reader->end_status : INSTRUCTION_STATUS_CUT;
    pthread_mutex_lock(&keeper->writing);
    pthread_mutex_lock(&keeper->lock);
    keeper->has_ended = true;
    uint64_t since_ns = segments->list[0].start_ns;
    segments_finish(segments, status);
    if (error_is_set(&segments->error)) keeper_fail(keeper->options->directory, &segments->error);
    pthread_mutex_unlock(&keeper->lock);
    if (keeper_is_of_no_use(keeper)) {
        segments_take_older(segments);
        segments_remove(segments);
        return PROGRAM_OK;
    }
    const char *output = keeper->options->output;
    bool written = keeper_write_all(keeper, output, &totals, &error);
    while (!written && segments->count > 1) {
        segments_drop_first(segments);
        since_ns = segments->list[0].start_ns;
        error = (struct error){.kind = NULL};
        written = keeper_write_all(keeper, output, &totals, &error);
    }
    pthread_mutex_unlock(&keeper->writing);
    if (!written) keeper_fail(output, &error);
    if (!keeper_write_older(keeper, written)) {
        if (access(keeper->options->directory, F_OK) != 0) return PROGRAM_FAILED;
        keeper_say(keeper,
                   "what was kept is in %s: when there is room, `malloctape-keep --rescue -o FILE "
                   "%s` makes a trace of it",
                   keeper->options->directory, keeper->options->directory);
        return PROGRAM_FAILED;
    }
    if (written && keeper->options->process == NULL)
        keeper_say(keeper, "%s: %" PRIu64 " events, the last %.1f s%s; %" PRIu64 " objects alive",
                   keeper->options->output, totals.calls,
                   (double)(keeper->follow.copy.ns - since_ns) / 1e9,
                   instruction_status_is_complete(status) ? "" : ", cut short", totals.live);
    return instruction_status_is_complete(status) ? PROGRAM_OK : PROGRAM_CUT;
}

static int keeper_start(struct keeper *keeper, struct following *following)
{
    struct error error = {0};
    keeper_take_header(keeper, &following->reader.header);
    pthread_mutex_lock(&keeper->lock);
    keeper->has_begun =
        follow_open(&keeper->follow, &following->reader) && segments_open(&keeper->segments);
    pthread_mutex_unlock(&keeper->lock);
    if (!keeper->has_begun) return keeper_fail(keeper->options->directory, &keeper->segments.error);
    if (!control_begin(keeper, &error)) keeper_fail(NULL, &error);
    keeper_follow(keeper, &following->reader);
    return keeper_end(keeper, &following->reader);
}

/* The directory is this keeper's as long as it is locked. -1: after a message. */
static int keeper_directory(const char *path)
{
    struct error error = {0};
    const int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0 && flock(directory, LOCK_EX | LOCK_NB) == 0) return directory;
    error_set_system(&error, "cannot be used");
    keeper_fail(path, &error);
    if (directory >= 0) close(directory);
    return -1;
}

/* The program's end may be told to its whole group: this goes on until the stream has ended. A file that
 * may not grow (ulimit -f) is as a full disk. */
static void keeper_ignore_signals(void)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXFSZ};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
}

/* The kernel may kill a second process of a cgroup before the memory of the first one is free. Only
 * the privileged may say that it should not be this one, nor postprocess, which inherits it. */
static void keeper_spare(void)
{
    const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file < 0) return;
    if (write(file, KEEPER_SPARED, strlen(KEEPER_SPARED)) < 0) errno = 0; /* so be it */
    close(file);
}

/* While a trace is written, two files of each segment are open; and others besides. */
static void keeper_allow_files(void)
{
    enum { FILES = 4 * SEGMENTS_MAX };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= FILES) return;
    limit.rlim_cur = limit.rlim_max < FILES ? limit.rlim_max : FILES;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* `record` waits for this before it starts the program. */
static void keeper_is_ready(void)
{
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (write(STDOUT_FILENO, "ready\n", 6) < 0) return; /* nobody waits */
    if (nowhere >= 0) dup2(nowhere, STDOUT_FILENO);
}

/* The recording has begun, or not: `has_begun`. Returns an exit status when it has ended. */
static int keeper_attend(struct keeper *keeper, struct following *following, bool has_begun,
                         struct listen *listener)
{
    int status = PROGRAM_FAILED;
    bool is_needed = false; /* the directory */
    if (has_begun) {
        status = keeper_start(keeper, following);
        is_needed = status == PROGRAM_FAILED && keeper->has_begun;
        if (status != PROGRAM_FAILED) keeper_remove_spool(keeper);
    }
    listen_end(listener); /* until then, answers are being made in the directory */
    if (!is_needed) keeper_remove_directory(keeper);
    following_close(following);
    return status;
}

/* Until the stream has ended. Returns an exit status. */
static int keeper_serve(struct keeper *keeper)
{
    struct following following = {.pipe = -1};
    struct listen *listener = NULL;
    struct error error = {0};
    const struct keep_options *options = keeper->options;
    if (options->listen != NULL && !listen_begin(&listener, keeper, &error)) {
        keeper_fail(options->listen, &error);
        return PROGRAM_USAGE;
    }
    keeper_is_ready();
    const bool is_open = following_open(&following, options->directory, &error);
    if (!is_open) keeper_fail(NULL, &error);
    const bool has_begun = is_open && following_begin(&following, &error);
    return keeper_attend(keeper, &following, has_begun, listener);
}

/* The same for one of many. If it cannot listen, it goes on without: nobody is told before the
 * program begins. */
static int keeper_serve_each(struct keeper *keeper, struct keep_options *options)
{
    struct listen *listener = NULL;
    struct error error = {0};
    struct following following = {.pipe = each_split(&error)};
    if (following.pipe < 0) return keeper_fail(NULL, &error);
    if (!following_begin(&following, &error)) { /* it has recorded nothing */
        keeper_report("keeping %d ", atoi(options->process));
        return PROGRAM_OK;
    }
    const bool is_named =
        each_choose_names(options, &error) || keeper_fail(options->output, &error) == PROGRAM_OK;
    keeper->segments.directory = is_named ? keeper_directory(options->directory) : -1;
    const bool is_kept = keeper->segments.directory >= 0;
    keeper_report("keeping %d %s", atoi(options->process), is_kept ? options->directory : "");
    if (!is_kept) return PROGRAM_FAILED;
    if (options->listen != NULL && !listen_begin(&listener, keeper, &error))
        keeper_fail(options->listen, &error);
    return keeper_attend(keeper, &following, true, listener);
}

/* What is in the header of the segments, and stays when its reader is closed. */
static void keeper_take_first_header(struct keeper *keeper)
{
    struct instruction_reader reader;
    struct input input;
    const int stream = segments_open_file(&keeper->segments, &keeper->segments.list[0], false);
    if (stream < 0) return;
    input_open_fd(&input, stream);
    if (instruction_reader_open(&reader, &input)) keeper_take_header(keeper, &reader.header);
    instruction_reader_close(&reader);
    input_close(&input);
    close(stream);
}

static int keeper_rescue(struct keeper *keeper)
{
    struct segments *segments = &keeper->segments;
    struct instruction_totals totals = {0};
    struct error error = {0};
    const char *output = keeper->options->output;
    if (!segments_find(segments))
        error_set(&error, &error_system, ERROR_NO_OFFSET, "there are no segments");
    else
        keeper_take_first_header(keeper);
    const bool written = keeper_write_cut(keeper, output, &totals, &error);
    if (!written) keeper_fail(keeper->options->directory, &error);
    if (segments->count ==
        0) { /* its keeper was killed at once: nothing is there, but a spool perhaps */
        unlinkat(segments->directory, "fifo", 0);
        rmdir(keeper->options->directory);
        return PROGRAM_FAILED;
    }
    if (!keeper_write_older(keeper, written)) return PROGRAM_FAILED;
    keeper_remove_spool(keeper);
    keeper_remove_directory(keeper);
    if (written)
        keeper_say(keeper, "%s: %" PRIu64 " events, up to what its keeper had written", output,
                   totals.calls);
    return PROGRAM_CUT;
}

int keep_run(struct keep_options *options)
{
    struct keeper *keeper = calloc(1, sizeof *keeper);
    if (keeper == NULL) return PROGRAM_FAILED;
    keeper->options = options;
    keeper->triggers = options->triggers;
    pthread_mutex_init(&keeper->lock, NULL);
    pthread_mutex_init(&keeper->writing, NULL);
    keeper_allow_files();
    keeper_report_to(options->report);
    if (options->process == NULL) {
        keeper->segments.directory = keeper_directory(options->directory);
        if (keeper->segments.directory < 0) return PROGRAM_FAILED;
    }
    if (options->rescue) return keeper_rescue(keeper);
    keeper->segments.follow = &keeper->follow;
    keeper->segments.keep_ns = options->keep_ns;
    keeper->segments.max_bytes = options->max_bytes;
    umask(077); /* another one may take its directory from it */
    setsid();
    keeper_ignore_signals();
    keeper_spare();
    return options->process != NULL ? keeper_serve_each(keeper, options) : keeper_serve(keeper);
}
