#include "report/call_sizes.h"

#include "common/call_table.h"
#include "common/text.h"

bool call_sizes_open(struct output *output, const char *path)
{
    return output_open(output, path) && (!output_is_lz4(path) || output_compress(output));
}

static void call_sizes_put(struct output *output, uint64_t size)
{
    char room[24];
    struct text text = {room, 0, sizeof room};
    text_decimal(&text, size);
    text_character(&text, '\n');
    output_write(output, room, text.used);
}

void call_sizes_add(struct output *output, const struct instruction_batch *batch)
{
    struct instruction_walk walk = instruction_walk_over(batch, batch->count);
    struct instruction one;
    while (instruction_walk_next(&walk, &one))
        if (shape_begins(call_shapes[instruction_number(&one)])) call_sizes_put(output, one.size);
}
