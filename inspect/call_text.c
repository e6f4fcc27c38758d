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
    if (call->stack != STACK_END) fprintf(to, " stack %" PRIu32, call->stack);
    fputs(call->failed ? " failed\n" : "\n", to);
}

static void piece_print(FILE *to, const struct stack_definition *text)
{
    fprintf(to, "define text of %s %" PRIu32 "%s %" PRIu32 " from %" PRIu32 " ",
            text->of == STACK_CODE_TEXT ? "code" : "module", text->number,
            text->of == STACK_PATH       ? " path"
            : text->of == STACK_BUILD_ID ? " build_id"
            : text->of == STACK_LANGUAGE ? " language"
                                         : "",
            text->length, text->offset);
    for (uint32_t i = 0; i < stack_piece_bytes(text); i++)
        fprintf(to, "%02x", text->piece[i]);
}

void definition_text_print(FILE *to, const struct stack_definition *definition)
{
    const uint32_t number = definition->number;
    switch (definition->what) {
    case STACK_MODULE:
        fprintf(to, "define module %" PRIu32 " from 0x%" PRIx64 " to 0x%" PRIx64 " bias 0x%" PRIx64,
                number, definition->start, definition->end, definition->bias);
        break;
    case STACK_UNLOADED: fprintf(to, "define module %" PRIu32 " unloaded", number); break;
    case STACK_TEXT: piece_print(to, definition); break;
    case STACK_CODES:
        fprintf(to, "define codes %" PRIu32 " module %" PRIu32, number, definition->of);
        for (uint32_t i = 0; i < definition->count; i++)
            fprintf(to, " 0x%" PRIx64, definition->offsets[i]);
        break;
    case STACK_NODES:
        fprintf(to, "define nodes %" PRIu32 " parent %" PRIu32 " codes", number, definition->of);
        for (uint32_t i = 0; i < definition->count; i++)
            fprintf(to, " %" PRIu32, definition->codes[i]);
        break;
    }
    putc('\n', to);
}
