/* write_pprof - a heap profile of pprof: a gzipped message of the protocol buffers that
 * github.com/google/pprof defines in proto/profile.proto. Little of their encoding is needed, so it
 * is done here: a field is a key (number * 8 + type) and a varint (type 0), or a key, a length and
 * that many bytes (type 2). */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/array.h"
#include "convert/export_writer.h"
#include "symbols/code_names.h"
#include "symbols/stack_tally.h"

/* Field numbers. */
enum profile_field {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_MAPPING = 3,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING = 6,
    PROFILE_TIME_NANOS = 9,
    PROFILE_DURATION_NANOS = 10,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD = 12,
    PROFILE_COMMENT = 13,
    PROFILE_DEFAULT_SAMPLE_TYPE = 14
};
enum { VALUE_TYPE = 1, VALUE_UNIT = 2 };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE = 2 };
enum {
    MAPPING_ID = 1,
    MAPPING_START = 2,
    MAPPING_LIMIT = 3,
    MAPPING_OFFSET = 4,
    MAPPING_FILENAME = 5,
    MAPPING_BUILD_ID = 6,
    MAPPING_HAS_FUNCTIONS = 7,
    MAPPING_HAS_INLINE_FRAMES = 10
};
enum { LOCATION_ID = 1, LOCATION_MAPPING = 2, LOCATION_ADDRESS = 3, LOCATION_LINE = 4 };
enum { LINE_FUNCTION = 1, LINE_LINE = 2 };
enum { FUNCTION_ID = 1, FUNCTION_NAME = 2, FUNCTION_FILENAME = 4 };

/* The values of a sample. */
static const struct {
    const char *name;
    enum stack_measure measure;
    bool is_bytes;
} values[] = {
    {"alloc_objects", STACK_MADE, false},   {"alloc_space", STACK_MADE, true},
    {"inuse_objects", STACK_AT_END, false}, {"inuse_space", STACK_AT_END, true},
    {"peak_objects", STACK_AT_PEAK, false}, {"peak_space", STACK_AT_PEAK, true},
    {"mapped_space", STACK_MAPPED, true},
};
enum { VALUES = sizeof values / sizeof *values };

struct bytes {
    uint8_t *at;
    size_t used, room;
    bool no_memory;
};

struct profile {
    struct bytes all;
    struct bytes message, part; /* a field of `all`, and a field of that */
    struct strings strings;
    const struct export_code *code;
    struct function *functions; /* one for each id so far, from 1 on */
    size_t functions_room;
    uint32_t *latest; /* by number of a function's text: the latest id with it; 0: none yet */
    uint32_t functions_count;
    uint32_t program; /* the module whose addresses are those of its file, plus 1; 0: none */
};

/* Functions of one name in several files are several. */
struct function {
    uint32_t file;    /* text */
    uint32_t earlier; /* an id with the same name; 0: none */
};

/* ---- encoding ---- */

static void put_raw(struct bytes *bytes, const void *data, size_t count)
{
    if (!array_reserve(&bytes->at, &bytes->room, bytes->used + count, 1)) {
        bytes->no_memory = true;
        return;
    }
    if (count > 0) memcpy(bytes->at + bytes->used, data, count);
    bytes->used += count;
}

static void put_varint(struct bytes *bytes, uint64_t number)
{
    uint8_t room[10];
    size_t used = 0;
    for (; number >= 0x80; number >>= 7)
        room[used++] = (uint8_t)(number | 0x80);
    room[used++] = (uint8_t)number;
    put_raw(bytes, room, used);
}

static void put_number(struct bytes *bytes, unsigned field, uint64_t number)
{
    if (number == 0) return; /* the default */
    put_varint(bytes, field * 8);
    put_varint(bytes, number);
}

static void put_bytes(struct bytes *bytes, unsigned field, const void *data, size_t count)
{
    put_varint(bytes, field * 8 + 2);
    put_varint(bytes, count);
    put_raw(bytes, data, count);
}

/* Appends a message to another one as a field, and empties it. */
static void put_message(struct bytes *to, unsigned field, struct bytes *message)
{
    put_bytes(to, field, message->at, message->used);
    to->no_memory = to->no_memory || message->no_memory;
    message->used = 0;
}

static uint64_t text_number(struct profile *profile, const char *text)
{
    return strings_put(&profile->strings, text);
}

/* ---- the parts of a profile ---- */

static void put_value_type(struct profile *profile, unsigned field, const char *type,
                           const char *unit)
{
    put_number(&profile->message, VALUE_TYPE, text_number(profile, type));
    put_number(&profile->message, VALUE_UNIT, text_number(profile, unit));
    put_message(&profile->all, field, &profile->message);
}

/* Whether a module is the program itself: of that, `program` is the path, or the end of it. */
static bool pprof_is_program(const struct profile *profile, const struct stack_module *module)
{
    const char *program = profile->code->program;
    const char *path = (const char *)stack_text_bytes(&module->path);
    return path != NULL && strcmp(basename(path), basename(program)) == 0;
}

/* Where a module's code was mapped, as /proc/PID/maps has it. The program itself is told as if it had
 * been mapped where its file says: `go tool pprof` takes an address for that in the file, and all runs
 * of a program have the same ones. If the file is not here, all of the module is told as one. */
static void put_mapped_at(struct profile *profile, uint32_t number,
                          const struct stack_module *module)
{
    struct symbol_segment code;
    uint64_t start = module->start, end = module->end, offset = 0;
    if (code_names_segment(profile->code->names, number, &code) &&
        code.begin + module->bias >= start && code.end + module->bias <= end) {
        const bool is_program = pprof_is_program(profile, module);
        if (is_program) profile->program = number + 1;
        start = code.begin + (is_program ? 0 : module->bias);
        end = code.end + (is_program ? 0 : module->bias);
        offset = code.offset;
    }
    put_number(&profile->message, MAPPING_START, start);
    put_number(&profile->message, MAPPING_LIMIT, end);
    put_number(&profile->message, MAPPING_OFFSET, offset);
}

static void put_mapping(struct profile *profile, uint32_t number, const struct stack_module *module)
{
    char hex[2 * STACK_BUILD_ID_MAX + 1];
    const uint8_t *path = stack_text_bytes(&module->path);
    const uint8_t *id = stack_text_bytes(&module->build_id);
    put_number(&profile->message, MAPPING_ID, number);
    put_mapped_at(profile, number, module);
    put_number(&profile->message, MAPPING_FILENAME, text_number(profile, (const char *)path));
    for (uint32_t k = 0; id != NULL && k < module->build_id.length; k++)
        snprintf(hex + 2 * k, 3, "%02x", id[k]);
    if (id != NULL) put_number(&profile->message, MAPPING_BUILD_ID, text_number(profile, hex));
    for (unsigned has = MAPPING_HAS_FUNCTIONS; has <= MAPPING_HAS_INLINE_FRAMES; has++)
        put_number(&profile->message, has, 1);
    put_message(&profile->all, PROFILE_MAPPING, &profile->message);
}

/* Source code is not mapped, and has no addresses. */
static bool pprof_is_source(const struct stacks *stacks, uint32_t module)
{
    return stacks_module_has_language(stacks, module) && stack_module_is_source(stacks, module);
}

/* pprof takes the first mapping for that of the program. */
static void put_mappings(struct profile *profile)
{
    const struct stacks *stacks = profile->code->stacks;
    for (int first = 1; first >= 0; first--)
        for (uint64_t i = 0; i < stacks->modules_end; i++) {
            const struct stack_module *module = stacks_module(stacks, (uint32_t)i);
            if (module != NULL && !pprof_is_source(stacks, (uint32_t)i) &&
                pprof_is_program(profile, module) == first)
                put_mapping(profile, (uint32_t)i, module);
        }
}

/* The id of a function; it is written when it is first needed. It has no system name: pprof would
 * take one that is equal to the name for a name that it must shorten. 0: no memory. */
static uint32_t function_id(struct profile *profile, const char *name, uint32_t text, uint32_t file)
{
    struct bytes function = {NULL, 0, 0, false};
    uint32_t *latest = &profile->latest[text];
    for (uint32_t id = *latest; id != 0; id = profile->functions[id].earlier)
        if (profile->functions[id].file == file) return id;
    const uint32_t id = ++profile->functions_count;
    if (!array_reserve(&profile->functions, &profile->functions_room, id + (size_t)1,
                       sizeof *profile->functions)) {
        profile->all.no_memory = true;
        return 0;
    }
    profile->functions[id] = (struct function){file, *latest};
    *latest = id;
    put_number(&function, FUNCTION_ID, id);
    put_number(&function, FUNCTION_NAME, text_number(profile, name));
    put_number(&function, FUNCTION_FILENAME,
               text_number(profile, code_names_text(profile->code->names, file)));
    put_message(&profile->all, PROFILE_FUNCTION, &function);
    free(function.at);
    return id;
}

static void pprof_put_line(struct profile *profile, const struct code_frame *frame)
{
    const struct code_names *names = profile->code->names;
    const char *name =
        frame->function != 0 ? code_names_text(names, frame->function) : EXPORT_NO_STACK;
    const uint32_t id = function_id(profile, name, frame->function, frame->file);
    put_number(&profile->part, LINE_FUNCTION, id);
    put_number(&profile->part, LINE_LINE, frame->line);
    put_message(&profile->message, LOCATION_LINE, &profile->part);
}

/* Writes the location of a code, whose frames are consecutive; code 0 has one frame. */
static void put_location(struct profile *profile, uint64_t id, const struct code_frame *frames,
                         unsigned count)
{
    const struct stack_code *code = stacks_code(profile->code->stacks, frames->code);
    put_number(&profile->message, LOCATION_ID, id);
    if (code != NULL && !pprof_is_source(profile->code->stacks, code->module)) {
        const struct stack_module *module = stacks_module(profile->code->stacks, code->module);
        const bool moves = module != NULL && profile->program != code->module + 1U;
        /* Where lines are known, `go tool pprof -http` shows those that the profile has only if no file
         * is named in which it would look for them itself. */
        if (module != NULL && frames->line == 0)
            put_number(&profile->message, LOCATION_MAPPING, code->module);
        /* A code is a return address: the byte before it is of the call. */
        put_number(&profile->message, LOCATION_ADDRESS,
                   code->offset - (code->offset > 0) + (moves ? module->bias : 0));
    }
    for (unsigned i = 0; i < count; i++)
        pprof_put_line(profile, &frames[i]);
    put_message(&profile->all, PROFILE_LOCATION, &profile->message);
}

static void put_locations(struct profile *profile)
{
    const struct code_names *names = profile->code->names;
    for (size_t i = CODE_FRAME_FIRST, end; i < names->count; i = end) {
        end = i + 1;
        while (end < names->count && names->frames[end].code == names->frames[i].code)
            end++;
        put_location(profile, names->frames[i].code, &names->frames[i], (unsigned)(end - i));
    }
}

/* The location of a frame without a code. Their ids follow those of codes. */
static uint64_t location_without_code(struct profile *profile, const struct code_frame *frame,
                                      uint64_t *made)
{
    const uint64_t id = profile->code->stacks->codes_end + 1 + (frame->function != 0);
    if ((*made >> (frame->function != 0) & 1) == 0) put_location(profile, id, frame, 1);
    *made |= UINT64_C(1) << (frame->function != 0);
    return id;
}

/* Only some traces have the last one. */
static unsigned pprof_values(const struct export_code *code)
{
    return code->has_mapped ? VALUES : VALUES - 1;
}

/* Of a stack that made objects in a base only (INSTRUCTIONS.md 4.9), those that are alive. */
static bool pprof_has_value(const struct stack_sums *sums)
{
    for (unsigned i = 0; i < VALUES; i++) {
        const struct stack_sum *of = values[i].is_bytes ? sums->bytes : sums->objects;
        if (of[values[i].measure].value >= 0.5) return true;
    }
    return false;
}

static void put_samples(struct profile *profile, const struct stack_sums *sums)
{
    const struct export_code *code = profile->code;
    static struct code_frame frames[CODE_FRAMES_MAX];
    struct bytes sample = {NULL, 0, 0, false}, list = {NULL, 0, 0, false};
    uint64_t made = 0;
    for (size_t stack = 0; stack < code->tally->stacks_count; stack++) {
        unsigned count = code_names_of(code->names, code->tally->stacks[stack], frames);
        if (!pprof_has_value(&sums[stack])) continue;
        if (count == 0) frames[count++] = (struct code_frame){.function = 0};
        for (unsigned i = 0; i < count; i++)
            if (frames[i].code == 0)
                put_varint(&list, location_without_code(profile, &frames[i], &made));
            else if (i == 0 || frames[i].code != frames[i - 1].code || !frames[i - 1].is_inlined)
                put_varint(&list, frames[i].code);
        put_message(&sample, SAMPLE_LOCATION, &list);
        for (unsigned i = 0; i < pprof_values(code); i++) {
            const struct stack_sum *of =
                values[i].is_bytes ? sums[stack].bytes : sums[stack].objects;
            put_varint(&list, (uint64_t)llround(of[values[i].measure].value));
        }
        put_message(&sample, SAMPLE_VALUE, &list);
        put_message(&profile->all, PROFILE_SAMPLE, &sample);
    }
    profile->all.no_memory = profile->all.no_memory || list.no_memory || sample.no_memory;
    free(sample.at);
    free(list.at);
}

/* What pprof shows unless asked for something else: --measure. */
static const char *pprof_default_value(const struct export_code *code)
{
    for (unsigned i = 0; i < pprof_values(code); i++)
        if (values[i].measure == code->measure && values[i].is_bytes == code->is_bytes)
            return values[i].name;
    return values[1].name;
}

static void put_profile(struct profile *profile, const struct stack_sums *sums)
{
    const struct export_code *code = profile->code;
    for (unsigned i = 0; i < pprof_values(code); i++)
        put_value_type(profile, PROFILE_SAMPLE_TYPE, values[i].name,
                       values[i].is_bytes ? "bytes" : "count");
    put_mappings(profile);
    put_locations(profile);
    put_samples(profile, sums);
    put_number(&profile->all, PROFILE_TIME_NANOS, code->start_ns);
    put_number(&profile->all, PROFILE_DURATION_NANOS, code->duration_ns);
    put_value_type(profile, PROFILE_PERIOD_TYPE, "space", "bytes");
    put_number(&profile->all, PROFILE_PERIOD, code->sample_bytes);
    put_number(&profile->all, PROFILE_COMMENT, text_number(profile, code->program));
    put_number(&profile->all, PROFILE_DEFAULT_SAMPLE_TYPE,
               text_number(profile, pprof_default_value(code)));
    for (uint32_t i = 0; i < profile->strings.count; i++)
        put_bytes(&profile->all, PROFILE_STRING, profile->strings.at[i],
                  strlen(profile->strings.at[i]));
}

/* ---- gzip ---- */

static bool write_packed(struct export *export, const struct bytes *all)
{
    static uint8_t piece[1 << 16];
    z_stream stream = {.next_in = all->at, .avail_in = (uInt)all->used};
    int status = deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8,
                              Z_DEFAULT_STRATEGY);
    bool good = status == Z_OK && all->used <= UINT32_MAX;
    while (good && status == Z_OK) {
        stream.next_out = piece;
        stream.avail_out = sizeof piece;
        status = deflate(&stream, Z_FINISH);
        good = (status == Z_OK || status == Z_STREAM_END) &&
               output_write(&export->output, piece, sizeof piece - stream.avail_out);
    }
    deflateEnd(&stream);
    return good;
}

/* ---- all of it ---- */

/* The sums for each stack by itself. NULL: no memory. */
static struct stack_sums *sums_of_stacks(const struct stack_tally *tally)
{
    const size_t count = tally->stacks_count;
    uint32_t *numbers = calloc(count + 1, sizeof *numbers);
    struct stack_sums *sums = calloc(count + 1, sizeof *sums);
    for (size_t i = 0; i <= count && numbers != NULL; i++)
        numbers[i] = (uint32_t)i;
    const struct stack_groups groups = {numbers, numbers, count};
    if (numbers == NULL || sums == NULL || !stack_tally_sum(tally, &groups, sums)) {
        free(sums);
        sums = NULL;
    }
    free(numbers);
    return sums;
}

static bool pprof_code(struct export *export, const struct export_code *code)
{
    struct profile profile = {.code = code};
    struct stack_sums *sums = sums_of_stacks(code->tally);
    profile.latest = calloc(code->names->symbols.strings.count + 1, sizeof *profile.latest);
    bool good = sums != NULL && profile.latest != NULL && strings_open(&profile.strings);
    if (good) put_profile(&profile, sums);
    good = good && !profile.all.no_memory && !profile.strings.no_memory;
    if (!good) error_set_system(&export->error, "no memory for the profile");
    good = good && write_packed(export, &profile.all);
    export->calls = code->tally->stacks_count - 1;
    free(sums);
    free(profile.functions);
    free(profile.latest);
    free(profile.all.at);
    free(profile.message.at);
    free(profile.part.at);
    strings_free(&profile.strings);
    return good;
}

const struct export_writer export_pprof = {
    .name = "pprof",
    .title = "a heap profile of pprof",
    .unit = "stacks",
    .loses = "everything but what each call stack allocated",
    .packed = true,
    .code = pprof_code,
};
