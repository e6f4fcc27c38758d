/* write_stacks - writes an instruction stream with call stacks, for tests. Standard input says what
 * is in it, a line each:
 *
 *   w KEY=VALUE                            metadata, before anything else; with `stacks.frees`,
 *                                          frees have stacks
 *   m NUMBER START BYTES BIAS BUILD-ID PATH   a module; hexadecimal, "-" for no build id
 *   c NUMBER MODULE OFFSET                 a code; the offset is hexadecimal
 *   x NUMBER TEXT                          what is said of a code: "function\tfile\tline", "|"
 *                                          between functions
 *   n NUMBER PARENT CODE                   a node
 *   l LANE                                 the calls that follow are of that lane
 *   a OBJECT SIZE NODE                     malloc; objects have numbers below 65 536
 *   r OBJECT SIZE NODE                     realloc, which moves
 *   R OBJECT SIZE                          one that fails
 *   f OBJECT NODE                          free
 *   T                                      the thread of the lane ends
 *   t NS RSS HEAP                          a tick */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stream/instruction_writer.h"

enum { OBJECTS_MAX = 65536, LANES = 16 };

static struct instruction_writer writer;
static uint32_t objects[OBJECTS_MAX];

static void put_text(enum stack_text_of of, uint32_t number, const uint8_t *text, size_t bytes)
{
    struct stack_definition piece = {
        .what = STACK_TEXT, .number = number, .of = of, .length = (uint32_t)bytes};
    for (; piece.offset < bytes; piece.offset += STACK_PIECE_BYTES) {
        memcpy(piece.piece, text + piece.offset, stack_piece_bytes(&piece));
        instruction_put_definition(&writer, &piece);
    }
}

static void put_module(const char *line)
{
    struct stack_definition module = {.what = STACK_MODULE};
    char hex[2 * STACK_BUILD_ID_MAX + 1], path[4096];
    uint8_t id[STACK_BUILD_ID_MAX];
    size_t bytes = 0;
    uint64_t length;
    if (sscanf(line, "%" SCNu32 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %128s %4095[^\n]",
               &module.number, &module.start, &length, &module.bias, hex, path) != 6)
        exit(2);
    module.end = module.start + length;
    instruction_put_definition(&writer, &module);
    put_text(STACK_PATH, module.number, (const uint8_t *)path, strlen(path));
    for (unsigned byte; sscanf(hex + 2 * bytes, "%2x", &byte) == 1;)
        id[bytes++] = (uint8_t)byte;
    if (bytes > 0) put_text(STACK_BUILD_ID, module.number, id, bytes);
}

static void put_code_text(char *line)
{
    const uint32_t number = (uint32_t)strtoul(line, &line, 10);
    line++;
    line[strcspn(line, "\n")] = '\0';
    for (char *at = line; *at != '\0'; at++)
        if (*at == '|') *at = '\n';
    put_text(STACK_CODE_TEXT, number, (const uint8_t *)line, strlen(line));
}

static void put_line(char *line)
{
    uint64_t a = 0, b = 0, c = 0;
    struct stack_definition code = {.what = STACK_CODES, .count = 1};
    struct stack_definition node = {.what = STACK_NODES, .count = 1};
    const char letter = line[0];
    if (letter != 'c')
        sscanf(line + 2, "%" SCNu64 " %" SCNu64 " %" SCNu64, &a, &b, &c);
    else
        sscanf(line + 2, "%" SCNu64 " %" SCNu64 " %" SCNx64, &a, &b, &c);
    switch (letter) {
    case 'T': instruction_put_thread_end(&writer); break;
    case 'm': put_module(line + 2); break;
    case 'x': put_code_text(line + 2); break;
    case 'c':
        code.number = (uint32_t)a;
        code.of = (uint32_t)b;
        code.offsets[0] = c;
        instruction_put_definition(&writer, &code);
        break;
    case 'n':
        node.number = (uint32_t)a;
        node.of = (uint32_t)b;
        node.codes[0] = (uint32_t)c;
        instruction_put_definition(&writer, &node);
        break;
    case 'l': instruction_put_lane(&writer, a); break;
    case 'a':
        instruction_put_stack(&writer, (uint32_t)c);
        objects[a % OBJECTS_MAX] = instruction_put_allocation(&writer, CALL_MALLOC, b, 0);
        break;
    case 'r':
        instruction_put_stack(&writer, (uint32_t)c);
        instruction_put_realloc(&writer, CALL_REALLOC_MOVED, objects[a % OBJECTS_MAX], b, 0);
        break;
    case 'R': instruction_put_realloc_failed(&writer, objects[a % OBJECTS_MAX], b); break;
    case 'f':
        instruction_put_stack(&writer, (uint32_t)b);
        instruction_put_free(&writer, CALL_FREE, objects[a % OBJECTS_MAX]);
        break;
    case 't': instruction_put_tick(&writer, a, b, c); break;
    default: exit(2);
    }
}

int main(void)
{
    static char metadata[INSTRUCTION_METADATA_MAX];
    char *line = NULL;
    size_t room = 0, used = 0;
    struct output output;
    bool is_open = false;
    while (getline(&line, &room, stdin) > 0) {
        if (line[0] == 'w') {
            used += (size_t)snprintf(metadata + used, sizeof metadata - used, "%s", line + 2);
            continue;
        }
        const uint64_t of_frees =
            strstr(metadata, "stacks.frees=") != NULL ? INSTRUCTION_FEATURE_FREE_STACKS : 0;
        const struct instruction_header header = {.metadata = metadata,
                                                  .metadata_bytes = (uint32_t)used,
                                                  .features =
                                                      INSTRUCTION_FEATURE_STACKS | of_frees};
        if (!is_open &&
            (!output_open(&output, "-") || !instruction_writer_open(&writer, &output, &header)))
            return 1;
        is_open = true;
        put_line(line);
    }
    free(line);
    const bool good = is_open && instruction_writer_finish(&writer, INSTRUCTION_STATUS_COMPLETE);
    instruction_writer_close(&writer);
    return good && output_close(&output) ? 0 : 1;
}
