#include "inspect/call_text.h"

#include <inttypes.h>

#include "common/call_table.h"

/* Parameters of mallopt can be negative (INSTRUCTIONS.md 5.1). */
static void numbers_print(FILE *to, const struct call_text *call)
{
    for (unsigned i = 0; i < call->numbers_count; i++) {
        if (call->kind == CALL_MALLOPT)
            fprintf(to, " %" PRId64, (int64_t)call->numbers[i]);
        else
            fprintf(to, " %" PRIu64, call->numbers[i]);
    }
}

void call_text_print(FILE *to, const struct call_text *call)
{
    unsigned shape = call_shapes[call->kind];
    fputs(call_names[call->kind], to);
    if (call->ended[0] != '\0') fprintf(to, " %s", call->ended);
    if (shape_has_size(shape)) fprintf(to, " %" PRIu64, call->size);
    if (shape_has_alignment(shape)) fprintf(to, " %" PRIu64, call->alignment);
    if (shape == SHAPE_HEAP) numbers_print(to, call);
    if (call->began[0] != '\0') fprintf(to, " -> %s", call->began);
    if (call->has_address) fprintf(to, " at 0x%" PRIx64, call->address);
    fputs(call->failed ? " failed\n" : "\n", to);
}
