#include "tracing/data/settings.h"

#include "common/arch.h"
#include "common/text.h"
#include "tracing/data/front_end.h"
#include "tracing/data/stack_sample.h"
#include "tracing/os/os.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define HOST_BYTES_MAX         65 /* as the kernel has it */
#define SETTING_NAME_BYTES_MAX 128
#define OWN_PREFIX             "TCMALLOC_TRACE_"
/* How long the writer waits for a reader that does not open its output, or does not read. */
#define READER_SECONDS         30
#define SECONDS_MAX            UINT64_C(100000000)
#define SECOND_NS              UINT64_C(1000000000)
#define COUNT_MAX              (UINT64_MAX / 16)
#define GIVEN_BYTES_MAX        256
/* How many names are tried: in a container each process may have the id 1. */
#define PROGRAMS_MAX           100000

struct settings settings;

static struct {
    const char *pattern; /* the output's name with letters after % */
    struct output_names names;
    char host[HOST_BYTES_MAX];
    char output[OUTPUT_PATH_BYTES_MAX];
    bool has_allocator;
} applied;

/* ---- metadata ---- */

/* Up to its end or its first line break. */
static void settings_put_value(struct text *text, const char *value)
{
    while (*value && *value != '\n')
        text_character(text, *value++);
}

/* One line of FORMAT.md 4.1, as far as there is room. */
static void append_line(const char *prefix, const char *key, const char *value)
{
    struct text text = {settings.metadata, settings.metadata_bytes, sizeof settings.metadata};
    text_string(&text, prefix);
    text_string(&text, key);
    text_character(&text, '=');
    settings_put_value(&text, value);
    if (text.used >= text.bytes) text.used = text.bytes - 1;
    text_character(&text, '\n');
    settings.metadata_bytes = text.used;
}

void malloctape_runtime_took(uint64_t bytes)
{
    settings.runtime_bytes = bytes;
}

/* `entry` is "NAME=VALUE" of the environment. Ours, which begin like tcmalloc's, are left out. */
static void append_setting(const char *entry)
{
    char name[SETTING_NAME_BYTES_MAX];
    const char *value = strchr(entry, '=');
    if (value == NULL || (size_t)(value - entry) >= sizeof name ||
        strncmp(entry, OWN_PREFIX, sizeof OWN_PREFIX - 1) == 0)
        return;
    memcpy(name, entry, (size_t)(value - entry));
    name[value - entry] = 0;
    append_line("env.", name, value + 1);
}

/* A name with a `*` at its end: all that begin so. */
static void append_settings(const char *name)
{
    size_t bytes = strlen(name);
    bool is_prefix = name[bytes - 1] == '*';
    bytes -= is_prefix;
    for (size_t i = 0; environ != NULL && environ[i] != NULL; i++)
        if (strncmp(environ[i], name, bytes) == 0 && (is_prefix || environ[i][bytes] == '='))
            append_setting(environ[i]);
}

static void append_number(const char *key, uint64_t number)
{
    struct message text;
    message_clear(&text);
    message_put(&text, "%lu", number);
    append_line("", key, text.text);
}

static void collect_metadata(void)
{
    append_line("", "program", program_invocation_name);
    append_line("", "architecture", ARCH_NAME);
    append_number("page.bytes", os_page_bytes());
    if (settings.runtime_bytes) append_number("own", settings.runtime_bytes);
    if (settings.other_malloc[0]) append_line("", "malloc", settings.other_malloc);
    for (const char *const *name = malloctape_front_end.settings; *name; name++)
        append_settings(*name);
}

/* Only when a recording begins: asking an allocator may cost time and locks. */
static void append_allocator(void)
{
    if (malloctape_front_end.look != NULL) malloctape_front_end.look();
    if (applied.has_allocator) return;
    applied.has_allocator = true;
    append_line("", "allocator", malloctape_front_end.allocator);
    if (malloctape_front_end.path != NULL)
        append_line("", "allocator.path", malloctape_front_end.path);
    const char *unknown =
        malloctape_front_end.heap_unknown != NULL ? malloctape_front_end.heap_unknown() : NULL;
    if (unknown != NULL) append_line("", "heap.unknown", unknown);
    const char *names =
        malloctape_front_end.statistics != NULL ? malloctape_front_end.statistics() : "";
    struct message all;
    message_clear(&all);
    message_put(&all,
                "%s%s" STATISTIC_RSS_SHARED " " STATISTIC_VM_SIZE " " STATISTIC_NULL_FREES
                " " STATISTIC_SIZES_ASKED,
                names, *names ? " " : "");
    append_line("", "statistics", all.text);
}

/* ---- reading ---- */

/* Letters that may follow a number: `first` is the factor of the first one, and each of the others
 * is `step` times the one before. */
struct unit {
    const char *letters;
    uint64_t first, step;
};

static const struct unit byte_units = {"kMG", 1024, 1024}, event_units = {"kMG", 1000, 1000},
                         second_units = {"smh", 1, 60};

static uint64_t factor_of(const struct unit *units, char letter)
{
    const char *at = strchr(units->letters, letter == 'K' ? 'k' : letter);
    uint64_t factor = at != NULL ? units->first : 0;
    for (; at != NULL && at > units->letters; at--)
        factor *= units->step;
    return factor;
}

/* A number, perhaps followed by one of the letters. False: it is something else, or above `max`. */
static bool read_number(const char *text, const struct unit *units, uint64_t max, uint64_t *number)
{
    uint64_t value = 0;
    if (*text < '0' || *text > '9') return false;
    for (; *text >= '0' && *text <= '9' && value <= max; text++)
        value = value * 10 + (uint64_t)(*text - '0');
    uint64_t factor = *text ? factor_of(units, *text++) : 1;
    *number = value * factor;
    return factor && !*text && value <= max / factor;
}

/* In place of the environment: texts "NAME=VALUE", then an empty one; or NULL. */
static const char *given;

static const char *settings_value_of(const char *name)
{
    const size_t bytes = strlen(name);
    if (given == NULL) return secure_getenv(name);
    for (const char *at = given; *at; at += strlen(at) + 1)
        if (strncmp(at, name, bytes) == 0 && at[bytes] == '=') return at + bytes + 1;
    return NULL;
}

/* The message names the first wrong variable. */
static void note_wrong(const char *name, const char *value, const char *why)
{
    if (!settings.wrong.bytes) message_put(&settings.wrong, "%s=%s%s", name, value, why);
}

static uint64_t settings_number_of(const char *name, const struct unit *units, uint64_t otherwise,
                                   uint64_t max, const char *wrong)
{
    const char *text = settings_value_of(name);
    uint64_t number = otherwise;
    if (text != NULL && *text && !read_number(text, units, max, &number))
        note_wrong(name, text, wrong);
    return number;
}

static uint64_t settings_count_of(const char *name, const struct unit *units)
{
    return settings_number_of(name, units, 0, COUNT_MAX,
                              " is not a whole number, alone or followed by k, M or G");
}

static uint64_t ns_of(const char *name, uint64_t otherwise)
{
    return SECOND_NS * settings_number_of(name, &second_units, otherwise, SECONDS_MAX,
                                          " is not a whole number, alone or followed by s, m or h");
}

static bool is_set(const char *name)
{
    const char *text = secure_getenv(name);
    return text != NULL && *text && strcmp(text, "0") != 0;
}

/* False: it is too long, and nothing has changed. */
static bool copy_path(char *to, const char *path)
{
    size_t bytes = strlen(path) + 1;
    if (bytes > OUTPUT_PATH_BYTES_MAX) return false;
    memcpy(to, path, bytes);
    return true;
}

static void read_output(void)
{
    /* The value may be changed: it is the environment itself. */
    char *value = (char *)(uintptr_t)secure_getenv("TCMALLOC_TRACE_OUTPUT");
    if (value == NULL) return;
    settings.too_long = !copy_path(settings.output, value);
    /* A program that this one starts must not write into the same file. */
    if (!output_name_has_process(value))
        value[0] = 0;
    else
        settings.speaks = output_name_make_follow(value);
}

static void read_notices(void)
{
    const char *path = secure_getenv("TCMALLOC_TRACE_REPORT");
    if (path == NULL || path[0] != '/') return;
    copy_path(settings.notices, path);
    settings.speaks = false;
}

/* Made by the linker: where this library begins. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

/* Calls may find malloc in another library before ours, or in the program itself. But a program at
 * fixed addresses that takes the address of malloc has a stub for it, an undefined symbol with a
 * value, which calls ours. */
static void look_at_malloc(void)
{
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    void *found = dlsym(RTLD_DEFAULT, "malloc");
    if (found == NULL || !dladdr1(found, &info, (void **)&symbol, RTLD_DL_SYMENT)) return;
    if (info.dli_fbase == __ehdr_start || info.dli_fname == NULL) return;
    if (symbol != NULL && symbol->st_shndx == SHN_UNDEF) return;
    copy_path(settings.other_malloc, info.dli_fname);
}

/* The name of the executed file, also of a script. program_invocation_name is one of the program's
 * words, and the program may write its title over those. With fexecve() there is no name. */
static void read_program(void)
{
    const char *path = (const char *)getauxval(AT_EXECFN);
    if (path == NULL || !*path || strncmp(path, "/dev/fd/", 8) == 0) path = program_invocation_name;
    const char *name = output_name_last(path);
    size_t bytes = strlen(name);
    if (bytes >= sizeof settings.program) bytes = sizeof settings.program - 1;
    memcpy(settings.program, name, bytes);
}

static void read_scratch(void)
{
    const char *directory = secure_getenv("TMPDIR");
    if (directory == NULL || directory[0] != '/' || !copy_path(settings.scratch, directory))
        copy_path(settings.scratch, "/tmp");
}

#define STACKS_VARIABLE "TCMALLOC_TRACE_STACKS"

/* `text`: the variable's value. 1 means yes, not one byte. */
static void read_stacks(const char *text)
{
    uint64_t bytes = 0;
    if (text == NULL || !*text || strcmp(text, "0") == 0) return;
    const bool frees = strcmp(text, "all,frees") == 0;
    if (strcmp(text, "1") == 0)
        bytes = STACK_SAMPLE_DEFAULT;
    else if (strcmp(text, "all") == 0 || frees)
        bytes = STACK_SAMPLE_ALL;
    else if (!read_number(text, &byte_units, COUNT_MAX, &bytes) || bytes < STACK_SAMPLE_LEAST)
        return note_wrong(STACKS_VARIABLE, text,
                          " is neither 1 nor all nor all,frees nor a number of bytes from 1024 "
                          "on, alone or followed by k, M or G");
    settings.stacks_every_bytes = bytes;
    settings.frees_have_stacks = frees;
    os_program_path(settings.program_path, sizeof settings.program_path);
    struct message value;
    message_clear(&value);
    if (bytes == STACK_SAMPLE_ALL)
        message_put(&value, "all");
    else
        message_put(&value, "%lu", bytes);
    append_line("", "stacks", value.text);
    append_line("", "stacks.frees", frees ? "all" : "some");
    message_clear(&value);
    message_put(&value, "%lu %lu %lu %lu", stack_sample_calls(bytes), stack_sample_small(false),
                stack_sample_small(true), STACK_SAMPLE_LARGE);
    append_line("", "stacks.chance", value.text);
}

static void read_overload(void)
{
    const char *policy = secure_getenv("TCMALLOC_TRACE_ON_OVERLOAD");
    if (policy == NULL || !*policy || strcmp(policy, "wait") == 0) return;
    settings.loses = strcmp(policy, "lose") == 0;
    if (!settings.loses)
        note_wrong("TCMALLOC_TRACE_ON_OVERLOAD", policy, " is neither wait nor lose");
}

/* What may differ from one attaching to the next. */
static void read_each(void)
{
    settings.stacks_every_bytes = 0;
    settings.frees_have_stacks = false;
    read_stacks(settings_value_of(STACKS_VARIABLE));
    settings.limits.bytes = settings_count_of("TCMALLOC_TRACE_MAX_BYTES", &byte_units);
    settings.limits.events = settings_count_of("TCMALLOC_TRACE_MAX_EVENTS", &event_units);
    settings.limits.ns = ns_of("TCMALLOC_TRACE_MAX_SECONDS", 0);
}

void settings_read(void)
{
    look_at_malloc();
    collect_metadata();
    settings.speaks = true;
    read_output();
    read_notices();
    read_program();
    read_scratch();
    os_current_directory(settings.directory, sizeof settings.directory);
    settings.controlled = is_set("TCMALLOC_TRACE_CONTROL");
    settings.quiet = secure_getenv("TCMALLOC_TRACE_QUIET") != NULL;
    settings.addresses = is_set("TCMALLOC_TRACE_ADDRESSES");
    read_overload();
    settings.patience_ns = ns_of("TCMALLOC_TRACE_READER_SECONDS", READER_SECONDS);
    read_each();
}

void settings_attach(const char *lines)
{
    static char room[GIVEN_BYTES_MAX];
    size_t bytes = lines != NULL ? strlen(lines) : 0;
    if (bytes > sizeof room - 2) bytes = sizeof room - 2;
    if (bytes) memcpy(room, lines, bytes);
    room[bytes] = room[bytes + 1] = 0;
    for (char *at = room; (at = strchr(at, '\n')) != NULL;)
        *at++ = 0;
    given = room;
    message_clear(&settings.wrong);
    /* Which malloc calls would find does not matter: they are redirected here. */
    settings.other_malloc[0] = 0;
    settings.metadata_bytes = 0;
    applied.has_allocator = false;
    collect_metadata();
    append_line("", "attached", "1");
    read_each();
    settings.controlled = true;
    settings.speaks = false;
}

void settings_fork(void)
{
    append_line("", "forked", "1");
}

/* ---- the output's name ---- */

static bool is_relative_path(const char *output)
{
    return output[0] != '/' && output[0] != '|' && strncmp(output, "fd:", 3) != 0;
}

/* The current directory may be another one than at the start. */
static int expand(void)
{
    char *to = applied.output;
    size_t before = 0;
    if (recording.number > 1 && is_relative_path(applied.pattern))
        before = strlen(settings.directory);
    memcpy(to, settings.directory, before);
    return output_name_expand(applied.pattern, &applied.names, to + before,
                              sizeof applied.output - before);
}

static enum os_file_kind settings_kind_of(const char *path)
{
    struct os_file_status status;
    return os_file_look(OS_NO_DIRECTORY, path, &status) < 0 ? OS_FILE_MISSING : status.kind;
}

static bool settings_has_spool(void)
{
    char room[OUTPUT_PATH_BYTES_MAX + sizeof ".spool"];
    struct text path = {room, 0, sizeof room};
    text_string(&path, applied.output);
    text_string(&path, ".spool");
    return text_end(&path) && settings_kind_of(room) != OS_FILE_MISSING;
}

/* Whether another name has to be found. Without a %p, the same FIFO may serve all recordings. */
static bool is_taken(bool has_process)
{
    if (!settings.keeps_others) return false;
    enum os_file_kind kind = settings_kind_of(applied.output);
    if (kind == OS_FILE_MISSING) return settings_has_spool();
    return has_process || kind == OS_FILE_PLAIN;
}

/* Puts a number before ".lz4". */
static int number_output(unsigned number)
{
    static const char suffix[] = ".lz4";
    size_t bytes = strlen(applied.output), suffix_bytes = sizeof suffix - 1;
    if (bytes < suffix_bytes || strcmp(applied.output + bytes - suffix_bytes, suffix) != 0)
        suffix_bytes = 0;
    struct text text = {applied.output, bytes - suffix_bytes, sizeof applied.output};
    text_character(&text, '.');
    text_decimal(&text, number);
    if (suffix_bytes) text_string(&text, suffix);
    return text_end(&text) ? 0 : -ENAMETOOLONG;
}

/* The name with the number that is due, or the first one after it that is not taken. */
static int find_output(void)
{
    bool has_process = output_name_has_process(applied.pattern);
    int result;
    do {
        result = expand();
        if (result >= 0 && !has_process && applied.names.program_number > 1)
            result = number_output(applied.names.program_number);
    } while (result >= 0 && is_taken(has_process) && applied.names.program_number++ < PROGRAMS_MAX);
    return result;
}

/* A name with the process in it is for this program alone. If a file has it already, of an earlier
 * program of this process, an earlier process with this id, or one of another PID namespace,
 * another name is found. So it is, too, in a reset, which replaces no file. */
static const char *name_output(const char *output)
{
    os_host_name(applied.host, sizeof applied.host);
    applied.pattern = output;
    applied.names = (struct output_names){.process_id = os_process_id(),
                                          .program_number = 1,
                                          .host = applied.host,
                                          .time_s = os_wall_clock_ns() / SECOND_NS,
                                          .program = settings.program};
    settings.keeps_others = settings.is_reset || output_name_has_process(output);
    int result = find_output();
    if (result == -EINVAL) return "in the name of the output, % must be one of %p %h %t %e %%";
    return result < 0 ? "the name of the output is too long" : NULL;
}

bool settings_next_output(void)
{
    char before[OUTPUT_PATH_BYTES_MAX];
    memcpy(before, applied.output, sizeof before);
    size_t length = (size_t)(output_name_last(before) - before);
    if (applied.names.program_number++ >= PROGRAMS_MAX || find_output() < 0) return false;
    return output_name_last(applied.output) == applied.output + length &&
           strncmp(applied.output, before, length) == 0;
}

/* A file that is open already needs no name; it is told as it is. */
static const char *take_name(const char *output)
{
    struct text name = {applied.output, 0, sizeof applied.output};
    settings.keeps_others = false;
    text_string(&name, output);
    return text_end(&name) ? NULL : "the name of the output is too long";
}

const char *settings_apply(struct writer *writer, const char *output, uint64_t bytes_min)
{
    const char *wrong = settings.too_long && output == settings.output
                            ? "the name of the output is too long"
                        : settings.is_given ? take_name(output)
                                            : name_output(output);
    if (wrong != NULL) return wrong;
    append_allocator();
    if (!malloctape_front_end.allocator[0]) return "no library after libmalloctape.so has a malloc";
    if (settings.limits.bytes && settings.limits.bytes < bytes_min + settings.metadata_bytes)
        note_wrong("TCMALLOC_TRACE_MAX_BYTES", settings_value_of("TCMALLOC_TRACE_MAX_BYTES"),
                   " is less than a recording without events takes");
    if (settings.wrong.bytes) return settings.wrong.text;
    writer->output = applied.output;
    writer->features =
        (settings.addresses ? RAW_FEATURE_ADDRESSES : 0) |
        (settings.stacks_every_bytes ? RAW_FEATURE_STACKS | RAW_FEATURE_FREE_STACKS : 0) |
        (malloctape_front_end.opaque ? RAW_FEATURE_OPAQUE : 0);
    writer->process_id = os_process_id();
    os_random(writer->recording_id, sizeof writer->recording_id);
    return NULL;
}
