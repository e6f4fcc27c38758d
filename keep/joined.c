#include "keep/joined.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/pages.h"

bool joined_open(struct joined *joined, const struct segments *segments, size_t count)
{
    *joined = (struct joined){.count = 0, .status = INSTRUCTION_STATUS_CUT};
    for (size_t i = 0; i < count; i++) {
        joined->at[i].stream = segments_open_file(segments, &segments->list[i], false);
        joined->at[i].join = i > 0 ? segments_open_file(segments, &segments->list[i], true) : -1;
        joined->count++;
        if (joined->at[i].stream >= 0 && (i == 0 || joined->at[i].join >= 0)) continue;
        error_set_system(&joined->error, "cannot open a segment");
        joined_close(joined);
        return false;
    }
    return true;
}

void joined_close(struct joined *joined)
{
    for (size_t i = 0; i < joined->count; i++) {
        if (joined->at[i].stream >= 0) close(joined->at[i].stream);
        if (joined->at[i].join >= 0) close(joined->at[i].join);
    }
    joined->count = 0;
}

static bool read_all(int fd, void *to, size_t bytes)
{
    for (uint8_t *at = to; bytes > 0;) {
        const ssize_t some = read(fd, at, bytes);
        if (some < 0 && errno == EINTR) continue;
        if (some <= 0) return false;
        at += some;
        bytes -= (size_t)some;
    }
    return true;
}

/* One segment that is read. */
struct joining {
    struct joined *joined;
    struct instruction_writer *writer;
    struct copy copy;
    const struct copy *before; /* what the segment before has left; NULL: this is the first one */
    uint32_t *rows;            /* its .join */
    uint64_t rows_count;
};

static bool joining_fail(struct joining *joining, const struct error *error)
{
    if (!error_is_set(&joining->joined->error)) joining->joined->error = *error;
    return false;
}

static bool joining_read_join(struct joining *joining, int fd)
{
    struct stat status;
    if (fd < 0) return true;
    const bool there = fstat(fd, &status) == 0;
    const size_t bytes = there ? (size_t)status.st_size : 0;
    joining->rows_count = bytes / sizeof *joining->rows;
    joining->rows = malloc(bytes + 1);
    if (there && joining->rows != NULL && read_all(fd, joining->rows, bytes)) return true;
    return error_set_system(&joining->joined->error, "cannot read how segments go together");
}

/* Behind the base: its objects get the names that they have in the trace. */
static bool joining_rename(struct joining *joining)
{
    struct copy *copy = &joining->copy;
    bool good = copy->live == joining->rows_count;
    for (uint64_t i = 0; i < copy->live && good; i++) {
        good = joining->rows[i] < joining->before->live;
        if (good) copy->names[i] = joining->before->names[joining->rows[i]];
    }
    copy->writer = joining->writer;
    return good || error_set(&joining->joined->error, &error_system, ERROR_NO_OFFSET,
                             "segments do not go together");
}

static const char *joining_define(void *of, const struct stack_definition *definition)
{
    copy_take_definition(of, definition);
    return NULL;
}

static void joining_map(void *of, const struct mapping_record *record)
{
    copy_take_mapping(of, record);
}

static void joining_reside(void *of, const struct residency *residency, const uint8_t *at,
                           const uint8_t *end)
{
    copy_take_residency(of, residency, at, end);
}

static void joining_connect(struct joining *joining, struct instruction_reader *reader)
{
    instruction_reader_use_indices(reader);
    reader->define = joining_define;
    reader->mapping = joining_map;
    reader->residency = joining_reside;
    reader->define_context = reader->mappings_context = &joining->copy;
}

/* The base of a segment is only read, but that of the first one is copied, too. */
static bool joining_copy(struct joining *joining, struct instruction_reader *reader)
{
    struct instruction_batch batch;
    bool had_base = joining->before == NULL;
    while (instruction_reader_next(reader, &batch)) {
        if (!copy_take(&joining->copy, &batch))
            return error_set_system(&joining->joined->error, "no memory for objects");
        if (had_base || !instruction_batch_ends_base(&batch)) continue;
        if (!joining_rename(joining)) return false;
        had_base = true;
    }
    if (reader->state == INSTRUCTIONS_FAILED) return joining_fail(joining, &reader->error);
    joining->joined->status =
        reader->state == INSTRUCTIONS_END ? reader->end_status : INSTRUCTION_STATUS_CUT;
    return !instruction_writer_failed(joining->writer) ||
           joining_fail(joining, &joining->writer->error);
}

/* Opens the trace when the first segment's header is there. */
static bool joining_begin(struct joining *joining, struct output *output,
                          const struct instruction_header *header)
{
    if (joining->before != NULL) return true;
    joining->copy.writer = joining->writer;
    return instruction_writer_open(joining->writer, output, header) ||
           joining_fail(joining, &joining->writer->error);
}

/* Copies a segment; `before` is what the one before has left, and becomes what this one leaves. */
static bool joining_segment(struct joining *joining, size_t i, struct output *output,
                            struct copy *before)
{
    struct instruction_reader reader = {.state = INSTRUCTIONS_FAILED};
    struct input input;
    input_open_fd(&input, joining->joined->at[i].stream);
    bool good =
        joining_read_join(joining, joining->joined->at[i].join) &&
        (instruction_reader_open(&reader, &input) || joining_fail(joining, &reader.error)) &&
        joining_begin(joining, output, &reader.header);
    if (good) {
        joining_connect(joining, &reader);
        good = joining_copy(joining, &reader);
    }
    instruction_reader_close(&reader);
    input_close(&input);
    free(joining->rows);
    copy_free(before);
    *before = joining->copy;
    return good;
}

bool joined_write(struct joined *joined, const char *path)
{
    struct instruction_writer writer = {.count = 0};
    struct copy before = {.writer = NULL};
    struct output output;
    if (joined->count == 0)
        return error_set(&joined->error, &error_system, ERROR_NO_OFFSET, "nothing has been kept");
    if (!output_open(&output, path)) {
        joined->error = output.error;
        joined_close(joined);
        return false;
    }
    fchmod(output.fd, 0600);
    bool good = !output_is_lz4(path) || output_compress(&output);
    for (size_t i = 0; i < joined->count && good; i++) {
        struct joining joining = {
            .joined = joined, .writer = &writer, .before = i > 0 ? &before : NULL};
        good = joining_segment(&joining, i, &output, &before);
    }
    if (good) joined->totals = *instruction_writer_totals(&writer);
    if (good && !instruction_writer_finish(&writer, joined->status)) {
        joined->error = writer.error;
        good = false;
    }
    instruction_writer_close(&writer);
    copy_free(&before);
    output.discards = !good;
    if (!output_close(&output)) good = false;
    if (!good && !error_is_set(&joined->error)) joined->error = output.error;
    joined_close(joined);
    return good;
}
