#include "output.h"

#include "../common/text.h"
#include "os.h"

#include <errno.h>
#include <string.h>

/* How long a command may take that has got nothing. */
#define DISCARDED_COMMAND_NS UINT64_C(1000000000)

static int fail(struct output_place *place, int error, const char *what)
{
    place->failed = what;
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

/* From the root, if the current directory is known and there is room: the process may go elsewhere.
 * */
static void put_directory_path(struct output_place *place, size_t length)
{
    size_t bytes = sizeof place->directory_path - 1 - length;
    size_t before = 0;
    if (place->name[0] != '/') {
        os_current_directory(place->directory_path, bytes);
        before = strlen(place->directory_path);
    }
    memcpy(place->directory_path + before, place->name, length);
    memcpy(place->directory_path + before + length, ".", 2);
}

/* Opens the directory of the name, and finds out what is there. */
static int find_path(struct output_place *place)
{
    struct os_file_status status;
    place->last = output_name_last(place->name);
    size_t length = (size_t)(place->last - place->name);
    if (length + strlen(place->last) >= OUTPUT_PATH_BYTES_MAX) return -ENAMETOOLONG;
    put_directory_path(place, length);
    place->directory = os_directory_open(place->directory_path);
    if (place->directory < 0) return place->directory;
    if (!*place->last) return -EISDIR;
    int result = os_file_look(place->directory, place->last, &status);
    if (result < 0) return result;
    switch (status.kind) {
    case OS_FILE_DIRECTORY: return -EISDIR;
    case OS_FILE_MISSING: place->kind = OUTPUT_NEW_FILE; break;
    case OS_FILE_PLAIN: place->kind = status.is_own_name ? OUTPUT_NEW_FILE : OUTPUT_AS_IS; break;
    case OS_FILE_PIPE: place->kind = OUTPUT_FIFO; break;
    case OS_FILE_OTHER: place->kind = OUTPUT_AS_IS; break;
    }
    place->has_reader = status.kind == OS_FILE_PIPE;
    place->is_plain = place->kind == OUTPUT_NEW_FILE || status.kind == OS_FILE_PLAIN;
    place->spool_is_beside =
        place->kind == OUTPUT_NEW_FILE || (place->is_plain && is_for_files(place->name));
    return 0;
}

static int find_descriptor(struct output_place *place, int number)
{
    struct os_file_status status;
    int result = number < 0 ? -EBADF : os_file_look_at(number, &status);
    if (result < 0) return result;
    place->kind = OUTPUT_DESCRIPTOR;
    place->has_reader = status.kind == OS_FILE_PIPE;
    place->file = number;
    return 0;
}

static int find(struct output_place *place)
{
    if (strncmp(place->name, "fd:", 3) == 0)
        return find_descriptor(place, output_name_descriptor(place->name));
    if (place->name[0] != '|') return find_path(place);
    place->kind = OUTPUT_COMMAND;
    place->has_reader = true;
    return 0;
}

/* Without a name where that can be: of a process that is killed soon nothing is left. */
static int create(struct output_place *place, const char *name, bool *is_nameless)
{
    int file = os_file_create_nameless(place->directory);
    *is_nameless = file >= 0;
    return file >= 0 ? file : os_file_create(place->directory, name);
}

/* Under its name, in place of what is there. */
static int put_in_place(const struct output_place *place, int file, bool is_nameless,
                        const char *new_name, const char *name)
{
    if (is_nameless) {
        int result = os_file_name(file, place->directory, name);
        if (result != -EEXIST) return result;
        result = os_file_name(file, place->directory, new_name);
        if (result < 0) return result;
    }
    return os_file_rename(place->directory, new_name, name);
}

/* The spool has its own name at once where nobody else can have it. */
static int make_spool_elsewhere(struct output_place *place)
{
    struct text path = {place->spool_path, 0, sizeof place->spool_path};
    text_string(&path, place->scratch);
    text_string(&path, "/");
    place->spool_name = place->spool_path + path.used;
    if (!put_temporary_name(&path, "malloctape-", place->id, ".spool"))
        return fail(place, -ENAMETOOLONG, place->scratch);
    place->spool_directory = os_directory_open(place->scratch);
    if (place->spool_directory < 0) return fail(place, place->spool_directory, place->scratch);
    place->spool = os_file_create(place->spool_directory, place->spool_name);
    if (place->spool < 0) return fail(place, place->spool, place->spool_path);
    place->settled = true;
    return 0;
}

static int make_spool_beside(struct output_place *place)
{
    struct text path = {place->spool_path, 0, sizeof place->spool_path};
    text_string(&path, place->name);
    text_string(&path, ".spool");
    text_end(&path);
    place->spool_name = output_name_last(place->spool_path);
    place->spool_directory = place->directory;
    struct text name = {place->new_spool_name, 0, sizeof place->new_spool_name};
    put_temporary_name(&name, ".malloctape-", place->id, ".spool");
    struct text older_name = {place->older_spool_name, 0, sizeof place->older_spool_name};
    put_temporary_name(&older_name, ".malloctape-", place->id, ".older");
    place->spool = create(place, place->new_spool_name, &place->spool_is_nameless);
    if (place->spool < 0) return fail(place, place->spool, place->spool_path);
    os_file_lock(place->spool);
    return 0;
}

int output_make(struct output_place *place)
{
    place->file = place->spool = place->directory = place->spool_directory = -1;
    place->command = -1;
    int result = find(place);
    if (result < 0) return fail(place, result, place->name);
    result = place->spool_is_beside ? make_spool_beside(place) : make_spool_elsewhere(place);
    if (result < 0 || place->kind != OUTPUT_NEW_FILE) return result;
    struct text name = {place->new_name, 0, sizeof place->new_name};
    put_temporary_name(&name, ".malloctape-", place->id, ".raw");
    place->file = create(place, place->new_name, &place->file_is_nameless);
    return place->file < 0 ? fail(place, place->file, place->name) : 0;
}

/* Also the older spool beside it is of no use any more. */
static int open_as_is(struct output_place *place)
{
    place->file = os_file_open_write(place->directory, place->last);
    if (place->file < 0) return place->file;
    int result = output_settle(place);
    return result == 0 && place->is_plain ? os_file_empty(place->file) : result;
}

int output_start(struct output_place *place)
{
    int result = 0;
    if (place->kind == OUTPUT_AS_IS) result = open_as_is(place);
    if (place->kind == OUTPUT_COMMAND)
        result = place->file = os_command_start(place->name + 1, &place->command);
    return result < 0 ? fail(place, result, place->name) : 0;
}

void output_put_aside(struct output_place *place)
{
    os_file_look_at(place->file, &place->file_status);
    os_file_look_at(place->spool, &place->spool_status);
    place->file = place->spool = place->directory = place->spool_directory = -1;
}

int output_take_up(struct output_place *place)
{
    place->directory = place->spool_directory = os_directory_open(place->directory_path);
    if (place->directory < 0) return fail(place, place->directory, place->name);
    place->file = os_file_open_again(place->directory, place->last, &place->file_status);
    if (place->file < 0) return fail(place, place->file, place->name);
    place->spool = os_file_open_again(place->directory, place->spool_name, &place->spool_status);
    if (place->spool >= 0) return 0;
    os_file_close(place->file);
    return fail(place, place->spool, place->spool_path);
}

int output_connect(struct output_place *place)
{
    int file = os_file_open_write(place->directory, place->last);
    if (file < 0) return fail(place, file, place->name);
    place->file = file;
    return 0;
}

/* An older spool is put aside until nothing can fail any more. */
static int settle_spool(struct output_place *place)
{
    struct os_file_status older;
    int result = os_file_look(place->directory, place->spool_name, &older);
    if (result < 0) return result;
    if (older.kind == OS_FILE_DIRECTORY) return -EISDIR;
    place->has_older_spool = older.kind != OS_FILE_MISSING;
    if (place->has_older_spool)
        result = os_file_rename(place->directory, place->spool_name, place->older_spool_name);
    if (result < 0) place->has_older_spool = false;
    if (result == 0)
        result = put_in_place(place, place->spool, place->spool_is_nameless, place->new_spool_name,
                              place->spool_name);
    place->settled = result == 0;
    return result;
}

static int settle(struct output_place *place)
{
    if (!place->settled && os_file_is_locked(place->directory, place->spool_name))
        return fail(place, -ETXTBSY, place->name);
    int result = place->settled ? 0 : settle_spool(place);
    if (result < 0) return fail(place, result, place->spool_path);
    if (place->kind == OUTPUT_NEW_FILE)
        result =
            put_in_place(place, place->file, place->file_is_nameless, place->new_name, place->last);
    if (result < 0) return fail(place, result, place->name);
    if (place->has_older_spool) os_file_remove(place->directory, place->older_spool_name);
    place->has_older_spool = false;
    return 0;
}

/* Two recordings may have the same name: the one that comes first keeps it for as long as it
 * lasts. */
int output_settle(struct output_place *place)
{
    int guard = place->settled ? -1 : os_directory_lock(place->directory);
    int result = settle(place);
    if (guard >= 0) os_file_close(guard);
    return result;
}

/* Somebody may have put another file in the place of ours. */
static void remove_spool(struct output_place *place)
{
    struct os_file_status ours, there;
    if (os_file_look_at(place->spool, &ours) == 0 &&
        os_file_look(place->spool_directory, place->spool_name, &there) == 0 &&
        there.kind == OS_FILE_PLAIN && there.device == ours.device && there.inode == ours.inode)
        os_file_remove(place->spool_directory, place->spool_name);
}

static void close_all(struct output_place *place)
{
    if (place->spool_directory != place->directory) os_file_close(place->spool_directory);
    os_file_close(place->directory);
    os_file_close(place->spool);
}

void output_discard(struct output_place *place)
{
    if (place->spool >= 0 && place->settled) remove_spool(place);
    if (place->has_older_spool)
        os_file_rename(place->directory, place->older_spool_name, place->spool_name);
    if (place->spool >= 0 && !place->settled)
        os_file_remove(place->directory, place->new_spool_name);
    if (place->file >= 0 && place->kind == OUTPUT_NEW_FILE)
        os_file_remove(place->directory, place->new_name);
    os_file_close(place->file);
    close_all(place);
    place->settled = false;
    if (place->command > 0) os_command_wait(place->command, DISCARDED_COMMAND_NS);
}

void output_forget(struct output_place *place)
{
    if (place->kind == OUTPUT_NEW_FILE) os_file_remove(place->directory, place->last);
}

int output_end(struct output_place *place, bool complete, uint64_t timeout_ns)
{
    if (place->command > 0) place->status = os_command_wait(place->command, timeout_ns);
    if (complete) remove_spool(place);
    close_all(place);
    return place->status < 0 ? place->status : 0;
}
