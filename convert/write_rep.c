/* write_rep - CS:APP .rep. Its head has the number of operations, so these are first written to a
 * file without a name. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/text.h"
#include "convert/convert_files.h"
#include "convert/export_writer.h"

struct state {
    FILE *operations;
    uint32_t ids;
    uint32_t lane;
};

static bool rep_open(struct export *export)
{
    struct state *state = export->state = calloc(1, sizeof *state);
    if (state == NULL) return error_set_system(&export->error, "no memory");
    int file = file_temporary(&export->error);
    if (file < 0) return false;
    state->operations = fdopen(file, "w+");
    if (state->operations != NULL) return true;
    close(file);
    return error_set_system(&export->error, "no memory");
}

static bool rep_call(struct export *export, const struct export_call *call)
{
    struct state *state = export->state;
    char room[64];
    struct text line = {room, 0, sizeof room};
    bool ends = call->shape >= SHAPE_FREE;
    bool moved = call->shape == SHAPE_REALLOC && !call->unknown;
    if (call->lane != state->lane) export->losses.switches++;
    state->lane = call->lane;
    if (call->shape == SHAPE_ALLOCATION_ALIGNED) export->losses.alignments++;
    export->losses.kinds += call->kind != CALL_MALLOC && call->kind != CALL_FREE && !moved;
    if (call->object >= state->ids) state->ids = call->object + 1;
    text_string(&line, ends ? "f " : moved ? "r " : "a ");
    text_decimal(&line, call->object);
    if (!ends) {
        text_character(&line, ' ');
        text_decimal(&line, call->size);
    }
    text_character(&line, '\n');
    if (fwrite(room, 1, line.used, state->operations) == line.used) return true;
    return error_set_system(&export->error, "cannot write a temporary file");
}

static bool rep_finish(struct export *export)
{
    struct state *state = export->state;
    static char piece[1 << 16];
    size_t bytes;
    /* The heap size is a suggestion, the weight that of one trace among many. */
    int head = snprintf(piece, sizeof piece, "20000000\n%" PRIu32 "\n%" PRIu64 "\n1\n", state->ids,
                        export->calls);
    bool good = output_write(&export->output, piece, (size_t)head) &&
                fflush(state->operations) == 0 && fseeko(state->operations, 0, SEEK_SET) == 0;
    while (good && (bytes = fread(piece, 1, sizeof piece, state->operations)) > 0)
        good = output_write(&export->output, piece, bytes);
    if (!good || ferror(state->operations))
        return error_set_system(&export->error, "cannot copy the operations");
    return true;
}

static void rep_close(struct export *export)
{
    struct state *state = export->state;
    if (state != NULL && state->operations != NULL) fclose(state->operations);
    free(state);
}

const struct export_writer export_rep = {
    .name = "rep",
    .title = "CS:APP .rep",
    .loses = "threads, times, memory of the original",
    .open = rep_open,
    .call = rep_call,
    .finish = rep_finish,
    .close = rep_close,
};
