#include "report/call_sizes.h"

#include "common/call_table.h"
#include "common/text.h"

bool call_sizes_open(struct output *output, const char *path)
{
    return output_open(output, path) && (!output_is_lz4(path) || output_compress(output));
}

static void put(struct output *output, uint64_t size)
{
    char room[24];
    struct text text = {room, 0, sizeof room};
    text_decimal(&text, size);
    text_character(&text, '\n');
    output_write(output, room, text.used);
}

void call_sizes_add(struct output *output, const struct instruction_batch *batch)
{
    const struct instruction *one = batch->at;
    for (size_t i = 0; i < batch->count; i++) {
        const int effect = instruction_effects[batch->opcodes[i]];
        if (effect == INSTRUCTION_PLAIN_ALLOCATION) {
            put(output, batch->values[i]);
        } else if (effect == INSTRUCTION_NOT_PLAIN) {
            const uint8_t shape = call_shapes[instruction_number(one)];
            if (shape_is_allocation(shape) || shape == SHAPE_REALLOC) put(output, one->size);
            one++;
        }
    }
}
