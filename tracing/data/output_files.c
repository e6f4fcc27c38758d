#include "tracing/data/output_files.h"

#include "common/text.h"
#include "tracing/os/os.h"

#include <errno.h>
#include <string.h>

/* How long a command that is given nothing may take to end. */
#define DISCARDED_COMMAND_NS UINT64_C(1000000000)

/* Others may take the spool's name again and again. */
#define SETTLE_TRIES 100

static int output_files_fail(struct output_files *files, int error, const char *what)
{
    files->failed = what;
    return error;
}

/* "PREFIX", the id in hexadecimal, "SUFFIX". Whether it fits. */
static bool put_temporary_name(struct text *text, const char *prefix, uint64_t id,
                               const char *suffix)
{
    text_string(text, prefix);
    text_hexadecimal(text, id);
    text_string(text, suffix);
    return text_end(text);
}

/* A spool does not belong beside a link such as /dev/stdout. */
static bool is_for_files(const char *path)
{
    return strncmp(path, "/dev/", 5) != 0 && strncmp(path, "/proc/", 6) != 0;
}

/* Makes the path absolute, if the current directory is known and there is room, because that
 * directory may change. */
static void put_directory_path(struct output_files *files, size_t length)
{
    size_t bytes = sizeof files->directory_path - 1 - length;
    size_t before = 0;
    if (files->name[0] != '/') {
        os_current_directory(files->directory_path, bytes);
        before = strlen(files->directory_path);
    }
    memcpy(files->directory_path + before, files->name, length);
    memcpy(files->directory_path + before + length, ".", 2);
}

/* Opens the directory of the name, and finds out what is there. */
static int output_files_find_path(struct output_files *files)
{
    struct os_file_status status;
    files->last = output_name_last(files->name);
    size_t length = (size_t)(files->last - files->name);
    if (length + strlen(files->last) >= OUTPUT_PATH_BYTES_MAX) return -ENAMETOOLONG;
    put_directory_path(files, length);
    files->directory = os_directory_open(files->directory_path);
    if (files->directory < 0) return files->directory;
    if (!*files->last) return -EISDIR;
    int result = os_file_look(files->directory, files->last, &status);
    if (result < 0) return result;
    switch (status.kind) {
    case OS_FILE_DIRECTORY: return -EISDIR;
    case OS_FILE_MISSING: files->kind = OUTPUT_NEW_FILE; break;
    case OS_FILE_PLAIN: files->kind = status.is_own_name ? OUTPUT_NEW_FILE : OUTPUT_AS_IS; break;
    case OS_FILE_PIPE: files->kind = OUTPUT_FIFO; break;
    case OS_FILE_OTHER: files->kind = OUTPUT_AS_IS; break;
    }
    files->has_reader = status.kind == OS_FILE_PIPE;
    files->is_plain = files->kind == OUTPUT_NEW_FILE || status.kind == OS_FILE_PLAIN;
    files->spool_is_beside =
        files->kind == OUTPUT_NEW_FILE || (files->is_plain && is_for_files(files->name));
    return 0;
}

static int find_descriptor(struct output_files *files, int number)
{
    struct os_file_status status;
    int result = number < 0 ? -EBADF : os_file_look_at(number, &status);
    if (result < 0) return result;
    files->kind = OUTPUT_DESCRIPTOR;
    files->has_reader = status.kind == OS_FILE_PIPE;
    files->file = number;
    return 0;
}

static int output_files_find(struct output_files *files)
{
    if (strncmp(files->name, "fd:", 3) == 0)
        return find_descriptor(files, output_name_descriptor(files->name));
    if (files->name[0] != '|') return output_files_find_path(files);
    files->kind = OUTPUT_COMMAND;
    files->has_reader = true;
    return 0;
}

/* Without a name, where possible: then nothing is left if the process is killed early. */
static int output_files_create(struct output_files *files, const char *name, bool *is_nameless)
{
    int file = os_file_create_nameless(files->directory);
    *is_nameless = file >= 0;
    return file >= 0 ? file : os_file_create(files->directory, name);
}

/* Gives the file its name, in place of what has it. */
static int put_in_place(const struct output_files *files, int file, bool is_nameless,
                        const char *new_name, const char *name)
{
    if (is_nameless) {
        int result = os_file_name(file, files->directory, name);
        if (result != -EEXIST) return result;
        result = os_file_name(file, files->directory, new_name);
        if (result < 0) return result;
    }
    return os_file_rename(files->directory, new_name, name);
}

/* The spool has its own name at once where nobody else can have it. */
static int make_spool_elsewhere(struct output_files *files)
{
    struct text path = {files->spool_path, 0, sizeof files->spool_path};
    text_string(&path, files->scratch);
    text_string(&path, "/");
    files->spool_name = files->spool_path + path.used;
    if (!put_temporary_name(&path, "malloctape-", files->id, ".spool"))
        return output_files_fail(files, -ENAMETOOLONG, files->scratch);
    files->spool_directory = os_directory_open(files->scratch);
    if (files->spool_directory < 0)
        return output_files_fail(files, files->spool_directory, files->scratch);
    files->spool = os_file_create(files->spool_directory, files->spool_name);
    if (files->spool < 0) return output_files_fail(files, files->spool, files->spool_path);
    files->settled = true;
    return 0;
}

static void put_spool_name(struct output_files *files)
{
    struct text path = {files->spool_path, 0, sizeof files->spool_path};
    text_string(&path, files->name);
    text_string(&path, ".spool");
    text_end(&path);
    files->spool_name = output_name_last(files->spool_path);
}

static int make_spool_beside(struct output_files *files)
{
    put_spool_name(files);
    files->spool_directory = files->directory;
    struct text name = {files->new_spool_name, 0, sizeof files->new_spool_name};
    put_temporary_name(&name, ".malloctape-", files->id, ".spool");
    struct text older_name = {files->older_spool_name, 0, sizeof files->older_spool_name};
    put_temporary_name(&older_name, ".malloctape-", files->id, ".older");
    files->spool = output_files_create(files, files->new_spool_name, &files->spool_is_nameless);
    if (files->spool < 0) return output_files_fail(files, files->spool, files->spool_path);
    os_file_lock(files->spool);
    return 0;
}

/* Whoever has made the files gives them their names, and removes the spool. */
static int take_given(struct output_files *files)
{
    struct os_file_status status;
    files->file = files->given.stream;
    files->spool = files->given.spool;
    files->kind = OUTPUT_GIVEN;
    files->spool_is_beside = files->settled = true;
    put_spool_name(files);
    int result = os_file_look_at(files->spool, &status);
    if (result == 0) result = os_file_look_at(files->file, &status);
    files->is_plain = status.kind == OS_FILE_PLAIN;
    files->has_reader = status.kind == OS_FILE_PIPE;
    if (result < 0) return output_files_fail(files, result, files->name);
    os_file_lock(files->spool);
    return 0;
}

int output_make(struct output_files *files)
{
    files->file = files->spool = files->directory = files->spool_directory = -1;
    files->command = -1;
    if (files->given.spool >= 0) return take_given(files);
    int result = output_files_find(files);
    if (result < 0) return output_files_fail(files, result, files->name);
    result = files->spool_is_beside ? make_spool_beside(files) : make_spool_elsewhere(files);
    if (result < 0 || files->kind != OUTPUT_NEW_FILE) return result;
    struct text name = {files->new_name, 0, sizeof files->new_name};
    put_temporary_name(&name, ".malloctape-", files->id, ".raw");
    files->file = output_files_create(files, files->new_name, &files->file_is_nameless);
    if (files->file < 0) return output_files_fail(files, files->file, files->name);
    os_file_look_at(files->file, &files->file_status);
    os_file_look_at(files->spool, &files->spool_status);
    return 0;
}

/* The older spool beside the file is of no use any more, either. */
static int open_as_is(struct output_files *files)
{
    files->file = os_file_open_write(files->directory, files->last);
    if (files->file < 0) return files->file;
    int result = output_settle(files);
    return result == 0 && files->is_plain ? os_file_empty(files->file) : result;
}

int output_start(struct output_files *files)
{
    int result = 0;
    if (files->kind == OUTPUT_AS_IS) result = open_as_is(files);
    if (files->kind == OUTPUT_COMMAND)
        result = files->file = os_command_start(files->name + 1, &files->command);
    return result < 0 ? output_files_fail(files, result, files->name) : 0;
}

void output_defer(struct output_files *files)
{
    files->file = files->spool = files->directory = files->spool_directory = -1;
}

int output_reopen(struct output_files *files)
{
    files->directory = files->spool_directory = os_directory_open(files->directory_path);
    if (files->directory < 0) return output_files_fail(files, files->directory, files->name);
    files->file = os_file_open_again(files->directory, files->last, &files->file_status);
    if (files->file < 0) return output_files_fail(files, files->file, files->name);
    files->spool = os_file_open_again(files->directory, files->spool_name, &files->spool_status);
    if (files->spool >= 0) return 0;
    os_file_close(files->file);
    return output_files_fail(files, files->spool, files->spool_path);
}

int output_connect(struct output_files *files)
{
    int file = os_file_open_write(files->directory, files->last);
    if (file < 0) return output_files_fail(files, file, files->name);
    files->file = file;
    return 0;
}

/* Gives the file its name, if no other has it. */
static int put_beside_others(const struct output_files *files, int file, bool is_nameless,
                             const char *new_name, const char *name)
{
    return is_nameless ? os_file_name(file, files->directory, name)
                       : os_file_rename_new(files->directory, new_name, name);
}

/* An older spool gets another name until nothing can fail any more. -ETXTBSY: it is one that is
 * written to, which keeps its name. */
static int set_older_aside(struct output_files *files)
{
    struct os_file_status older;
    if (os_file_is_locked(files->directory, files->spool_name)) return -ETXTBSY;
    int result = os_file_look(files->directory, files->spool_name, &older);
    if (result < 0 || older.kind == OS_FILE_MISSING) return result;
    if (older.kind == OS_FILE_DIRECTORY) return -EISDIR;
    result = os_file_rename(files->directory, files->spool_name, files->older_spool_name);
    if (result == -ENOENT) return 0;
    files->has_older_spool = result == 0;
    /* Another recording may have taken the name meanwhile. */
    if (result < 0 || !os_file_is_locked(files->directory, files->older_spool_name)) return result;
    files->has_older_spool = false;
    os_file_rename_new(files->directory, files->older_spool_name, files->spool_name);
    return -ETXTBSY;
}

/* The spool's name decides who has the stream's: a spool is locked before it has one. */
static int settle_spool(struct output_files *files)
{
    int result = -EEXIST;
    for (unsigned i = 0; i < SETTLE_TRIES && result == -EEXIST; i++) {
        result = set_older_aside(files);
        if (result == 0)
            result = put_beside_others(files, files->spool, files->spool_is_nameless,
                                       files->new_spool_name, files->spool_name);
    }
    files->settled = result == 0;
    return result;
}

/* The stream's file decides who has the name. */
static int settle_beside_others(struct output_files *files)
{
    int result = put_beside_others(files, files->file, files->file_is_nameless, files->new_name,
                                   files->last);
    if (result < 0) return output_files_fail(files, result, files->name);
    result = put_beside_others(files, files->spool, files->spool_is_nameless, files->new_spool_name,
                               files->spool_name);
    files->settled = result == 0;
    if (files->settled) return 0;
    files->file_is_nameless = false;
    os_file_rename(files->directory, files->last, files->new_name);
    return output_files_fail(files, result, files->spool_path);
}

void output_rename(struct output_files *files)
{
    files->last = output_name_last(files->name);
    put_spool_name(files);
}

/* Two recordings may have the same name: the one that comes first keeps it for as long as it
 * lasts. */
int output_settle(struct output_files *files)
{
    if (files->keeps_others && files->kind == OUTPUT_NEW_FILE) return settle_beside_others(files);
    int result = files->settled ? 0 : settle_spool(files);
    if (result < 0)
        return output_files_fail(files, result,
                                 result == -ETXTBSY ? files->name : files->spool_path);
    if (files->kind == OUTPUT_NEW_FILE)
        result =
            put_in_place(files, files->file, files->file_is_nameless, files->new_name, files->last);
    if (result < 0) return output_files_fail(files, result, files->name);
    if (files->has_older_spool) os_file_remove(files->directory, files->older_spool_name);
    files->has_older_spool = false;
    return 0;
}

/* Somebody may have put another file in the place of ours. */
static void remove_ours(int directory, const char *name, const struct os_file_status *ours)
{
    struct os_file_status there;
    if (os_file_look(directory, name, &there) == 0 && there.kind == OS_FILE_PLAIN &&
        there.device == ours->device && there.inode == ours->inode)
        os_file_remove(directory, name);
}

static void output_files_remove_spool(struct output_files *files)
{
    struct os_file_status ours;
    if (files->kind == OUTPUT_GIVEN) return;
    if (os_file_look_at(files->spool, &ours) == 0)
        remove_ours(files->spool_directory, files->spool_name, &ours);
}

static void output_files_close_all(struct output_files *files)
{
    if (files->kind == OUTPUT_GIVEN) return;
    if (files->spool_directory != files->directory) os_file_close(files->spool_directory);
    os_file_close(files->directory);
    os_file_close(files->spool);
}

void output_release(struct output_files *files)
{
    if (files->kind != OUTPUT_GIVEN) return;
    if (!files->spool_is_needed) os_file_empty(files->spool);
    os_file_close(files->spool);
}

void output_discard(struct output_files *files)
{
    if (files->spool >= 0 && files->settled) output_files_remove_spool(files);
    if (files->has_older_spool)
        os_file_rename(files->directory, files->older_spool_name, files->spool_name);
    if (files->spool >= 0 && !files->settled)
        os_file_remove(files->directory, files->new_spool_name);
    if (files->file >= 0 && files->kind == OUTPUT_NEW_FILE)
        os_file_remove(files->directory, files->new_name);
    os_file_close(files->file);
    output_files_close_all(files);
    files->settled = false;
    if (files->command > 0) os_command_wait(files->command, DISCARDED_COMMAND_NS);
}

void output_undo(struct output_files *files)
{
    if (files->kind != OUTPUT_NEW_FILE || files->last == NULL || !*files->last) return;
    int directory = os_directory_open(files->directory_path);
    if (directory < 0) return;
    output_rename(files);
    remove_ours(directory, files->last, &files->file_status);
    remove_ours(directory, files->spool_name, &files->spool_status);
    if (files->new_name[0]) os_file_remove(directory, files->new_name);
    if (files->new_spool_name[0]) os_file_remove(directory, files->new_spool_name);
    if (files->older_spool_name[0])
        os_file_rename_new(directory, files->older_spool_name, files->spool_name);
    os_file_close(directory);
}

void output_forget(struct output_files *files)
{
    if (files->kind == OUTPUT_NEW_FILE) os_file_remove(files->directory, files->last);
}

int output_end(struct output_files *files, bool needs_spool, uint64_t timeout_ns)
{
    if (files->command > 0) files->status = os_command_wait(files->command, timeout_ns);
    files->spool_is_needed = needs_spool;
    if (!needs_spool) {
        output_files_remove_spool(files);
        files->settled = false;
    }
    output_files_close_all(files);
    return files->status < 0 ? files->status : 0;
}
